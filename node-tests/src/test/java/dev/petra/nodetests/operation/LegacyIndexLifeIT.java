// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.launcher.FileTree;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The life of a legacy index on a table in the engine: no row is ever missed by it. */
class LegacyIndexLifeIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final int VALUES = 10;

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node =
                TestNode.start(
                        directory,
                        options ->
                                options.jvmOptions(
                                        "-Dpetra.legacy_indexes=true",
                                        "-Dpetra.migration.sstable_bytes=32768"));
        session = node.session();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() {
        session.close();
        node.close();
    }

    private static void create(String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, x text, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
    }

    private static void insert(String table, int from, int to) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (p, c, v, x) VALUES (?, ?, ?, ?)");
        for (int i = from; i < to; i++)
            session.execute(insert.bind(i % 17, i, i % VALUES, "x".repeat(200)));
    }

    private static long count(String table, int v) {
        return session.execute("SELECT c FROM ks." + table + " WHERE v = " + v).all().size();
    }

    private static long found(String table) {
        long found = 0;
        for (int v = 0; v < VALUES; v++) found += count(table, v);
        return found;
    }

    private static long all(String table) {
        return session.execute("SELECT c FROM ks." + table).all().size();
    }

    private static void check(String table) {
        assertThat(found(table)).as(table).isEqualTo(all(table));
    }

    private static void awaitBuilt(String index) throws Exception {
        TestNode.await(
                index,
                PATIENCE,
                () ->
                        session.execute(
                                                "SELECT * FROM system.\"IndexInfo\" WHERE"
                                                        + " table_name = 'ks'"
                                                        + " AND index_name = '%s'".formatted(index))
                                        .one()
                                != null);
    }

    private static void killAndRestart() {
        session.close();
        node.process().kill();
        node.restart();
        session = node.session();
    }

    @Test
    void anIndexIsBuiltWhileTheTableIsWritten() throws Exception {
        create("busy");
        insert("busy", 0, 3_000);
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger written = new AtomicInteger(3_000);
        List<Throwable> failures = new ArrayList<>();
        List<Thread> writers = new ArrayList<>();
        for (int w = 0; w < 4; w++) {
            Thread writer =
                    new Thread(
                            () -> {
                                try {
                                    while (!stop.get()) {
                                        int i = written.getAndIncrement();
                                        insert("busy", i, i + 1);
                                    }
                                } catch (DriverException e) {
                                    failures.add(e);
                                }
                            });
            writer.start();
            writers.add(writer);
        }
        for (int i = 0; i < 4; i++) {
            session.execute("CREATE INDEX busy_v ON ks.busy (v)");
            awaitBuilt("busy_v");
            int before = written.get();
            // Those under way may not be written yet.
            assertThat(found("busy")).isGreaterThanOrEqualTo(before - 4);
            session.execute("DROP INDEX ks.busy_v");
        }
        session.execute("CREATE INDEX busy_v ON ks.busy (v)");
        awaitBuilt("busy_v");
        stop.set(true);
        for (Thread writer : writers) writer.join();
        assertThat(failures).isEmpty();
        assertThat(all("busy")).isEqualTo(written.get());
        check("busy");
    }

    @Test
    void aKillDuringABuildOrAWriteLosesNoEntry() throws Exception {
        create("killed");
        insert("killed", 0, 4_000);
        for (int cycle = 0; cycle < 3; cycle++) {
            session.execute("CREATE INDEX IF NOT EXISTS killed_v ON ks.killed (v)");
            int from = 4_000 + cycle * 10_000;
            Thread writer =
                    new Thread(
                            () -> {
                                try {
                                    insert("killed", from, from + 10_000);
                                } catch (DriverException e) {
                                    // Killed.
                                }
                            });
            writer.start();
            if (cycle > 0) Thread.sleep(500);
            node.process().kill();
            writer.join();
            session.close();
            node.restart();
            session = node.session();
            awaitBuilt("killed_v");
            check("killed");
        }
    }

    @Test
    void aKillOnAWayLosesNoEntry() throws Exception {
        create("moved");
        session.execute("CREATE INDEX moved_v ON ks.moved (v)");
        awaitBuilt("moved_v");
        insert("moved", 0, 2_000);
        int number = 2_000;
        for (String memtable : List.of("default", "rocks", "default", "default", "rocks")) {
            node.nodetool("setcompactionthroughput", "1");
            session.execute("ALTER TABLE ks.moved WITH memtable = '" + memtable + "'");
            check("moved");
            insert("moved", number, number += 100);
            session.execute("DELETE FROM ks.moved WHERE p = 3 AND c > " + (number - 50));
            check("moved");
            // The table in Cassandra's storage has the last writes with the next sync only.
            node.nodetool("flush", "ks", "moved");
            killAndRestart();
            awaitBuilt("moved_v");
            check("moved");
            insert("moved", number, number += 10);
            check("moved");
        }
        node.nodetool("setcompactionthroughput", "64");
        TestNode.awaitMigrations(session, PATIENCE);
        check("moved");
        killAndRestart();
        check("moved");
        // What of them was in the hidden table is gone: all comes from the store.
        assertThat(
                        node.tryNodetool("tablestats", "ks.moved.moved_v")
                                .output()
                                .lines()
                                .map(String::strip)
                                .filter(line -> line.startsWith("SSTable count:")))
                .containsExactly("SSTable count: 0");
    }

    @Test
    void aSnapshotHasTheIndexAsItWas() throws Exception {
        create("snapped");
        session.execute("CREATE INDEX snapped_v ON ks.snapped (v)");
        awaitBuilt("snapped_v");
        insert("snapped", 0, 100);
        TableFiles files = TableFiles.of(node, "ks", "snapped");
        node.nodetool("snapshot", "-t", "s", "ks");
        insert("snapped", 100, 200);
        session.execute("DELETE FROM ks.snapped WHERE p = 3");
        check("snapped");
        session.close();
        node.process().stop();
        FileTree.delete(files.stores());
        TableFiles.copy(files.snapshots("s").get(0), files.stores());
        node.restart();
        session = node.session();
        assertThat(all("snapped")).isEqualTo(100);
        check("snapped");
        insert("snapped", 300, 320);
        check("snapped");
    }
}
