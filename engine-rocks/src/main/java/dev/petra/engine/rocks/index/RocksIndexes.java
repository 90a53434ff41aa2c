// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.IndexCatalog;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.WriteStallRetry;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.IndexKeys;
import dev.petra.engine.rocks.write.WritePath;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import java.util.function.LongSupplier;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDBException;
import org.rocksdb.SizeApproximationFlag;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The indexes of one store. Their entries are in a column family of their own. */
public final class RocksIndexes implements TermIndexes {
    private static final Logger logger = LoggerFactory.getLogger(RocksIndexes.class);

    private static final ThreadLocal<ByteSink> BOUND = ThreadLocal.withInitial(ByteSink::new);

    /** About what an entry takes in a file: of its key, what the one before has not. */
    private static final int ENTRY_BYTES = 32;

    /** How many entries a sweep reads before it closes its iterator and opens another. */
    private static final int SWEPT_AT_ONCE = 1_000;

    /** About how many bytes of entries it reads before: terms and clusterings may be large. */
    private static final long SWEPT_BYTES = 1 << 20;

    /**
     * How long a sweep looks at entries until it asks whether it may go on: a row behind many range
     * tombstones takes long to read.
     */
    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private final StoreContext store;
    private final LongSupplier nanos;
    private final ReopenableDatabase reopenable;
    private final WritePath writes;

    /** Shared by all stores: a store that is opened anew accepts no build from before. */
    private static final AtomicLong lastBuild = new AtomicLong();

    /**
     * A build that began.
     *
     * @param definition the number that the index had in the catalog
     */
    private record Build(long number, int definition) {}

    /**
     * The latest build of each index; guarded by itself. Not kept in the catalog object: after a
     * full disk the database is opened anew with another one, and builds go on.
     */
    private final Map<UUID, Build> builds = new HashMap<>();

    /** The numbers of dropped indexes whose entries were removed since the store was opened. */
    private final Set<Integer> emptied = ConcurrentHashMap.newKeySet();

    /** Locked by the sweep that runs. */
    private final Object sweeping = new Object();

    /**
     * Where sweeps that have ended early go on, by the number of their index, which no other is
     * ever given; guarded by {@link #sweeping}.
     */
    private final Map<Integer, byte[]> interrupted = new HashMap<>();

    public RocksIndexes(StoreContext store, WritePath writes) {
        this(store, writes, System::nanoTime);
    }

    RocksIndexes(StoreContext store, WritePath writes, LongSupplier nanos) {
        this.store = store;
        this.nanos = nanos;
        this.reopenable = store.reopenable();
        this.writes = writes;
    }

    private IndexCatalog catalog() {
        return store.catalog().indexes();
    }

    @Override
    public Map<UUID, State> states() {
        reopenable.checkOpen();
        return catalog().states();
    }

    @Override
    public Set<UUID> lost() {
        reopenable.checkOpen();
        return reopenable.lostIndexes();
    }

    @Override
    public long incarnation(UUID index) {
        reopenable.checkOpen();
        return catalog().number(index);
    }

    @Override
    public void define(UUID index) {
        reopenable.healing.renewDamagedIndex();
        reopenable.maintain(
                database -> {
                    reopenable.addIndex(database);
                    // Before: the new one may be lost as well.
                    reopenable.lostIndexes().remove(index);
                    catalog().define(index);
                });
        // Rows of a stream may be about to go live whose entries were derived before this index was
        // defined. The build, which begins when this returns, has to find them.
        store.indexing().arriving().awaitThoseBegun();
    }

    @Override
    public long setBuilding(UUID index) {
        reopenable.checkOpen();
        synchronized (builds) {
            if (catalog().states().get(index) == State.BUILDING) return begin(index);
        }
        reopenable.healing.heal();
        long[] number = new long[1];
        reopenable.maintain(
                database -> {
                    synchronized (builds) {
                        catalog().setState(index, State.BUILDING);
                        number[0] = begin(index);
                    }
                });
        return number[0];
    }

    /** To be called with {@link #builds} locked. */
    private long begin(UUID index) {
        long number = lastBuild.incrementAndGet();
        builds.put(index, new Build(number, catalog().number(index)));
        return number;
    }

    @Override
    public boolean setBuilt(UUID index, long build) {
        reopenable.healing.heal();
        boolean[] done = new boolean[1];
        reopenable.maintain(
                database -> {
                    synchronized (builds) {
                        Build latest = builds.get(index);
                        if (latest == null
                                || latest.number != build
                                || !catalog().states().containsKey(index)
                                || catalog().number(index) != latest.definition) return;
                        catalog().setState(index, State.BUILT);
                        done[0] = true;
                    }
                });
        return done[0];
    }

