// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.shadow.PromotedShadow;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.db.DiskBoundaries;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a migration out of an engine does before it writes anything, and where it writes. */
class MigrateOutTest {
    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final TableMetadataRef metadata = TestTables.reference();
    @TempDir Path table;

    MigrateOutTest() {
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", Tracker.newDummyTracker());
    }

    /**
     * That of a table whose way out began at a later attempt than with the ALTER stayed until the
     * next ALTER or restart.
     */
    @Test
    void aShadowThatHasBecomeTheStoreEndsWithTheFirstStep() {
        TableGenerations stores = TestTables.withoutEngine(metadata, table);
        MigrateOut altered = out(stores);
        MigrateOut present = out(stores);
        try (PromotedShadow shadow = new PromotedShadow(cfs)) {
            // It was altered back, and that migration has the shadow.
            assertThat(altered.takeStep()).isNull();
            assertThat(shadow.isOver()).isFalse();

            assertThat(present.takeStep()).isEqualTo(Migration.SOON);
            assertThat(shadow.isOver()).isTrue();
        }
    }

    /** Until the last write to the engine had ended it was not shown, as if it were over. */
    @Test
    void aTableIsShownAsLeavingBeforeItsMigrationIsThere() {
        TableGenerations stores = TestTables.withoutEngine(metadata, table);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        TableRegistry.put(cfs, stores);
        try {
            cfs.getTracker().reset(HollowMemtable.of(stores, 0));
            assertThat(isLeaving()).isFalse();
            MigrateOut migration = out(stores);
            cfs.getTracker().reset(HollowMemtable.of(stores, migration.number));
            assertThat(isLeaving()).isTrue();
            cfs.getTracker().switchMemtable(false, HollowMemtable.of(stores, 0));
            assertThat(isLeaving()).as("altered back, with writes of before").isFalse();
            cfs.getTracker().reset(HollowMemtable.of(stores, migration.number));
            Migrations.begin(migration);
            assertThat(isLeaving()).as("besides its migration").isFalse();
            // It ends with its next step, as by an ALTER back.
            assertThat(stores.migration().begin("rocks")).isEqualTo(2);
        } finally {
            TableRegistry.remove(cfs);
        }
    }

    private boolean isLeaving() {
        List<ColumnFamilyStore> leaving = new ArrayList<>();
        TableLifecycle.forEachLeaving((each, generation) -> leaving.add(each));
        return leaving.contains(cfs);
    }

    private static Directories.DataDirectory[] disks(Path... directories) {
        return Stream.of(directories)
                .map(directory -> new Directories.DataDirectory(directory))
                .toArray(Directories.DataDirectory[]::new);
    }

    /** A disk that is lost would take deletions, and leave what they hide (CASSANDRA-6696). */
    @Test
    void noSSTableIsOfTwoDisks() {
        IPartitioner partitioner = metadata.get().partitioner;
        PartitionPosition end = partitioner.getMinimumToken().minKeyBound();
        List<PartitionPosition> positions =
                List.of(
                        new Murmur3Partitioner.LongToken(-1L << 62).maxKeyBound(),
                        new Murmur3Partitioner.LongToken(1L << 61).maxKeyBound(),
                        partitioner.getMaximumToken().maxKeyBound());
        DiskBoundaries boundaries =
                new DiskBoundaries(
                        cfs,
                        disks(table.resolve("1"), table.resolve("2"), table.resolve("3")),
                        positions,
                        -1,
                        0);
        for (int begin = 0; begin < 20; begin++) {
            PartitionPosition after = begin == 0 ? end : key(partitioner, begin);
            List<MigrateOut.Part> parts = MigrateOut.parts(after, end, boundaries);
            for (int k = 0; k < 1_000; k++) {
                DecoratedKey key = key(partitioner, k);
                List<Directories.DataDirectory> found =
                        parts.stream()
                                .filter(part -> part.range().contains(key))
                                .map(MigrateOut.Part::disk)
                                .toList();
                if (key.compareTo(after) <= 0) assertThat(found).isEmpty();
                else assertThat(found).containsExactly(boundaries.getCorrectDiskForKey(key));
            }
            // What is behind the last partition that was written is all that is left.
            PartitionPosition behind = after;
            for (MigrateOut.Part part : parts) {
                AbstractBounds<PartitionPosition> keys = part.range().keyRange();
                assertThat(keys.left).isEqualTo(behind);
                behind = keys.right;
            }
            assertThat(behind).isEqualTo(end);
        }
    }

    private static DecoratedKey key(IPartitioner partitioner, int key) {
        return partitioner.decorateKey(ByteBufferUtil.bytes(key));
    }

    /** As before a node has joined, or with a partitioner that does not split its ring. */
    @Test
    void withoutBoundariesAnyDiskWillDo() {
        PartitionPosition end = metadata.get().partitioner.getMinimumToken().minKeyBound();
        DiskBoundaries none = new DiskBoundaries(cfs, disks(table), 0);
        List<MigrateOut.Part> parts = MigrateOut.parts(end, end, none);
        assertThat(parts).hasSize(1);
        assertThat(parts.get(0).disk()).isNull();
        assertThat(parts.get(0).range().contains(key(metadata.get().partitioner, 1))).isTrue();
    }

    @Test
    void anSSTableGoesToItsDiskUnlessThatTakesNone() throws IOException {
        Path[] data = {table.resolve("1"), table.resolve("2")};
        Directories.DataDirectory[] disks = disks(data);
        File[] own = new File[data.length];
        for (int i = 0; i < data.length; i++)
            own[i] = new File(Files.createDirectories(data[i].resolve("ks/t")));
        Directories directories = Hollow.of(Directories.class);
        Hollow.set(directories, Directories.class, "paths", disks);
        Hollow.set(directories, Directories.class, "dataPaths", own);
        for (int i = 0; i < data.length; i++)
            assertThat(MigrateOut.directory(directories, disks[i], 1)).isEqualTo(own[i]);
        Directories.DataDirectory full =
                new Directories.DataDirectory(data[1]) {
                    @Override
                    public long getAvailableSpace() {
                        return 0;
                    }
                };
        Directories.DataDirectory[] oneIsFull = {disks[0], full};
        Hollow.set(directories, Directories.class, "paths", oneIsFull);
        // What is left is told in another unit than what is done, and is 0 long before the end.
        for (int i = 0; i < 10; i++)
            assertThat(MigrateOut.directory(directories, full, 0)).isEqualTo(own[0]);
        Hollow.set(directories, Directories.class, "paths", disks);
        DisallowedDirectories.maybeMarkUnwritable(own[1]);
        try {
            assertThat(MigrateOut.directory(directories, disks[1], 1)).isEqualTo(own[0]);
            assertThat(MigrateOut.directory(directories, null, 1)).isEqualTo(own[0]);
        } finally {
            DisallowedDirectories.clearUnwritableUnsafe();
        }
    }

    /** One that waits for the build of an index. */
    private MigrateOut out(TableGenerations stores) {
        long number = stores.migration().begin("rocks");
        MigrateOut migration =
                new MigrateOut(cfs, stores, number, HollowMemtable.of(stores, number));
        Build build = new Build();
        Hollow.set(build, Build.class, "running", new CompletableFuture<Void>());
        Hollow.set(migration, MigrateOut.class, "build", build);
        return migration;
    }
}
