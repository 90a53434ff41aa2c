// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;

/**
 * Lets nothing be recovered from behind writes that were lost. A loss of power may leave later
 * pages of what was not synced, and not earlier ones. RocksDB's point-in-time recovery ends at a
 * record that is damaged, but not at writes of which nothing is left:
 *
 * <ul>
 *   <li>Where zeros are instead of a record, it goes on with the next block of the log.
 *   <li>A log that ends with a whole record counts as whole, and the next log is replayed whatever
 *       it begins with. (Not so where the log was written over another: what is left of that ends
 *       it, and the next log is replayed only if it continues the sequence numbers.)
 * </ul>
 *
 * There this writes the header of a record without the checksum that belongs to it.
 */
final class TornEnd {
    private static final byte[] DAMAGED = {0, 0, 0, 0, 0, 0, 1};

    private TornEnd() {}

    /**
     * Reads the logs that are needed. Idempotent.
     *
     * @throws IOException if a log cannot be read or written
     */
    static void mark(Path directory, Manifest manifest) throws IOException {
        List<Long> logs =
                SyncMark.numbers(directory).stream()
                        .filter(number -> number >= manifest.firstLog())
                        .sorted()
                        .toList();
        long reached = manifest.lastSequence();
        for (int i = 0; i < logs.size(); i++) {
            Path file = new SyncMark.Log(logs.get(i), 0).in(directory);
            long end;
            boolean goesOn;
            try (LogRecords records = new LogRecords(file, logs.get(i), LogCheck.BATCH_HEADER)) {
                while (records.next()) {
                    ByteBuffer batch = records.record();
                    if (batch.remaining() < LogCheck.BATCH_HEADER) break;
                    long sequence = batch.getLong();
                    reached = sequence + Integer.toUnsignedLong(batch.getInt()) - 1;
                }
                // RocksDB ends here by itself.
                if (!records.isBlank()) continue;
                end = records.offset();
                goesOn = records.hasMore();
            }
            if (goesOn || !isContinued(directory, logs.subList(i + 1, logs.size()), reached))
                damage(file, end);
        }
    }

    /** Whether the next log that has records continues the sequence, or there is none. */
    private static boolean isContinued(Path directory, List<Long> logs, long reached)
            throws IOException {
        for (long log : logs) {
            long first = LogCheck.firstSequence(directory, log);
            if (first != 0) return first <= reached + 1;
        }
        return true;
    }

    private static void damage(Path log, long at) throws IOException {
        try (FileChannel channel = FileChannel.open(log, StandardOpenOption.WRITE)) {
            ByteBuffer header = ByteBuffer.wrap(DAMAGED);
            while (header.hasRemaining()) channel.write(header, at + header.position());
        }
    }
}
