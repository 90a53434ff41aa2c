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

    private static final int AT_ONCE = 1 << 14;

    /** As native code has them: the numbers before the garbage, and what it needs for that. */
    private static final int HEAD = 12;

    private static final int BUCKETS = 16;

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
        long[] fields = new long[HEAD + 4 * BUCKETS];
        fields[0] = Long.MAX_VALUE;
        fields[1] = fields[2] = fields[10] = Long.MIN_VALUE;
        fields[7] = fields[8] = Long.MAX_VALUE;
        while (entries.isValid()) {
            if (stopped.getAsBoolean()) return null;
            String error = Reconciler.extend(entries, AT_ONCE, loosePaths, head, fields);
            if (error != null) throw new MalformedFragment(error);
        }
        entries.status();
        int garbage = 3 * (int) fields[HEAD - 1];
        return new FileExtent(
                fields[0],
                fields[1],
                fields[2],
                fields[3],
                fields[4],
                fields[5],
                new Covers(fields[6], fields[7], fields[8]),
                new Head(fields[9], fields[10]),
                ImmutableLongArray.copyOf(fields).subArray(HEAD, HEAD + garbage).trimmed());
    }

    byte[] encode() {
        ByteBuffer out = ByteBuffer.allocate((HEAD - 1 + garbage.length()) * Long.BYTES);
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
        if (in.remaining() / Long.BYTES % 3 != (HEAD - 1) % 3)
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
