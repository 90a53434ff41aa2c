// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.TestTables;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A deletion hides many rows, so that one step to the next row takes as long as a read of them. */
class AttemptTest {
    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
    private static final int ROWS = 2_000;

    @TempDir Path directory;

    private static PartitionUpdate rows() {
        UpdateBuilder update = TABLE.update("k").at(1);
        for (int i = 0; i < ROWS; i++) update.row(i).set("v", "x").end();
        return update.build();
    }

    private static PartitionUpdate deletion() {
        return TABLE.update("k").at(2).deleteRange(Slice.ALL).build();
    }

    private static SinglePartitionReadCommand all(String key) {
        return SinglePartitionReadCommand.create(
                TABLE.metadata(),
                UpdateBuilder.NOW,
                TABLE.key(key),
                TABLE.all(),
                new ClusteringIndexSliceFilter(Slices.ALL, false));
    }

    private static int count(UnfilteredRowIterator rows) {
        int count = 0;
        try (rows) {
            for (; rows.hasNext(); rows.next()) count++;
        }
        return count;
    }

    @Test
    void theTableEndsAmongHiddenRows() {
        AtomicInteger asked = new AtomicInteger();
        AtomicInteger most = new AtomicInteger(Integer.MAX_VALUE);
        Transformation<?> each =
                Timed.ofEach(() -> asked.incrementAndGet() <= most.get(), bytes -> {});
        PartitionUpdate rows = rows();
        PartitionUpdate deletion = deletion();
        // The bounds of the deletion.
        assertThat(count(merged(each, rows, deletion))).isEqualTo(2);
        assertThat(asked).hasValueGreaterThanOrEqualTo(ROWS);
        asked.set(0);
        most.set(10);
        assertThatThrownBy(() -> count(merged(each, rows, deletion)))
                .isInstanceOf(Timed.TooLong.class);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static UnfilteredRowIterator merged(
            Transformation each, PartitionUpdate one, PartitionUpdate other) {
        return UnfilteredRowIterators.merge(
                List.of(
                        Transformation.apply(one.unfilteredIterator(), each),
                        Transformation.apply(other.unfilteredIterator(), each)));
    }

    @Test
    void theShadowEndsAmongHiddenRows() {
        try (StorageEngine engine =
                StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")))) {
            TableStore store = engine.openStore(TABLE.spec(directory.resolve("t")));
            store.write(rows());
            store.write(deletion());
            assertThat(count(Attempt.readAside(store, all("k"), () -> {}))).isEqualTo(2);
            assertThat(count(Attempt.readAside(store, all("none"), () -> {}))).isZero();
            for (int i = 1; i <= 5; i++) {
                AtomicInteger left = new AtomicInteger(i);
                assertThatThrownBy(
                                () ->
                                        count(
                                                Attempt.readAside(
                                                        store,
                                                        all("k"),
                                                        () ->
                                                                Timed.check(
                                                                        () ->
                                                                                left
                                                                                                .decrementAndGet()
                                                                                        > 0))))
                        .isInstanceOf(Timed.TooLong.class);
            }
            // Nobody reads it any more.
            store.drop();
        }
    }

    private static TableMetadata table(String cql) {
        return TestTables.table(cql);
    }

    /**
     * A statement that was prepared before ALTER TABLE gave the table a shadow was not compared.
     */
    @Test
    void anotherOptionKeepsNoReadFromBeingCompared() {
        TableMetadata table = table("CREATE TABLE t (k int PRIMARY KEY, v text)");
        TableMetadata shadowed =
                table(
                        "CREATE TABLE t (k int PRIMARY KEY, v text) WITH comment = 'shadowed' AND"
                                + " gc_grace_seconds = 1");
        assertThat(shadowed).isNotEqualTo(table);
        assertThat(Attempt.isAlike(table, shadowed)).isTrue();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY"
                        + " (c DESC)",
                "CREATE TABLE t (k int, c int, v blob, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k int, c int, v text STATIC, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k int, c int, v text, w text, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k int, c int, v text, PRIMARY KEY ((k, c)))"
            })
    void anotherSchemaIsNotCompared(String cql) {
        TableMetadata table = table("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
        assertThat(Attempt.isAlike(table, table(cql))).isFalse();
    }

    @Test
    void whatElseChangesAnAnswerIsNotCompared() {
        TableMetadata table = table("CREATE TABLE t (k int PRIMARY KEY, v int)");
        assertThat(
                        Attempt.isAlike(
                                table,
                                table.unbuild()
                                        .recordColumnDrop(
                                                table.getColumn(ByteBufferUtil.bytes("v")), 1)
                                        .build()))
                .as("a column that was dropped and added again")
                .isFalse();
        assertThat(
                        Attempt.isAlike(
                                table,
                                table.unbuild().id(TableId.fromUUID(new UUID(1, 1))).build()))
                .as("a table that was dropped and created again")
                .isFalse();
        TableMetadata counts = table("CREATE TABLE t (k int PRIMARY KEY, v counter)");
        assertThat(Attempt.isAlike(counts, counts.unbuild().flags(table.flags).build()))
                .as("counters")
                .isFalse();
    }
}
