// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.collect.AbstractIterator;
import dev.petra.cassandra.TestTables;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.AbstractUnfilteredRowIterator;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

class PartitionSampleTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v blob, PRIMARY KEY (p, c))");
    private static final ColumnMetadata VALUE = TABLE.getColumn(ByteBufferUtil.bytes("v"));

    private static final long MIB = 1 << 20;

    /** What was read of the rows' values. */
    private long read;

    private final List<Range<Token>> estimated = new ArrayList<>();

    /** A store each of whose partitions has so many rows of so many bytes. */
    private TableStore store(int rows, int rowBytes, long onDisk) {
        ByteBuffer value = ByteBuffer.allocate(rowBytes);
        return (TableStore)
                Proxy.newProxyInstance(
                        TableStore.class.getClassLoader(),
                        new Class<?>[] {TableStore.class},
                        (proxy, method, arguments) ->
                                switch (method.getName()) {
                                    case "spec" ->
                                            new StoreSpec(
                                                    Path.of("t"),
                                                    "t",
                                                    1,
                                                    TableMetadataRef.forOfflineTools(TABLE),
                                                    () -> false,
                                                    () -> true);
                                    case "scan" ->
                                            new SingletonUnfilteredPartitionIterator(
                                                    partition(
                                                            (DataRange) arguments[0], rows, value));
                                    case "estimate" -> {
                                        @SuppressWarnings("unchecked") // As declared.
                                        Range<Token> range = (Range<Token>) arguments[0];
                                        estimated.add(range);
                                        yield new RangeEstimate(1, onDisk);
                                    }
                                    default -> throw new UnsupportedOperationException();
                                });
    }

    private AbstractUnfilteredRowIterator partition(DataRange range, int rows, ByteBuffer value) {
        DecoratedKey key = TABLE.partitioner.decorateKey(ByteBufferUtil.bytes(range.hashCode()));
        Iterator<Unfiltered> all =
                new AbstractIterator<>() {
                    private int next;

                    @Override
                    protected Unfiltered computeNext() {
                        if (next == rows) return endOfData();
                        read += value.remaining();
                        Row.Builder row = BTreeRow.unsortedBuilder();
                        row.newRow(Clustering.make(ByteBufferUtil.bytes(next++)));
                        row.addCell(BufferCell.live(VALUE, 1, value));
                        return row.build();
                    }
                };
        return new AbstractUnfilteredRowIterator(
                TABLE,
                key,
                DeletionTime.LIVE,
                TABLE.regularAndStaticColumns(),
                Rows.EMPTY_STATIC_ROW,
                false,
                EncodingStats.NO_STATS) {
            @Override
            protected Unfiltered computeNext() {
                return all.hasNext() ? all.next() : endOfData();
            }
        };
    }

    @Test
    void smallPartitionsAreReadWhole() {
        PartitionSample sample = PartitionSample.of(store(10, 100, 0));
        assertThat(sample.sizes().count()).isEqualTo(64);
        assertThat(sample.sizes().max()).isBetween(1_000L, 1_700L);
        assertThat(sample.cells().max()).isBetween(10L, 12L);
        assertThat(estimated).isEmpty();
    }

    /** They took 640 MB for each table, every ten minutes. */
    @Test
    void ofWidePartitionsAFewMebibytesAreRead() {
        PartitionSample sample = PartitionSample.of(store(1_000_000, 1_000, 500 * MIB));
        assertThat(read).isBetween(3 * MIB, 6 * MIB);
        assertThat(sample.sizes().count()).isBetween(10L, 20L);
        // In histograms, whose classes are a fifth wide.
        assertThat(sample.sizes().max()).isBetween(500 * MIB, 600 * MIB);
        assertThat(sample.cells().max()).isBetween(500_000L, 650_000L);
        for (Range<Token> range : estimated) assertThat(range.left).isLessThan(range.right);
    }

    @Test
    void ofLargeValuesAFewAreRead() {
        PartitionSample sample = PartitionSample.of(store(1_000, (int) (3 * MIB), 3_000 * MIB));
        assertThat(read).isLessThanOrEqualTo(6 * MIB);
        // One is more than is read of a partition, and where others lie is not well known.
        assertThat(sample.sizes().max()).isBetween(3 * MIB, 4 * MIB);
        assertThat(estimated).isEmpty();
    }

    /** As where they were written just now, and compress well. */
    @Test
    void anEstimateDoesNotMakeAPartitionSmallerThanWhatWasRead() {
        PartitionSample sample = PartitionSample.of(store(1_000, 1_000, 1));
        assertThat(sample.sizes().min()).isGreaterThan(200_000L);
    }
}
