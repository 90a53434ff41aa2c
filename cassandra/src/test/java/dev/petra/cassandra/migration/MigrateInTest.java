// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static dev.petra.cassandra.Hollow.proxy;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ch.qos.logback.classic.Level;
import com.codahale.metrics.Counter;
import com.google.common.collect.Iterables;
import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.CapturedLog;
import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.Truncation;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.view.TableViews;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.metrics.TableMetrics;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.CounterId;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a migration into an engine does while the store takes no writes. */
class MigrateInTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c))");
    private static final TableMetadataRef REFERENCE = TableMetadataRef.forOfflineTools(TABLE);
    private final WriteStallException full = new WriteStallException("disk full", true);
    private final WriteStallException behind = new WriteStallException("behind", false);

    static {
        // What throttles and shows compactions needs these.
        DatabaseDescriptor.setConcurrentCompactors(1);
        DatabaseDescriptor.setConcurrentValidations(1);
        DatabaseDescriptor.setConcurrentViewBuilders(1);
    }

    @TempDir Path temp;

    /** The partition of each attempt to write, in their order. */
    private final List<Integer> attempts = new ArrayList<>();

    /** Why the store refuses the next write; asked after the attempt is noted. */
    private volatile Supplier<@Nullable WriteStallException> refusal = () -> null;

    private volatile boolean isSyncRefused;

    /** Done when the store is synced. */
    private volatile Runnable atSync = () -> {};

    private int purgesStopped;
    private @Nullable SSTableReader sstable;

    @AfterEach
    void release() {
        if (sstable != null) sstable.selfRef().release();
    }

    private @Nullable Object store(Object proxy, Method method, Object[] arguments) {
        switch (method.getName()) {
            case "write" -> {
                attempts.add(
                        ByteBufferUtil.toInt(
                                ((PartitionUpdate) arguments[0]).partitionKey().getKey()));
                WriteStallException refused = refusal.get();
                if (refused != null) throw refused;
            }
            case "syncLog" -> {
                atSync.run();
                if (isSyncRefused) throw full;
            }
            case "stopPurging" -> purgesStopped++;
            case "close" -> {}
            case "hasIndexes" -> {
                return false;
            }
            default -> throw new UnsupportedOperationException(method.getName());
        }
        return null;
    }

    /**
     * @param rows of each partition
     */
    private MigrateIn migration(int partitions, int rows) throws Exception {
        return migration(REFERENCE, sstable(partitions, rows));
    }

    private MigrateIn migration(TableMetadataRef table, SSTableReader written) throws Exception {
        sstable = written;
        StorageEngine engine =
                proxy(
                        StorageEngine.class,
                        (self, method, arguments) -> proxy(TableStore.class, this::store));
        Path data = Files.createDirectory(temp.resolve("stores"));
        TableGenerations stores =
                TableGenerations.open("t", table, () -> engine, List.of(data), Disk.REAL);
        Tracker tracker = Tracker.newDummyTracker();
        tracker.addInitialSSTables(List.of(written));
        TableViews views = Hollow.of(TableViews.class);
        Hollow.set(views, TableViews.class, "views", List.of());
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", table);
        Hollow.set(cfs, ColumnFamilyStore.class, "viewManager", views);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(cfs, ColumnFamilyStore.class, "readOrdering", new OpOrder());
        MigrateIn migration = new MigrateIn(cfs, stores, stores.migration().begin("rocks"));
        // It has no indexes.
        Hollow.set(migration, MigrateIn.class, "begun", true);
        return migration;
    }

    private SSTableReader sstable(int partitions, int rows) {
        List<PartitionUpdate> updates = new ArrayList<>();
        for (int p = 0; p < partitions; p++) {
            PartitionUpdate.SimpleBuilder update =
                    PartitionUpdate.simpleBuilder(TABLE, p).timestamp(5).nowInSec(1);
            for (int c = 0; c < rows; c++) update.row(c).add("v", 7);
            updates.add(update.build());
        }
        updates.sort((a, b) -> a.partitionKey().compareTo(b.partitionKey()));
        return sstable(REFERENCE, updates);
    }

    private SSTableReader sstable(TableMetadataRef table, List<PartitionUpdate> updates) {
        try (SSTableTxnWriter writer =
                SSTableTxnWriter.create(
                        table,
                        new Descriptor(new File(temp), "ks", "t", new SequenceBasedSSTableId(1)),
                        updates.size(),
                        ActiveRepairService.UNREPAIRED_SSTABLE,
                        ActiveRepairService.NO_PENDING_REPAIR,
                        false,
                        SerializationHeader.makeWithoutStats(table.get()),
                        List.of(),
                        null)) {
            for (PartitionUpdate update : updates)
                try (UnfilteredRowIterator partition = update.unfilteredIterator()) {
                    writer.append(partition);
                }
            return Iterables.getOnlyElement(writer.finish(true));
        }
    }

    private void refuseAttempt(int number, WriteStallException refused) {
        refusal = () -> attempts.size() == number ? refused : null;
    }

    /** One that went on with a pause, or without, would keep those of other tables waiting. */
    @Test
    void aFullDiskEndsTheStepAtTheFirstAttempt() throws Exception {
        MigrateIn migration = migration(3, 1);
        refusal = () -> full;
        assertThatThrownBy(migration::takeStep).isSameAs(full);
        assertThat(attempts).hasSize(1);
    }

    @Test
    void aStoreThatIsBehindEndsTheStepBetweenPartitions() throws Exception {
        MigrateIn migration = migration(3, 1);
        refuseAttempt(2, behind);
        assertThatThrownBy(migration::takeStep).isSameAs(behind);
        assertThat(attempts).hasSize(2);
    }

    /** Also if the store cannot be synced for a while, and the migration is tried then. */
    @Test
    void theNextStepGoesOnWhereTheDiskWasFull() throws Exception {
        MigrateIn migration = migration(5, 1);
        refuseAttempt(4, full);
        assertThatThrownBy(migration::takeStep).isSameAs(full);
        refusal = () -> full;
        isSyncRefused = true;
        assertThatThrownBy(migration::takeStep).isSameAs(full);
        isSyncRefused = false;
        refuseAttempt(7, full);
        assertThatThrownBy(migration::takeStep).isSameAs(full);
        // The last two partitions alone, the first of them three times.
        assertThat(attempts).hasSize(7);
        assertThat(attempts.subList(0, 4)).doesNotHaveDuplicates();
        assertThat(attempts.get(4)).isEqualTo(attempts.get(3));
        assertThat(attempts.get(5)).isEqualTo(attempts.get(3));
        assertThat(attempts.get(6)).isNotIn(attempts.subList(0, 6));
    }

    /** A large SSTable took longer than {@code petra replay} waits for what gets no further. */
    @Test
    void lessIsLeftTheFurtherAnSSTableIsMoved() throws Exception {
        MigrateIn migration = migration(5, 1);
        long whole = migration.bytesLeft();
        List<Long> left = new ArrayList<>();
        refusal =
                () -> {
                    left.add(migration.bytesLeft());
                    return attempts.size() == 4 ? full : null;
                };
        assertThatThrownBy(migration::takeStep).isSameAs(full);
        assertFalls(left, 4, whole);
        assertThat(migration.bytesLeft()).isEqualTo(whole);
        assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
        // It goes on with the partition of which the write was refused.
        assertThat(left).hasSize(6);
        assertThat(left.get(4)).isEqualTo(left.get(3));
        assertThat(left.get(5)).isLessThan(left.get(4));
        assertThat(migration.bytesLeft()).isZero();
        // Its last reference went with the migration.
        sstable = null;
    }

    @Test
    void lessIsLeftTheFurtherAPartitionIsMoved() throws Exception {
        MigrateIn migration = migration(1, 6_001);
        long whole = migration.bytesLeft();
        List<Long> left = new ArrayList<>();
        refusal =
                () -> {
                    left.add(migration.bytesLeft());
                    return null;
                };
        assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
        assertFalls(left, 4, whole);
        // Its last reference went with the migration.
        sstable = null;
    }

    private static void assertFalls(List<Long> left, int looks, long whole) {
        assertThat(left)
                .hasSize(looks)
                .doesNotHaveDuplicates()
                .isSortedAccordingTo(Comparator.reverseOrder())
                .startsWith(whole)
                .allMatch(each -> each > 0);
    }

    /** A loss of power may come before the next sync. */
    @Test
    void anSSTableStaysUntilWhatItHeldIsDurable() throws Exception {
        MigrateIn migration = migration(3, 1);
        isSyncRefused = true;
        assertThatThrownBy(migration::takeStep).isSameAs(full);
        assertThat(attempts).hasSize(3);
        assertThat(migration.cfs.getLiveSSTables()).hasSize(1);
    }

    /** An ALTER out of the engine has just begun, which reads the store from what it holds now. */
    @Test
    void anSSTableStaysWhenItsMigrationIsOver() throws Exception {
        MigrateIn migration = migration(3, 1);
        atSync = () -> migration.stores.migration().begin("rocks");
        migration.takeStep();
        assertThat(attempts).hasSize(3);
        assertThat(migration.cfs.getLiveSSTables()).hasSize(1);
    }

    /** It may have looked for memtables when there was none of ours, and not yet for SSTables. */
    @Test
    @SuppressWarnings("try") // the groups are held, not used
    void anSSTableStaysUntilQueriesFromBeforeAreOver() throws Exception {
        MigrateIn migration = migration(3, 1);
        try (OpOrder.Group before = migration.cfs.readOrdering.start()) {
            for (int i = 0; i < 2; i++) assertThat(migration.takeStep()).isEqualTo(Migration.SOON);
            assertThat(migration.state()).contains("queries");
            assertThat(migration.cfs.getLiveSSTables()).hasSize(1);
        }
        try (OpOrder.Group later = migration.cfs.readOrdering.start()) {
            assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
            assertThat(migration.cfs.getLiveSSTables()).isEmpty();
        }
        // Its last reference went with the migration.
        sstable = null;
    }

    /** As {@code nodetool stop} would have it: the others of its partitions are in it alone. */
    @Test
    void anSSTableThatWasNotReadToItsEndStays() throws Exception {
        MigrateIn migration = migration(5, 1);
        refusal =
                () -> {
                    if (attempts.size() == 2)
                        CompactionManager.instance
                                .active
                                .getCompactions()
                                .forEach(CompactionInfo.Holder::stop);
                    return null;
                };
        migration.takeStep();
        assertThat(attempts).hasSizeLessThan(5);
        assertThat(migration.cfs.getLiveSSTables()).hasSize(1);
    }

    /** A purge that began before the SSTables came might remove what hides what they hold. */
    @Test
    void eachStepStopsPurges() throws Exception {
        MigrateIn migration = migration(3, 1);
        refuseAttempt(2, behind);
        assertThatThrownBy(migration::takeStep).isSameAs(behind);
        int before = purgesStopped;
        refuseAttempt(3, behind);
        assertThatThrownBy(migration::takeStep).isSameAs(behind);
        assertThat(purgesStopped).isGreaterThan(before);
    }

    /** Else it would be written anew from its beginning, which keeps the store behind. */
    @Test
    void aStoreThatIsBehindIsWaitedForWithinAPartition() throws Exception {
        MigrateIn migration = migration(2, 4_001);
        refusal =
                () ->
                        switch (attempts.size()) {
                            case 2, 3 -> behind;
                            case 5 -> full;
                            default -> null;
                        };
        // The third batch of the first partition: a full disk may last.
        assertThatThrownBy(migration::takeStep).isSameAs(full);
        assertThat(attempts).hasSize(5).containsOnly(attempts.get(0));
    }

    /** Of two that are the same shard, a read and a merge have the sum. */
    @Test
    void countsThatWouldBeAddedUpStayWhereTheyAre() throws Exception {
        TableMetadata counters = TestTables.table("CREATE TABLE t (p int PRIMARY KEY, n counter)");
        TableMetadataRef table = TableMetadataRef.forOfflineTools(counters);
        CounterContext.ContextState local = CounterContext.ContextState.allocate(0, 1, 0);
        local.writeLocal(CounterId.fromInt(1), 5, 5);
        Row.Builder row = BTreeRow.unsortedBuilder();
        row.newRow(Clustering.EMPTY);
        row.addCell(
                BufferCell.live(counters.getColumn(ByteBufferUtil.bytes("n")), 1, local.context));
        PartitionUpdate update =
                PartitionUpdate.singleRowUpdate(
                        counters,
                        counters.partitioner.decorateKey(ByteBufferUtil.bytes(1)),
                        row.build());
        MigrateIn migration = migration(table, sstable(table, List.of(update)));
        assertThat(migration.takeStep()).isEqualTo(Migration.LATER);
        assertThat(attempts).isEmpty();
        assertThat(migration.state()).contains("has counts from before Cassandra 2.1");
    }

    /** It waits until the node is restarted, while the commit log keeps each write. */
    @Test
    void aMigrationThatWaitsForAFlushThatHasFailedSaysSoOnce() throws Exception {
        MigrateIn migration = migration(1, 1);
        View view = migration.cfs.getTracker().getView();
        Hollow.set(view, View.class, "liveMemtables", List.of(memtable(EngineMemtable.class)));
        Hollow.set(view, View.class, "flushingMemtables", List.of(memtable(Memtable.class)));
        TableMetrics metrics = Hollow.of(TableMetrics.class);
        Counter flushes = new Counter();
        Hollow.set(metrics, TableMetrics.class, "pendingFlushes", flushes);
        Hollow.set(migration.cfs, ColumnFamilyStore.class, "metric", metrics);
        try (CapturedLog log = new CapturedLog(MigrateIn.class, Level.ERROR)) {
            flushes.inc();
            while (Duration.ZERO.equals(migration.step())) assertThat(attempts).hasSize(1);
            assertThat(migration.state()).isEqualTo("waiting for the flush of the former memtable");
            assertThat(log.messages()).isEmpty();
            flushes.dec();
            for (int time = 0; time < 2; time++)
                assertThat(migration.step()).isEqualTo(Migration.SOON);
            assertThat(log.messages()).hasSize(1);
        }
        assertThat(migration.state())
                .startsWith("waiting: a flush of the table has failed")
                .contains("restart the node");
        // Its last reference went with the migration.
        sstable = null;
    }

    private static <T extends Memtable> T memtable(Class<T> type) {
        return proxy(
                type,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "departure" -> 0L;
                            case "equals" -> self == arguments[0];
                            case "hashCode" -> 1;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }

    /** Their SSTables come back with it, and a purge meanwhile would bring deleted rows back. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aMigrationDoesNotEndWhileADiskOfTheTableHasFailed(boolean hasId) throws Exception {
        TableMetadata table =
                TestTables.table("CREATE TABLE on_a_failed_disk (p int PRIMARY KEY, v int)");
        Config config = DatabaseDescriptor.getRawConfig();
        String[] usual = config.data_file_directories;
        // Cassandra knows SSTables by where links lead.
        Path disk = Files.createDirectories(temp.resolve("disk")).toRealPath();
        Path link = Files.createSymbolicLink(temp.resolve("link"), disk);
        config.data_file_directories = new String[] {link.toString()};
        try {
            MigrateIn migration = migration(TableMetadataRef.forOfflineTools(table), sstable(1, 1));
            // Cassandra before 2.1 made directories without an ID.
            String name = hasId ? table.getTableDirectoryName() : table.name;
            Path directory = disk.resolve(table.keyspace).resolve(name);
            DisallowedDirectories.maybeMarkUnreadable(
                    new File(directory.resolve("nb-1-big-Data.db")));
            while (Duration.ZERO.equals(migration.step())) assertThat(attempts).hasSize(1);
            assertThat(migration.state()).startsWith("waiting: the disk of a data directory");
            // Nor does TRUNCATE come through, which must say why, and what is to be done.
            Migrations.begin(migration);
            assertThat(Truncation.isMigrating("ks.t", Migrations.state(migration.stores)))
                    .hasMessageContaining("waiting: the disk of a data directory")
                    .hasMessageContaining("restart the node when it is repaired or replaced");
            // Its last reference went with the migration.
            sstable = null;
        } finally {
            config.data_file_directories = usual;
        }
    }

    /** Nobody waited for them when the table was altered out and back. */
    @Test
    void aMigrationDoesNotEndBeforeTheWritesOfAFormerShadowHave() throws Exception {
        MigrateIn migration = migration(1, 1);
        migration.stores.writtenUntil(() -> false);
        while (Duration.ZERO.equals(migration.step())) assertThat(attempts).hasSize(1);
        assertThat(migration.step()).isEqualTo(Migration.SOON);
        assertThat(migration.state()).startsWith("waiting for writes to the former shadow");
        assertThat(migration.stores.migration().isUnderWay()).isTrue();
        // Its last reference went with the migration.
        sstable = null;
    }

    @Test
    void otherMigrationsGoOnWhileADiskIsFull() throws Exception {
        MigrateIn refused = migration(3, 1);
        CountDownLatch isRefused = new CountDownLatch(1);
        CountDownLatch isOver = new CountDownLatch(1);
        Migration other =
                new Migration(refused.cfs, refused.stores, 0) {
                    @Override
                    @Nullable Duration step() {
                        if (isRefused.getCount() > 0) return Duration.ZERO;
                        isOver.countDown();
                        return null;
                    }

                    @Override
                    public String direction() {
                        return "out";
                    }

                    @Override
                    public long bytesLeft() {
                        return 0;
                    }
                };
        refusal =
                () -> {
                    isRefused.countDown();
                    return full;
                };
        Migrations.begin(refused);
        Migrations.begin(other);
        Migrations.start();
        isOver.await();
        assertThat(refused.state()).isEqualTo("waiting: " + full.getMessage());
        // As an ALTER back would.
        assertThat(refused.stores.migration().begin("rocks")).isEqualTo(2);
        while (Migrations.now().contains(refused) || Migrations.now().contains(other))
            Uninterruptibles.sleepUninterruptibly(Duration.ofMillis(10));
    }
}
