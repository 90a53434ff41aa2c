// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.index.FormerEntries;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Unfit;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;

/**
 * Migrates a table's SSTables into its store, one after the other, whether they are from before an
 * ALTER or were streamed or imported: what is in one is written to the store as it is, deletions
 * included, made durable, and only then the SSTable goes. After a crash an SSTable that was half
 * moved is moved again, which changes nothing.
 *
 * <p>The end is the point where no SSTable and no memtable of Cassandra's is left. What the commit
 * log holds of the table is then in the store; its position is noted as a truncation's would be, so
 * that it is never replayed. From there on the store may purge.
 */
final class MigrateIn extends Migration {
    /** How much of a partition is written at once. */
    private static final int BATCH_BYTES = 512 * 1024;

    private static final int BATCH_ROWS = 2_000;

    /** How long a write may find the store too far behind before the SSTable is begun anew. */
    private static final Duration STALL_PATIENCE = Duration.ofMinutes(10);

    private final Build build = new Build();
    private boolean begun;

    MigrateIn(ColumnFamilyStore cfs, TableGenerations stores, long number) {
        super(cfs, stores, number);
    }

    @Override
    public String direction() {
        return "in";
    }

    @Override
    public long bytesLeft() {
        long left = 0;
        for (SSTableReader sstable : cfs.getLiveSSTables()) left += sstable.uncompressedLength();
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
        stores.stopPurging();
        if (!areIndexesBuilt()) return SOON;
        // The oldest first: a table with time windows has its files in the order of their age.
        List<SSTableReader> left = new ArrayList<>(cfs.getLiveSSTables());
        left.sort(SSTableReader.maxTimestampAscending);
        for (SSTableReader sstable : left) {
            try (LifecycleTransaction transaction =
                    cfs.getTracker().tryModify(sstable, OperationType.RELOCATE)) {
                // Cassandra compacts it; what comes of that is moved.
                if (transaction == null) continue;
                state("migrating " + sstable.descriptor.baseFile().name());
                return move(sstable, transaction) ? Duration.ZERO : SOON;
            }
        }
        if (!left.isEmpty()) {
            state("waiting for a compaction of the table's SSTables");
            return SOON;
        }
        if (!EngineMemtables.areWritesOurs(cfs)) {
            state("waiting for the flush of the former memtable");
            return SOON;
        }
        return finish() ? null : SOON;
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

    private boolean move(SSTableReader sstable, LifecycleTransaction transaction) {
        TableStore store = stores.current().writable();
        try (ISSTableScanner scanner = sstable.getScanner()) {
            long before = 0;
            while (scanner.hasNext()) {
                try (UnfilteredRowIterator partition = scanner.next()) {
                    write(store, partition);
                }
                // Counted uncompressed, as compactions are throttled.
                moved(scanner.getCurrentPosition() - before);
                before = scanner.getCurrentPosition();
                if (isHalted()) return false;
            }
        }
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

    /** Batches of bounded size; a range's deletion follows the rows that it covers. */
    private void write(TableStore store, UnfilteredRowIterator partition) {
        TableMetadata table = cfs.metadata();
        PartitionUpdate.Builder batch = batch(table, partition);
        batch.addPartitionDeletion(partition.partitionLevelDeletion());
        if (!partition.staticRow().isEmpty()) batch.add(partition.staticRow());
        int rows = 0;
        long bytes = 0;
        ClusteringBound<?> opened = null;
        while (partition.hasNext()) {
            Unfiltered next = partition.next();
            if (next instanceof Row row) {
                batch.add(row);
                bytes += row.dataSize();
            } else {
                RangeTombstoneMarker marker = (RangeTombstoneMarker) next;
                if (marker.isClose(false) && opened != null) {
                    DeletionTime deletion = marker.closeDeletionTime(false);
                    batch.add(
                            new RangeTombstone(
                                    Slice.make(opened, marker.closeBound(false)), deletion));
                }
                opened = marker.isOpen(false) ? marker.openBound(false) : null;
            }
            if (++rows >= BATCH_ROWS || bytes >= BATCH_BYTES) {
                write(store, batch.build());
                if (isHalted()) return;
                batch = batch(table, partition);
                rows = 0;
                bytes = 0;
            }
        }
        write(store, batch.build());
    }

    private static PartitionUpdate.Builder batch(
            TableMetadata table, UnfilteredRowIterator partition) {
        return new PartitionUpdate.Builder(
                table, partition.partitionKey(), table.regularAndStaticColumns(), 16);
    }

    @SuppressWarnings("try") // the group is held, not used
    private void write(TableStore store, PartitionUpdate update) {
        if (update.isEmpty()) return;
        long deadline = System.nanoTime() + STALL_PATIENCE.toNanos();
        while (true) {
            // Whoever builds an index waits for who does not know it yet.
            try (OpOrder.Group writing = Keyspace.writeOrder.start()) {
                StoreIndexes.write(cfs, store, update);
                return;
            } catch (WriteStallException e) {
                if (isHalted() || System.nanoTime() > deadline) throw e;
                state("waiting for the engine's compaction");
            }
        }
    }

    @SuppressWarnings("LockOnNonEnclosingClassLiteral") // the lock of those very methods
    private boolean finish() {
        FormerEntries former = FormerEntries.of(cfs);
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
        former.drop();
        // No truncation's record comes between the two; TableHooks.truncationPosition keeps the
        // later.
        synchronized (SystemKeyspace.class) {
            // Its time stays as it was: hints from before a TRUNCATE are told by it.
            SystemKeyspace.saveTruncationRecord(
                    cfs, SystemKeyspace.getTruncatedAt(cfs.metadata.id), position);
        }
        if (!stores.migration().arrived(number)) return false;
        // Some SSTables came while it ended.
        if (!cfs.getLiveSSTables().isEmpty()) TableLifecycle.migrateIn(cfs);
        else StoreIndexes.reviveBuilt(cfs);
        state("all data is in the engine");
        TableRegistry.countDiskSpace();
        return true;
    }
}
