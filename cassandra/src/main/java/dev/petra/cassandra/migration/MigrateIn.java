// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.index.FormerEntries;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.sstable.PartitionBatches;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Unfit;
import dev.petra.cassandra.table.WriteStalls;
import dev.petra.engine.TableStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Migrates a table's SSTables into its store, one after the other, whether they are from before an
 * ALTER or were streamed or imported: what is in one is written to the store as it is, deletions
 * included, made durable, and only then the SSTable goes. After a crash an SSTable that was half
 * migrated is migrated again, which changes nothing.
 *
 * <p>Where the table's shadow has become its store, SSTables go unread first: {@link Promotion}.
 *
 * <p>The end is the point where no SSTable and no memtable of Cassandra's is left. What the commit
 * log holds of the table is then in the store; its position is noted as a truncation's would be, so
 * that it is never replayed. From there on the store may purge.
 */
final class MigrateIn extends Migration {
    private static final Logger logger = LoggerFactory.getLogger(MigrateIn.class);

    /** How long a write within a partition may find the store too far behind. */
    private static final Duration STALL_PATIENCE = Duration.ofMinutes(10);

    private static final String FAILED_FLUSH =
            "a flush of the table has failed, as the log of the node says, and Cassandra does not"
                    + " try it again: restart the node, and the migration goes on. Until then the"
                    + " commit log keeps all that is written to the table";

    private final Build build = new Build();
    private boolean begun;

    /** Null before and after it. */
    private @Nullable Promotion promotion;

    private boolean isPromotionOver;

    /** What is wrong with SSTables that cannot be migrated, until the others were tried. */
    private final Map<Descriptor, String> passedOver = new LinkedHashMap<>();

    private boolean isReading;

    /** The SSTable that an attempt is at, or null. */
    private volatile @Nullable Descriptor moving;

    /** Up to where that is migrated. */
    private volatile long movedTo;

    private boolean isToldOfCounts;

    private boolean isToldOfFlush;

    /** Behind queries that may have begun before the table's memtable was ours. */
    private OpOrder.@Nullable Barrier beforeOurs;

    /**
     * The last partition that is durable in a store, of SSTables whose migration was halted or has
     * failed.
     */
    private final Map<Descriptor, DecoratedKey> halted = new HashMap<>();

    /** Which store that is: a TRUNCATE that began before the migration brings another. */
    private @Nullable TableStore haltedIn;

    MigrateIn(ColumnFamilyStore cfs, TableGenerations stores, long number) {
        super(cfs, stores, number);
    }

    @Override
    public String direction() {
        return "in";
    }

    /** Falls as an SSTable is migrated, not only with its end; grows if an attempt is given up. */
    @Override
    public long bytesLeft() {
        // Before the SSTables: one that has gone meanwhile does not count twice.
        Descriptor present = moving;
        long left = 0;
        for (SSTableReader sstable : cfs.getLiveSSTables()) {
            left += sstable.uncompressedLength();
            if (sstable.descriptor.equals(present)) left -= movedTo;
        }
        return left;
    }