    @Override
    public void deriveBy(TermFunction function) {
        reopenable.checkOpen();
        store.indexing().deriveBy(function);
    }

    @Override
    public void add(DecoratedKey key, List<TermEntry> entries) {
        writes.add(key, entries);
    }

    // Dropping

    @Override
    public void drop(UUID index) {
        reopenable.healing.heal();
        reopenable.maintain(
                database -> {
                    catalog().drop(index);
                    removeAllLeft(database);
                });
    }

    @Override
    public void removeLeft() {
        reopenable.checkOpen();
        // Of damaged ones all goes at once, when one is defined again.
        if (left().isEmpty() || reopenable.areIndexesDamaged()) return;
        reopenable.healing.heal();
        reopenable.maintain(this::removeAllLeft);
        logger.info(
                "Removed the entries of dropped indexes of {} that a failed drop had left",
                store.name());
    }

    private void removeAllLeft(Database database) throws RocksDBException {
        for (int number : left()) {
            removeEntries(database, number);
            emptied.add(number);
        }
    }

    /** The numbers of dropped indexes whose entries are still to be removed. */
    private List<Integer> left() {
        List<Integer> left = catalog().leftovers();
        left.removeAll(emptied);
        return left;
    }

    /**
     * Removes the entries of indexes that were dropped before the store was opened. To be called
     * before anybody uses the store. Logs a failure; {@link #removeLeft} tries again.
     */
    public void removeLeftovers() {
        if (catalog().leftovers().isEmpty()) return;
        try {
            reopenable.maintain(
                    database -> {
                        boolean all = catalog().isEmpty();
                        if (all) reopenable.renewIndex(database);
                        for (int number : catalog().leftovers()) {
                            if (!all) removeEntries(database, number);
                            catalog().removed(number);
                        }
                    });
        } catch (RuntimeException | Error e) {
            logger.error(
                    "The entries of dropped indexes of {} could not be removed. No query finds"
                            + " them, but they take disk space; their removal is tried again every"
                            + " minute",
                    store.name(),
                    e);
        }
    }

    /**
     * Removes the entries of a number. Writes that still use it may add some, which are not found.
     */
    private void removeEntries(Database database, int number) throws RocksDBException {
        ColumnFamilyHandle family = database.index();
        // It was removed as a whole, and could not be made anew.
        if (family == null) return;
        byte[] from = begin(number);
        byte[] to = begin(number + 1);
        database.db.deleteFilesInRanges(family, List.of(from, to), false);
        store.room().write(() -> database.db.deleteRange(family, database.writeOptions, from, to));
    }

    private static byte[] begin(int number) {
        return ByteBuffer.allocate(Integer.BYTES).putInt(number).array();
    }

    // Reading

