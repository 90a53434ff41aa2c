// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Objects;
import java.util.Set;

/**
 * Writes files of a node that are whole or not there: also on a full disk, after a kill and after a
 * power loss. A file that is cut off would be taken for the operator's own at the next start. A
 * file that was written is there after a power loss, if its directory is.
 */
final class WholeFile {
    private static final FileAttribute<Set<PosixFilePermission>> OWNER_ONLY =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

    private WholeFile() {}

    /**
     * Writes a file, or replaces it. Only one process at a time may write the same file.
     *
     * @throws NodeException if it cannot be written; what was there before is there still, unless
     *     only the directory could not be synced
     */
    static void write(Path file, String text) {
        write(file, text.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Does the same for a text with passwords in it: nobody but its owner may ever read the file.
     */
    static void writePrivate(Path file, String text) {
        write(file, text.getBytes(StandardCharsets.UTF_8), OWNER_ONLY);
    }

    /** Does the same for bytes; the attributes are those of a new file. */
    static void write(Path file, byte[] content, FileAttribute<?>... attributes) {
        // What a killed process left is overwritten.
        Path part = file.resolveSibling("." + file.getFileName() + ".part");
        try {
            // It may have others.
            if (attributes.length > 0) Files.deleteIfExists(part);
            try (FileChannel channel =
                    FileChannel.open(
                            part,
                            Set.of(
                                    StandardOpenOption.CREATE,
                                    StandardOpenOption.TRUNCATE_EXISTING,
                                    StandardOpenOption.WRITE),
                            attributes)) {
                ByteBuffer buffer = ByteBuffer.wrap(content);
                while (buffer.hasRemaining()) channel.write(buffer);
                channel.force(true);
            } catch (IOException e) {
                Files.deleteIfExists(part);
                throw e;
            }
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
            syncName(file);
        } catch (IOException e) {
            throw new NodeException("cannot write " + file + ": " + e, e);
        }
    }

    /** Syncs the directory of a file: the name is in it. */
    private static void syncName(Path file) throws IOException {
        Path directory = Objects.requireNonNull(file.toAbsolutePath().getParent());
        try (FileChannel names = FileChannel.open(directory, StandardOpenOption.READ)) {
            names.force(true);
        }
    }
}
