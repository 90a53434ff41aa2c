// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.index.Compactions;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.sstable.SSTableExport;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.FullDisk;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.db.DiskBoundaries;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.view.View;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.notifications.SSTableAddedNotification;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.Throwables;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.apache.cassandra.utils.concurrent.Refs;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Migrates a table out of its store into SSTables, in the order of its partitions, one SSTable a
 * step. The store takes no writes any more; it is read beside the SSTables until all is in them.
 * After a crash the step that was under way is taken again, which changes nothing.
 */
public final class MigrateOut extends Migration {
    private static final Logger logger = LoggerFactory.getLogger(MigrateOut.class);

    /** How long the end waits for the deletion of the store, while other migrations wait for it. */
    private static final Duration DELETION_PATIENCE = Duration.ofSeconds(5);

    /**
     * Of one index. It may be damaged in the store, where no rebuild helps and each query fails.
     */
    private static final int MOST_REBUILDS = 3;

    /** What a disk has to have free for an SSTable to be begun there rather than on another. */
    private static final long ROOM_FOR_AN_SSTABLE = 2 * SSTableExport.SSTABLE_BYTES;

    private final EngineMemtable memtable;

    /** The last partition that is in live SSTables; null if that is noted. */
    private @Nullable ByteBuffer unnoted;

    /** How many directories were lost before all that is migrated; the store has what was there. */
    private long unreadable;

    /** Whether the disk of the last SSTable became full while it was written: then any will do. */
    private boolean isFull;

    /** What compactions had when the last SSTable was there, and have since; null before. */
    private @Nullable Set<SSTableReader> compacting;

    private final Build build = new Build();
    private volatile boolean built;
    private int stepsWithoutBuild;

    /** How often an index that was out of use was rebuilt. */
    private final Map<String, Integer> rebuilds = new ConcurrentHashMap<>();

    public MigrateOut(
            ColumnFamilyStore cfs, TableGenerations stores, long number, EngineMemtable memtable) {
        super(cfs, stores, number);
        this.memtable = memtable;
        // What an earlier process has migrated may be in any that has failed since.
        this.unreadable = stores.migration().migratedUpTo() == null ? unreadableDirectories() : 0;
    }

    @Override
    public String direction() {
        return "out";
    }

    @Override
    public long bytesLeft() {
        return Math.max(
                0, memtable.generation().statistic(StoreStatistics::liveDataBytes) - doneBytes());
    }

    @Override
    @Nullable Duration step() {
        if (Migrations.areStopped()) return null;
        if (isOver()) {
            // The table was altered back, so that the store has another memtable or was truncated;
            // or it was dropped.
            if (!Migrations.areStopped()) EngineMemtables.forget(cfs, memtable);
            return null;
        }
        // The migration in that was to end it is over, and the way out may have begun at a later
        // attempt than with the ALTER.
        ShadowSource.end(cfs);
        stores.stopPurging();
        beginAnewIfLost();
        note();
        if (build.isRunning() || !areUsable()) return SOON;
        TableStore store = memtable.generation().existing();
        if (store != null && !writeNext(store)) return isHalted() ? SOON : Duration.ZERO;
        if (!isFound() || !isSeenByCompactions()) return SOON;
        return finish() ? null : Duration.ZERO;
    }

    /**
     * Whether indexes and views have all rows of the table. Views and indexes in tables of their
     * own that it had while it was in its engine were built without what was there, and those that
     * it got since then without what was left; a read by them fails until the migration is over.
     * They are built anew, also after a crash. A Storage-Attached Index is written with each
     * SSTable, so only those SSTables lack it that were begun before it was created.
     */
    private boolean isFound() {
        Set<String> apart = new HashSet<>();
        Set<String> attached = new HashSet<>();
        for (Index index : cfs.indexManager.listIndexes())
            (index.isSSTableAttached() ? attached : apart).add(index.getIndexMetadata().name);
        if (!built && (!apart.isEmpty() || cfs.viewManager.hasViews())) {
            state("building indexes and views");
            // Cassandra may be building it.
            if (apart.stream().noneMatch(cfs.indexManager::isIndexBuilding) && canBuildViews())
                build.begin(() -> buildAll(apart));
            return false;
        }
        built = true;
        if (attached.stream().anyMatch(cfs.indexManager::isIndexBuilding)) {
            state("waiting for the build of an index");
            return false;
        }
        if (!areUsable()) return false;
        Set<SSTableReader> passedOver = StoreIndexes.passedOver(cfs);
        if (!passedOver.isEmpty()) {
            state("building indexes");
            build.begin(() -> complete(passedOver));
            return false;
        }
        List<View> missing = new ArrayList<>();
        for (View view : cfs.viewManager)
            if (!SystemKeyspace.isViewBuilt(cfs.getKeyspaceName(), view.name)) missing.add(view);
        if (!missing.isEmpty()) goOnWith(missing);
        return missing.isEmpty();
    }