    @Override
    @Nullable Duration step() {
        if (isOver()) return null;
        String unfit = Unfit.reason(cfs);
        if (unfit != null) {
            state("waiting: " + unfit);
            return SOON;
        }
        // Else a read would find what is migrated neither in the SSTable nor in the store.
        if (EngineMemtables.isCassandrasCurrent(cfs)) {
            state("waiting for the switch of the memtable");
            return SOON;
        }
        boolean hasFailedFlush = hasFailedFlush();
        stores.stopPurging();
        if (!areIndexesBuilt() || !areFormerQueriesOver()) return SOON;
        Duration untilPromoted = promote();
        if (untilPromoted != null) return untilPromoted;
        if (isOver()) return null;
        // The oldest first: a table with time windows has its files in the order of their age.
        List<SSTableReader> left = new ArrayList<>(cfs.getLiveSSTables());
        left.sort(SSTableReader.maxTimestampAscending);
        boolean isCompacted = false;
        for (SSTableReader sstable : left) {
            if (passedOver.containsKey(sstable.descriptor)) continue;
            if (sstable.getSSTableMetadata().hasLegacyCounterShards) {
                passOverCounts(sstable);
                continue;
            }
            // Cassandra compacts it; what comes of that is migrated.
            if (cfs.getTracker().getCompacting().contains(sstable)) {
                isCompacted = true;
                continue;
            }
            return shown(() -> claimAndMove(sstable)) ? Duration.ZERO : SOON;
        }
        if (isCompacted) {
            state("waiting for a compaction of the table's SSTables");
            return SOON;
        }
        if (!left.isEmpty()) {
            state(
                    "waiting: SSTables cannot be migrated: "
                            + String.join("; ", passedOver.values()));
            passedOver.clear();
            return LATER;
        }
        if (!EngineMemtables.areWritesOurs(cfs)) {
            state(
                    hasFailedFlush
                            ? "waiting: " + FAILED_FLUSH
                            : "waiting for the flush of the former memtable");
            return SOON;
        }
        if (unreadableDirectories() > 0) {
            // Its end would let deletions be purged that hide what these SSTables have.
            state(
                    "waiting: the disk of a data directory has failed, and may have SSTables of"
                            + " the table; restart the node when it is repaired or replaced");
            return LATER;
        }
        // They would come behind a purge of what hides them.
        if (stores.isWrittenByOthers()) {
            state(
                    "waiting for writes to the former shadow; if that lasts for longer than its"
                            + " engine may be behind, restart the node");
            return SOON;
        }
        return finish() ? null : SOON;
    }

    /** Whether the former memtable, or one before it, stays until the node is restarted. */
    private boolean hasFailedFlush() {
        if (!EngineMemtables.hasFailedFlush(cfs, 0)) return false;
        if (!isToldOfFlush) logger.error("{} cannot end: {}", this, FAILED_FLUSH);
        isToldOfFlush = true;
        return true;
    }

    /**
     * Whether no query is under way that began before the table's memtable was ours. One by SAI
     * looks for memtables first, and then for SSTables: what moves in between is in neither.
     */
    private boolean areFormerQueriesOver() {
        OpOrder.Barrier barrier = beforeOurs;
        if (barrier == null) {
            beforeOurs = barrier = cfs.readOrdering.newBarrier();
            barrier.issue();
        }
        // Migrations of other tables do not wait for it.
        if (barrier.getSyncPoint().isFinished()) return true;
        state("waiting for queries that began before the table was altered");
        return false;
    }

    /**
     * Gives up the SSTables of which the table's store has all because it was the table's shadow.
     * Tried once. Deletes the shadow, if there is one.
     *
     * @return when to go on; null if there is nothing more to do with it
     */
    private @Nullable Duration promote() {
        if (isPromotionOver) return null;
        Promotion present = promotion;
        if (present == null) {
            ShadowSource shadow = ShadowSource.of(cfs);
            promotion =
                    present =
                            shadow == null || !shadow.isHandedOver()
                                    ? null
                                    : new Promotion(this, shadow);
        }
        Duration next = present == null ? null : present.step();
        if (next != null) return next;
        promotion = null;
        isPromotionOver = true;
        ShadowSource.end(cfs);
        return null;
    }

    /**
     * Whether the indexes that the table got on its way out of the engine, before it came back,
     * have what is in its store. Tried once. Queries by such an index fail until it is built.
     */
    private boolean areIndexesBuilt() {
        if (build.isRunning()) return false;
        if (begun) return true;
        // Nobody told the store of those that were dropped while the table was out of the engine.
        StoreIndexes.dropFormer(cfs);
        // It may have begun while the table was out of the engine, and reads SSTables alone then.
        if (StoreIndexes.isBuildUnderWay(cfs)) {
            state("waiting for the build of an index");
            return false;
        }
        begun = true;
        List<Index> unbuilt = StoreIndexes.unbuilt(cfs);
        if (unbuilt.isEmpty()) return true;
        state("building indexes");
        build.begin(() -> StoreIndexes.complete(cfs, unbuilt));
        return false;
    }

