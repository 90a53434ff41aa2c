// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.Distribution;
import dev.petra.launcher.NodeTool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code bin/petra load}, as a user types it, into two nodes that share the data. */
class LoadIT {
    private static final String TYPE = "CREATE TYPE ks.place (x int, y text)";
    private static final String COLUMNS =
            " (p int, c int, v text, big text, s text static, m map<int, frozen<place>>,"
                    + " PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)";
    private static final String INSERT =
            "INSERT INTO ks.%s (p, c, v, big, s, m) VALUES (%d, %d, 'v%d', '%s', 's%d', {%d: {x: 1,"
                    + " y: 'y'}}) USING TIMESTAMP %d";

    /** What a user would write, against nothing but the jars. */
    private static final String PROGRAM =
            """
            import dev.petra.cassandra.StoreWriter;
            import java.nio.file.Path;
            import java.util.Map;

            class Rows {
                public static void main(String[] args) throws Exception {
                    try (StoreWriter writer =
                            StoreWriter.create(
                                    Path.of(args[0]),
                                    args[1],
                                    "INSERT INTO ks.written (p, c, v, big, s) VALUES (?, ?, ?, ?, ?)"
                                            + " USING TIMESTAMP ?")) {
                        for (int i = 999; i >= 0; i--) {
                            int p = i / 10;
                            String big = i % 50 == 0 ? "b".repeat(40_000) : "small";
                            writer.addRow(p, i % 10, "v" + i, big, "s" + p, 1_000L + i);
                        }
                    }
                    System.exit(0);
                }
            }
            """;

    @TempDir static Path directory;

    private static final int STORAGE_PORT = TestNode.freePort();
    private static TestNode first;
    private static TestNode second;
    private static CqlSession session;

    @BeforeAll
    static void start() throws IOException {
        first =
                TestNode.start(
                        Files.createDirectory(directory.resolve("first")),
                        options -> options.storagePort(STORAGE_PORT).numTokens(4));
        int port = first.process().nativePort();
        second =
                TestNode.start(
                        Files.createDirectory(directory.resolve("second")),
                        options ->
                                options.storagePort(STORAGE_PORT)
                                        .address("127.0.0.2")
                                        // Loaders ask each node at the port of the first.
                                        .nativePort(port)
                                        .seeds(List.of("127.0.0.1:" + STORAGE_PORT))
                                        .numTokens(4));
        session = first.session(ConsistencyLevel.ALL);
        TestNode.createKeyspace(session, "ks", 1);
        session.execute(TYPE);
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (second != null) second.close();
        if (first != null) first.close();
    }

    private static void create(String table) {
        session.execute("CREATE TABLE ks." + table + COLUMNS + " AND memtable = 'rocks'");
    }

    private static NodeTool.Result load(Path from, String... options)
            throws IOException, InterruptedException {
        return loadBy(first.process().address(), from, options);
    }

