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
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.IndexKeys;
import dev.petra.engine.rocks.write.WritePath;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.locks.Lock;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDBException;
import org.rocksdb.SizeApproximationFlag;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The indexes of one store, in a column family of their own. */
public final class RocksIndexes implements TermIndexes {
    private static final Logger logger = LoggerFactory.getLogger(RocksIndexes.class);

    private static final ThreadLocal<ByteSink> BOUND = ThreadLocal.withInitial(ByteSink::new);

    /** So many entries are looked at before the iterator over them is opened anew. */
    private static final int SWEPT_AT_ONCE = 1_000;

    private final StoreContext store;
    private final ReopenableDatabase reopenable;
    private final WritePath writes;

    /** Held by the sweep. */
    private final Object sweeping = new Object();

    public RocksIndexes(StoreContext store, WritePath writes) {
        this.store = store;
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
    public long incarnation(UUID index) {
        reopenable.checkOpen();
        return catalog().number(index);
    }

    @Override
    public void define(UUID index) {
        reopenable.renewDamagedIndex();
        reopenable.maintain(
                database -> {
                    reopenable.addIndex(database);
                    catalog().define(index);
                });
        // Of rows that are about to be live, the entries were derived before. No build that begins
        // now would find these rows.
        store.indexing().arriving().awaitThoseBegun();
    }

    @Override
    public void setState(UUID index, State state) {
        reopenable.heal();
        reopenable.maintain(database -> catalog().setState(index, state));
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
        reopenable.heal();
        reopenable.maintain(
                database -> {
                    catalog().drop(index);
                    for (int number : catalog().leftovers()) removeEntries(database, number);
                });
    }

    /**
     * Removes what is left of indexes that were dropped before the store was opened; nobody uses it
     * yet. What comes in the way is tried again at the next opening.
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
                            + " them, but they take disk space; they are removed when the node is"
                            + " restarted",
                    store.name(),
                    e);
        }
    }

    /** A write that knew the number may still bring entries, which nobody finds. */
    private void removeEntries(Database database, int number) throws RocksDBException {
        ColumnFamilyHandle family = Objects.requireNonNull(database.index());
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
                from == null ? begin(number) : bound(number, from, !fromInclusive),
                to == null ? begin(number + 1) : bound(number, to, toInclusive));
    }

    private static byte[] bound(int number, ByteBuffer term, boolean behind) {
        ByteSink sink = BOUND.get().clear();
        IndexKeys.putBound(sink, number, term, behind);
        byte[] bound = sink.copy(0, sink.position());
        sink.release();
        return bound;
    }

    @Override
    public long bytes(UUID index) {
        return reopenable.measure(
                database -> {
                    int number = catalog().number(index);
                    return database.approximateBytes(
                            Objects.requireNonNull(database.index()),
                            begin(number),
                            begin(number + 1),
                            SizeApproximationFlag.INCLUDE_FILES,
                            SizeApproximationFlag.INCLUDE_MEMTABLES);
                });
    }

    // Sweeping

    /** An entry as it was met. */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record Met(byte[] raw, ByteBuffer term, DecoratedKey key, Clustering<?> clustering) {}

    @Override
    public long sweep(UUID index, SweepCheck check) {
        synchronized (sweeping) {
            reopenable.checkOpen();
            int number = catalog().number(index);
            long removed = 0;
            byte[] from = begin(number);
            while (true) {
                check.pause();
                List<Met> page = page(number, from);
                for (Met entry : page) if (isRemoved(entry, check)) removed++;
                if (page.size() < SWEPT_AT_ONCE) return removed;
                byte[] last = page.get(page.size() - 1).raw;
                from = Arrays.copyOf(last, last.length + 1);
            }
        }
    }

    private List<Met> page(int number, byte[] from) {
        List<Met> page = new ArrayList<>();
        try (IndexCursor cursor = new IndexCursor(store, number, from, begin(number + 1))) {
            while (page.size() < SWEPT_AT_ONCE && cursor.next())
                page.add(
                        new Met(cursor.rawKey(), cursor.term(), cursor.key(), cursor.clustering()));
        }
        return page;
    }

    /** Whoever writes the entry again does so before the look or after the removal. */
    private boolean isRemoved(Met entry, SweepCheck check) {
        Lock lock = store.indexing().sweeping(entry.key);
        lock.lock();
        try {
            // Its row may be in files that are still to come.
            if (store.isArriving() || check.isConfirmed(entry.term, entry.key, entry.clustering))
                return false;
            reopenable.heal();
            reopenable.maintain(
                    database ->
                            store.room()
                                    .write(
                                            () ->
                                                    database.db.delete(
                                                            Objects.requireNonNull(
                                                                    database.index()),
                                                            database.writeOptions,
                                                            entry.raw)));
            return true;
        } finally {
            lock.unlock();
        }
    }
}
