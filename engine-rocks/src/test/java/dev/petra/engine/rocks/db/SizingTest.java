// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;
import org.rocksdb.TableProperties;

/** The constants in the formulas of {@code docs/sizing.md}. */
class SizingTest {
    private static final double FILTER_BYTES_A_KEY = 1.25;
    private static final double INDEX_BYTES_A_BLOCK = 40;
    private static final double LIST_SHARE = 0.01;

    private static final int ROWS = 60_000;
    private static final int VALUE = 300;

    @TempDir Path directory;

    /** A table with one row in each partition: the filter knows the key and its prefix. */
    @Test
    void rowsThatArePartitions() throws RocksDBException {
        TableProperties file = file("CREATE TABLE t (k bigint PRIMARY KEY, v text)", ROWS, 1);
        assertThat((double) file.getFilterSize() / ROWS)
                .isBetween(0.85 * FILTER_BYTES_A_KEY, FILTER_BYTES_A_KEY);
        check(file, 8 + 45);
    }

    @Test
    void partitionsOfManyRows() throws RocksDBException {
        TableProperties file =
                file(
                        "CREATE TABLE t (k bigint, c bigint, v text, PRIMARY KEY (k, c))",
                        ROWS / 20,
                        20);
        // And one for each partition.
        assertThat((double) file.getFilterSize() / (ROWS + ROWS / 20))
                .isBetween(0.85 * FILTER_BYTES_A_KEY, FILTER_BYTES_A_KEY);
        check(file, 16 + 20);
    }

    /** Of an index that is cut into blocks, memory must have the list of these blocks at least. */
    @Test
    void theListOfTheBlocksOfACutIndex() throws RocksDBException {
        TableProperties file =
                file(
                        "CREATE TABLE t (k bigint PRIMARY KEY, v text)",
                        2 * ROWS,
                        1,
                        "block_based_table_factory={index_type=kTwoLevelIndexSearch;"
                                + "partition_filters=true;metadata_block_size=4096}");
        System.out.printf(
                "SizingTest: an index of %d B in %d blocks, their list %d B%n",
                file.getIndexSize(), file.getIndexPartitions(), file.getTopLevelIndexSize());
        assertThat(file.getIndexPartitions()).isGreaterThan(10);
        assertThat((double) file.getTopLevelIndexSize() / file.getIndexSize())
                .isLessThan(LIST_SHARE);
    }

    /**
     * @param bytes that a row takes at most, beside its value
     */
    private static void check(TableProperties file, int bytes) {
        System.out.printf(
                "SizingTest: filter %.2f B a row, index %.1f B a block, %.1f B a row beside its"
                        + " value, block %.0f B%n",
                (double) file.getFilterSize() / ROWS,
                (double) file.getIndexSize() / file.getNumDataBlocks(),
                (double) file.getDataSize() / ROWS - VALUE,
                (double) file.getDataSize() / file.getNumDataBlocks());
        assertThat((double) file.getIndexSize() / file.getNumDataBlocks())
                .isLessThan(INDEX_BYTES_A_BLOCK);
        assertThat((double) file.getDataSize() / ROWS - VALUE).isLessThan(bytes);
    }

    /** Of which values are pieces: to draw each letter of each takes longer than to write them. */
    private static String letters(Random random) {
        return random.ints(1 << 20, 33, 126)
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
    }

    private TableProperties file(String cql, int partitions, int rows) throws RocksDBException {
        return file(cql, partitions, rows, "");
    }

    private TableProperties file(String cql, int partitions, int rows, String options)
            throws RocksDBException {
        TestTable table = TestTable.of(cql + " WITH compression = {'class': 'NoopCompressor'}");
        try (StorageEngine engine =
                        Tables.engine(
                                options.isEmpty() ? Map.of() : Map.of("rocksdb_options", options));
                TableStore store = engine.openStore(table.spec(directory.resolve("1")))) {
            Random random = new Random(1);
            String letters = letters(random);
            for (long k = 0; k < partitions; k++)
                for (long c = 0; c < rows; c++) {
                    var update = table.update(k).at(1_700_000_000_000_000L + k);
                    int at = random.nextInt(letters.length() - VALUE);
                    String value = letters.substring(at, at + VALUE);
                    store.write((rows == 1 ? update.row() : update.row(c)).set("v", value).build());
                }
            store.compact(List.of());
            Database database = Tables.context(store).acquire();
            try {
                var files = database.db.getPropertiesOfAllTables(database.data);
                assertThat(files).hasSize(1);
                return files.values().iterator().next();
            } finally {
                database.release(Database.stripe());
            }
        }
    }
}
