// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.jspecify.annotations.Nullable;
import org.rocksdb.AbstractRocksIterator;
import org.rocksdb.Cache;
import org.rocksdb.Env;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;

/**
 * The native part of one store: its merge operator and its compaction filter, and what governs
 * them. {@code docs/architecture.md} has the rules, {@code src/main/native} the code. Thread-safe
 * until it is closed, which must be after the database that uses it.
 */
public final class Reconciler implements AutoCloseable {
    private static final VarHandle FIELDS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    // The fields of the native State, by their names there: a test compares them one by one.
    private static final int NOW = 0;
    private static final int GC_BEFORE = 8;
    private static final int COVER_GC_BEFORE = 16;
    private static final int MAX_PURGEABLE = 24;
    private static final int ACTIVE_MAX_PURGEABLE = 40;
    private static final int WATCHING = 48;
    private static final int LOOSE_PATHS = 56;
    private static final int MERGES = 64;
    private static final int MALFORMED = 72;
    private static final int PURGED = 80;
    private static final int REMOVED = 88;
    private static final int EXPIRED = 96;
    private static final int LEFTOVERS = 104;
    private static final int KEPT = 112;

    private final long handle;
    private final ByteBuffer state;
    private boolean closed;

    /** Guarded by this. */
    private long hidingEpoch;

    public Reconciler() {
        this.handle = create();
        this.state = state(handle).order(ByteOrder.nativeOrder());
    }

    /**
     * Finds RocksDB's C API in the very library that Java has loaded.
     *
     * @throws IllegalStateException if it is not there
     */
    static void bindTo(Env env) {
        String error = bind(env.getNativeHandle());
        if (error != null)
            throw new IllegalStateException("RocksDB's native library lacks its C API: " + error);
    }

    /**
     * Makes options with this store's merge operator and compaction filter.
     *
     * @param strictSuccessiveMerges whether {@code max_successive_merges} holds though it may take
     *     a read from disk
     */
    public void install(Options options, boolean strictSuccessiveMerges) {
        install(handle, options.getNativeHandle(), strictSuccessiveMerges);
    }

    /** Lets iterators pass over values in blob files without reading them; Java has no setter. */
    public static void allowUnpreparedValue(ReadOptions options) {
        allowUnpreparedValue(options.getNativeHandle());
    }

    /** Has values in blob files cached, besides blocks; Java has no setter. */
    public static void setBlobCache(Options options, Cache cache) {
        setBlobCache(options.getNativeHandle(), cache.getNativeHandle());
    }

    /**
     * Lets a log be recovered whatever the write buffers of all databases together hold; Java has
     * no setter. Otherwise RocksDB writes a file after each record while others have filled them.
     */
    public static void ignoreWriteBuffersInRecovery(Options options) {
        ignoreWriteBuffersInRecovery(options.getNativeHandle());
    }

    private long get(int field) {
        return (long) FIELDS.getAcquire(state, field);
    }

    private void set(int field, long value) {
        FIELDS.setRelease(state, field, value);
    }

    /**
     * Says what time it is.
     *
     * @param gcBefore what has a local time before this may go, in seconds; 0 if nothing may
     */
    public void clock(long nowSeconds, long gcBefore) {
        set(NOW, nowSeconds);
        set(GC_BEFORE, gcBefore);
    }

    /** The same for what covers other keys, until it is set to 0 again. */
    public void covers(long gcBefore) {
        set(COVER_GC_BEFORE, gcBefore);
    }

    /** Lets go less of it than before. */
    public void lowerCovers(long gcBefore) {
        lower(COVER_GC_BEFORE, gcBefore);
    }

    /** One of two max purgeable timestamps, 0 or 1; the filter looks at the active one. */
    public void maxPurgeable(int index, long micros) {
        set(MAX_PURGEABLE + index * Long.BYTES, micros);
    }

    public long maxPurgeable(int index) {
        return get(MAX_PURGEABLE + index * Long.BYTES);
    }

    /** What of a lower timestamp is purged from now on, both keep. */
    public void lowerMaxPurgeable(long micros) {
        for (int index = 0; index < 2; index++) lowerMaxPurgeable(index, micros);
    }

    /** The same for one of them. */
    public void lowerMaxPurgeable(int index, long micros) {
        lower(MAX_PURGEABLE + index * Long.BYTES, micros);
    }

    private void lower(int field, long value) {
        long present = get(field);
        while (value < present) {
            long witness = (long) FIELDS.compareAndExchange(state, field, present, value);
            if (witness == present) return;
            present = witness;
        }
    }

    public void activeMaxPurgeable(int index) {
        set(ACTIVE_MAX_PURGEABLE, index);
    }

    public int activeMaxPurgeable() {
        return (int) get(ACTIVE_MAX_PURGEABLE);
    }

    /**
     * Whether full merges of compactions that were asked for count what the filter would have
     * changed, and will see only later.
     */
    public void watch(boolean watching) {
        set(WATCHING, watching ? 1 : 0);
    }

    /**
     * Says, for good, that elements of a collection may have names of several byte forms, so that
     * bytes alone do not tell which of them a tombstone hides.
     */
    public void loosePaths() {
        set(LOOSE_PATHS, 1);
    }

