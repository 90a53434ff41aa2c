// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFileAttributes;
import java.util.Arrays;

/**
 * What is to happen to one file. {@link #stage} does all that may fail for want of room or of a
 * right, beside the file; {@link #commit} is one rename or one deletion.
 */
sealed interface Change {
    /** The file. */
    Path file();

    /** What would happen, for people. */
    String text();

    /** Prepares it. Nobody sees anything of it yet. */
    void stage() throws IOException;

    /** Does it: after a crash the file is as before or as after. */
    void commit() throws IOException;

    /** Removes what {@link #stage} left. Idempotent. */
    void discard() throws IOException;

    /**
     * A file that is new, or takes another's place.
     *
     * @param attributesOf the file whose owner and permissions it gets
     */
    record Copy(Path from, Path file, Path attributesOf, String text) implements Change {
        @Override
        public void stage() throws IOException {
            sweep(file);
            Path part = part(file);
            Files.copy(attributesOf, part, StandardCopyOption.COPY_ATTRIBUTES);
            Change.write(part, Files.readAllBytes(from));
        }

        @Override
        public void commit() throws IOException {
            rename(file);
        }

        @Override
        public void discard() throws IOException {
            Files.deleteIfExists(part(file));
        }
    }

    /** Other text in a file of others. */
    record Edit(TextFile before, String after) implements Change {
        @Override
        public Path file() {
            return before.path();
        }

        @Override
        public String text() {
            return Diff.of(
                    file().toString(), TextFile.decoded(before.text()), TextFile.decoded(after));
        }

        @Override
        public void stage() throws IOException {
            sweep(file());
            Path part = part(file());
            Files.copy(file(), part, StandardCopyOption.COPY_ATTRIBUTES);
            Change.write(part, after.getBytes(ISO_8859_1));
            PosixFileAttributes old = attributes(file());
            PosixFileAttributes now = attributes(part);
            if (!old.owner().equals(now.owner())
                    || !old.group().equals(now.group())
                    || !old.permissions().equals(now.permissions()))
                throw new InstallException(
                        file()
                                + " belongs to "
                                + old.owner()
                                + ":"
                                + old.group()
                                + ", to whom a new one cannot be given: run this command as root or"
                                + " as "
                                + old.owner());
        }

        @Override
        public void commit() throws IOException {
            // People may have been asked meanwhile, and may have edited it.
            if (!Arrays.equals(Files.readAllBytes(file()), before.text().getBytes(ISO_8859_1)))
                throw new InstallException(
                        file() + " was changed by someone else meanwhile: run the command again");
            rename(file());
        }

        @Override
        public void discard() throws IOException {
            Files.deleteIfExists(part(file()));
        }

        private static PosixFileAttributes attributes(Path path) throws IOException {
            return Files.readAttributes(path, PosixFileAttributes.class);
        }
    }

    /** A file that goes. */
    record Delete(Path file) implements Change {
        @Override
        public String text() {
            return "delete " + file + "\n";
        }

        @Override
        public void stage() {
            // A deletion needs no preparation.
        }

        @Override
        public void commit() throws IOException {
            sweep(file);
            Files.deleteIfExists(file);
            sync(file.resolveSibling("."));
        }

        @Override
        public void discard() {
            // Nothing was prepared.
        }
    }

    private static Path part(Path file) {
        return file.resolveSibling(partPrefix(file) + ProcessHandle.current().pid());
    }

    /** Not the name of a jar, which Cassandra would load, nor of a file that it reads. */
    private static String partPrefix(Path file) {
        return "." + file.getFileName() + ".petra-";
    }

    /** Removes what processes left that were killed. */
    private static void sweep(Path file) throws IOException {
        String prefix = partPrefix(file);
        try (DirectoryStream<Path> parts =
                Files.newDirectoryStream(
                        file.resolveSibling("."),
                        each -> each.getFileName().toString().startsWith(prefix))) {
            for (Path part : parts) {
                String pid = part.getFileName().toString().substring(prefix.length());
                if (pid.matches("\\d{1,18}")
                        && ProcessHandle.of(Long.parseLong(pid))
                                .filter(ProcessHandle::isAlive)
                                .filter(process -> !process.equals(ProcessHandle.current()))
                                .isEmpty()) Files.deleteIfExists(part);
            }
        }
    }

    private static void write(Path part, byte[] content) throws IOException {
        try (FileChannel channel =
                FileChannel.open(
                        part, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
            ByteBuffer buffer = ByteBuffer.wrap(content);
            while (buffer.hasRemaining()) channel.write(buffer);
            channel.force(true);
        }
    }

    private static void rename(Path file) throws IOException {
        Files.move(part(file), file, StandardCopyOption.ATOMIC_MOVE);
        sync(file.resolveSibling("."));
    }

    private static void sync(Path directory) throws IOException {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    /** Whether a file, which may not be there, can be replaced or deleted by this user. */
    default boolean isAllowed() {
        Path directory = file().toAbsolutePath().getParent();
        return directory != null
                && Files.isWritable(directory)
                && (!Files.exists(file(), LinkOption.NOFOLLOW_LINKS) || Files.isWritable(file()));
    }
}
