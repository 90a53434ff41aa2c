// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.math.BigDecimal;
import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.junit.jupiter.api.Test;
import org.rocksdb.RocksDBException;

/**
 * A row that was purged, and is written again, has the bytes of its clustering that were written.
 */
class RemainsTest extends PurgeFixture {
    private static final BigDecimal WRITTEN = new BigDecimal("1.00");

    RemainsTest() {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, c decimal, v text, PRIMARY KEY (k, c)) WITH"
                                + " gc_grace_seconds = 3600 AND compaction = {'class':"
                                + " 'LeveledCompactionStrategy'}");
    }

    private void write(int timestamp, String value) {
        store.write(table.update("k").at(timestamp).row(WRITTEN).set("v", value).build());
    }

    private BigDecimal read() {
        try (UnfilteredRowIterator rows =
                store.read(table.key("k"), Slices.ALL, table.all(), false)) {
            Clustering<?> clustering = ((Row) rows.next()).clustering();
            return DecimalType.instance.compose(clustering.bufferAt(0));
        }
    }

    @Test
    void aRowThatIsWrittenAgainHasItsOwnBytes() throws RocksDBException {
        open();
        write(1, "old");
        settle();
        store.write(table.update("k").at(2).now(UpdateBuilder.LONG_AGO).deleteRow(WRITTEN).build());
        store.flush();
        assertThat(purge()).isTrue();
        assertThat(entries()).as("what is left of it").isEqualTo(1);

        write(3, "new");
        assertThat(read()).isEqualTo(WRITTEN);
        store.flush();
        assertThat(read()).isEqualTo(WRITTEN);
        store.compact(List.of());
        assertThat(read()).isEqualTo(WRITTEN);
    }
}