    /**
     * Adds what an iterator comes to, and leaves it on the first entry that was not added.
     *
     * <p>One iterator after the other, on each thread.
     *
     * @param loosePaths whether paths that differ in bytes may be one to Cassandra
     * @param head the position of the partition that the first key is in the middle of; empty for
     *     none
     * @param fields all of the native {@code Extent}
     * @return what is malformed, or null
     */
    public static @Nullable String extend(
            AbstractRocksIterator<?> entries,
            int most,
            boolean loosePaths,
            byte[] head,
            long[] fields) {
        return extend(entries.getNativeHandle(), most, loosePaths, head, fields);
    }

    private static native @Nullable String extend(
            long iterator, int most, boolean loosePaths, byte[] head, long[] fields);

    /**
     * While this thread compacts files, everything in them may go that has a local time before this
     * and a timestamp below a max purgeable one, which may be lowered meanwhile; also what covers
     * other keys.
     *
     * @param index of the max purgeable timestamp, active or not
     */
    public static native void purgeHere(long gcBefore, int index);

    /**
     * While this thread compacts files, what is in a range of keys, both ends included, may go
     * within these limits and {@link #clock}'s; not what covers other keys.
     *
     * @param index of the max purgeable timestamp that holds too, active or not
     */
    public static native void purgeRangeHere(
            long gcBefore, long maxPurgeable, int index, byte[] from, byte[] to);

    /**
     * Says, behind {@link #purgeRangeHere}, that what the deletion of a partition hides in the
     * files goes too, however young that is; the deletions stay. Not while RocksDB has deletions of
     * ranges: it asks the filter about what they delete too, and such a record hides nothing.
     *
     * @param key of the record of the partition with which the files begin
     * @param record empty if there is none
     */
    public static native void coverHere(byte[] key, byte[] record);

    /**
     * Says what compactions that are asked for take away from now on, however young it is: what a
     * partition's deletion or a range tombstone hides. These stay.
     *
     * @param packed as the native {@code HiddenRanges} takes them; null for nothing
     * @param epoch {@link #hidingEpoch} from before these deletions were read: if some of them may
     *     be gone since, nothing is taken away
     */
    public synchronized void hide(byte @Nullable [] packed, long epoch) {
        if (!hide(handle, epoch == hidingEpoch ? packed : null))
            throw new IllegalArgumentException("malformed ranges of keys");
    }

    /** Ends that. */
    public void hideNothing() {
        hide(handle, null);
    }

    /** To be called before and after deletions are removed without what they hide. */
    public synchronized void endHiding() {
        hidingEpoch++;
        hideNothing();
    }

    /** How often that was. */
    public synchronized long hidingEpoch() {
        return hidingEpoch;
    }

    private static native boolean hide(long handle, byte @Nullable [] packed);

    /** While this thread compacts files, nothing in them goes. */
    public static void purgeNothingHere() {
        purgeHere(0, 0);
    }

    /** Ends any of these. */
    public static native void purgeNowhere();

    public long merges() {
        return get(MERGES);
    }

    public long malformed() {
        return get(MALFORMED);
    }

    /** Deletions and expired values removed. */
    public long purged() {
        return get(PURGED);
    }

    /** Values of which nothing was left. */
    public long removed() {
        return get(REMOVED);
    }

    /** Expired cells that became tombstones. */
    public long expired() {
        return get(EXPIRED);
    }

    /** Values that were merged, while {@link #watch watched}, and not yet filtered. */
    public long leftovers() {
        return get(LEFTOVERS);
    }

    /** The lowest local time of what was met and could go later, in seconds. */
    public long kept() {
        return get(KEPT);
    }

    public void resetKept() {
        set(KEPT, Long.MAX_VALUE);
    }

    /** A key whose value is malformed, told once; null if there is none. */
    public byte @Nullable [] takeMalformed() {
        return takeMalformed(handle);
    }

    /** How much memory the current thread keeps between merges. */
    static native long scratchBytes();

    /** Merges values, oldest first, as the merge operator does. */
    static byte[] merge(byte[]... values) {
        return mergeAll(values);
    }

    /**
     * Purges a value, as the compaction filter does.
     *
     * @return null if nothing is left of it
     */
    static byte @Nullable [] purge(
            byte[] value, long now, long gcBefore, long coverGcBefore, long maxPurgeable) {
        return purgeValue(value, now, gcBefore, coverGcBefore, maxPurgeable, false);
    }

    /** The same with {@link #loosePaths}; what covers other keys stays. */
    static byte @Nullable [] purgeLoosePaths(
            byte[] value, long now, long gcBefore, long maxPurgeable) {
        return purgeValue(value, now, gcBefore, 0, maxPurgeable, true);
    }

    @Override
    public void close() {
        if (closed) return;
        closed = true;
        release(handle);
    }

    private static native @Nullable String bind(long env);

    private static native long create();

    private static native ByteBuffer state(long handle);

    /** Where the fields of the native State are: "name=offset name=offset ... size=bytes". */
    static native String stateLayout();

    /** The same of the native Extent. */
    static native String extentLayout();

    private static native void release(long handle);

    private static native void install(long handle, long options, boolean strict);

    private static native void allowUnpreparedValue(long readOptions);

    private static native void setBlobCache(long options, long cache);

    private static native void ignoreWriteBuffersInRecovery(long options);

    private static native byte @Nullable [] takeMalformed(long handle);

    private static native byte[] mergeAll(byte[][] values);

    private static native byte @Nullable [] purgeValue(
            byte[] value,
            long now,
            long gcBefore,
            long coverGcBefore,
            long maxPurgeable,
            boolean loosePaths);
}
