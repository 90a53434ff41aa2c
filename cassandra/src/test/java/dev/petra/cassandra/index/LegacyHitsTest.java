// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static dev.petra.cassandra.Hollow.proxy;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermIndexes;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.exceptions.QueryCancelledException;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.index.internal.composites.RegularColumnIndex;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

class LegacyHitsTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c))");

    /** As Cassandra makes it for an index on {@code v}. */
    private static final TableMetadata HIDDEN =
            TestTables.table("CREATE TABLE h (v int, p blob, c int, PRIMARY KEY (v, p, c))");

    /** Several batches of them, of one partition. */
    private static final int ENTRIES = 20_000;

    private static final DecoratedKey KEY = TABLE.partitioner.decorateKey(ByteBufferUtil.bytes(1));

    private int reads;

    private static ColumnFamilyStore cfs(TableMetadata table) {
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(
                cfs, ColumnFamilyStore.class, "metadata", TableMetadataRef.forOfflineTools(table));
        return cfs;
    }

    private static CassandraIndex index() {
        CassandraIndex index = Hollow.of(RegularColumnIndex.class);
        Hollow.set(index, CassandraIndex.class, "baseCfs", cfs(TABLE));
        Hollow.set(index, CassandraIndex.class, "indexCfs", cfs(HIDDEN));
        ColumnMetadata column = TABLE.getColumn(ByteBufferUtil.bytes("v"));
        Hollow.set(index, CassandraIndex.class, "indexedColumn", column);
        Hollow.set(
                index,
                CassandraIndex.class,
                "metadata",
                IndexMetadata.fromSchemaMetadata(
                        "t_v", IndexMetadata.Kind.COMPOSITES, Map.of("target", "v")));
        return index;
    }

    private TableStore store() {
        TermIndexes indexes =
                proxy(
                        TermIndexes.class,
                        (self, method, arguments) ->
                                switch (method.getName()) {
                                    case "scan" -> cursor();
                                    case "incarnation" -> 1L;
                                    default ->
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                });
        return proxy(TableStore.class, (self, method, arguments) -> indexes);
    }

    private TermCursor cursor() {
        reads++;
        int[] row = new int[1];
        return proxy(
                TermCursor.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "seek" -> {
                                if (arguments[2] instanceof Clustering<?> from)
                                    row[0] = ByteBufferUtil.toInt(from.bufferAt(0));
                                yield true;
                            }
                            case "next" -> ++row[0] < ENTRIES;
                            case "key" -> KEY;
                            case "clustering" -> Clustering.make(ByteBufferUtil.bytes(row[0]));
                            case "close" -> null;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }

    private UnfilteredRowIterator hits(ReadCommand command) {
        ByteBuffer value = ByteBufferUtil.bytes(7);
        DecoratedKey term = HIDDEN.partitioner.decorateKey(value);
        return new LegacyHits(
                new IndexUse(index(), store(), 1),
                term,
                command,
                UnfilteredRowIterators.noRowsIterator(
                        HIDDEN, term, Rows.EMPTY_STATIC_ROW, DeletionTime.LIVE, false));
    }

    @Test
    void eachEntryIsFoundOnce() {
        try (UnfilteredRowIterator hits = hits(PartitionRangeReadCommand.allDataRead(TABLE, 1))) {
            int found = 0;
            for (; hits.hasNext(); hits.next()) found++;
            assertThat(found).isEqualTo(ENTRIES);
        }
    }

    /** Where all are stale, Cassandra asks for the next one, and for nothing else meanwhile. */
    @Test
    void aQueryThatTakesTooLongEndsAmongItsHits() {
        ReadCommand command = PartitionRangeReadCommand.allDataRead(TABLE, 1);
        try (UnfilteredRowIterator hits = hits(command)) {
            for (int i = 0; i < ENTRIES / 2; i++) hits.next();
            int before = reads;
            assertThat(command.abort()).isTrue();
            assertThatThrownBy(
                            () -> {
                                while (hits.hasNext()) hits.next();
                            })
                    .isInstanceOf(QueryCancelledException.class);
            assertThat(reads).isEqualTo(before);
        }
    }
}
