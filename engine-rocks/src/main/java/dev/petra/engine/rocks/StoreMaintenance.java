// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.PurgeProgress;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.compaction.DataFiles;
import dev.petra.engine.rocks.compaction.HiddenRows;
import dev.petra.engine.rocks.compaction.Purge;
import dev.petra.engine.rocks.compaction.SupersededRanges;
import dev.petra.engine.rocks.compaction.TimeWindows;
import dev.petra.engine.rocks.db.CompactionStoppedException;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.Verification;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.rocks.write.MergeLimit;
import dev.petra.engine.rocks.write.WriteBufferFilter;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.Hex;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.FlushOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is done to the files of one store, in the background or because an operator asks for it:
 * flushes, compactions, purges, verification.
 */
final class StoreMaintenance {
    private static final Logger logger = LoggerFactory.getLogger(StoreMaintenance.class);

    private static final int MALFORMED_OF_A_TICK = 16;
    private static final int MOST_MALFORMED = 256;

    private final StoreContext store;
    private final ReopenableDatabase reopenable;
    private final WriteBufferFilter writeBufferFilter;
    private final MergeLimit mergeLimit;
    private final Purge purge;
    private final TimeWindows windows;
    private final SupersededRanges supersededRanges;
    private final HiddenRows hiddenRows;

    /** The keys of malformed entries that were logged. */
    private final Set<ByteBuffer> malformed = ConcurrentHashMap.newKeySet();

    /** Used by the thread that ticks only. */
    private long flushedAt = System.nanoTime();

    StoreMaintenance(
            StoreContext store, WriteBufferFilter writeBufferFilter, MergeLimit mergeLimit) {
        this.store = store;
        this.reopenable = store.reopenable();
        this.writeBufferFilter = writeBufferFilter;
        this.mergeLimit = mergeLimit;
        DataFiles held = new DataFiles(store);
        this.purge = new Purge(store, held);
        this.windows = new TimeWindows(purge, held);
        this.supersededRanges = new SupersededRanges(store, held);
        this.hiddenRows = new HiddenRows(store, held);
    }

    // By itself

    /**
     * To be called every second: tells the native part the time and what may be purged, logs the
     * malformed entries that it met, and returns whether a purge is due.
     */
    boolean tick() {
        if (!reopenable.isWritable()) return false;
        reopenable.followTable();
        return reopenable.ifWritable(
                false,
                database -> {
                    flushPeriodically(database);
                    writeBufferFilter.follow(database);
                    if (mergeLimit.follow(database)) flushCopies(database);
                    purge.clock(database);
                    logMalformed();
                    return purge.isDue(database);
                });
    }

    /** A few, each once: while a compaction comes to more, other tables have their turn. */
    private void logMalformed() {
        for (int taken = 0; taken < MALFORMED_OF_A_TICK; taken++) {
            byte[] key = store.reconciler().takeMalformed();
            if (key == null) return;
            if (malformed.size() >= MOST_MALFORMED || !malformed.add(ByteBuffer.wrap(key)))
                continue;
            logger.error(
                    "The store of {} in {} has a malformed entry under key {}, which a merge or a"
                            + " compaction met and left as it is. Restore the table from a"
                            + " snapshot, or repair that partition's replicas.{}",
                    store.name(),
                    store.directory(),
                    Hex.bytesToHex(key),
                    malformed.size() >= MOST_MALFORMED
                            ? " So many are logged; whatever comes is only counted, by the metric"
                                    + " 'malformed'."
                            : "");
        }
    }

    /** As {@code memtable_flush_period_in_ms} asks; 0 is never. */
    private void flushPeriodically(Database database) {
        int period = store.table().params.memtableFlushPeriodInMs;
        long now = System.nanoTime();
        if (period <= 0 || now - flushedAt < TimeUnit.MILLISECONDS.toNanos(period)) return;
        flushedAt = now;
        try {
            beginFlush(database, database.families());
        } catch (RocksDBException e) {
            logger.error(
                    "The flush of {} that memtable_flush_period_in_ms asks for failed. What was"
                            + " written is not lost; it is flushed again after that period",
                    store.name(),
                    e);
        }
    }

