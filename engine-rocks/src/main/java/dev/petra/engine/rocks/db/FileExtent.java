// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import com.google.common.primitives.ImmutableLongArray;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.ByteBuffer;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.rocksdb.AbstractRocksIterator;
import org.rocksdb.RocksDBException;

/**
 * When what is in a data file was written, until when it matters, and how much of it may go when.
 *
 * @param lowest timestamp, microseconds; {@link Long#MAX_VALUE} if nothing is in it
 * @param highest timestamp, microseconds; {@link Long#MIN_VALUE} if nothing is in it
 * @param end the highest local time, in seconds: {@link Long#MAX_VALUE} if something neither
 *     expires nor is a deletion, {@link Long#MIN_VALUE} if nothing is in it
 * @param bytes of keys and values; -1 if neither they nor the garbage are known
 * @param entries of any kind
 * @param deletions those of them that are a deletion of a row or a partition, and nothing else
 * @param covers what of it only a purge of all of the table removes
 * @param head what of it belongs to a partition that begins in another file
 * @param garbage what may go one day within its own key, or is hidden by the deletion of its
 *     partition in the same file, whatever its own timestamp is: local time, highest timestamp and
 *     bytes, again and again, by local time. Where there was much, of neighbours one was made that
 *     is not older than any
 */
