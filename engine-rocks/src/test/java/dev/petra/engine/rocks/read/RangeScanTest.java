// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.PerfContext;
import org.rocksdb.PerfLevel;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

class RangeScanTest {
    private static final int PARTITIONS = 20_000;

    @TempDir Path directory;

    /** RocksDB steps over every deleted key on its way to the next one that is there. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aScanReadsNothingBehindItsEnd(boolean largeCells) throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k int PRIMARY KEY, v text)");
        try (StorageEngine engine = Tables.engine(Map.of("large_cell", "1KiB"))) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            List<DecoratedKey> keys = new ArrayList<>();
            IntStream.range(0, PARTITIONS).forEach(k -> keys.add(table.key(k)));
            keys.sort(Comparator.naturalOrder());
            String value = "v".repeat(largeCells ? 2_000 : 1);
            for (int k = 0; k < PARTITIONS; k++)
                store.write(table.update(k).at(1).row().set("v", value).build());
            Database database = Tables.context(store).database();
            deleteBehindTheFirst(database, 10);
            database.db.setPerfLevel(PerfLevel.ENABLE_COUNT);
            PerfContext counts = database.db.getPerfContext();
            DataRange first =
                    DataRange.forTokenRange(
                            new Range<>(
                                    table.metadata().partitioner.getMinimumToken(),
                                    keys.get(9).getToken()));
            counts.reset();
            assertThat(partitions(store.scan(first, table.all()))).isEqualTo(10);
            assertThat(counts.getInternalDeleteSkippedCount()).isLessThan(10);
        }
    }

    /** A validation had a cursor for each of 256 ranges, each on blocks of its own. */
    @Test
    void aScanOfManyRangesIsOfOneMomentAndReadsOneRangeAtATime() throws RocksDBException {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k int PRIMARY KEY, v text) WITH compression = {'enabled':"
                                + " 'false'}");
        try (StorageEngine engine = Tables.engine(Map.of())) {
            TableStore filled = engine.openStore(table.spec(directory.resolve("t")));
            List<DecoratedKey> keys = new ArrayList<>();
            IntStream.range(0, 2_000).forEach(k -> keys.add(table.key(k)));
            keys.sort(Comparator.naturalOrder());
            for (DecoratedKey key : keys)
                filled.write(table.update(key).at(1).row().set("v", "v".repeat(1_000)).build());
            filled.flush();
            filled.close();
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            List<Range<Token>> ranges = new ArrayList<>();
            List<DecoratedKey> wanted = new ArrayList<>();
            for (int i = 0; i < 2_000; i += 20) {
                ranges.add(new Range<>(keys.get(i + 4).getToken(), keys.get(i + 9).getToken()));
                wanted.addAll(keys.subList(i + 5, i + 10));
            }
            Database database = Tables.context(store).database();
            database.db.setPerfLevel(PerfLevel.ENABLE_COUNT);
            PerfContext counts = database.db.getPerfContext();
            counts.reset();
            List<DecoratedKey> seen = new ArrayList<>();
            try (UnfilteredPartitionIterator scan =
                    store.scanAside(ranges, table.all(), () -> {})) {
                assertThat(scan.hasNext()).isTrue();
                assertThat(counts.getBlockReadCount()).isBetween(1L, 20L);
                DecoratedKey last = wanted.get(wanted.size() - 1);
                store.write(table.update(last).at(2).row().set("v", "new").build());
                while (scan.hasNext())
                    try (UnfilteredRowIterator rows = scan.next()) {
                        seen.add(rows.partitionKey());
                        Row row = (Row) rows.next();
                        assertThat(row.cells().iterator().next().valueSize()).isEqualTo(1_000);
                    }
            }
            assertThat(seen).isEqualTo(wanted);
            assertThat(partitions(store.scanAside(List.of(), table.all(), () -> {}))).isZero();
        }
    }

    /** What a purge leaves of partitions until their files are compacted. */
    private static void deleteBehindTheFirst(Database database, int first) throws RocksDBException {
        int count = 0;
        try (RocksIterator it = database.db.newIterator(database.data, database.readOptions)) {
            for (it.seekToFirst(); it.isValid(); it.next())
                if (count++ >= first) database.db.delete(database.data, it.key());
        }
        assertThat(count).isEqualTo(PARTITIONS);
    }

    private static int partitions(UnfilteredPartitionIterator partitions) {
        int count = 0;
        try (partitions) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator rows = partitions.next()) {
                    while (rows.hasNext()) rows.next();
                    count++;
                }
        }
        return count;
    }
}
