// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.nio.file.Path;
import java.util.Map;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.utils.FBUtilities;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * A table that is used as a queue needs the room of what waits in it and of what was taken out
 * within {@code gc_grace_seconds} and {@code purge_interval}, however long it is used: both are a
 * second here, so an hour of a real queue is some seconds.
 */
@Tag("slow")
class QueueSpaceTest {
    /** {@code -Dpetra.queue.hours=24} for a day. */
    private static final int HOURS = Integer.getInteger("petra.queue.hours", 2);

    private static final int AN_HOUR = 5_000;
    private static final int WAITING = 100;
    private static final String VALUE = "v".repeat(200);

    /** Of what an hour writes: rows and their deletions. */
    private static final long BYTES_OF_AN_HOUR = AN_HOUR * (VALUE.length() + 100L);

    @TempDir Path directory;

    @ParameterizedTest
    @ValueSource(
            strings = {
                "LeveledCompactionStrategy",
                "SizeTieredCompactionStrategy",
                "UnifiedCompactionStrategy"
            })
    void whatWasTakenOutLeavesNoRoomBehind(String strategy) throws RocksDBException {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH"
                                + " gc_grace_seconds = 1 AND compression = {'enabled': 'false'}"
                                + " AND compaction = {'class': '"
                                + strategy
                                + "'}");
        try (StorageEngine engine =
                Tables.engine(
                        Map.of(
                                "memory", "32MiB",
                                "purge_interval", "1s",
                                // Flushed several times an hour.
                                "write_buffer", "256KiB"))) {
            TableStore queue = engine.openStore(table.spec(directory.resolve("1")));
            Database database = Tables.context(queue).database();
            int next = 0;
            long peak = 0;
            for (int hour = 0; hour < HOURS; hour++) {
                for (int i = 0; i < AN_HOUR; i++, next++) {
                    queue.write(table.update(1).at(2L * next).row(next).set("v", VALUE).build());
                    if (next < WAITING) continue;
                    int head = next - WAITING;
                    queue.write(
                            table.update(1)
                                    .at(2L * head + 1)
                                    .now(FBUtilities.nowInSeconds())
                                    .deleteRow(head)
                                    .build());
                    if (next % 100 == 0) peak = Math.max(peak, bytes(database));
                }
                peak = Math.max(peak, bytes(database));
                int most = AN_HOUR * VALUE.length() / 10;
                Tables.await(
                        "the room of hour " + hour,
                        () -> entries(database) <= WAITING && bytes(database) < most);
                PartitionContent waiting =
                        PartitionContent.of(
                                queue.read(table.key(1), Slices.ALL, table.all(), false));
                assertThat(waiting).isNotNull();
                assertThat(waiting.rows()).hasSize(WAITING);
            }
            System.out.printf(
                    "QueueSpaceTest: %s, %d hours of %,d bytes: data files had at most %,d bytes%n",
                    strategy, HOURS, BYTES_OF_AN_HOUR, peak);
            assertThat(peak).isLessThan(2 * BYTES_OF_AN_HOUR);
        }
    }

    /** What a reader at the head steps over, and what waits. */
    private static int entries(Database database) {
        int entries = 0;
        try (RocksIterator it = database.db.newIterator(database.data)) {
            for (it.seekToFirst(); it.isValid(); it.next()) entries++;
        }
        return entries;
    }

    private static long bytes(Database database) {
        return database.dataFiles().stream().mapToLong(LiveFileMetaData::size).sum();
    }
}
