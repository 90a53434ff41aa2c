// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * A kill at each step of a shadow that answers: while it begins, becomes another, ends, and while
 * the node stops and starts. Its clients write all the time, to one table for all.
 */
@OneOf(variants = "shadows that answer: on two nodes, and kills", of = 2, number = 2)
class FallbackPointsIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final int WRITERS = 3;

    /** Partitions of 50 kB, of which a copy takes seconds where it is throttled. */
    private static final int FILLED = 400;

    /** What the node is killed in. */
    private enum Way {
        CREATE("default", "rocks_fallback"),
        COPY("default", "rocks_fallback"),
        ANSWER("rocks_shadow", "rocks_fallback"),
        ANSWER_NO_MORE("rocks_fallback", "rocks_shadow"),
        END("rocks_fallback", "default"),
        STOP("rocks_fallback", "rocks_fallback"),
        STOP_IN_A_COPY("default", "rocks_fallback"),
        START("rocks_fallback", "rocks_fallback"),
        START_IN_A_COPY("default", "rocks_fallback");

        private final String from;
        private final String to;

        Way(String from, String to) {
            this.from = from;
            this.to = to;
        }

        boolean isInACopy() {
            return this == STOP_IN_A_COPY || this == START_IN_A_COPY;
        }

        boolean isStop() {
            return this == STOP || this == STOP_IN_A_COPY;
        }

        boolean isStart() {
            return this == START || this == START_IN_A_COPY;
        }
    }

    private static final List<String> STATEMENTS =
            List.of(
                    "CREATE enter Shadows#opened",
                    "CREATE enter Shadow#begin",
                    "CREATE leave ShadowCopy#begin",
                    "COPY enter Shadows#follow",
                    "COPY enter Shadow#begin",
                    "COPY leave ShadowFolder#create",
                    "COPY leave Shadow#open",
                    "COPY enter ShadowStore#doubled",
                    "COPY enter ShadowCopy#begin",
                    "COPY leave ShadowCopy#begin",
                    "COPY enter ShadowCopy#copied",
                    "COPY leave ShadowCopy#copy",
                    "ANSWER enter Shadow#become",
                    "ANSWER leave Shadow#become",
                    "ANSWER_NO_MORE enter Shadow#become",
                    "ANSWER_NO_MORE leave Shadow#become",
                    "END enter Shadows#end",
                    "END leave Shadow#end",
                    "END leave Shadow#forget",
                    "END leave Shadow#retire",
                    "END leave FormerCopies#isDropped",
                    "END enter ShadowFolder#deleteIfEmpty",
                    "END leave ShadowFolder#deleteIfEmpty");

    /** What the shadow has is in no log, and the engine is not closed yet. */
    private static final String NOTED = "STOP leave ShadowFolder#write";

    private static final List<String> RESTARTS =
            List.of(
                    "STOP enter Shadows#stop",
                    "STOP enter Shadow#close",
                    "STOP enter ShadowFolder#write",
                    NOTED,
                    "STOP leave Shadows#close",
                    "STOP_IN_A_COPY enter Shadows#close",
                    "STOP_IN_A_COPY leave ShadowFolder#create",
                    "STOP_IN_A_COPY enter ShadowFolder#write",
                    "STOP_IN_A_COPY leave ShadowFolder#write",
                    "START enter ShadowFolder#take",
                    "START leave ShadowFolder#take",
                    "START leave Shadow#resume",
                    "START_IN_A_COPY leave ShadowFolder#take",
                    "START_IN_A_COPY enter Shadow#open",
                    "START_IN_A_COPY leave ShadowCopy#resume",
                    "START_IN_A_COPY enter ShadowCopy#copied",
                    "START_IN_A_COPY leave ShadowCopy#copy",
                    "START_IN_A_COPY leave ShadowCopy#step");

    /** Those at which the node knows at the next start that the copy is whole. */
    private static final Set<String> GO_ON =
            Set.of(
                    NOTED,
                    "STOP leave Shadows#close",
                    "STOP_IN_A_COPY leave ShadowFolder#write",
                    "START enter ShadowFolder#take");

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static CrashPoints crashes;
    private static TestNode node;
    private static CqlSession session;

    /** All that wrote to the table. */
    private static final List<Writer> writers = new ArrayList<>();

    private static int cycles;

    @BeforeAll
    static void start() throws Exception {
        crashes =
                new CrashPoints(
                        directory,
                        Stream.concat(STATEMENTS.stream(), RESTARTS.stream())
                                .map(step -> OURS + "shadow." + step.split(" ", -1)[2])
                                .distinct()
                                .toList());
        Map<String, Object> configurations =
                Map.of("rocks_shadow", mode("shadow"), "rocks_fallback", mode("fallback"));
        node =
                TestNode.start(
                        directory.resolve("node"),
                        config ->
                                crashes.in(
                                        config.yaml(
                                                Map.of(
                                                        "commitlog_sync",
                                                        "batch",
                                                        "disk_failure_policy",
                                                        "stop_paranoid",
                                                        "memtable",
                                                        Map.of(
                                                                "configurations",
                                                                configurations)))));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
        session.execute(Writer.table("ks.t"));
        PreparedStatement insert =
                session.prepare("INSERT INTO ks.t (cycle, writer, step, v) VALUES (-1, ?, 0, ?)");
        for (int i = 0; i < FILLED; i++) session.execute(insert.bind(i, "v".repeat(50_000)));
        node.nodetool("flush", "ks", "t");
    }

    private static Map<String, Object> mode(String mode) {
        return ShadowTable.configuration("rocks", mode, "1");
    }

    @AfterEach
    void release() throws IOException {
        crashes.release();
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    @Test
    void aKillInAStatementLosesNothing() throws Exception {
        for (String step : CrashPoints.sample(STATEMENTS)) killAt(step);
    }

    @Test
    void aKillInARestartLosesNothing() throws Exception {
        for (String step : CrashPoints.sample(RESTARTS)) killAt(step);
    }

    @Test
    void aKillBehindTheNoteThatACopyIsWholeLosesNothing() throws Exception {
        killAt(NOTED);
    }

    private static void killAt(String step) throws Exception {
        System.out.println("Crashes: " + step);
        String[] words = step.split(" ", -1);
        Way way = Way.valueOf(words[0]);
        if (way == Way.CREATE) {
            killInCreate(words[1], words[2]);
            return;
        }
        alter(way.from);
        awaitMode("t", way.from);
        List<Writer> during = write();
        if (way.isInACopy()) {
            node.nodetool("setcompactionthroughput", "1");
            alter(way.to);
            ShadowTable.await(session, "t", PATIENCE, row -> row.getLong("left_bytes") > 0);
            // From now on the table has other SSTables than those that are copied.
            node.nodetool("compact", "ks", "t");
        }
        for (Writer each : during) each.assertIsWriting();
        if (way.isStart()) node.process().stop();
        crashes.arm(words[1], "." + words[2]);
        if (way.isStart()) node.process().start();
        else if (way.isStop()) node.process().stop();
        else tryTo(() -> alter(way.to));
        crashes.awaitCrash(node);
        for (Writer each : during) each.join();
        restart();
        writers.forEach(writer -> writer.check(session));
        // Whoever had no answer asks again.
        alter(way.to);
        awaitMode("t", way.to);
        checkBegun(way, step);
        check(way);
    }

    private static void killInCreate(String when, String method) throws Exception {
        String create =
                Writer.table("IF NOT EXISTS ks.created") + " WITH memtable = 'rocks_fallback'";
        crashes.arm(when, "." + method);
        tryTo(() -> session.execute(create));
        crashes.awaitCrash(node);
        restart();
        session.execute(create);
        Writer writer = new Writer(session, "ks.created", 0, 0);
        writer.start();
        assertThat(writer.started.await(2, TimeUnit.MINUTES)).isTrue();
        awaitMode("created", "rocks_fallback");
        writer.halt();
        writer.join();
        assertThat(writer.failure()).isNull();
        checkAnswered("created", writer);
        checkCompared("created");
        checkFiles("created");
        Path folder = ShadowTable.folder(node, "created");
        session.execute("DROP TABLE ks.created");
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(folder));
        writers.forEach(each -> each.check(session));
    }

    private static void tryTo(Runnable statement) {
        try {
            statement.run();
        } catch (DriverException e) {
            System.out.println("Crashes: the node ended before it answered: " + e.getMessage());
        }
    }

    private static void restart() {
        session.close();
        node.restart();
        session = node.plainSession();
    }

    private static void alter(String memtable) {
        session.execute("ALTER TABLE ks.t WITH memtable = '" + memtable + "'");
    }

    private static List<Writer> write() throws Exception {
        List<Writer> begun = new ArrayList<>();
        for (int w = 0; w < WRITERS; w++)
            begun.add(new Writer(session, "ks.t", cycles, w).pausing(Duration.ofMillis(2)));
        cycles++;
        begun.forEach(Thread::start);
        for (Writer each : begun) assertThat(each.started.await(2, TimeUnit.MINUTES)).isTrue();
        writers.addAll(begun);
        return begun;
    }

    /** Until the table has the shadow that it is to have, or none. */
    private static void awaitMode(String table, String memtable) throws Exception {
        if (memtable.equals("default")) {
            TestNode.await(
                    "no shadow", PATIENCE, () -> !Files.exists(ShadowTable.folder(node, table)));
            assertThat(ShadowTable.row(session, table)).isNull();
        } else {
            String answers = memtable.equals("rocks_fallback") ? "yes" : "no: mode is shadow";
            ShadowTable.await(
                    session,
                    table,
                    PATIENCE,
                    row -> row.getBoolean("caught_up") && row.getString("answers").equals(answers));
        }
    }

    /** That its copy went on, if and only if it is known to be one of the table. */
    private static void checkBegun(Way way, String step) {
        String started = node.process().logSinceStart();
        if (GO_ON.contains(step))
            assertThat(started)
                    .containsPattern(
                            "The shadow of ks\\.t goes on\\D*" + (way.isInACopy() ? "[1-9]" : "0"))
                    .doesNotContain("The shadow of ks.t is being made");
        else {
            assertThat(started).as(step).doesNotContain("The shadow of ks.t goes on");
            if (!way.to.equals("default"))
                assertThat(started).as(step).contains("The shadow of ks.t is being made");
        }
    }

    private static void check(Way way) throws Exception {
        assertThat(session.execute("SELECT * FROM petra.migrations").all()).isEmpty();
        assertThat(session.execute("SELECT DISTINCT cycle, writer FROM ks.t").all())
                .hasSize(FILLED + writers.size());
        if (way.to.equals("rocks_fallback")) for (Writer each : writers) checkAnswered("t", each);
        else writers.forEach(writer -> writer.check(session));
        if (way.to.equals("default")) return;
        checkCompared("t");
        checkFiles("t");
    }

    /** What the shadow says. It leaves a read to the table where a compaction has just ended. */
    private static void checkAnswered(String table, Writer writer) throws Exception {
        TestNode.await(
                "an answer of the shadow",
                PATIENCE,
                () -> {
                    long before = ShadowTable.row(session, table).getLong("answered");
                    writer.check(session);
                    return ShadowTable.row(session, table).getLong("answered") > before;
                });
    }

    private static void checkCompared(String table) throws Exception {
        NodeTool.Result result = Commands.petra(node, "compare", "ks." + table);
        assertThat(result.exitCode()).as(result.output()).isZero();
        assertThat(ShadowTable.row(session, table).getLong("different")).isZero();
    }

    /** One copy, and nothing of another. */
    private static void checkFiles(String table) throws Exception {
        Path folder = ShadowTable.folder(node, table);
        TestNode.await(
                "nothing but one copy in " + folder,
                PATIENCE,
                () -> {
                    List<Path> all = new ArrayList<>(TableFiles.children(folder));
                    // Where SSTables were, or would be.
                    all.removeIf(
                            path -> Files.isDirectory(path) && TableFiles.children(path).isEmpty());
                    return all.size() == 1 && all.get(0).getFileName().toString().matches("[0-9]+");
                });
    }
}
