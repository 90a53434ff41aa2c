// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/**
 * The file {@code MOVING} in a table's {@code rocksdb} folder: the table's data is partly in the
 * store and partly in SSTables, and is on its way to where the schema says that it belongs. Two
 * lines, as {@link ChecksummedText}:
 *
 * <pre>
 *   configuration=rocks     the memtable configuration whose engine the store is of
 *   after=00c0ffee          out of the engine: partitions up to this key are in SSTables; or empty
 * </pre>
 *
 * @param configuration the memtable configuration
 * @param after a partition key; null if none was migrated yet, and on the way into the engine
 */
public record MigrationMark(String configuration, @Nullable ByteBuffer after) {
    /** The file's name. */
    public static final String NAME = "MOVING";

    private static final String CONFIGURATION = "configuration=";
    private static final String AFTER = "after=";

    private static final String MEND =
            "Write these two lines: '"
                    + CONFIGURATION
                    + "<memtable configuration>' and '"
                    + AFTER
                    + "'. The table is then migrated from its start. Do not delete the file: the"
                    + " table's data is partly in the store and partly in SSTables.";

    /**
     * What is in a folder, or null if there is no such file.
     *
     * @throws CorruptStoreException if it is ill-formed, or not as it was written
     * @throws FSReadError if it cannot be read
     */
    static @Nullable MigrationMark read(Path directory) {
        Path file = directory.resolve(NAME);
        String text = ChecksummedText.read(file, MEND);
        if (text == null) return null;
        List<String> lines = text.lines().toList();
        if (lines.size() != 2
                || !lines.get(0).startsWith(CONFIGURATION)
                || !lines.get(1).matches(AFTER + "([0-9a-f]{2})*"))
            throw new CorruptStoreException(
                    file
                            + " must hold the lines '"
                            + CONFIGURATION
                            + "<memtable configuration>' and '"
                            + AFTER
                            + "' but holds "
                            + lines
                            + ". "
                            + MEND);
        String after = lines.get(1).substring(AFTER.length());
        return new MigrationMark(
                lines.get(0).substring(CONFIGURATION.length()),
                after.isEmpty() ? null : ByteBufferUtil.hexToBytes(after));
    }

    /**
     * Makes this durable in a folder, which is created: after a crash at any point the file is the
     * old one or this, and this once the method has returned.
     *
     * @throws FSWriteError if that failed
     */
    void write(Path directory, Disk disk) {
        ByteBuffer key = after;
        ChecksummedText.write(
                disk,
                directory.resolve(NAME),
                CONFIGURATION
                        + configuration
                        + "\n"
                        + AFTER
                        + (key == null ? "" : ByteBufferUtil.bytesToHex(key))
                        + "\n");
    }

    /**
     * Removes the file, durably. Idempotent.
     *
     * @throws FSWriteError if that failed
     */
    static void remove(Path directory, Disk disk) {
        try {
            if (Files.deleteIfExists(directory.resolve(NAME))) disk.syncDirectory(directory);
        } catch (IOException e) {
            throw new FSWriteError(e, directory.resolve(NAME).toString());
        }
    }
}
