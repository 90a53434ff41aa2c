// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.PurgeProgress.Phase;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Logged;
import dev.petra.engine.rocks.SmallDisk;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.Lock;
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
            fill(1);
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
            fill(1);
            long free = Files.getFileStore(disk.directory()).getUsableSpace();
            long left = sum(files()) / 2;
            try (UnfinishedMerges.Taken other =
                    UnfinishedMerges.begin(disk.directory(), free - left)) {
                purgeAll();
                assertThat(entries()).isGreaterThanOrEqualTo(KEYS);
            }
            purgeAll();
            assertThat(entries()).isEqualTo(KEYS - DELETED);
        }
    }

    /** One that has looked, and not begun, has its room already. */
    @Test
    void twoTablesDoNotFindTheSameRoom() throws IOException, RocksDBException {
        try (SmallDisk disk = SmallDisk.mount(directory, "96m")) {
            fill(1);
            DataFiles first = held;
            Database database = database();
            List<String> files = List.copyOf(files().keySet());
            fill(2);
            List<String> others = List.copyOf(files().keySet());
            fillDisk(disk.directory().resolve("other"), sum(files()) * 11 / 10);
            try (UnfinishedMerges.Taken room = first.reserve(database, files)) {
                assertThat(room).isNotNull();
                List<String> logged =
                        Logged.by(
                                DataFiles.class,
                                () -> {
                                    try {
                                        assertThat(held.reserve(database(), others)).isNull();
                                    } catch (RocksDBException e) {
                                        throw new AssertionError(e);
                                    }
                                });
                // There is nothing to be done about it.
                assertThat(logged).singleElement().asString().doesNotContain("Free space");
            }
            try (UnfinishedMerges.Taken room = held.reserve(database(), others)) {
                assertThat(room).isNotNull();
            }
        }
    }

    /** The sweep behind it may take hours, in which merges of other tables found no room. */
    @Test
    void itsRoomIsFreeOnceAllIsRewritten() throws Exception {
        fill(1);
        for (int time = 3; time < 5; time++)
            store.write(
                    table.update(KEYS)
                            .at(time)
                            .row()
                            .set("v", Integer.toString(time).repeat(1 << 20))
                            .build());
        StoreContext context = Tables.context(store);
        // As if one had been cut short, which goes on.
        context.catalog().setPurge("1 00");
        mayPurge.set(true);
        Purge purge = new Purge(context, held);
        CompletableFuture<Void> purging;
        // The sweep waits at its first cell, to which no row refers.
        Lock writing = context.largeCells().writing(table.key(KEYS));
        writing.lock();
        try {
            purging =
                    CompletableFuture.runAsync(
                            () -> {
                                try {
                                    purge.run(database(), true);
                                } catch (RocksDBException e) {
                                    throw new AssertionError(e);
                                }
                            });
            Tables.await("the sweep", () -> purge.progress().phase() == Phase.SWEEPING);
            assertThat(UnfinishedMerges.on(Files.getFileStore(directory))).isZero();
        } finally {
            writing.unlock();
        }
        purging.get();
        assertThat(entries()).isEqualTo(KEYS - DELETED + 1);
    }

    private void fill(int generation) {
        table =
                TestTable.of(
                        "CREATE TABLE t (k int PRIMARY KEY, v text) WITH gc_grace_seconds = 3600"
                                + " AND compression = {'enabled': 'false'} AND compaction ="
                                + " {'class': 'UnifiedCompactionStrategy'}");
        open(generation);
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