    private static String name(SSTableReader sstable) {
        return sstable.descriptor.baseFile().name();
    }

    /** False if it was halted, or a compaction has begun. */
    private boolean claimAndMove(SSTableReader sstable) {
        try (LifecycleTransaction transaction =
                cfs.getTracker().tryModify(sstable, OperationType.RELOCATE)) {
            if (transaction == null) return false;
            state("migrating " + name(sstable));
            movedTo = 0;
            moving = sstable.descriptor;
            return migrateOrPassOver(sstable, transaction);
        } finally {
            moving = null;
        }
    }

    /**
     * Local shards of counters are added up, also if both are the same one: in an SSTable and in
     * the store, or written to the store once more after a halt.
     */
    private void passOverCounts(SSTableReader sstable) {
        String reason =
                name(sstable)
                        + " has counts from before Cassandra 2.1 (local or remote shards), which"
                        + " would be counted twice; ALTER the table back to a memtable of"
                        + " Cassandra's";
        passedOver.put(sstable.descriptor, reason);
        if (!isToldOfCounts) logger.error("{} cannot be migrated: {}", this, reason);
        isToldOfCounts = true;
    }

    /** An SSTable that cannot be read, such as a corrupt one, does not hold up the others. */
    private boolean migrateOrPassOver(SSTableReader sstable, LifecycleTransaction transaction) {
        isReading = false;
        try {
            return migrate(sstable, transaction);
        } catch (RuntimeException | Error e) {
            if (!isReading) throw e;
            logger.error("{} of {} cannot be migrated", name(sstable), stores.displayName(), e);
            passedOver.put(sstable.descriptor, name(sstable) + " (" + e.getMessage() + ")");
            Migrations.inspect(e);
            return true;
        }
    }

    private boolean migrate(SSTableReader sstable, LifecycleTransaction transaction) {
        TableStore store = stores.current().writable();
        isReading = true;
        DecoratedKey last = store == haltedIn ? halted.get(sstable.descriptor) : null;
        boolean isWhole;
        long before = -1;
        try (ISSTableScanner scanner = scannerAfter(last, sstable)) {
            isWhole = !scanner.hasNext();
            movedTo = before = scanner.getCurrentPosition();
            while (!isWhole && !isHalted()) {
                try (UnfilteredRowIterator partition = scanner.next()) {
                    if (!write(store, sstable, scanner, partition)) break;
                    last = partition.partitionKey();
                }
                // Counted uncompressed, as compactions are throttled.
                migrated(scanner.getCurrentPosition() - before);
                movedTo = before = scanner.getCurrentPosition();
                isWhole = !scanner.hasNext();
            }
        } catch (RuntimeException | Error e) {
            // What comes before bytes that cannot be read is not written with each attempt.
            boolean wasReading = isReading;
            try {
                halt(store, sstable, last, before);
            } catch (RuntimeException | Error another) {
                if (another != e) e.addSuppressed(another);
            }
            isReading = wasReading;
            throw e;
        }
        if (!isWhole) {
            halt(store, sstable, last, before);
            return false;
        }
        isReading = false;
        store.syncLog();
        stores.lockContent();
        try {
            // Another migration may just have begun, which would find in neither place what it
            // passed.
            return stores.migration()
                    .step(
                            number,
                            () -> {
                                transaction.obsoleteOriginals();
                                transaction.finish();
                            });
        } finally {
            stores.unlockContent();
        }
    }

    private ISSTableScanner scannerAfter(@Nullable DecoratedKey last, SSTableReader sstable) {
        if (last == null) return sstable.getScanner();
        PartitionPosition end = cfs.getPartitioner().getMinimumToken().minKeyBound();
        return sstable.getScanner(
                List.<AbstractBounds<PartitionPosition>>of(new Range<>(last, end)).iterator());
    }