    /** The write buffer is full of copies of a row, and the next one has fewer. */
    private void flushCopies(Database database) {
        try {
            beginFlush(database, List.of(database.data));
        } catch (RocksDBException e) {
            logger.warn(
                    "The write buffer of {} could not be flushed early. What was written is not"
                            + " lost; it is flushed when it is full",
                    store.name(),
                    e);
        }
    }

    private static void beginFlush(Database database, List<ColumnFamilyHandle> families)
            throws RocksDBException {
        try (FlushOptions options =
                new FlushOptions()
                        .setWaitForFlush(false)
                        // Or it waits until compaction has caught up, and all stores with it.
                        .setAllowWriteStall(true)) {
            database.db.flush(options, families);
        }
    }

    /** Whether writes are refused, as after a full disk, and that may be over. */
    boolean isHealDue() {
        return reopenable.healing.isDue();
    }

    /** Ends that if it can: a store that nobody writes to is flushed and copied as well. */
    void heal() {
        try {
            reopenable.healing.heal();
        } catch (WriteStallException e) {
            logger.debug("{} does not take writes yet", store.name(), e);
        }
    }

    /** Purges in the background: throttled, and given up quietly when the store closes. */
    void purgeInBackground() {
        if (!reopenable.isWritable()) return;
        try {
            reopenable.maintain(database -> purge.run(database, true));
        } catch (CompactionStoppedException e) {
            purge.rest();
            logger.info("The purge of {} ended early: {}", store.name(), e.getMessage());
        } catch (RuntimeException | Error e) {
            purge.rest();
            if (!reopenable.isClosed()) throw e;
            logger.debug("The store of {} was closed while it was purged", store.name(), e);
        }
    }

    /** Whether {@link #compactWindows} may have something to do. */
    boolean isWindowsDue() {
        if (!reopenable.isWritable() || !reopenable.hasWindows() || !reopenable.isCompacting())
            return false;
        return reopenable.ifWritable(false, windows::isDue);
    }

    /** Merges the files of time windows, and drops those in which everything has expired. */
    void compactWindows() {
        runUnlessClosed(database -> windows.run(database, reopenable.compaction()));
    }

    /** Whether {@link #removeHidden} has something to do. */
    boolean isHiddenDue() {
        return reopenable.isWritable()
                && !reopenable.hasWindows()
                && (supersededRanges.isDue() || isHiddenRowsDue());
    }

    private boolean isHiddenRowsDue() {
        return reopenable.isCompacting() && hiddenRows.isDue();
    }

    /** Removes range tombstones that newer ones hide, and rows that deletions hide. */
    void removeHidden() {
        if (supersededRanges.isDue())
            runUnlessClosed(database -> purge.removeSuperseded(database, supersededRanges));
        if (isHiddenRowsDue())
            runUnlessClosed(database -> purge.removeHidden(database, hiddenRows));
    }

    private void runUnlessClosed(ReopenableDatabase.Chore chore) {
        if (!reopenable.isWritable()) return;
        try {
            reopenable.maintain(chore);
        } catch (CompactionStoppedException e) {
            logger.info("Maintenance of {} ended early: {}", store.name(), e.getMessage());
        } catch (RuntimeException | Error e) {
            if (!reopenable.isClosed()) throw e;
            logger.debug("The store of {} was closed meanwhile", store.name(), e);
        }
    }

    // When asked for

    void flush() {
        reopenable.followTable();
        reopenable.maintain(Database::flush);
    }

    void rewrite() {
        reopenable.followTable();
        reopenable.maintain(
                database -> {
                    purge.run(database, false);
                    // Compaction rewrites keys, and of the values those in the oldest files.
                    database.compactions.compactLarge(1, BottommostLevelCompaction.kForce);
                    compactIndexes(database);
                });
    }