    /**
     * Before the node has joined, Cassandra does not know which part of a view is its own. While it
     * starts, joins or moves, Cassandra writes the rows of a view to the batchlog instead, and
     * takes the view for built before they are in it.
     */
    private boolean canBuildViews() {
        StorageService node = StorageService.instance;
        return !cfs.viewManager.hasViews()
                || (node.isJoined() && !node.isStarting() && !node.isJoining() && !node.isMoving());
    }

    /**
     * Whether each compaction that runs knows all SSTables. One that began before the last of them
     * came would purge a deletion that hides something in it. Until the migration is over, the
     * store keeps it from that.
     */
    private boolean isSeenByCompactions() {
        Set<SSTableReader> now = cfs.getTracker().getCompacting();
        Set<SSTableReader> before = compacting;
        if (before == null) {
            before = new HashSet<>(now);
            compacting = before;
        } else before.retainAll(now);
        if (before.isEmpty()) return true;
        state("waiting for compactions that began before all SSTables were written");
        return false;
    }

    private void buildAll(Set<String> indexes) {
        if (!indexes.isEmpty()) cfs.indexManager.rebuildIndexesBlocking(indexes);
        // It may have got a view meanwhile.
        if (isOver() || !canBuildViews()) return;
        locked(cfs.viewManager.iterator(), this::buildViews);
        built = true;
    }

    /**
     * Whether queries may use the Storage-Attached Indexes, or the migration goes on without.
     * Cassandra takes an index out of use when it cannot open the index of an SSTable, and would
     * build that only when the node starts. Cassandra logs why a rebuild failed, and how to repeat
     * it.
     */
    private boolean areUsable() {
        Set<String> unusable = StoreIndexes.unusable(cfs);
        unusable.removeIf(index -> rebuilds.getOrDefault(index, 0) >= MOST_REBUILDS);
        if (unusable.isEmpty()) return true;
        state("building indexes");
        build.begin(() -> rebuild(unusable));
        return false;
    }

    private void rebuild(Set<String> indexes) {
        Compactions.without(
                cfs,
                () -> !isOver(),
                () -> {
                    // They may be in use again, or be built, since compactions had to end.
                    Set<String> still = StoreIndexes.unusable(cfs);
                    still.retainAll(indexes);
                    if (still.isEmpty()) return null;
                    logger.warn(
                            "Indexes of {} that Cassandra has taken out of use are rebuilt: {}",
                            stores.displayName(),
                            still);
                    still.forEach(index -> rebuilds.merge(index, 1, Integer::sum));
                    cfs.indexManager.rebuildIndexesBlocking(still);
                    return null;
                });
    }

    /**
     * Builds the indexes that SSTables lack, and has those opened that nobody has opened. A build
     * deletes first what there is of the files. Whoever opens these meanwhile, such as the end of
     * the compaction that wrote them, would find the index damaged, and no query could use it from
     * then on. So nobody else has the SSTables meanwhile; if somebody does, the next step tries
     * again.
     */
    private void complete(Set<SSTableReader> sstables) {
        try (LifecycleTransaction claimed =
                cfs.getTracker().tryModify(sstables, OperationType.INDEX_BUILD)) {
            if (claimed == null) return;
            Set<SSTableReader> without = StoreIndexes.withoutIndex(cfs, sstables);
            if (!without.isEmpty()) cfs.indexManager.buildSSTableAttachedIndexesBlocking(without);
            StoreIndexes.open(cfs, sstables);
        }
    }

    private void buildViews() {
        cfs.viewManager.stopBuild();
        for (View view : cfs.viewManager) {
            SystemKeyspace.setViewRemoved(cfs.getKeyspaceName(), view.name);
            build(view);
        }
    }

    /**
     * Cassandra begins the builds of all views some time after the start, each under its lock. One
     * of these that went on where another had stopped, with less than there is now, and ended in
     * between, would be taken for ours.
     */
    private static void locked(Iterator<View> views, Runnable work) {
        if (!views.hasNext()) {
            work.run();
            return;
        }
        synchronized (views.next()) {
            locked(views, work);
        }
    }

    /**
     * Builds a view, unless it was dropped while others were built: the next view of that name
     * would be taken for built.
     */
    private void build(View view) {
        if (cfs.keyspace.viewManager.getByName(view.name) == view) view.build();
    }

