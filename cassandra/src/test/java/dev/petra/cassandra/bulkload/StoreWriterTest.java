// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.DirectoryTree;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Reads with the engine what a {@link StoreWriter} wrote; {@code LoadIT} loads it into nodes. */
class StoreWriterTest {
    private static final String SCHEMA =
            """
            /* As a snapshot has it. */
            CREATE TYPE ks.place (x int, y text);
            CREATE TABLE IF NOT EXISTS ks.t (
                k text, c int, v text MASKED WITH ks.mine('('), l list<int>, h frozen<place>,
                PRIMARY KEY (k, c)
            ) WITH ID = 99999999-2222-3333-4444-555555555555 AND memtable = 'unknown here'
                AND comment = 'one; two' AND auto_repair = {'full_enabled': 'true'};
            CREATE INDEX ON ks.t (v);
            """;

    @TempDir Path directory;

    private Path data() {
        return directory.resolve("data");
    }

    private StoreWriter writer(String statement) throws IOException {
        return StoreWriter.create(data(), SCHEMA, statement);
    }

    private String content() {
        SchemaText schema = SchemaText.parse(SCHEMA);
        TableMetadata table = schema.table(Murmur3Partitioner.instance, schema.types(List.of()));
        StringBuilder text = new StringBuilder();
        try (StorageEngine engine = OfflineEngine.open();
                TableStore store =
                        engine.openStore(
                                new StoreSpec(
                                        data().resolve("rocksdb/1"),
                                        "t",
                                        1,
                                        TableMetadataRef.forOfflineTools(table)));
                var partitions =
                        store.scan(DataRange.allData(table.partitioner), ColumnFilter.all(table))) {
            while (partitions.hasNext())
                try (var rows = partitions.next()) {
                    text.append(rows.partitionLevelDeletion());
                    while (rows.hasNext()) {
                        Unfiltered row = rows.next();
                        text.append(row.toString(table, true)).append('\n');
                    }
                }
        }
        return text.toString();
    }

    @Test
    void rowsAreThere() throws IOException {
        try (StoreWriter writer =
                writer("INSERT INTO ks.t (k, c, v, l) VALUES (?, ?, ?, ?) USING TIMESTAMP ?")) {
            writer.addRow("b", 2, "old", null, 5L);
            writer.addRow("a", 1, "x", List.of(7, 8), 5L);
            writer.addRow("b", 2, "new", List.of(9), 6L);
            assertThatThrownBy(() -> writer.addRow("b", 2))
                    .isInstanceOf(InvalidRequestException.class)
                    .hasMessageContaining("5 variables, not 2");
            assertThatThrownBy(() -> writer.addRow("b", "two", "x", null, 6L))
                    .isInstanceOf(InvalidRequestException.class)
                    .hasMessageContaining("c is a java.lang.String, which is no int");
        }
        assertThat(content())
                .contains("v=x ts=5", "=7", "=8", "v=new ts=6", "=9")
                .doesNotContain("old");
        assertThatThrownBy(() -> writer("DELETE FROM ks.t WHERE k = ?"))
                .isInstanceOf(FileAlreadyExistsException.class)
                .hasMessageContaining("name an empty directory");
    }

    private String load() {
        PrintStream stderr = System.err;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        System.setErr(new PrintStream(bytes, true, UTF_8));
        try {
            assertThat(StoreLoader.load("--nodes", "127.0.0.77", data().toString())).isEqualTo(1);
        } finally {
            System.setErr(stderr);
        }
        return bytes.toString(UTF_8);
    }

    private void assertComplete(boolean isComplete) {
        assertThat(data().toFile().list())
                .containsExactlyInAnyOrder(
                        "rocksdb", isComplete ? "schema.cql" : "schema.cql.partial");
        // One that is complete is refused later, because nobody is there to take it.
        assertThat(load())
                .contains(isComplete ? "The cluster cannot be asked" : "data is incomplete")
                .doesNotContain("unexpected");
    }

    private static final String INSERT = "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)";

