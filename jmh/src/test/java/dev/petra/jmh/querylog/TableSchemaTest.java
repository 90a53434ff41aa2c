// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TableSchemaTest {
    @TempDir Path directory;

    private TableSchema schema(String cql) throws IOException {
        return TableSchema.ofFile(Files.writeString(directory.resolve("s.cql"), cql));
    }

    @Test
    void tablesGetTheMemtableOfTheEngine() throws IOException {
        TableSchema schema =
                schema(
                        """
                        CREATE KEYSPACE ks WITH replication = {'class': 'X'};
                        CREATE TYPE ks.u (i int);
                        CREATE TABLE IF NOT EXISTS ks."T" (k int PRIMARY KEY) WITH ID = 1
                            AND comment = 'index on a.b'
                            AND memtable = 'default';
                        CREATE TABLE ks.old (k int PRIMARY KEY)
                            WITH comment = '';
                        CREATE TABLE ks.bare (k int PRIMARY KEY);
                        CREATE CUSTOM INDEX IF NOT EXISTS i ON ks."T" (v) USING 'sai';
                        ALTER TABLE ks.old DROP v USING TIMESTAMP 1;
                        CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.old;
                        """);
        assertThat(schema.tables())
                .extracting(TableSchema.Table::toString)
                .containsExactly("ks.T", "ks.old", "ks.bare");
        assertThat(schema.withMemtable("rocks").stream().map(s -> s.replaceAll("\\s+", " ")))
                .containsExactly(
                        "CREATE TYPE ks.u (i int)",
                        "CREATE TABLE IF NOT EXISTS ks.\"T\" (k int PRIMARY KEY) WITH ID = 1 AND"
                                + " comment = 'index on a.b' AND memtable = 'rocks'",
                        "CREATE TABLE ks.old (k int PRIMARY KEY) WITH comment = '' AND memtable ="
                                + " 'rocks'",
                        "CREATE TABLE ks.bare (k int PRIMARY KEY) WITH memtable = 'rocks'",
                        "CREATE CUSTOM INDEX IF NOT EXISTS i ON ks.\"T\" (v) USING 'sai'",
                        "ALTER TABLE ks.old DROP v USING TIMESTAMP 1");
    }

    @Test
    void whatHasNoTablesIsRefused() {
        assertThatThrownBy(() -> schema("USE ks; SELECT * FROM ks.t;"))
                .hasMessageContaining("s.cql creates no table");
        assertThatThrownBy(() -> TableSchema.ofSnapshot(directory))
                .hasMessageContaining("is no snapshot of a table: it has no schema.cql");
    }
}