    /**
     * Has views built further whose build was stopped, by {@code nodetool stop} or whatever needed
     * the table: Cassandra would not before the node starts again. Nobody tells of that, but no
     * build is seen, of any table, as one may wait for another. One that is about to end loses
     * nothing by being begun again: what is done of it is noted.
     */
    private void goOnWith(List<View> views) {
        boolean isBuilding =
                CompactionManager.instance.active.getCompactions().stream()
                        .map(CompactionInfo.Holder::getCompactionInfo)
                        .anyMatch(info -> info.getTaskType() == OperationType.VIEW_BUILD);
        stepsWithoutBuild = isBuilding ? 0 : stepsWithoutBuild + 1;
        if (stepsWithoutBuild * SOON.toMillis() < LATER.toMillis()) return;
        stepsWithoutBuild = 0;
        state("building views further, whose build was stopped");
        logger.warn(
                "The build of views of {} was stopped, and goes on: {}",
                stores.displayName(),
                views.stream().map(view -> view.name).toList());
        build.begin(() -> views.forEach(this::build));
    }

    /** Writes the next SSTable. True if there is nothing left. */
    private boolean writeNext(TableStore store) {
        // Of one moment, and not ColumnFilter.all: no row may have columns that the header lacks.
        TableMetadata table = cfs.metadata();
        ColumnFilter columns = ColumnFilter.selection(table.regularAndStaticColumns());
        for (Part part : rest())
            try (UnfilteredPartitionIterator rest = store.scanAside(part.range(), columns)) {
                // Before room for an SSTable is asked for: without any, the store goes all the
                // same.
                if (!rest.hasNext()) continue;
                return shown(
                        () -> {
                            write(store, table, rest, part.disk());
                            return false;
                        });
            }
        return true;
    }

    /**
     * Writes the next SSTable, of a part of what is left.
     *
     * @param rest of which there is something
     */
    private void write(
            TableStore store,
            TableMetadata table,
            UnfilteredPartitionIterator rest,
            Directories.@Nullable DataDirectory disk) {
        state("writing SSTables");
        File directory =
                directory(
                        cfs.getDirectories(),
                        isFull ? null : disk,
                        Math.min(bytesLeft(), ROOM_FOR_AN_SSTABLE));
        SSTableExport.Step step;
        try {
            step =
                    SSTableExport.writeNext(
                            cfs,
                            table,
                            rest,
                            directory,
                            partitionsOfAnSSTable(store),
                            this::migrated,
                            this::isHalted);
            isFull = false;
        } catch (RuntimeException | Error e) {
            isFull = FullDisk.isCauseOf(e);
            throw e;
        }
        if (step == null) return;
        DecoratedKey last = step.last();
        if (last == null) return;
        // Live before it is noted: the other way round a crash would lose it.
        if (stores.migration().isCurrent(number)) {
            unnoted = last.getKey();
            if (!step.sstables().isEmpty()) add(step.sstables());
            note();
        } else step.sstables().forEach(MigrateOut::delete);
    }

    /**
     * Begins with the first partition again if the disk of SSTables has failed meanwhile: the store
     * goes when the migration is over. What is in other SSTables merges to the same.
     *
     * @return whether it does
     */
    private boolean beginAnewIfLost() {
        long now = unreadableDirectories();
        if (now <= unreadable) return false;
        if (!stores.migration().beginAnew(number)) return false;
        unnoted = null;
        unreadable = now;
        logger.warn(
                "A disk with SSTables of {} has failed while the table was migrated out of its"
                        + " engine. The store has all of what was in them, so the migration begins"
                        + " anew",
                stores.displayName());
        return true;
    }

    /** Nothing more is written before this has succeeded: the same would be written again. */
    private void note() {
        ByteBuffer key = unnoted;
        if (key == null) return;
        stores.migration().migratedUpTo(number, key);
        unnoted = null;
    }

    /**
     * Holds no lock: Cassandra builds the indexes of the SSTables here, and who alters the table
     * holds what the end of that needs, and waits for the {@link #stores}. So another migration may
     * begin meanwhile, or DROP; architecture.md says why that is right.
     */
    @SuppressWarnings("try") // the references are held, not used
    private void add(Collection<SSTableReader> sstables) {
        compacting = null;
        // They are live before their indexes are built: a compaction would delete them meanwhile,
        // and Cassandra would take the failed build for one that never ends.
        try (Refs<SSTableReader> held = Refs.ref(sstables)) {
            cfs.addSSTables(sstables);
        } catch (RuntimeException | Error e) {
            // They are live before they are linked into the incremental backup and their indexes
            // are built; written again they would be there twice.
            if (cfs.isValid() && !cfs.getLiveSSTables().containsAll(sstables)) {
                unnoted = null;
                throw e;
            }
            logger.warn(
                    "Rows that were migrated out of {} could not be backed up or indexed now;"
                            + " unless the table is dropped, they are indexed before the migration"
                            + " ends",
                    stores.displayName(),
                    e);
            tellCompaction(sstables);
            Migrations.inspect(e);
        } finally {
            // DROP may have removed the table's SSTables before these came.
            Throwables.maybeFail(cfs.getTracker().dropSSTablesIfInvalid(null));
        }
    }