    @Override
    public TermCursor scan(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {
        reopenable.checkOpen();
        int number = catalog().number(index);
        return new IndexCursor(
                store,
                number,
                lower(number, from, fromInclusive),
                upper(number, to, toInclusive),
                false);
    }

    private static byte[] lower(int number, @Nullable ByteBuffer from, boolean inclusive) {
        return from == null ? begin(number) : bound(number, from, !inclusive);
    }

    private static byte[] upper(int number, @Nullable ByteBuffer to, boolean inclusive) {
        return to == null ? begin(number + 1) : bound(number, to, inclusive);
    }

    private static byte[] bound(int number, ByteBuffer term, boolean behind) {
        ByteSink sink = BOUND.get().clear();
        IndexKeys.putBound(sink, number, term, behind);
        byte[] bound = sink.copy(0, sink.position());
        sink.release();
        return bound;
    }

    /**
     * By their bytes: RocksDB's estimate of the number of keys may be 0 where many were deleted.
     */
    @Override
    public long entries(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {
        return reopenable.measure(
                database -> {
                    int number = catalog().number(index);
                    byte[] lower = lower(number, from, fromInclusive);
                    byte[] upper = upper(number, to, toInclusive);
                    // Bounds of clients may be the wrong way round, which RocksDB takes for none.
                    if (Arrays.compareUnsigned(lower, upper) >= 0) return 0L;
                    return bytes(database, lower, upper) / ENTRY_BYTES;
                });
    }

    @Override
    public long bytes(UUID index) {
        return reopenable.measure(
                database -> {
                    int number = catalog().number(index);
                    return bytes(database, begin(number), begin(number + 1));
                });
    }

    private static long bytes(Database database, byte[] from, byte[] to) {
        return database.approximateBytes(
                Objects.requireNonNull(database.index()),
                from,
                to,
                SizeApproximationFlag.INCLUDE_FILES,
                SizeApproximationFlag.INCLUDE_MEMTABLES);
    }

    // Sweeping

    /** An entry that a sweep has read. */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record Met(byte[] raw, ByteBuffer term, DecoratedKey key, Clustering<?> clustering) {
        /** About what it takes on the heap. */
        long bytes() {
            return (long) raw.length
                    + term.remaining()
                    + key.getKey().remaining()
                    + clustering.dataSize();
        }
    }

    /** Consecutive entries. */
    private record Page(List<Met> entries, boolean isLast) {}

    @Override
    public long sweep(UUID index, SweepCheck check) {
        synchronized (sweeping) {
            reopenable.checkOpen();
            int number = catalog().number(index);
            interrupted.keySet().retainAll(catalog().numbers().values());
            byte[] goesOn = check.goesOn() ? interrupted.get(number) : null;
            byte[] from = goesOn == null ? begin(number) : goesOn;
            Set<Lock> busy = new HashSet<>();
            long removed = 0;
            while (true) {
                check.pause();
                Page page = page(number, from);
                long paused = nanos.getAsLong();
                for (Met entry : page.entries) {
                    if (nanos.getAsLong() - paused >= PAUSE_NANOS) {
                        reached(number, from, check);
                        check.pause();
                        paused = nanos.getAsLong();
                    }
                    boolean isRemoved = isRemoved(entry, check, busy);
                    check.looked(isRemoved);
                    if (isRemoved) removed++;
                    from = Arrays.copyOf(entry.raw, entry.raw.length + 1);
                }
                if (page.isLast) {
                    interrupted.remove(number);
                    return removed;
                }
                reached(number, from, check);
            }
        }
    }

    /**
     * To be called with {@link #sweeping} locked.
     *
     * @param from the place behind the entries that were looked at
     */
    private void reached(int number, byte[] from, SweepCheck check) {
        // Another that looks at everything ends without having looked for this one.
        if (check.goesOn()) interrupted.put(number, from);
    }

    private Page page(int number, byte[] from) {
        List<Met> entries = new ArrayList<>();
        long bytes = 0;
        try (IndexCursor cursor = new IndexCursor(store, number, from, begin(number + 1), true)) {
            while (entries.size() < SWEPT_AT_ONCE && bytes < SWEPT_BYTES) {
                if (!cursor.next()) return new Page(entries, true);
                Met entry =
                        new Met(cursor.rawKey(), cursor.term(), cursor.key(), cursor.clustering());
                entries.add(entry);
                bytes += entry.bytes();
            }
            return new Page(entries, false);
        }
    }

    /**
     * Removes an entry unless its row confirms it. The lock keeps writes of the partition out, so
     * that none adds the entry again between the check and the removal. Where the lock is never
     * free, the entry is left to the next sweep.
     *
     * @param busy as of {@link WriteStallRetry#write(Lock, Set, WriteStallRetry.Attempt)}
     */
    private boolean isRemoved(Met entry, SweepCheck check, Set<Lock> busy) {
        // As most are, and then no writer waits.
        if (check.isConfirmed(entry.term, entry.key, entry.clustering)) return false;
        Lock lock = store.indexing().partitions().sweeping(entry.key);
        reopenable.healing.heal();
        return reopenable.write(
                database -> {
                    boolean[] isRemoved = new boolean[1];
                    // Where it was not done, nothing was removed.
                    boolean unusedDone =
                            store.room()
                                    .write(
                                            lock,
                                            busy,
                                            () -> isStale(entry, check),
                                            () -> {
                                                remove(database, entry);
                                                isRemoved[0] = true;
                                            });
                    return isRemoved[0];
                });
    }

    /**
     * Whether an entry may go, as long as the lock of its partition is held. Files of a stream may
     * go live between this look and the removal. A stream says that it arrives, and then adds the
     * entries of its rows under that lock: either before this look, which sees the stream or the
     * rows, or after the removal.
     */
    private boolean isStale(Met entry, SweepCheck check) {
        // Before the row is read: it may go live, and the stream end, between the two.
        if (store.isArriving())
            throw new CancellationException(
                    "Entries are not removed from the indexes of "
                            + store.name()
                            + " while a stream brings it rows");
        return !check.isConfirmed(entry.term, entry.key, entry.clustering);
    }

    private static void remove(Database database, Met entry) throws RocksDBException {
        database.db.delete(
                Objects.requireNonNull(database.index()), database.writeOptions, entry.raw);
    }
}
