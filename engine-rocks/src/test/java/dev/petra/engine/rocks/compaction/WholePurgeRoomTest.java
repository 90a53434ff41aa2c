// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.SmallDisk;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.cassandra.utils.FBUtilities;
import org.junit.jupiter.api.Test;
import org.rocksdb.RocksDBException;

/**
 * Where RocksDB merges all there is, a purge of all needs room for all, and nobody has asked for
 * it: on a disk without it, it would fill the disk for all tables and the commit log.
 */
class WholePurgeRoomTest extends PurgeFixture {
    private static final int KEYS = 20_000;
    private static final int DELETED = KEYS / 5;

    @Test
    void aTableIsPurgedInTheBackgroundOnceThereIsRoomForIt() throws IOException, RocksDBException {
        try (SmallDisk disk = SmallDisk.mount(directory, "96m")) {
            fill();
            Path other = disk.directory().resolve("other");
            fillDisk(other, sum(files()) / 2);
            purgeAll();
            // Those of the deleted partitions are still there.
            assertThat(entries()).isGreaterThanOrEqualTo(KEYS);
            Files.delete(other);
            purgeAll();
            assertThat(entries()).isEqualTo(KEYS - DELETED);
        }
    }

    /** Each alone would find room for itself. */
    @Test
    @SuppressWarnings("try") // the merge is counted, not used
    void aTableIsNotPurgedIntoTheRoomThatAMergeOfAnotherTakes()
            throws IOException, RocksDBException {
        try (SmallDisk disk = SmallDisk.mount(directory, "96m")) {
            fill();
            long free = Files.getFileStore(disk.directory()).getUsableSpace();
            long left = sum(files()) / 2;
            try (UnfinishedMerges.OfFiles other =
                    UnfinishedMerges.begin(disk.directory(), free - left)) {
                purgeAll();
                assertThat(entries()).isGreaterThanOrEqualTo(KEYS);
            }
            purgeAll();
            assertThat(entries()).isEqualTo(KEYS - DELETED);
        }
    }

    private void fill() {
        table =
                TestTable.of(
                        "CREATE TABLE t (k int PRIMARY KEY, v text) WITH gc_grace_seconds = 3600"
                                + " AND compression = {'enabled': 'false'} AND compaction ="
                                + " {'class': 'UnifiedCompactionStrategy'}");
        open();
        for (int k = 0; k < KEYS; k++)
            store.write(table.update(k).at(1).row().set("v", noise(k)).build());
        long aYearAgo = FBUtilities.nowInSeconds() - 365L * 24 * 3600;
        for (int k = 0; k < DELETED; k++)
            store.write(table.update(k).at(2).now(aYearAgo).deletePartition().build());
        settle();
    }

    /** Leaves so many bytes. */
    private static void fillDisk(Path file, long left) throws IOException {
        long free = Files.getFileStore(file.getParent()).getUsableSpace();
        Files.write(file, new byte[Math.toIntExact(free - left)]);
    }

    /** In the background, as if the last one were long ago. */
    private void purgeAll() throws RocksDBException {
        Tables.context(store).catalog().setPurge("1");
        mayPurge.set(true);
        new Purge(Tables.context(store), held).run(database(), true);
    }
}