    /**
     * Where linking them into the backup fails, Cassandra tells nobody of them, and would not
     * compact them before it starts again. Compactions may be told twice, but not of what was
     * compacted: so they are claimed, which is possible only as long as they are live.
     */
    private void tellCompaction(Collection<SSTableReader> sstables) {
        try (LifecycleTransaction claimed =
                cfs.getTracker().tryModify(sstables, OperationType.UNKNOWN)) {
            if (claimed == null) return;
            cfs.getCompactionStrategyManager()
                    .handleNotification(
                            new SSTableAddedNotification(sstables, null), cfs.getTracker());
        }
    }

    /**
     * Deletes an SSTable of a table that was dropped meanwhile, or altered back and is whole in its
     * store.
     */
    private static void delete(SSTableReader sstable) {
        sstable.selfRef().release();
        sstable.descriptor.getFormat().delete(sstable.descriptor);
    }

    /**
     * Where to write what belongs on a disk: there, unless it has no room.
     *
     * @param disk null if there is none
     */
    static File directory(
            Directories directories, Directories.@Nullable DataDirectory disk, long bytes) {
        File own = directories.getLocationForDisk(disk);
        if (disk == null
                || own == null
                || DisallowedDirectories.isUnwritable(own)
                || disk.getAvailableSpace() < ROOM_FOR_AN_SSTABLE)
            return directories.getWriteableLocationAsFile(bytes);
        return own;
    }

    /**
     * A part of the ring.
     *
     * @param disk on which Cassandra has what lies there; null if that is on any
     */
    record Part(DataRange range, Directories.@Nullable DataDirectory disk) {}

    private List<Part> rest() {
        PartitionPosition end = cfs.getPartitioner().getMinimumToken().minKeyBound();
        ByteBuffer after = stores.migration().migratedUpTo();
        return parts(after == null ? end : cfs.decorateKey(after), end, cfs.getDiskBoundaries());
    }

    /**
     * What is behind a position, disk by disk, in the order of the ring. No SSTable is of two:
     * Cassandra has all of a token on one disk, so that with a disk no deletion is lost whose rows
     * are on another (CASSANDRA-6696).
     *
     * @param end of the ring
     */
    static List<Part> parts(PartitionPosition after, PartitionPosition end, DiskBoundaries disks) {
        List<Part> parts = new ArrayList<>();
        PartitionPosition begin = after;
        Directories.DataDirectory disk = null;
        if (disks.positions != null) {
            // The last disk has all the rest.
            int last = disks.positions.size() - 1;
            for (int i = 0; i < last; i++) {
                PartitionPosition to = disks.positions.get(i);
                if (to.compareTo(begin) <= 0) continue;
                parts.add(
                        new Part(
                                DataRange.forKeyRange(new Range<>(begin, to)),
                                disks.directories.get(i)));
                begin = to;
            }
            disk = disks.directories.get(last);
        }
        parts.add(new Part(DataRange.forKeyRange(new Range<>(begin, end)), disk));
        return parts;
    }

    /** About how many partitions an SSTable gets; its bloom filter is as large as that. */
    private long partitionsOfAnSSTable(TableStore store) {
        // Not as metrics are read, which have 0 while it is opened anew.
        long bytes = store.statistics().liveDataBytes();
        double part =
                bytes <= SSTableExport.SSTABLE_BYTES
                        ? 1
                        : (double) SSTableExport.SSTABLE_BYTES / bytes;
        return 1 + (long) (memtable.partitionCount() * part);
    }

    private boolean finish() {
        if (beginAnewIfLost()) return false;
        if (!TableLifecycle.departed(cfs, stores, number)) return false;
        // Those of former migrations out, too: they are told by their next step only, which may be
        // seconds away.
        EngineMemtables.forgetAll(cfs, memtable.generation());
        // Reads that have one of the memtables end first.
        OpOrder.Barrier readers = cfs.readOrdering.newBarrier();
        readers.issue();
        readers.await();
        memtable.generation().discard();
        TableLifecycle.deleteIfGone(cfs, stores);
        awaitDeletion();
        state("all data is in SSTables");
        return true;
    }

    /** Whoever sees that it is over finds the disk space free, unless that takes long. */
    private void awaitDeletion() {
        boolean isDeleted = false;
        try {
            isDeleted = stores.awaitDisposed(DELETION_PATIENCE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (!isDeleted)
            logger.info("The store of {} is deleted in the background", stores.displayName());
    }
}
