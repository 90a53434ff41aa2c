// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.launcher.NodeProcess;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * A node's full query log and audit logs, asked again of real nodes by the command. One instance
 * has the logs for all tests, and JUnit has to be told that they may run side by side all the same.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Execution(ExecutionMode.CONCURRENT)
class ReplayIT {
    @TempDir static Path directory;
    private Path log;
    private Path snapshot;
    private long asked;
    private RecordedAudit audit;

    /** A node with a snapshot, and the logs of what it was asked since. */
    @BeforeAll
    void record() throws IOException, InterruptedException {
        Path data = directory.resolve("node");
        log = Files.createDirectory(directory.resolve("log"));
        ProcessTarget process =
                ProcessTarget.start(
                        new NodeProcess(
                                Nodes.config(data, Engine.LEGACY, "", "G1", 512, 64)
                                        .jvmOptions(RecordedAudit.options(directory))
                                        .yaml(RecordedAudit.yaml())
                                        .build()),
                        data);
        try (process;
                CqlSession session =
                        CqlSession.builder()
                                .addContactPoints(process.nodes())
                                .withLocalDatacenter("datacenter1")
                                .withConfigLoader(
                                        ClientAccess.options()
                                                .withDuration(
                                                        DefaultDriverOption.REQUEST_TIMEOUT,
                                                        Duration.ofMinutes(1))
                                                .build())
                                .build()) {
            session.execute(
                    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                            + " 'replication_factor': 1}");
            session.execute(
                    "CREATE TABLE ks.t (k int, c int, s text static, v text, m map<text, int>,"
                            + " PRIMARY KEY (k, c)) WITH comment = 'a; b'");
            session.execute("CREATE TABLE ks.other (k int PRIMARY KEY, v uuid)");
            for (int i = 0; i < 200; i++)
                session.execute("INSERT INTO ks.t (k, c, v) VALUES (?, ?, 'old')", i % 20, i);
            audit = new RecordedAudit(process, session);
            process.nodetool("flush");
            process.nodetool("snapshot", "--tag", "before", "ks", RecordedAudit.KEYSPACE);
            // Not there where they are asked again.
            session.execute(
                    "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy',"
                            + " 'replication_factor': 1}");
            session.execute("USE app");
            process.nodetool("enablefullquerylog", "--path", log.toString(), "--blocking", "true");
            ask(session);
            audit.begin();
            askOther(session);
            process.nodetool("disablefullquerylog");
            audit.ask();
        }
        snapshot = snapshot(data, "t");
        audit.read(data);
    }

    /** The one of a table. */
    static Path snapshot(Path data, String table) throws IOException {
        try (Stream<Path> files = Files.walk(data)) {
            return files.filter(
                            f ->
                                    f.toString()
                                            .matches(".*/" + table + "-[0-9a-f]+/snapshots/before"))
                    .findFirst()
                    .orElseThrow();
        }
    }

