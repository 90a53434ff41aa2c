// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.ProtocolVersion;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.type.codec.TypeCodecs;
import dev.petra.launcher.Distribution;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.IndexKind;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * {@code bin/petra load}, as a user types it, into two nodes that share the data, each in a
 * datacenter of its own.
 */
@OneOf(variants = "slices by a load, or to indexes", of = 2, number = 1)
class LoadIT {
    private static final String TYPE = "CREATE TYPE ks.place (x int, y text)";
    private static final String COLUMNS =
            " (p int, c int, v text, big text, s text static, m map<int, frozen<place>>,"
                    + " PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)";

    /** By a static column, one that is large in some rows, and another. */
    private static final List<String> INDEXED = List.of("v", "big", "s");

    private static final String INSERT =
            "INSERT INTO ks.%s (p, c, v, big, s, m) VALUES (%d, %d, 'v%d', '%s', 's%d', {%d: {x: 1,"
                    + " y: 'y'}}) USING TIMESTAMP %d";

    /** What a user would write, against nothing but the jars. */
    private static final String PROGRAM =
"""
            import dev.petra.cassandra.bulkload.StoreWriter;
            import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
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

    /** Loads by the arguments of each line of its input, and says how that ended. */
    private static final String LOADS =
"""
            import dev.petra.cassandra.bulkload.StoreLoader;
            import java.io.BufferedReader;
            import java.io.InputStreamReader;