public record FileExtent(
        long lowest,
        long highest,
        long end,
        long bytes,
        long entries,
        long deletions,
        Covers covers,
        Head head,
        ImmutableLongArray garbage) {
    /**
     * Deletions of partitions and ranges.
     *
     * @param bytes of the records of partitions
     * @param from the lowest local time of such a record; {@link Long#MAX_VALUE} if there is none
     * @param rangesFrom the lowest local time of a range tombstone; the same
     */
    public record Covers(long bytes, long from, long rangesFrom) {
        public static final Covers NONE = new Covers(0, Long.MAX_VALUE, Long.MAX_VALUE);
    }

    /**
     * What there is of a partition of which the file does not have the beginning.
     *
     * @param highest timestamp; {@link Long#MAX_VALUE} if no deletion hides all of it
     */
    public record Head(long bytes, long highest) {
        public static final Head NONE = new Head(0, Long.MIN_VALUE);
    }

    /** The extent of a file with an unreadable entry, which may be of any age and stays. */
    public static final FileExtent UNKNOWN =
            new FileExtent(
                    Long.MIN_VALUE,
                    Long.MIN_VALUE,
                    Long.MAX_VALUE,
                    0,
                    0,
                    0,
                    Covers.NONE,
                    Head.NONE,
                    ImmutableLongArray.of());

    // The fields of the native Extent, in longs, by their names there: a test compares them.
    private static final int LOWEST = 0;
    private static final int HIGHEST = 1;
    private static final int END = 2;
    private static final int BYTES = 3;
    private static final int ENTRIES = 4;
    private static final int DELETIONS = 5;
    private static final int COVER_BYTES = 6;
    private static final int COVER_FROM = 7;
    private static final int RANGE_FROM = 8;
    private static final int HEAD_BYTES = 9;
    private static final int HEAD_HIGHEST = 10;
    private static final int COUNT = 11;
    private static final int BUCKETS = 12;
    private static final int LATE = 60;

    /** With one for each bucket, which is three longs. */
    private static final int SIZE = LATE + (LATE - BUCKETS) / 3;

    /** One of which the garbage is not known. */
    public FileExtent(long lowest, long highest, long end) {
        this(lowest, highest, end, -1, 0, 0, ImmutableLongArray.of());
    }

    /** One without deletions of partitions and ranges. */
    public FileExtent(
            long lowest,
            long highest,
            long end,
            long bytes,
            long entries,
            long deletions,
            ImmutableLongArray garbage) {
        this(lowest, highest, end, bytes, entries, deletions, Covers.NONE, Head.NONE, garbage);
    }

    /** Whether all of it expired, or was deleted, before a time. */
    public boolean hasEnded(long seconds) {
        return end < seconds;
    }

    /** Whether it was read by a version that counts garbage. */
    public boolean knowsGarbage() {
        return bytes >= 0;
    }

    /** How large a part may go with local times and timestamps below these; 0 to 1. */
    public double share(long gcBefore, long maxPurgeable) {
        double droppable = 0;
        for (int i = 0; i < garbage.length(); i += 3)
            if (garbage.get(i) < gcBefore && garbage.get(i + 1) < maxPurgeable)
                droppable += garbage.get(i + 2);
        return droppable == 0 ? 0 : Math.min(1, droppable / bytes);
    }

    /** The lowest local time of what may go; {@link Long#MAX_VALUE} if nothing may. */
    public long firstTime() {
        long covered = Math.min(covers.from, covers.rangesFrom);
        return garbage.isEmpty() ? covered : Math.min(covered, garbage.get(0));
    }

    /**
     * The extent of all that an iterator comes to.
     *
     * @param loosePaths whether paths that differ in bytes may be one to Cassandra
     * @param head the position of the partition that the first key is in the middle of; empty for
     *     none
     * @param stopped looked at now and then
     * @return null if it was stopped
     * @throws MalformedFragment if a value is malformed
     */
    public static @Nullable FileExtent of(
            AbstractRocksIterator<?> entries,
            boolean loosePaths,
            byte[] head,
            BooleanSupplier stopped)
            throws RocksDBException {
        int atOnce = 1 << 14;
        long[] fields = new long[SIZE];
        fields[LOWEST] = fields[COVER_FROM] = fields[RANGE_FROM] = Long.MAX_VALUE;
        fields[HIGHEST] = fields[END] = fields[HEAD_HIGHEST] = Long.MIN_VALUE;
        while (entries.isValid()) {
            if (stopped.getAsBoolean()) return null;
            String error = Reconciler.extend(entries, atOnce, loosePaths, head, fields);
            if (error != null) throw new MalformedFragment(error);
        }
        entries.status();
        int garbage = 3 * (int) fields[COUNT];
        return new FileExtent(
                fields[LOWEST],
                fields[HIGHEST],
                fields[END],
                fields[BYTES],
                fields[ENTRIES],
                fields[DELETIONS],
                new Covers(fields[COVER_BYTES], fields[COVER_FROM], fields[RANGE_FROM]),
                new Head(fields[HEAD_BYTES], fields[HEAD_HIGHEST]),
                ImmutableLongArray.copyOf(fields).subArray(BUCKETS, BUCKETS + garbage).trimmed());
    }

    /** All fields before the count, and the garbage. */
    byte[] encode() {
        ByteBuffer out = ByteBuffer.allocate((COUNT + garbage.length()) * Long.BYTES);
        out.putLong(lowest).putLong(highest).putLong(end);
        out.putLong(bytes).putLong(entries).putLong(deletions);
        out.putLong(covers.bytes).putLong(covers.from).putLong(covers.rangesFrom);
        out.putLong(head.bytes).putLong(head.highest);
        garbage.forEach(out::putLong);
        return out.array();
    }

    static FileExtent decode(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        long lowest = in.getLong();
        long highest = in.getLong();
        long end = in.getLong();
        // As versions before wrote it: three numbers, or six and the garbage.
        if (in.remaining() / Long.BYTES % 3 != COUNT % 3)
            return new FileExtent(lowest, highest, end);
        long all = in.getLong();
        long entries = in.getLong();
        long deletions = in.getLong();
        Covers covers = new Covers(in.getLong(), in.getLong(), in.getLong());
        Head head = new Head(in.getLong(), in.getLong());
        ImmutableLongArray.Builder garbage = ImmutableLongArray.builder();
        while (in.hasRemaining()) garbage.add(in.getLong());
        return new FileExtent(
                lowest, highest, end, all, entries, deletions, covers, head, garbage.build());
    }
}