    private static NodeTool.Result loadBy(String node, Path from, String... options)
            throws IOException, InterruptedException {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                Commands.PETRA.toString(),
                                "load",
                                "--nodes",
                                node,
                                "--port",
                                Integer.toString(first.process().nativePort()),
                                "--storage-port",
                                Integer.toString(STORAGE_PORT)));
        command.addAll(List.of(options));
        command.add(from.toString());
        return Commands.run(command.toArray(String[]::new));
    }

    private static void loaded(Path from, String... options) throws Exception {
        NodeTool.Result result = load(from, options);
        assertThat(result.exitCode()).describedAs(result.output()).isZero();
        assertThat(result.output()).containsPattern("Loaded [1-9]\\d* bytes into [12] node");
    }

    private static Set<String> content(String table) {
        return Contents.of(session, "SELECT p, c, v, big, s, m, writetime(v) FROM ks." + table);
    }

    private static void eachHasWhatItOwns(String table) {
        for (TestNode node : List.of(first, second)) {
            node.nodetool("verify", "--force", "-e", "--check-tokens", "ks", table);
            assertThat(node.process().log()).contains("parts into ks." + table);
        }
    }

    @Test
    void whatWasWrittenWithoutANodeIsThereAfterwards() throws Exception {
        Path data = directory.resolve("offline");
        Path program = directory.resolve("Rows.java");
        Files.writeString(program, PROGRAM);
        Path lib = Distribution.fromSystemProperty().home().resolve("lib");
        NodeTool.Result written =
                Commands.run(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "--add-opens",
                        "java.base/java.io=ALL-UNNAMED",
                        "--add-opens",
                        "java.base/sun.nio.ch=ALL-UNNAMED",
                        "-cp",
                        lib.resolve("petra.jar") + ":" + lib.resolve("cassandra/*"),
                        "-Dlogback.configurationFile=dev/petra/cassandra/load-logback.xml",
                        program.toString(),
                        data.toString(),
                        TYPE + ";\nCREATE TABLE ks.written" + COLUMNS + ";\n");
        assertThat(written.exitCode()).describedAs(written.output()).isZero();
        create("written");
        // Newer than what comes, and older.
        session.execute("DELETE FROM ks.written USING TIMESTAMP 5000 WHERE p = 3");
        session.execute(INSERT.formatted("written", 4, 4, 0, "old", 4, 0, 1));
        session.execute(INSERT.formatted("written", 1000, 0, 0, "other", 4, 0, 1));
        loaded(data);
        Set<String> content = content("written");
        assertThat(content).hasSize(1000 - 10 + 1);
        assertThat(session.execute("SELECT v, s, m FROM ks.written WHERE p = 4 AND c = 4").one())
                .satisfies(
                        row -> {
                            assertThat(row.getString("v")).isEqualTo("v44");
                            assertThat(row.getString("s")).isEqualTo("s4");
                            assertThat(row.getFormattedContents()).contains("y:'y'");
                        });
        assertThat(session.execute("SELECT big FROM ks.written WHERE p = 5 AND c = 0").one())
                .satisfies(row -> assertThat(row.getString(0)).hasSize(40_000));
        eachHasWhatItOwns("written");
        loaded(data);
        assertThat(content("written")).isEqualTo(content);
        assertThat(data.toFile().list()).containsExactlyInAnyOrder("schema.cql", "rocksdb");
    }

    @Test
    void aSnapshotIsLoadedWhereverItBelongsNow() throws Exception {
        create("snap");
        for (int i = 0; i < 200; i++)
            session.execute(INSERT.formatted("snap", i / 4, i % 4, i, "b", i / 4, i, 10 + i));
        session.execute("DELETE FROM ks.snap USING TIMESTAMP 500 WHERE p = 7");
        session.execute("DELETE FROM ks.snap USING TIMESTAMP 500 WHERE p = 8 AND c > 1");
        session.execute("ALTER TABLE ks.snap ADD gone text");
        session.execute("INSERT INTO ks.snap (p, c, gone) VALUES (3, 0, 'gone')");
        session.execute("ALTER TABLE ks.snap DROP gone");
        Set<String> before = content("snap");
        List<Path> snapshots = new ArrayList<>();
        for (TestNode node : List.of(first, second)) {
            node.nodetool("snapshot", "-t", "tag", "-cf", "snap", "ks");
            snapshots.add(
                    TableFiles.of(node, "ks", "snap")
                            .directory()
                            .resolve("snapshots")
                            .resolve("tag"));
        }
        // Of another id, name and layout of columns' numbers.
        session.execute(
                "CREATE TABLE ks.other (p int, c int, extra text, m map<int, frozen<place>>, s text"
                        + " static, big text, v text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY"
                        + " (c DESC) AND memtable = 'rocks'");
        session.execute("INSERT INTO ks.other (p, c, extra, m) VALUES (7, 1, 'x', {})");
        session.execute(INSERT.formatted("other", 7, 0, 0, "hidden", 0, 0, 400));
        session.execute("DELETE FROM ks.other WHERE p = 7 AND c = 1");
        assertThat(refused(snapshots.get(0), "--target-table", "other"))
                .contains("column gone was dropped from it");
        session.execute("ALTER TABLE ks.other ADD gone text");
        session.execute("ALTER TABLE ks.other DROP gone");
        for (Path snapshot : snapshots) loaded(snapshot, "--target-table", "other");
        assertThat(content("other")).isEqualTo(before);
        session.execute("ALTER TABLE ks.other ADD gone text");
        assertThat(session.execute("SELECT gone FROM ks.other WHERE p = 3 AND c = 0").one())
                .satisfies(row -> assertThat(row.getString(0)).isNull());
        // Where it came from it has been dropped already.
        for (Path snapshot : snapshots) loaded(snapshot);
        assertThat(content("snap")).isEqualTo(before);
        eachHasWhatItOwns("other");
    }

    private static String refused(Path from, String... options) throws Exception {
        NodeTool.Result result = load(from, options);
        assertThat(result.exitCode()).describedAs(result.output()).isEqualTo(1);
        assertThat(result.output()).doesNotContain("unexpected").doesNotContain("\tat ");
        return result.output();
    }

    @Test
    void whatDoesNotFitIsRefused() throws Exception {
        create("source");
        for (int p = 0; p < 20; p++)
            session.execute(INSERT.formatted("source", p, 1, 1, "b", 1, 1, 1));
        first.nodetool("snapshot", "-t", "tag", "-cf", "source", "ks");
        Path snapshot =
                TableFiles.of(first, "ks", "source")
                        .directory()
                        .resolve("snapshots")
                        .resolve("tag");
        assertThat(refused(directory.resolve("first"))).contains("must have a folder rocksdb");
        assertThat(refused(directory.resolve("nowhere"))).contains("Unknown directory");
        assertThat(refused(snapshot, "--target-table", "none"))
                .contains("There is no table ks.none in the cluster");
        session.execute("CREATE TABLE ks.stock" + COLUMNS);
        assertThat(refused(snapshot, "--target-table", "stock"))
                .contains("does not have table ks.stock in a storage engine");
        assertThat(
                        load(snapshot, "--target-table", "stock", "--ignore", "127.0.0.1,127.0.0.2")
                                .output())
                .contains("nothing in it that a node would own");
        session.execute(
                "CREATE TABLE ks.alien (p int, c text, v int, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
        assertThat(refused(snapshot, "--target-table", "alien"))
                .contains("the clustering is [int DESC], not [text]")
                .contains("column v is REGULAR text, not REGULAR int")
                .contains("there is no column big");
        assertThat(refused(snapshot, "--connections-per-host", "2")).contains("one connection");
        assertThat(loadBy("127.0.0.77", snapshot).output())
                .contains("The cluster cannot be asked by")
                .contains("127.0.0.77");
        Path damaged = directory.resolve("damaged");
        TableFiles.copy(snapshot, damaged);
        Files.writeString(damaged.resolve("rocksdb/1/PETRA"), "format=99\n");
        assertThat(refused(damaged)).contains("says format 99");
        Files.createFile(damaged.resolve("nb-1-big-Data.db"));
        assertThat(refused(damaged)).contains("has SSTables as well");
        assertThat(content("stock")).isEmpty();
        assertThat(content("source")).hasSize(20);
    }
}