    /** Rewrites every file of the indexes. */
    private static void compactIndexes(Database database) throws RocksDBException {
        ColumnFamilyHandle index = database.index();
        if (index != null)
            database.compactions.compact(index, null, null, BottommostLevelCompaction.kForce);
    }

    /** Compacts some token ranges; without any, the whole store, with a purge. */
    void compact(Collection<Range<Token>> ranges) {
        reopenable.followTable();
        reopenable.maintain(
                database -> {
                    if (ranges.isEmpty()) {
                        purge.run(database, false);
                        compactIndexes(database);
                    } else if (reopenable.isCompactedBySize()) compactAll(database);
                    else
                        for (TokenRanges.KeyRange range :
                                TokenRanges.of(ranges, store.partitionKeys()))
                            database.compactions.compact(
                                    database.data,
                                    range.from(),
                                    range.to(),
                                    BottommostLevelCompaction.kForceOptimized);
                });
    }

    /**
     * Compacts the whole store, with a purge, and its indexes after a sweep of them, whose
     * tombstones go with what they hide.
     */
    void collectGarbage(Runnable sweep) {
        reopenable.followTable();
        reopenable.maintain(database -> purge.run(database, false));
        sweep.run();
        try {
            reopenable.maintain(StoreMaintenance::compactIndexes);
        } catch (IllegalStateException e) {
            // The table was truncated or dropped, and the sweep has ended for that.
            if (!reopenable.isClosed()) throw e;
        }
    }

    /** Compacts all rows, without a purge. */
    private static void compactAll(Database database) throws RocksDBException {
        database.compactions.compact(
                database.data, null, null, BottommostLevelCompaction.kForceOptimized);
    }

    void stopCompactions() {
        reopenable.measure(
                database -> {
                    database.compactions.stop();
                    return true;
                });
    }

    void stopPurging() {
        // Closed by itself it does not matter, and while it is opened anew nothing is purged.
        reopenable.measure(
                database -> {
                    purge.stop(database);
                    return true;
                });
    }

    PurgeProgress purgeProgress() {
        return reopenable.measure(database -> purge.progress());
    }

    /**
     * Deletes what is outside of some ranges now. The compaction that frees its space takes hours,
     * in which the node may get other ranges: what is written to these meanwhile stays.
     */
    void retainRanges(Collection<Range<Token>> owned, Runnable beforeRemoval) {
        reopenable.maintain(
                database -> {
                    List<TokenRanges.KeyRange> gaps =
                            TokenRanges.gaps(owned, store.partitionKeys());
                    List<ColumnFamilyHandle> families = List.of(database.data, database.large);
                    // Of whole runs RocksDB compacts all, whatever range it is given.
                    boolean whole = reopenable.isCompactedBySize();
                    try (WriteBatch deletions = new WriteBatch()) {
                        for (TokenRanges.KeyRange gap : gaps)
                            for (ColumnFamilyHandle family : families)
                                deletions.deleteRange(family, gap.from(), gap.to());
                        store.reconciler().endHiding();
                        store.room()
                                .write(
                                        () -> {
                                            beforeRemoval.run();
                                            // RocksDB would log it under the next number, which
                                            // an ingest may take.
                                            if (gaps.isEmpty()) return;
                                            database.db.write(database.writeOptions, deletions);
                                        });
                        store.reconciler().endHiding();
                    }
                    database.log.sync();
                    for (TokenRanges.KeyRange gap : gaps)
                        for (ColumnFamilyHandle family : whole ? List.of(database.large) : families)
                            database.compactions.compact(
                                    family,
                                    gap.from(),
                                    gap.to(),
                                    BottommostLevelCompaction.kForceOptimized);
                    if (whole && !gaps.isEmpty()) compactAll(database);
                });
    }

    void verify(LongConsumer beforeFile) {
        reopenable.maintain(database -> Verification.run(store, database, beforeFile));
    }
}
