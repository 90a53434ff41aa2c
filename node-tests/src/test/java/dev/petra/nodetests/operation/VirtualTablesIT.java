// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The virtual keyspace {@code petra}. */
class VirtualTablesIT {
    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node = TestNode.start(directory);
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH memtable = 'rocks'");
        session.execute(
                "CREATE TABLE ks.unused (k int PRIMARY KEY, v text) WITH memtable = 'rocks'");
        session.execute("CREATE TABLE ks.stock (k int PRIMARY KEY, v text)");
        for (int i = 0; i < 100; i++)
            session.execute("INSERT INTO ks.t (k, v) VALUES (" + i + ", 'v')");
        session.execute("INSERT INTO ks.stock (k, v) VALUES (1, 'v')");
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    private static long metric(String name) {
        return session.execute(
                        "SELECT value FROM petra.metrics WHERE keyspace_name = 'ks' AND table_name"
                                + " = 't' AND metric = '"
                                + name
                                + "'")
                .one()
                .getLong(0);
    }

    @Test
    void engines() {
        Row engine = session.execute("SELECT * FROM petra.engines").one();
        assertThat(engine.getString("engine")).startsWith("rocks");
        assertThat(engine.getString("version")).startsWith("RocksDB 11.");
        assertThat(engine.getInt("open_tables")).isEqualTo(1);
        assertThat(engine.getLong("memory_bytes")).isEqualTo(128L << 20);
        assertThat(engine.getLong("write_buffer_bytes")).isPositive();
    }

    @Test
    void settings() {
        List<Row> settings = session.execute("SELECT name, value FROM petra.settings").all();
        assertThat(settings)
                .extracting(row -> row.getString("name") + "=" + row.getString("value"))
                .contains("memory=134217728 B", "purge_interval=86400000 ms", "large_cell=16384 B");
    }

    @Test
    void tablesAndTheirFigures() {
        Row t =
                session.execute(
                                "SELECT * FROM petra.tables WHERE keyspace_name = 'ks' AND"
                                        + " table_name = 't'")
                        .one();
        assertThat(t.getBoolean("usable")).isTrue();
        assertThat(t.getLong("generation")).isEqualTo(1);
        assertThat(t.getLong("writes")).isGreaterThanOrEqualTo(100);
        assertThat(t.getString("purge_phase")).isEqualTo("IDLE");
        node.nodetool("flush", "ks", "t");
        node.nodetool("compact", "ks", "t");
        assertThat(metric("unflushed_entries")).isZero();
        assertThat(metric("level_6_files")).isEqualTo(1);
        assertThat(metric("stalls_stopped")).isZero();

        assertThat(session.execute("SELECT table_name, disk_bytes FROM petra.tables").all())
                .extracting(row -> row.getString("table_name") + " " + row.isNull("disk_bytes"))
                .containsExactlyInAnyOrder("t false", "unused true");
    }

    @Test
    void nobodyElseCanHaveTheName() {
        assertThatThrownBy(
                        () ->
                                session.execute(
                                        "CREATE KEYSPACE petra WITH replication = {'class':"
                                                + " 'SimpleStrategy', 'replication_factor': 1}"))
                .hasMessageContaining("petra");
    }
}