    /** All that a client can say. */
    private void ask(CqlSession session) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks.t (k, c, s, v, m) VALUES (?, ?, ?, ?, ?)");
        PreparedStatement select = session.prepare("SELECT * FROM ks.t WHERE k = ?");
        long seed = System.nanoTime();
        System.out.println("seed " + seed);
        Random random = new Random(seed);
        for (int i = 0; i < 300; i++) {
            int k = random.nextInt(20);
            int c = random.nextInt(20);
            switch (random.nextInt(9)) {
                case 0 ->
                        // The static and the map are not set, which is not null.
                        session.execute(
                                insert.boundStatementBuilder()
                                        .setInt(0, k)
                                        .setInt(1, c)
                                        .setString(3, "v" + i)
                                        .build());
                case 1 -> session.execute("DELETE FROM ks.t WHERE k = " + k + " AND c > " + c);
                case 2 ->
                        session.execute(
                                "UPDATE ks.t USING TTL 86400 SET s = ?, m['a'] = ? WHERE k = ? AND"
                                        + " c = ?",
                                "s" + i,
                                null,
                                k,
                                c);
                case 3 ->
                        session.execute(
                                BatchStatement.newInstance(
                                        random.nextBoolean()
                                                ? DefaultBatchType.LOGGED
                                                : DefaultBatchType.UNLOGGED,
                                        SimpleStatement.newInstance(
                                                "DELETE s FROM ks.t WHERE k = ?", k),
                                        insert.bind(k, c, null, "b" + i, Map.of("x", i))));
                case 4 ->
                        session.execute(
                                SimpleStatement.newInstance(
                                                "INSERT INTO ks.t (k, c, v) VALUES (?, ?, 'old') IF"
                                                        + " NOT EXISTS",
                                                k,
                                                c)
                                        .setSerialConsistencyLevel(
                                                DefaultConsistencyLevel.LOCAL_SERIAL));
                case 5 ->
                        session.execute(
                                SimpleStatement.newInstance(
                                                "INSERT INTO ks.t (k, c, v, m) VALUES (?, ?, ?, ?)",
                                                k,
                                                c,
                                                "t" + i,
                                                Map.of("x", i))
                                        .setQueryTimestamp(random.nextInt(1000)));
                default -> session.execute(select.bind(k));
            }
            asked++;
        }
        // Pages, by the paging states of the node that was asked.
        int rows = 0;
        for (Row row :
                session.execute(SimpleStatement.newInstance("SELECT * FROM ks.t").setPageSize(10)))
            rows += row.isNull(0) ? 0 : 1;
        asked += rows / 10;
        session.execute("SELECT token(k), writetime(s), ttl(s) FROM ks.t PER PARTITION LIMIT 1");
        asked++;
    }

    private static void askOther(CqlSession session) {
        session.execute("SELECT * FROM ks.other");
        session.execute("INSERT INTO ks.other (k, v) VALUES (1, uuid())");
        session.execute("SELECT * FROM ks.other");
    }

    private static Process start(Path log, Path output, String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("petra.command"));
        command.addAll(List.of("replay", "--log=" + log, "--heap=512", "--memory=64"));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
    }

    private String replay(int code, Path log, String... arguments)
            throws IOException, InterruptedException {
        Path output = Files.createTempFile(directory, "output", "");
        Process process = start(log, output, arguments);
        try {
            assertThat(process.waitFor()).describedAs(Files.readString(output)).isEqualTo(code);
        } finally {
            // If the test's time is over.
            process.destroy();
        }
        return Files.readString(output);
    }

    @Test
    void whatANodeWasAskedIsTimedAndCompared() throws IOException, InterruptedException {
        Path out = directory.resolve("out");
        String told = replay(0, log, "--snapshot=" + snapshot, "--speed=0", "--out=" + out);
        assertThat(told)
                .doesNotContain("SLF4J", "WARN")
                .containsPattern("rocks: [\\d,]+ requests, of which [1-9]\\d* to warm up, 0 failed")
                .contains("answers.md");
        String answers = Files.readString(out.resolve("answers.md"));
        assertThat(answers)
                .contains("- different: 0\n", "- failed: 0 with rocks, 0 with legacy-latest")
                .containsPattern("- rows of these: [1-9]")
                .containsPattern("- conditional updates \\(IF\\): [1-9]")
                .containsPattern("- not asked, of tables that are not given: [1-9]");
        Matcher compared = Pattern.compile("- compared: (\\d+)\n").matcher(answers);
        assertThat(compared.find()).isTrue();
        // The last page may be empty.
        assertThat(Long.parseLong(compared.group(1))).isBetween(asked, asked + 1);
        Results results = Results.read(out.resolve("results.json"));
        for (String engine : List.of("rocks", "legacy-latest"))
            for (String metric : List.of("throughput", "read P99", "write P50", "stall", "failed"))
                assertThat(results.figures())
                        .anyMatch(f -> f.engine().equals(engine) && f.metric().equals(metric));
        assertThat(results.figures())
                .filteredOn(figure -> figure.metric().equals(Replay.ON_DISK))
                .extracting(Figure::engine)
                .containsExactlyInAnyOrder("rocks", "legacy-latest");
        assertThat(results.figures())
                .filteredOn(figure -> figure.metric().equals(Replay.ON_DISK))
                .allSatisfy(figure -> assertThat(figure.min()).isPositive());
        assertThat(out.resolve("report.html")).content().contains("rocks");
        assertThat(out.resolve("work")).doesNotExist();
    }

    /**
     * Of both forms; the answers have as many rows as those of the node had that was asked. Of
     * another table, the column is not there that was written.
     */
    @Test
    void anAuditLogIsAskedAsFarAsItHasAllAndFailuresAreNoAnswers()
            throws IOException, InterruptedException {
        BenchIT.assumeDrawn(2);
        List<String> arguments = new ArrayList<>(audit.tables(directory));
        arguments.add("--schema=" + withoutColumn());
        arguments.addAll(List.of("--timed=0", "--out=" + directory.resolve("audit-answers")));
        String told = replay(Replay.FAILED, audit.log(), arguments.toArray(String[]::new));
        assertThat(told)
                .contains(
                        "- different: 0\n",
                        "- failed: 1 with rocks, 1 with legacy-latest, of which 1 with both\n",
                        "- both failed alike: 1, as with INSERT INTO ks.other");
        audit.check(told, 3, 1);
    }

    private Path withoutColumn() throws IOException {
        return Files.writeString(
                Files.createTempFile(directory, "without", ".cql"),
                "CREATE TABLE ks.other (k int PRIMARY KEY);");
    }

    @Test
    void anAuditLogWithoutValuesIsRefused() throws IOException, InterruptedException {
        Path schema = RecordedAudit.prepared(Files.createDirectory(directory.resolve("schema")));
        String told =
                replay(1, audit.log(), "--schema=" + schema, "--out=" + directory.resolve("none"));
        assertThat(told)
                .contains(
                        "no request of the log can be asked",
                        2 * RecordedAudit.WITHOUT_VALUES + " with values that are not in the log",
                        "nodetool enablefullquerylog");
        assertThat(directory.resolve("none")).doesNotExist();
    }

    /** What the nodes make up themselves differs. */
    @Test
    void differencesAreFound() throws IOException, InterruptedException {
        BenchIT.assumeDrawn(1);
        Path schema = directory.resolve("other.cql");
        Files.writeString(schema, "CREATE TABLE ks.other (k int PRIMARY KEY, v uuid);");
        Path out = directory.resolve("different");
        String told =
                replay(
                        Replay.DIFFERENT,
                        audit.log(),
                        "--schema=" + schema,
                        "--timed=0",
                        "--out=" + out);
        assertThat(told)
                .contains(
                        "- compared: 3\n",
                        "- different: 1\n",
                        "- with now(), uuid() or the like: 1");
        assertThat(out.resolve("answers.md"))
                .content()
                .contains(
                        "SELECT * FROM ks.other",
                        "- rocks: 1 rows: [k:1, v:",
                        "- legacy-latest: 1 rows: [k:1, v:");
        assertThat(out.resolve("results.json")).doesNotExist();
    }

    @Test
    void failuresAreCounted() throws IOException, InterruptedException {
        BenchIT.assumeDrawn(1);
        Path times = directory.resolve("failed-times");
        String told =
                replay(
                        Replay.FAILED,
                        log,
                        "--schema=" + withoutColumn(),
                        "--engine=rocks",
                        "--speed=0",
                        "--warmup=0",
                        "--compared=0",
                        "--total-memory=" + totalMemory(),
                        "--out=" + times);
        assertThat(told)
                .contains("rocks: 3 requests, of which 0 to warm up, 1 failed: {}")
                .contains("InvalidQueryException=1")
                .containsPattern("- not asked, of tables that are not given: [1-9]");
        Results results = Results.read(times.resolve("results.json"));
        assertThat(results.figures())
                .noneMatch(figure -> figure.metric().matches("write (P.*|max)"))
                .filteredOn(figure -> figure.metric().equals("failed"))
                .singleElement()
                .satisfies(figure -> assertThat(figure.values()).containsExactly(1.0));
        assertThat(results.settings()).containsKey("not asked, of tables that are not given");
    }

    @Test
    void nothingOutlivesAReplayThatIsEnded() throws IOException, InterruptedException {
        BenchIT.assumeDrawn(1);
        Path out = directory.resolve("ended");
        Path output = directory.resolve("output of one that is ended");
        Process process =
                start(
                        log,
                        output,
                        "--snapshot=" + snapshot,
                        "--speed=0.000001",
                        "--total-memory=" + totalMemory(),
                        "--out=" + out);
        Optional<ProcessHandle> node = Optional.empty();
        while (node.isEmpty()) {
            assertThat(process.isAlive()).describedAs(Files.readString(output)).isTrue();
            Thread.sleep(100);
            String mark = "-Dpetra.node=" + directory.toRealPath().resolve("ended");
            node =
                    process.descendants()
                            .filter(
                                    child ->
                                            BenchIT.arguments(child.pid()).stream()
                                                    .anyMatch(a -> a.startsWith(mark)))
                            .findFirst();
        }
        Owner owner = Owner.of(BenchIT.arguments(node.get().pid())).orElseThrow();
        process.destroy();
        assertThat(process.waitFor(1, TimeUnit.MINUTES)).isTrue();
        assertThat(BenchIT.lives(node.get().pid())).isFalse();
        assertThat(MemoryLimit.all())
                .noneMatch(group -> BenchIT.of(group).equals(Optional.of(owner)));
    }

    /** In MiB; 0 for no limit, where this machine allows none. */
    private static int totalMemory() throws IOException {
        try {
            MemoryLimit.create("replay-it", 1 << 30).close();
            return 1500;
        } catch (MemoryLimit.NoLimitException e) {
            System.out.println("*** --total-memory IS NOT TESTED: " + e.getMessage() + " ***");
            return 0;
        }
    }

    @Test
    void aLogThatIsCutIsAskedAsFarAsItIsWhole() throws IOException, InterruptedException {
        BenchIT.assumeDrawn(0);
        Path copy = Files.createDirectory(directory.resolve("copied"));
        try (Stream<Path> files = Files.list(log)) {
            for (Path file : files.toList()) Files.copy(file, copy.resolve(file.getFileName()));
        }
        cut(
                copy,
                file -> Files.readString(file, ISO_8859_1).lastIndexOf("SELECT * FROM ks.t WHERE"));
        // By one node; how many are there to be asked does not depend on what is done with them.
        String[] arguments = {
            "--snapshot=" + snapshot,
            "--engine=rocks",
            "--speed=0",
            "--warmup=0",
            "--compared=0",
            "--out=" + directory.resolve("cut")
        };
        String told = replay(0, copy, arguments);
        assertThat(told)
                .containsPattern("rocks: [1-9][\\d,]+ requests, of which 0 to warm up, 0 failed")
                .containsPattern("- damage of the log 1: .* cannot be read, behind request [1-9]")
                .contains(copy.toString());
        cut(copy, file -> 20_000);
        arguments[arguments.length - 1] = "--out=" + directory.resolve("cut off");
        told = replay(1, copy, arguments);
        assertThat(told).contains("no request of the log", "cannot be read", copy.toString());
    }

    /** Where a file is to end. */
    private interface End {
        long of(Path file) throws IOException;
    }

    private static void cut(Path log, End end) throws IOException {
        try (Stream<Path> files = Files.list(log)) {
            for (Path file : files.filter(f -> f.toString().endsWith(".cq4")).toList())
                try (RandomAccessFile cut = new RandomAccessFile(file.toFile(), "rw")) {
                    long length = end.of(file);
                    if (length > 0) cut.setLength(length);
                }
        }
    }
}