            class Loads {
                public static void main(String[] args) throws Exception {
                    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
                    for (String line = lines.readLine(); line != null; line = lines.readLine())
                        System.out.println("=" + StoreLoader.load(line.split("\t")));
                    System.exit(0);
                }
            }
""";

    private static final Pattern END = Pattern.compile("=(\\d+)");
    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    private static final int LARGE = 2_000;

    private static final List<String> VERBS =
            List.of(
                    "TRUNCATE ks.%s",
                    "DROP TABLE ks.%s", "ALTER TABLE ks.%s WITH memtable = 'default'");

    @TempDir static Path directory;

    private static final int STORAGE_PORT = FreePorts.next();
    private static TestNode first;
    private static TestNode second;
    private static CqlSession session;

    /** Runs {@link #LOADS} from the first use on; null until then. */
    private static Process loader;

    @BeforeAll
    static void start() throws IOException {
        first =
                TestNode.start(
                        Files.createDirectory(directory.resolve("first")),
                        options ->
                                datacenter("datacenter1", options)
                                        .storagePort(STORAGE_PORT)
                                        .numTokens(4));
        int port = first.process().nativePort();
        second =
                TestNode.start(
                        Files.createDirectory(directory.resolve("second")),
                        options ->
                                datacenter("datacenter2", options)
                                        .storagePort(STORAGE_PORT)
                                        .address("127.0.0.2")
                                        // Loaders ask each node at the port of the first.
                                        .nativePort(port)
                                        .seeds(List.of("127.0.0.1:" + STORAGE_PORT))
                                        .numTokens(4));
        session = first.session(ConsistencyLevel.ALL);
        TestNode.createKeyspace(session, "ks", 1);
        session.execute(TYPE);
    }

    private static NodeConfig.Builder datacenter(String name, NodeConfig.Builder options) {
        Path file = directory.resolve(name);
        try {
            Files.writeString(file, "dc=" + name + "\nrack=rack1\n");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return options.yaml(
                        Map.of(
                                "endpoint_snitch",
                                "GossipingPropertyFileSnitch",
                                "materialized_views_enabled",
                                true))
                .jvmOptions("-Dcassandra-rackdc.properties=" + file.toUri());
    }

    @AfterAll
    static void stop() throws IOException, InterruptedException {
        if (loader != null) {
            loader.getOutputStream().close();
            // Else it lives as long as threads of its own want.
            if (!loader.waitFor(1, TimeUnit.MINUTES)) loader.destroyForcibly();
        }
        if (session != null) session.close();
        if (second != null) second.close();
        if (first != null) first.close();
    }

    private static void create(String table) {
        session.execute("CREATE TABLE ks." + table + COLUMNS + " AND memtable = 'rocks'");
    }

    private static List<String> arguments(String node, Path from, String... options) {
        List<String> arguments =
                new ArrayList<>(
                        List.of(
                                "--nodes",
                                node,
                                "--port",
                                Integer.toString(first.process().nativePort()),
                                "--storage-port",
                                Integer.toString(STORAGE_PORT)));
        arguments.addAll(List.of(options));
        arguments.add(from.toString());
        return arguments;
    }

    private static List<String> arguments(Path from, String... options) {
        return arguments(first.process().address(), from, options);
    }

    /** As a user types it. */
    private static NodeTool.Result load(Path from) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(Commands.PETRA.toString(), "load"));
        command.addAll(arguments(from));
        return Commands.run(command.toArray(String[]::new));
    }

    /** By a process that loads for all tests: a new one each time would be most of the work. */
    private static NodeTool.Result loadAgain(List<String> arguments) throws IOException {
        if (loader == null)
            loader = new ProcessBuilder(program("Loads", LOADS)).redirectErrorStream(true).start();
        loader.outputWriter().append(String.join("\t", arguments)).append('\n').flush();
        StringBuilder output = new StringBuilder();
        while (true) {
            String line = loader.inputReader().readLine();
            assertThat(line).describedAs("the loader ended: " + output).isNotNull();
            Matcher end = END.matcher(line);
            if (end.matches())
                return new NodeTool.Result(Integer.parseInt(end.group(1)), output.toString());
            output.append(line).append('\n');
        }
    }

    private static NodeTool.Result loadAgain(Path from) throws IOException {
        return loadAgain(arguments(from));
    }

    /** One after the other. */
    private static List<NodeTool.Result> loads(List<List<String>> all) throws IOException {
        List<NodeTool.Result> results = new ArrayList<>();
        for (List<String> each : all) results.add(loadAgain(each));
        return results;
    }

    /** A program of one file, against nothing but the jars. */
    private static List<String> program(String name, String text, String... arguments)
            throws IOException {
        Path program = Files.writeString(directory.resolve(name + ".java"), text);
        Path lib = Distribution.fromSystemProperty().home().resolve("lib");
        List<String> command =
                new ArrayList<>(
                        List.of(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                // It lives for seconds, most of which it compiles itself.
                                "-XX:TieredStopAtLevel=1",
                                "-XX:+UseSerialGC",
                                "--add-opens",
                                "java.base/java.io=ALL-UNNAMED",
                                "--add-opens",
                                "java.base/sun.nio.ch=ALL-UNNAMED",
                                "--add-exports",
                                "java.base/jdk.internal.ref=ALL-UNNAMED",
                                "-cp",
                                lib.resolve("petra.jar") + ":" + lib.resolve("cassandra/*"),
                                "-Dlogback.configurationFile=dev/petra/cassandra/bulkload/load-logback.xml",
                                program.toString()));
        command.addAll(List.of(arguments));
        return command;
    }

    private static void assertLoaded(NodeTool.Result result) {
        assertThat(result.exitCode()).describedAs(result.output()).isZero();
        assertThat(result.output()).containsPattern("Loaded [1-9]\\d* bytes into [12] node");
    }

    private static void assertRefused(NodeTool.Result result, String... reasons) {
        assertThat(result.exitCode()).describedAs(result.output()).isEqualTo(1);
        assertThat(result.output())
                .contains(reasons)
                .doesNotContain("unexpected")
                .doesNotContain("\tat ");
    }

    private static Set<String> content(String table) {
        return Contents.of(session, "SELECT p, c, v, big, s, m, writetime(v) FROM ks." + table);
    }

    private static void eachHasWhatItOwns(String table) {
        for (TestNode node : List.of(first, second)) {
            node.nodetool("verify", "--force", "-e", "--check-tokens", "ks", table);
            assertThat(node.process().log()).contains("slices into ks." + table);
        }
    }

    @Test
    void whatWasWrittenWithoutANodeIsThereAfterwards() throws Exception {
        Path data = directory.resolve("offline");
        NodeTool.Result written =
                Commands.run(
                        program(
                                        "Rows",
                                        PROGRAM,
                                        data.toString(),
                                        TYPE + ";\nCREATE TABLE ks.written" + COLUMNS + ";\n")
                                .toArray(String[]::new));
        assertThat(written.exitCode()).describedAs(written.output()).isZero();
        create("written");
        for (String column : INDEXED)
            session.execute("CREATE INDEX ON ks.written (%s) USING 'sai'".formatted(column));
        // What a killed load left, and one that runs.
        for (String name : List.of(".petra-load-7", ".petra-load-8")) {
            Files.createDirectories(data.resolve(name).resolve("1"));
            Files.createFile(data.resolve(name).resolve("lock"));
        }
        FileChannel running =
                FileChannel.open(
                        data.resolve(".petra-load-8").resolve("lock"), StandardOpenOption.WRITE);
        running.lock();
        // Newer than what comes, and older.
        session.execute("DELETE FROM ks.written USING TIMESTAMP 5000 WHERE p = 3");
        session.execute(INSERT.formatted("written", 4, 4, 0, "old", 4, 0, 1));
        session.execute(INSERT.formatted("written", 1000, 0, 0, "other", 4, 0, 1));
        assertLoaded(load(data));
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
        indexesFindAllOfWritten();
        assertLoaded(loadAgain(data));
        assertThat(content("written")).isEqualTo(content);
        indexesFindAllOfWritten();
        for (String column : INDEXED) session.execute("DROP INDEX ks.written_" + column + "_idx");
        session.execute("TRUNCATE ks.written");
        for (String column : INDEXED)
            session.execute(
                    "CREATE INDEX legacy_%s ON ks.written (%s)".formatted(column, column)
                            + IndexKind.LEGACY.using);
        for (TestNode node : List.of(first, second))
            try (CqlSession there = node.session()) {
                for (String column : INDEXED)
                    IndexKind.LEGACY.await(there, "legacy_" + column, PATIENCE);
            }
        assertLoaded(loadAgain(data));
        assertThat(content("written")).hasSize(1000);
        indexesFindAllOfWritten();
        assertThat(data.toFile().list())
                .containsExactlyInAnyOrder("schema.cql", "rocksdb", ".petra-load-8");
        running.close();
        assertLoaded(loadAgain(data));
        assertThat(data.toFile().list()).containsExactlyInAnyOrder("schema.cql", "rocksdb");
    }

    private static void indexesFindAllOfWritten() {
        List<Row> all = session.execute("SELECT p, c, v, big, s FROM ks.written").all();
        for (String column : INDEXED) {
            Map<String, Set<List<Integer>>> wanted = new TreeMap<>();
            for (Row row : all) {
                String value = row.getString(column);
                if (value != null && value.length() < 1_000)
                    wanted.computeIfAbsent(value, none -> new HashSet<>()).add(key(row));
            }
            assertThat(wanted).as(column).isNotEmpty();
            wanted.forEach(
                    (value, keys) -> {
                        Set<List<Integer>> found = new HashSet<>();
                        for (Row row :
                                session.execute(
                                        "SELECT p, c FROM ks.written WHERE %s = '%s'"
                                                .formatted(column, value))) found.add(key(row));
                        assertThat(found).as(column + " = " + value).isEqualTo(keys);
                    });
        }
    }

    private static List<Integer> key(Row row) {
        return List.of(row.getInt("p"), row.getInt("c"));
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
        assertRefused(
                loadAgain(arguments(snapshots.get(0), "--target-table", "other")),
                "column gone was dropped from it");
        session.execute("ALTER TABLE ks.other ADD gone text");
        session.execute("ALTER TABLE ks.other DROP gone");
        loads(snapshots.stream().map(each -> arguments(each, "--target-table", "other")).toList())
                .forEach(LoadIT::assertLoaded);
        assertThat(content("other")).isEqualTo(before);
        session.execute("ALTER TABLE ks.other ADD gone text");
        assertThat(session.execute("SELECT gone FROM ks.other WHERE p = 3 AND c = 0").one())
                .satisfies(row -> assertThat(row.getString(0)).isNull());
        // Where it came from it has been dropped already.
        loads(snapshots.stream().map(LoadIT::arguments).toList()).forEach(LoadIT::assertLoaded);
        assertThat(content("snap")).isEqualTo(before);
        eachHasWhatItOwns("other");
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
        session.execute("CREATE TABLE ks.stock" + COLUMNS);
        session.execute(
                "CREATE TABLE ks.alien (p int, c text, v int, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
        // By a column in descending order no other node could read the schema any more.
        session.execute("CREATE TABLE ks.base (p int PRIMARY KEY, v int)");
        session.execute(
                "CREATE MATERIALIZED VIEW ks.viewed AS SELECT p, v FROM ks.base WHERE p IS NOT"
                        + " NULL AND v IS NOT NULL PRIMARY KEY (v, p)");
        Path newer = directory.resolve("newer");
        TableFiles.copy(snapshot, newer);
        Files.writeString(newer.resolve("rocksdb/1/PETRA"), "format=99\n");
        Path both = directory.resolve("both");
        TableFiles.copy(snapshot, both);
        Files.createFile(both.resolve("nb-1-big-Data.db"));
        Path moving = directory.resolve("moving");
        TableFiles.copy(snapshot, moving);
        Files.createFile(moving.resolve("rocksdb/MOVING"));

        assertRefused(load(directory.resolve("nowhere")), "Unknown directory");
        assertRefused(loadAgain(directory.resolve("first")), "must have a folder rocksdb");
        Map<List<String>, List<String>> reasons = new LinkedHashMap<>();
        reasons.put(
                arguments(snapshot, "--target-table", "none"),
                List.of("There is no table ks.none in the cluster"));
        reasons.put(
                arguments(snapshot, "--target-table", "stock"),
                List.of("does not have table ks.stock in a storage engine"));
        reasons.put(
                arguments(snapshot, "--target-table", "viewed"),
                List.of("ks.viewed is a materialized view"));
        reasons.put(
                arguments(snapshot, "--target-table", "alien"),
                List.of(
                        "the clustering is [int DESC], not [text]",
                        "column v is REGULAR text, not REGULAR int",
                        "there is no column big"));
        reasons.put(arguments(snapshot, "--connections-per-host", "2"), List.of("one connection"));
        reasons.put(
                arguments("127.0.0.77", snapshot),
                List.of("The cluster cannot be asked by", "127.0.0.77"));
        reasons.put(arguments(newer), List.of("says format 99"));
        reasons.put(arguments(both), List.of("has SSTables as well"));
        reasons.put(arguments(moving), List.of("in another data directory"));
        List<List<String>> all = new ArrayList<>(reasons.keySet());
        all.add(arguments(snapshot, "--target-table", "stock", "--ignore", "127.0.0.1,127.0.0.2"));
        Iterator<NodeTool.Result> results = loads(all).iterator();
        for (List<String> each : reasons.values())
            assertRefused(results.next(), each.toArray(String[]::new));
        NodeTool.Result nobody = results.next();
        assertThat(nobody.exitCode()).isZero();
        assertThat(nobody.output()).contains("nothing in it that a node would own");
        assertThat(content("stock")).isEmpty();
        assertThat(content("source")).hasSize(20);
    }

    /**
     * A table that is truncated, moved out of its engine or dropped while slices come to it, at
     * whatever moment: at once, or later, when they are looked through, or live already.
     */
    @Test
    void aTableEndsWhileItsSlicesCome() throws Exception {
        System.out.println("LoadIT: -Dpetra.seed=" + SEED);
        Random random = new Random(SEED);
        createSimple("large");
        var insert = session.prepare("INSERT INTO ks.large (p, v) VALUES (?, ?)");
        List<Integer> ofFirst = keysOf(first);
        for (int p : ofFirst) {
            byte[] value = new byte[4_000];
            random.nextBytes(value);
            session.execute(insert.bind(p, ByteBuffer.wrap(value)));
        }
        first.nodetool("snapshot", "-t", "end", "ks");
        Path snapshot = TableFiles.of(first, "ks", "large").directory().resolve("snapshots/end");
        List<List<String>> all = new ArrayList<>();
        List<Boolean> areLate = Drawn.of("LoadIT, late", List.of(false, true));
        for (int i = 0; i < areLate.size() * VERBS.size(); i++) {
            createSimple("end" + i);
            session.execute("INSERT INTO ks.end" + i + " (p, v) VALUES (-1, 0x00)");
            all.add(
                    arguments(
                            snapshot,
                            "--target-table",
                            "end" + i,
                            "--entire-sstable-throttle-mib",
                            "1"));
        }
        CompletableFuture<List<NodeTool.Result>> loads =
                CompletableFuture.supplyAsync(
                        () -> {
                            try {
                                return loads(all);
                            } catch (IOException e) {
                                throw new UncheckedIOException(e);
                            }
                        });
        for (int i = 0; i < all.size(); i++) {
            String table = "end" + i;
            long end = System.nanoTime() + PATIENCE.toNanos();
            while (!hasStaged(table)) {
                if (loads.isDone()) throw new AssertionError(loads.join().toString());
                assertThat(System.nanoTime()).as("slices come to " + table).isLessThan(end);
                TimeUnit.MILLISECONDS.sleep(10);
            }
            if (areLate.get(i / VERBS.size())) TimeUnit.MILLISECONDS.sleep(random.nextInt(5_000));
            session.execute(VERBS.get(i % VERBS.size()).formatted(table));
        }
        // Those of which nothing had become live have failed.
        System.out.println("LoadIT: " + loads.join());
        assertThat(loads.join()).anyMatch(load -> load.exitCode() != 0);
        TestNode.awaitMigrations(session, PATIENCE);
        for (int i = 0; i < all.size(); i++) {
            String verb = VERBS.get(i % VERBS.size()).formatted("end" + i);
            if (verb.startsWith("DROP")) createSimple("end" + i);
            int rows = session.execute("SELECT p FROM ks.end" + i).all().size();
            if (!verb.startsWith("ALTER")) assertThat(rows).as(verb).isZero();
            else assertThat(rows).as(verb).isIn(1, 1 + LARGE);
        }
        for (TestNode node : List.of(first, second)) {
            node.nodetool("verify", "--force", "-e", "ks", "large");
            try (var files = Files.list(node.process().directory().logs())) {
                assertThat(files.filter(file -> file.toString().contains("hs_err"))).isEmpty();
            }
        }
    }

    private static void createSimple(String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int PRIMARY KEY, v blob) WITH memtable = 'rocks'");
    }

    /** So many that one node owns: slices come to nobody else. */
    private static List<Integer> keysOf(TestNode node) {
        TokenMap tokens = session.getMetadata().getTokenMap().orElseThrow();
        return IntStream.iterate(0, p -> p + 1)
                .filter(
                        p ->
                                tokens.getReplicas(
                                                "ks", TypeCodecs.INT.encode(p, ProtocolVersion.V4))
                                        .iterator()
                                        .next()
                                        .getEndPoint()
                                        .resolve()
                                        .equals(node.cqlAddress()))
                .limit(LARGE)
                .boxed()
                .toList();
    }

    private static boolean hasStaged(String table) {
        try (var files = Files.walk(TableFiles.of(first, "ks", table).stores())) {
            return files.anyMatch(file -> file.toString().matches(".*/rocksdb/1/streams/.*[.]sst"));
        } catch (IOException | UncheckedIOException e) {
            // It changes while one looks.
            return false;
        }
    }
}
