// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.db.DiskBoundaries;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.lifecycle.LifecycleNewTracker;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.index.SecondaryIndexManager;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.SSTableMultiWriter;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.SimpleSSTableMultiWriter;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.TimeUUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A migration out of an engine, whose store is on another disk, to SSTables on two. */
class MigrateOutDisksTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");
    private static final List<Integer> PARTITIONS = IntStream.range(0, 200).boxed().toList();

    static {
        // What throttles and shows compactions needs these.
        DatabaseDescriptor.setConcurrentCompactors(1);
        DatabaseDescriptor.setConcurrentValidations(1);
        DatabaseDescriptor.setConcurrentViewBuilders(1);
    }

    /** Only to be made hollow. */
    private static class Table extends ColumnFamilyStore {
        private DiskBoundaries boundaries;
        private List<SSTableReader> sstables;
        private int begun;

        @SuppressWarnings("unused") // there is none without
        Table(TableMetadataRef metadata) {
            super(null, "t", null, metadata, null, false, false, false);
        }

        @Override
        public DiskBoundaries getDiskBoundaries() {
            return boundaries;
        }

        @Override
        public Descriptor newSSTableDescriptor(File directory) {
            return new Descriptor(directory, "ks", "t", new SequenceBasedSSTableId(++begun));
        }

        @Override
        public SSTableMultiWriter createSSTableMultiWriter(
                Descriptor descriptor,
                long keyCount,
                long repairedAt,
                TimeUUID pendingRepair,
                boolean isTransient,
                SerializationHeader header,
                LifecycleNewTracker tracker) {
            return SimpleSSTableMultiWriter.create(
                    descriptor,
                    keyCount,
                    repairedAt,
                    pendingRepair,
                    isTransient,
                    metadata,
                    null,
                    0,
                    header,
                    List.of(),
                    tracker,
                    null);
        }

        @Override
        public void addSSTables(Collection<SSTableReader> added) {
            sstables.addAll(added);
        }
    }

    /** As large as an SSTable needs. */
    private static final class RoomyDisk extends Directories.DataDirectory {
        RoomyDisk(Path location) {
            super(location);
        }

        @Override
        public long getAvailableSpace() {
            return 1L << 40;
        }
    }

    @TempDir Path temp;

    private final StorageEngine engine =
            StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")));
    private final Table cfs = Hollow.of(Table.class);
    private final String[] configured = DatabaseDescriptor.getRawConfig().data_file_directories;
    private final List<Directories.DataDirectory> disks = new ArrayList<>();

    /** The table's directory on each. */
    private final List<Path> directories = new ArrayList<>();

    private MigrateOut migration;

    @BeforeEach
    void begin() throws IOException {
        // SSTables go by where links lead.
        Path root = temp.toRealPath();
        for (String disk : List.of("1", "2")) {
            disks.add(new RoomyDisk(root.resolve(disk)));
            directories.add(
                    Files.createDirectories(
                            root.resolve(disk)
                                    .resolve("ks")
                                    .resolve(StoreLocation.directoryNames(TABLE).get(0))));
        }
        DatabaseDescriptor.getRawConfig().data_file_directories =
                disks.stream().map(disk -> disk.location.path()).toArray(String[]::new);
        Directories all = Hollow.of(Directories.class);
        Hollow.set(
                all, Directories.class, "paths", disks.toArray(Directories.DataDirectory[]::new));
        Hollow.set(
                all,
                Directories.class,
                "dataPaths",
                directories.stream().map(File::new).toArray(File[]::new));
        SecondaryIndexManager indexes = Hollow.of(SecondaryIndexManager.class);
        Hollow.set(indexes, SecondaryIndexManager.class, "indexes", new ConcurrentHashMap<>());
        TableMetadataRef metadata = TableMetadataRef.forOfflineTools(TABLE);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", Tracker.newDummyTracker());
        Hollow.set(cfs, ColumnFamilyStore.class, "directories", all);
        Hollow.set(cfs, ColumnFamilyStore.class, "indexManager", indexes);
        cfs.boundaries = boundaries(disks);
        cfs.sstables = new ArrayList<>();
        Path store = Files.createDirectory(root.resolve("store"));
        TableGenerations stores =
                TableGenerations.open("t", metadata, () -> engine, List.of(store), Disk.REAL);
        for (int p : PARTITIONS) stores.current().writable().write(update(p));
        long number = stores.migration().begin("rocks");
        migration = new MigrateOut(cfs, stores, number, HollowMemtable.of(stores, number));
    }

    @AfterEach
    void end() {
        cfs.sstables.forEach(sstable -> sstable.selfRef().release());
        engine.close();
        DatabaseDescriptor.getRawConfig().data_file_directories = configured;
        DisallowedDirectories.clearUnwritableUnsafe();
    }

    /** Some rows, and some deletions. */
    private static PartitionUpdate update(int p) {
        PartitionUpdate.SimpleBuilder update =
                PartitionUpdate.simpleBuilder(TABLE, p)
                        .timestamp(5)
                        .nowInSec(FBUtilities.nowInSeconds());
        if (p % 10 == 0) update.delete();
        else update.row().add("v", p);
        return update.build();
    }

    /** One disk has half of the ring, or all of it if it is the only one. */
    private DiskBoundaries boundaries(List<Directories.DataDirectory> on) {
        PartitionPosition half = new Murmur3Partitioner.LongToken(0).maxKeyBound();
        PartitionPosition end = TABLE.partitioner.getMaximumToken().maxKeyBound();
        return new DiskBoundaries(
                cfs,
                on.toArray(Directories.DataDirectory[]::new),
                on.size() == 1 ? List.of(end) : List.of(half, end),
                -1,
                0);
    }

    private static Path directory(SSTableReader sstable) {
        return sstable.descriptor.directory.toPath();
    }

    private static List<Integer> partitions(SSTableReader sstable) {
        List<Integer> partitions = new ArrayList<>();
        try (ISSTableScanner scanner = sstable.getScanner()) {
            while (scanner.hasNext())
                try (UnfilteredRowIterator partition = scanner.next()) {
                    partitions.add(ByteBufferUtil.toInt(partition.partitionKey().getKey()));
                }
        }
        return partitions;
    }

    @Test
    void eachDiskGetsThePartitionsOfItsRange() {
        for (int disk = 0; disk < 2; disk++)
            assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
        assertThat(cfs.sstables).hasSize(2);
        List<Integer> all = new ArrayList<>();
        for (SSTableReader sstable : cfs.sstables)
            for (int p : partitions(sstable)) {
                Directories.DataDirectory disk =
                        cfs.boundaries.getCorrectDiskForKey(
                                cfs.decorateKey(ByteBufferUtil.bytes(p)));
                assertThat(directory(sstable)).isEqualTo(directories.get(disks.indexOf(disk)));
                all.add(p);
            }
        assertThat(all).containsExactlyInAnyOrderElementsOf(PARTITIONS);
    }

    /** The store has all of what was on it, until the migration is over. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void whatADiskThatIsLostHadGoesToTheOther(int steps) {
        for (int step = 0; step < steps; step++)
            assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
        lose(directories.get(1));
        cfs.boundaries = boundaries(disks.subList(0, 1));
        assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
        SSTableReader last = cfs.sstables.get(cfs.sstables.size() - 1);
        assertThat(directory(last)).isEqualTo(directories.get(0));
        assertThat(partitions(last)).containsExactlyInAnyOrderElementsOf(PARTITIONS);
    }

    /** It was not seen, since it had failed when the migration was resumed. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void whatADiskHadThatIsLostAtAStartGoesToTheOther(int steps) {
        for (int step = 0; step < steps; step++)
            assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
        lose(directories.get(1));
        cfs.boundaries = boundaries(disks.subList(0, 1));
        TableGenerations stores = migration.stores;
        long number = stores.migration().resume();
        migration = new MigrateOut(cfs, stores, number, HollowMemtable.of(stores, number));
        assertThat(migration.takeStep()).isEqualTo(Duration.ZERO);
        SSTableReader last = cfs.sstables.get(cfs.sstables.size() - 1);
        assertThat(directory(last)).isEqualTo(directories.get(0));
        assertThat(partitions(last)).containsExactlyInAnyOrderElementsOf(PARTITIONS);
    }

    /** As Cassandra does, with disk_failure_policy: best_effort. */
    private void lose(Path directory) {
        DisallowedDirectories.maybeMarkUnreadable(new File(directory));
        DisallowedDirectories.maybeMarkUnwritable(new File(directory));
        for (SSTableReader sstable : List.copyOf(cfs.sstables))
            if (directory(sstable).equals(directory)) {
                cfs.sstables.remove(sstable);
                sstable.selfRef().release();
            }
    }
}
