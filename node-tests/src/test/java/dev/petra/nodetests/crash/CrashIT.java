// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static dev.petra.nodetests.fixture.CrashPoints.CFS;
import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A node that ends at each step of TRUNCATE and of DROP, under writes: afterwards the statement has
 * happened or has not, and what it removed does not come back.
 */
class CrashIT {
    private static final List<String> TRUNCATE =
            List.of(
                    "enter truncateBlocking",
                    "enter snapshot",
                    "leave snapshot",
                    "enter discardSSTables",
                    "enter successor",
                    "leave successor",
                    "enter dispose",
                    "leave dispose",
                    "leave discardSSTables",
                    "enter saveTruncationRecord",
                    "leave saveTruncationRecord",
                    "leave truncateBlocking");

    private static final List<String> DROP =
            List.of(
                    "enter onTableDropped",
                    "leave snapshot",
                    "enter unloadCf",
                    "leave drop",
                    "enter dispose",
                    "leave dispose",
                    "enter deleteFolderNow",
                    "leave movePast",
                    "leave deleteFolderNow",
                    "leave unloadCf");

    private static final List<String> POINTS =
            List.of(
                    CFS + "#truncateBlocking",
                    CFS + "#snapshot",
                    CFS + "#discardSSTables",
                    CFS + "#onTableDropped",
                    CFS + "#unloadCf",
                    "org.apache.cassandra.db.SystemKeyspace#saveTruncationRecord",
                    OURS + "table.TableGenerations#successor",
                    OURS + "table.TableGenerations#drop",
                    OURS + "table.EndedGenerations#dispose",
                    OURS + "table.EndedGenerations#deleteFolderNow",
                    OURS + "disk.StoreLocation#movePast");

    private static final int WRITERS = 3;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    private CrashPoints crashes;

    @BeforeEach
    void pack() throws IOException, URISyntaxException {
        crashes = new CrashPoints(directory, POINTS);
    }

    private TestNode start(boolean autoSnapshot) {
        return TestNode.start(
                directory.resolve("node"),
                config ->
                        crashes.in(
                                config.yaml(
                                        Map.of(
                                                "commitlog_sync",
                                                "batch",
                                                "auto_snapshot",
                                                autoSnapshot))));
    }

    /** Writers that have written for a while and are done, for what must go or stay as a whole. */
    private static List<Writer> fill(CqlSession session, String table) throws Exception {
        List<Writer> writers = write(session, table, 0);
        TimeUnit.MILLISECONDS.sleep(200);
        for (Writer writer : writers) {
            writer.assertIsWriting();
            writer.halt();
            writer.join();
            assertThat(writer.failure()).isNull();
        }
        return writers;
    }

    private static List<Writer> write(CqlSession session, String table, int cycle)
            throws Exception {
        List<Writer> writers = new ArrayList<>();
        for (int w = 0; w < WRITERS; w++) writers.add(new Writer(session, table, cycle, w));
        writers.forEach(Thread::start);
        for (Writer writer : writers)
            assertThat(writer.started.await(2, TimeUnit.MINUTES)).isTrue();
        return writers;
    }

    private static long rows(CqlSession session, String table) {
        return session.execute("SELECT cycle FROM " + table).all().stream()
                .filter(row -> row.getInt("cycle") == 0)
                .count();
    }

    private void crash(
            TestNode node, CqlSession session, List<Writer> writers, String point, String statement)
            throws Exception {
        writers.forEach(Writer::assertIsWriting);
        String[] parts = point.split(" ", -1);
        crashes.arm(parts[0], "#" + parts[1]);
        try {
            session.execute(statement);
        } catch (RuntimeException e) {
            // The node ended before it answered.
        }
        crashes.awaitCrash(node);
    }

    static List<Boolean> drawn() {
        return Drawn.of("CrashIT", List.of(true, false));
    }