    /**
     * Remembers, until the node ends, behind which partition to go on, unless the SSTable's index
     * says otherwise than its data where that ends. Otherwise the SSTable is begun anew.
     *
     * @param last null if there is none
     */
    private void halt(
            TableStore store, SSTableReader sstable, @Nullable DecoratedKey last, long end) {
        if (last == null || isOver()) return;
        if (sstable.getPosition(last, SSTableReader.Operator.GT) != end) return;
        isReading = false;
        store.syncLog();
        if (store != haltedIn) halted.clear();
        haltedIn = store;
        halted.keySet().retainAll(descriptors(cfs.getLiveSSTables()));
        halted.put(sstable.descriptor, last);
    }

    private static Set<Descriptor> descriptors(Set<SSTableReader> sstables) {
        return sstables.stream().map(each -> each.descriptor).collect(Collectors.toSet());
    }

    /**
     * Batches of bounded size; a range's deletion follows the rows that it covers. False if it was
     * halted before the end.
     */
    private boolean write(
            TableStore store,
            SSTableReader sstable,
            ISSTableScanner scanner,
            UnfilteredRowIterator partition) {
        return PartitionBatches.forEach(
                cfs.metadata(),
                sstable,
                partition,
                (update, isBegun) -> {
                    write(store, update, isBegun);
                    movedTo = scanner.getCurrentPosition();
                    return !isHalted();
                });
    }

    /**
     * A stall ends the step: the next one goes on with this partition, and other tables' migrations
     * have their turn meanwhile. Within a partition it is waited for, because the next step would
     * write the partition anew; unless the disk is full, which may last.
     *
     * @param isBegun whether a batch of the partition was written before
     */
    private void write(TableStore store, PartitionUpdate update, boolean isBegun) {
        if (update.isEmpty()) return;
        isReading = false;
        long deadline = System.nanoTime() + STALL_PATIENCE.toNanos();
        WriteStalls.sitOut(
                () -> writeOnce(store, update),
                stall -> {
                    if (!isBegun
                            || stall.isDiskFull()
                            || isHalted()
                            || System.nanoTime() - deadline > 0) throw stall;
                    state("waiting: " + stall.getMessage());
                });
        isReading = true;
    }

    @SuppressWarnings("try") // the group is held, not used
    private void writeOnce(TableStore store, PartitionUpdate update) {
        // Whoever builds an index waits for who does not know it yet.
        try (OpOrder.Group writing = Keyspace.writeOrder.start()) {
            StoreIndexes.write(cfs, store, update);
        }
    }

    private boolean finish() {
        FormerEntries former = FormerEntries.of(cfs);
        if (!passCommitLog(former::drop)) return false;
        if (!stores.migration().arrived(number)) return false;
        // Some SSTables came while it ended.
        if (!cfs.getLiveSSTables().isEmpty()) TableLifecycle.migrateIn(cfs);
        else StoreIndexes.reviveBuilt(cfs);
        state("all data is in the engine");
        TableRegistry.countDiskSpace();
        return true;
    }

    /**
     * Has nothing replayed from the commit log that it has of the table by now, when no memtable of
     * Cassandra's is left: all of it is in the store, where it is durable, or in SSTables.
     *
     * @param before done before that is noted
     * @return false if the migration is over; then nothing was noted
     */
    @SuppressWarnings("LockOnNonEnclosingClassLiteral") // the lock of those very methods
    boolean passCommitLog(Runnable before) {
        // A write that was to be logged, when a memtable of Cassandra's was alive, is logged by
        // then
        // and applied.
        Keyspace.writeOrder.awaitNewBarrier();
        CommitLogPosition position = CommitLog.instance.getCurrentPosition();
        // Asked after the position was taken: what an ALTER out lets into a memtable of Cassandra's
        // lies behind it, and must be replayed.
        if (isOver()) return false;
        TableStore store = stores.current().existing();
        if (store != null) store.syncLog();
        before.run();
        // No truncation's record comes between the two; TableHooks.truncationPosition keeps the
        // later.
        synchronized (SystemKeyspace.class) {
            // Its time stays as it was: hints from before a TRUNCATE are told by it.
            SystemKeyspace.saveTruncationRecord(
                    cfs, SystemKeyspace.getTruncatedAt(cfs.metadata.id), position);
        }
        return true;
    }
}
