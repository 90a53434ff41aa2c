// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.format.KeyKind;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksIterator;

/** Where RocksDB compacts all there is, whatever range it is given, it is asked once. */
class WholeRunsTest extends PurgeFixture {
    private static final int RANGES = 8;
    private static final int KEYS = 2000;

    private void fill(String strategy) {
        table =
                TestTable.of(
                        "CREATE TABLE t (k int PRIMARY KEY, v text) WITH gc_grace_seconds = 3600"
                                + " AND compression = {'enabled': 'false'} AND compaction ="
                                + " {'class': '"
                                + strategy
                                + "'}");
        open();
        for (int k = 0; k < KEYS; k++)
            store.write(table.update(k).at(1).row().set("v", noise(k)).build());
        settle();
    }

    /** As many as were made, whether or not they are there still. */
    private long made() {
        return database().dataFiles().stream()
                .map(LiveFileMetaData::fileName)
                .mapToLong(name -> Long.parseLong(name.substring(1, name.indexOf('.'))))
                .max()
                .orElseThrow();
    }

    @ParameterizedTest
    @CsvSource({"LeveledCompactionStrategy, false", "UnifiedCompactionStrategy, true"})
    void aPurgeIsCutIntoSlicesOnlyWhereTheyAreCompactedAlone(String strategy, boolean whole) {
        fill(strategy);
        int files = files().size();
        assertThat(files).isGreaterThan(2);
        Purge purge = new Purge(Tables.context(store), held);
        assertThat(purge.bounds(database(), null, 1)).hasSize(whole ? 0 : files);
    }

    /** The record would go with one slice, and they might have to stay in the next. */
    @Test
    void theRecordOfRangeTombstonesIsInOneSliceWithThem() {
        table =
                TestTable.of(
                        "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH"
                                + " gc_grace_seconds = 3600 AND compression = {'enabled': 'false'}"
                                + " AND compaction = {'class': 'LeveledCompactionStrategy'}");
        open();
        for (int k = 0; k < 3; k++) {
            for (int c = 0; c < 4_000; c++)
                store.write(
                        table.update(k)
                                .at(1)
                                .deleteRange(table.from(2 * c), table.to(2 * c))
                                .build());
            for (int c = 0; c < 500; c++)
                store.write(table.update(k).at(2).row(c).set("v", noise(c)).build());
        }
        settle();
        List<byte[]> bounds = new Purge(Tables.context(store), held).bounds(database(), null, 1);
        assertThat(bounds).isNotEmpty().hasSizeLessThan(files().size());
        try (RocksIterator it = database().db.newIterator(database().data)) {
            for (byte[] bound : bounds) {
                it.seek(bound);
                if (!it.isValid()) continue;
                byte[] record = DataFiles.recordKey(Tables.context(store), it.key());
                assertThat(record).isNotNull();
                assertThat(it.key()[record.length - 1]).isNotEqualTo((byte) KeyKind.RANGE);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"LeveledCompactionStrategy", "UnifiedCompactionStrategy"})
    void aCompactionOfRangesWritesEachFileOnce(String strategy) {
        fill(strategy);
        writesEachFileOnce(() -> store.compact(ranges()));
    }

    @ParameterizedTest
    @CsvSource({"LeveledCompactionStrategy", "UnifiedCompactionStrategy"})
    void aCleanupWritesEachFileOnce(String strategy) {
        fill(strategy);
        writesEachFileOnce(() -> store.retainRanges(ranges()));
    }

    private void writesEachFileOnce(Runnable what) {
        int files = files().size();
        long before = made();
        what.run();
        // Files at the ends of ranges are of two of them.
        assertThat(made() - before).isLessThan(2L * files + 3 * RANGES);
    }

    private static List<Range<Token>> ranges() {
        List<Range<Token>> ranges = new ArrayList<>();
        long step = Long.MAX_VALUE / RANGES * 2;
        for (int i = 0; i < RANGES; i++) {
            long from = Long.MIN_VALUE + 1 + i * step;
            ranges.add(new Range<>(TestTable.token(from), TestTable.token(from + step / 10 * 9)));
        }
        return ranges;
    }
}
