// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Path;
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
 *
 * <p>And it lets a store be opened that lost nothing. Where the last record of all logs is a torn
 * one, or a former log's that is written over, and a column family was flushed since, RocksDB
 * refuses to open the database: that family may have what is lost. A full disk leaves such a log,
 * and so does a loss of power in the seconds after a flush. If all sequence numbers up to that
 * flush are there, no family has more, and the log is cut behind its last whole record.
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
        long whole = -1;
        for (int i = 0; i < logs.size(); i++) {
            Path file = new SyncMark.Log(logs.get(i), 0).in(directory);
            long end;
            boolean isBlank;
            boolean goesOn;
            try (LogRecords records = new LogRecords(file, logs.get(i), LogCheck.BATCH_HEADER)) {
                while (records.next()) {
                    ByteBuffer batch = records.record();
                    if (batch.remaining() < LogCheck.BATCH_HEADER) break;
                    long sequence = batch.getLong();
                    reached = sequence + Integer.toUnsignedLong(batch.getInt()) - 1;
                    whole = reached;
                }
                end = records.offset();
                isBlank = records.isBlank();
                goesOn = isBlank && records.hasMore();
            }
            long next = firstSequence(directory, logs.subList(i + 1, logs.size()));
            if (isBlank) {
                if (goesOn || next > reached + 1) damage(file, end);
            } else if (next == 0
                    && manifest.lastLog() > logs.get(i)
                    && whole >= manifest.lastSequence()) cut(file, end);
            // Else RocksDB ends here by itself, or goes on with what continues the sequence.
        }
    }

    /** The first sequence number in the first of these logs that has records; 0 if none has. */
    private static long firstSequence(Path directory, List<Long> logs) throws IOException {
        for (long log : logs) {
            long first = LogCheck.firstSequence(directory, log);
            if (first != 0) return first;
        }
        return 0;
    }

    private static void cut(Path log, long at) throws IOException {
        try (RandomAccessFile file = writable(log)) {
            file.setLength(at);
        }
    }

    private static void damage(Path log, long at) throws IOException {
        try (RandomAccessFile file = writable(log)) {
            file.seek(at);
            file.write(DAMAGED);
        }
    }

    /** Not a channel: an interrupt would close it, and pass for an error of the disk. */
    private static RandomAccessFile writable(Path log) throws IOException {
        return new RandomAccessFile(log.toFile(), "rw");
    }
}