    /** On one node: what was truncated is not back after the crashes of DROP either. */
    @ParameterizedTest
    @MethodSource("drawn")
    void truncateAndDrop(boolean autoSnapshot) throws Exception {
        try (TestNode node = start(autoSnapshot)) {
            createKeyspace(node);
            Map<String, Boolean> emptied = truncate(node, autoSnapshot);
            System.out.println("After the crashes, emptied: " + emptied);
            try (CqlSession session = node.plainSession()) {
                for (String table : emptied.keySet()) {
                    session.execute("TRUNCATE " + table);
                    assertThat(session.execute("SELECT * FROM " + table).all()).isEmpty();
                }
            }
            drop(node, autoSnapshot, emptied.keySet());
        }
    }

    /** Returns which tables were empty after their crash, and which were whole. */
    private Map<String, Boolean> truncate(TestNode node, boolean autoSnapshot) throws Exception {
        Map<String, Boolean> emptied = new LinkedHashMap<>();
        int number = 0;
        for (String point : points(TRUNCATE, autoSnapshot)) {
            String table = "ks.t" + number++;
            List<Writer> before;
            try (CqlSession session = node.plainSession()) {
                session.execute(Writer.table(table) + " WITH memtable = 'rocks'");
                before = fill(session, table);
                List<Writer> during = write(session, table, 1);
                crash(node, session, during, point, "TRUNCATE " + table);
            }
            node.restart();
            try (CqlSession session = node.plainSession()) {
                boolean empty = rows(session, table) == 0;
                if (!empty) for (Writer writer : before) writer.check(session);
                assertThat(empty || !point.equals("leave truncateBlocking")).isTrue();
                // As they were found after their own crash, over all later ones.
                for (String earlier : emptied.keySet())
                    assertThat(rows(session, earlier) == 0)
                            .describedAs(earlier)
                            .isEqualTo(emptied.get(earlier));
                emptied.put(table, empty);
            }
        }
        return emptied;
    }

    private void drop(TestNode node, boolean autoSnapshot, Set<String> truncated) throws Exception {
        int number = 0;
        for (String point : points(DROP, autoSnapshot)) {
            String name = "d" + number++;
            String table = "ks." + name;
            List<Writer> before;
            Path files;
            try (CqlSession session = node.plainSession()) {
                session.execute(Writer.table(table) + " WITH memtable = 'rocks'");
                before = fill(session, table);
                List<Writer> during = write(session, table, 1);
                files = TableFiles.of(node, "ks", name).directory();
                crash(node, session, during, point, "DROP TABLE " + table);
            }
            node.restart();
            try (CqlSession session = node.plainSession()) {
                for (String empty : truncated)
                    assertThat(session.execute("SELECT * FROM " + empty).all())
                            .describedAs(empty)
                            .isEmpty();
                List<Row> exists =
                        session.execute(
                                        "SELECT id FROM system_schema.tables WHERE"
                                                + " keyspace_name = 'ks' AND table_name = ?",
                                        name)
                                .all();
                if (exists.isEmpty()) {
                    assertThat(files.resolve("rocksdb")).describedAs(point).doesNotExist();
                    Path snapshots = files.resolve("snapshots");
                    if (autoSnapshot) assertThat(snapshots).describedAs(point).exists();
                    // What a crash kept from being deleted is kept for a while (OrphanStores).
                    else if (Files.exists(snapshots))
                        for (Path snapshot : TableFiles.children(snapshots))
                            assertThat(snapshot.resolve("manifest.json"))
                                    .describedAs(point)
                                    .content()
                                    .containsPattern("\"expires_at\" *: *\"");
                    session.execute(Writer.table(table) + " WITH memtable = 'rocks'");
                    assertThat(rows(session, table)).isZero();
                } else for (Writer writer : before) writer.check(session);
                session.execute("DROP TABLE " + table);
            }
        }
    }

    private static List<String> points(List<String> all, boolean autoSnapshot) {
        return CrashPoints.sample(
                all.stream().filter(point -> autoSnapshot || !point.endsWith("snapshot")).toList());
    }

    private static void createKeyspace(TestNode node) {
        try (CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
        }
    }
}
