// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import dev.petra.engine.DirectoryTree;
import dev.petra.engine.DurableFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Objects;

/**
 * The steps by which a small file becomes durable and others are deleted, each of them a point
 * where a crash may fall.
 */
public interface Disk {
    /** The real one. */
    Disk REAL = new Real();

    /** Creates a directory if it does not exist; its parent does. */
    void createDirectory(Path directory) throws IOException;

    /** Writes a file whole, replacing what was there, and syncs its content. */
    void write(Path file, byte[] content) throws IOException;

    /** Renames atomically, replacing the target. Syncs no directory. */
    void rename(Path from, Path to) throws IOException;

    /** Makes the entries of a directory durable: created, renamed and deleted files. */
    void syncDirectory(Path directory) throws IOException;

    /**
     * {@link DirectoryTree#delete}.
     *
     * @throws org.apache.cassandra.io.FSWriteError if something cannot be deleted
     */
    void delete(Path tree);

    /**
     * Replaces a small file by way of {@code <name>.next}, durably: after a crash at any point the
     * content is the old one or the new one, and the new one once this has returned. Creates the
     * directory; its parent exists.
     */
    static void replace(Disk disk, Path file, byte[] content) throws IOException {
        Path directory = file.getParent();
        if (directory == null) throw new IOException(file + " is in no directory");
        makeDirectory(disk, directory);
        Path next = directory.resolve(file.getFileName() + ".next");
        disk.write(next, content);
        disk.rename(next, file);
        disk.syncDirectory(directory);
    }

    /** Creates a directory durably if it does not exist; its parent does. */
    static void makeDirectory(Disk disk, Path directory) throws IOException {
        Path parent = directory.getParent();
        if (parent == null || Files.isDirectory(directory)) return;
        disk.createDirectory(directory);
        disk.syncDirectory(parent);
    }

    /**
     * Creates a directory and those above it, durably, within one that exists. Syncs also what was
     * there: who created it may have died before.
     */
    static void makeDirectories(Disk disk, Path within, Path directory) throws IOException {
        Files.createDirectories(directory);
        for (Path each = directory; !each.equals(within); ) {
            each = Objects.requireNonNull(each.getParent());
            disk.syncDirectory(each);
        }
    }

    /** Through java.nio. */
    final class Real implements Disk {
        @Override
        public void createDirectory(Path directory) throws IOException {
            if (!Files.isDirectory(directory)) Files.createDirectory(directory);
        }

        @Override
        public void write(Path file, byte[] content) throws IOException {
            try (FileChannel channel =
                    FileChannel.open(
                            file,
                            StandardOpenOption.CREATE,
                            StandardOpenOption.WRITE,
                            StandardOpenOption.TRUNCATE_EXISTING)) {
                ByteBuffer buffer = ByteBuffer.wrap(content);
                while (buffer.hasRemaining()) channel.write(buffer);
                channel.force(true);
            }
        }

        @Override
        public void rename(Path from, Path to) throws IOException {
            Files.move(
                    from, to, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        }

        @Override
        public void syncDirectory(Path directory) throws IOException {
            DurableFile.syncNames(directory);
        }

        @Override
        public void delete(Path tree) {
            DirectoryTree.delete(tree);
        }
    }
}
