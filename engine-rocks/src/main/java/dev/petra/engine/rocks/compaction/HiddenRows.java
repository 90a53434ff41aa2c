// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.HiddenNotice;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.PartitionHeader;
import dev.petra.engine.rocks.read.ReadContext;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes rows that the deletion of their partition or range tombstones hide, as Cassandra's
 * compaction does: every read behind them would step over them all, until {@code gc_grace_seconds}
 * has passed. What hides them stays, so nothing can be seen of it. A read that steps over many, one
 * after the other, says so; the files with them are rewritten in the background.
 */
public final class HiddenRows {
    private static final Logger logger = LoggerFactory.getLogger(HiddenRows.class);

    private static final int REST = 9;

    /** After one that removed nothing. */
    private static final long LONG_REST = TimeUnit.HOURS.toNanos(1);

    private final StoreContext store;
    private final DataFiles held;
    private final LongSupplier clock;
    private volatile long restsUntil;

    public HiddenRows(StoreContext store, DataFiles held) {
        this(store, held, System::nanoTime);
    }

    /**
     * @param clock nanoseconds
     */
    HiddenRows(StoreContext store, DataFiles held, LongSupplier clock) {
        this.store = store;
        this.held = held;
        this.clock = clock;
        this.restsUntil = clock.getAsLong();
    }

    /** Whether there is something to remove; not at once after the last time. */
    public boolean isDue() {
        return store.hidden().isThere()
                && clock.getAsLong() - restsUntil >= 0
                // Of whole runs RocksDB compacts all, whatever range it is given.
                && !store.reopenable().isCompactedBySize();
    }

    /** Not while a purge may remove what hides them. */
    void run(Database database) throws RocksDBException {
        HiddenNotice.Part part = store.hidden().take();
        if (part == null) return;
        long began = clock.getAsLong();
        // Also after what cannot be read: reads of other rows tell of the part again.
        long rest = LONG_REST;
        try {
            rest = isThere(part) ? remove(database, part, began) : rest(began);
        } finally {
            restsUntil = clock.getAsLong() + rest;
        }
    }

    /** Whether there are still as many rows in it. */
    private boolean isThere(HiddenNotice.Part part) {
        ReadContext context = new ReadContext(store, ColumnFilter.all(store.table()));
        ByteBuffer to = Keys.direct(part.to());
        int rows = 0;
        try (Cursor cursor = context.openAside()) {
            for (cursor.seek(Keys.direct(part.from()));
                    rows < HiddenNotice.MANY / 2
                            && cursor.isValid()
                            && Keys.compare(cursor.key(), to) <= 0;
                    cursor.next()) rows++;
        }
        return rows == HiddenNotice.MANY / 2;
    }

    private long rest(long began) {
        return REST * (clock.getAsLong() - began);
    }

    /** How long to rest afterwards. */
    private long remove(Database database, HiddenNotice.Part part, long began)
            throws RocksDBException {
        HiddenKeys hidden = hidden(part);
        // What hides them is gone, or has no room in memory.
        if (hidden.isEmpty()) return rest(began);
        // Before the flush, of which a compaction may come that takes room.
        try (UnfinishedMerges.Taken room = held.reserve(database, files(database, part))) {
            if (room == null) return PurgeSchedule.REST_NANOS;
            // What hides them, and whatever is not in a file.
            database.flush();
            List<String> files = files(database, part);
            if (!held.areWhole(database, files, held.pacing(database.compactions.stopped())))
                return LONG_REST;
            long removed = rewrite(database, part, hidden);
            if (removed == 0) return LONG_REST;
            logger.info(
                    "Removed {} rows of a partition of {} that deletions hide",
                    removed,
                    store.name());
            return rest(began);
        }
    }

    private static List<String> files(Database database, HiddenNotice.Part part) {
        return SupersededRanges.rewritten(database.dataFiles(), part.from(), part.to());
    }

    /** How many it has removed. */
    private long rewrite(Database database, HiddenNotice.Part part, HiddenKeys hidden)
            throws RocksDBException {
        Reconciler reconciler = store.reconciler();
        long before = reconciler.removed();
        hidden.hide();
        reconciler.watch(true);
        try {
            // Of what was not rewritten another read tells.
            boolean unused = Purge.rewrite(database, reconciler, part.from(), part.to());
        } finally {
            reconciler.watch(false);
            reconciler.hideNothing();
        }
        return reconciler.removed() - before;
    }

    private HiddenKeys hidden(HiddenNotice.Part part) {
        HiddenKeys hidden =
                new HiddenKeys(
                        store, Long.MIN_VALUE, part, HiddenKeys.FIRST, HiddenKeys.MOST_BYTES);
        ReadContext context = new ReadContext(store, ColumnFilter.all(store.table()));
        ByteBuffer prefix = Keys.direct(part.position());
        try (Cursor cursor = context.openAside()) {
            cursor.seek(prefix.duplicate());
            PartitionHeader header =
                    PartitionHeader.read(cursor, prefix, context, Slices.ALL, false);
            ByteSink sink = new ByteSink();
            sink.put(ByteBuffer.wrap(part.position()));
            hidden.add(sink, header, true, context.clusterings());
        }
        return hidden;
    }
}
