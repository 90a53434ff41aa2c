// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/** Files that are whole or not there, also after a loss of power. */
public final class DurableFile {
    private DurableFile() {}

    /**
     * Writes a file, or replaces it as a whole. It is durable on return. Only one thread at a time
     * may write the same file.
     *
     * @param part of the same directory, for what is not whole yet; overwritten if a process that
     *     was killed left it
     * @throws IOException if that fails; what was there before is there still
     */
    public static void write(Path file, Path part, String text) throws IOException {
        try (FileChannel channel =
                FileChannel.open(
                        part,
                        StandardOpenOption.CREATE,
                        StandardOpenOption.TRUNCATE_EXISTING,
                        StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) channel.write(bytes);
            channel.force(true);
        }
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
        syncParent(file);
    }

    /** Makes the content of a file durable. */
    public static void sync(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.force(true);
        }
    }

    /** Makes the name of a file or directory durable. */
    public static void syncParent(Path file) throws IOException {
        Path parent = file.toAbsolutePath().getParent();
        if (parent != null) syncNames(parent);
    }

    /** Makes the names in a directory durable. */
    public static void syncNames(Path directory) throws IOException {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }
}