    @Test
    void whatIsNotClosedIsIncomplete() throws IOException {
        try (StoreWriter writer = writer(INSERT)) {
            writer.addRow("a", 1, "x");
            assertComplete(false);
        }
        assertComplete(true);
        assertThat(data().resolve("schema.cql")).hasContent(SCHEMA);
    }

    /** The caller may have caught the exception, or it may be why the writer is closed. */
    @Test
    void aRowThatIsRefusedMakesItIncompleteIfNoOtherFollows() throws IOException {
        assertThatThrownBy(
                        () -> {
                            try (StoreWriter writer = writer(INSERT)) {
                                writer.addRow("a", 1, "x");
                                writer.addRow("b", "two", "x");
                            }
                        })
                .isInstanceOf(InvalidRequestException.class);
        assertComplete(false);
        DirectoryTree.delete(data());
        try (StoreWriter writer = writer(INSERT)) {
            assertThatThrownBy(() -> writer.addBytes(ByteBuffer.allocate(0)))
                    .isInstanceOf(InvalidRequestException.class);
            writer.addRow("a", 1, "x");
        }
        assertComplete(true);
    }

    /** Also if the caller goes on. */
    @Test
    void aRowThatCannotBeWrittenMakesItIncomplete() throws IOException {
        IllegalStateException failure = new IllegalStateException("a test's");
        AtomicBoolean fails = new AtomicBoolean(true);
        UnaryOperator<TableStore> failing =
                store ->
                        (TableStore)
                                Proxy.newProxyInstance(
                                        TableStore.class.getClassLoader(),
                                        new Class<?>[] {TableStore.class},
                                        (proxy, method, arguments) -> {
                                            if (method.getName().equals("write") && fails.get())
                                                throw failure;
                                            return method.invoke(store, arguments);
                                        });
        try (StoreWriter writer =
                StoreWriter.create(data(), SCHEMA, INSERT, Murmur3Partitioner.instance, failing)) {
            assertThatThrownBy(() -> writer.addRow("a", 1, "x")).isSameAs(failure);
            fails.set(false);
            writer.addRow("b", 1, "x");
        }
        assertComplete(false);
    }

    @Test
    void deletionsAreData() throws IOException {
        try (StoreWriter writer =
                writer("DELETE FROM ks.t USING TIMESTAMP ? WHERE k = ? AND c > ? AND c < ?")) {
            writer.addRow(5L, "a", 1, 9);
        }
        assertThat(content()).contains("EXCL_START_BOUND(1)@5", "EXCL_END_BOUND(9)@5");
    }

    @Test
    void aPartitionGoesWhole() throws IOException {
        try (StoreWriter writer = writer("DELETE FROM ks.t USING TIMESTAMP ? WHERE k = ?")) {
            writer.addRow(77L, "a");
        }
        assertThat(content()).contains("deletedAt=77");
    }

    @Test
    void whatCannotBeWrittenIsRefused() {
        assertThatThrownBy(() -> writer("UPDATE ks.t SET v = ? WHERE k = ? AND c = ? IF EXISTS"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("conditions");
        assertThatThrownBy(() -> writer("SELECT * FROM ks.t"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("'SELECT * FROM ks.t' is no INSERT/UPDATE/DELETE");
        assertThatThrownBy(() -> writer("INSERT INTO ks.t (k, c, none) VALUES (?, ?, ?)"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("none");
        assertThatThrownBy(
                        () ->
                                StoreWriter.create(
                                        data(),
                                        "CREATE TABLE ks.n (k int PRIMARY KEY, n counter);",
                                        "UPDATE ks.n SET n = n + ? WHERE k = ?"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("counters");
        assertThatThrownBy(
                        () ->
                                StoreWriter.create(
                                        data(),
                                        "CREATE TABLE ks.t (k int PRIMARY KEY, v text);",
                                        "INSERT INTO ks.t (k, v) VALUES (?, ?)"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("the partition key is [text], not [int]");
        assertThatThrownBy(() -> StoreWriter.create(data(), "", "INSERT"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("one CREATE TABLE, not 0");
        assertThatThrownBy(() -> StoreWriter.create(data(), "CREATE TABLE ks.t (", "INSERT"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("is no CREATE TABLE");
        assertThat(data()).doesNotExist();
    }
}
