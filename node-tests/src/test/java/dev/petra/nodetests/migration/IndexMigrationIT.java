// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.migration;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.EitherKind;
import dev.petra.nodetests.fixture.IndexKind;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What indexes find of a table that goes into the engine and out of it is all of it, at any time.
 * Of each kind of index, where they differ.
 */
@OneOf(variants = "indexes of tables on their way, races, and rules", of = 3, number = 1)
@ParameterizedClass
@MethodSource("kinds")
class IndexMigrationIT {
    private static final Duration MOVES = Duration.ofMinutes(3);
    private static final int STABLE = 200;
    private static final int VALUES = 10;

    /** To be there in time: a way takes some seconds, and on a slow machine so may a statement. */
    private static final int ATTEMPTS = 5;

    private static final String BOTH_ALIKE = "nothing of it depends on the kind of an index";

    /** Between two statements of a load: 3 ms. */
    private static final long PAUSE = 3_000_000;

    /** Partitions from here on are written to all the while. */
    private static final int CHANGING = 10_000;

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    private final IndexKind kind;

    static List<IndexKind> kinds() {
        return IndexKind.of("IndexMigrationIT");
    }

    IndexMigrationIT(IndexKind kind) {
        this.kind = kind;
    }

    @BeforeEach
    void choose(TestInfo test) {
        kind.assumeChosen(test);
    }

    @BeforeAll
    static void start() {
        node =
                TestNode.start(
                        directory,
                        options -> options.jvmOptions("-Dpetra.migration.sstable_bytes=262144"));
        session = node.plainSession();
    }

    @BeforeParameterizedClassInvocation
    static void create() {
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterParameterizedClassInvocation
    static void drop() {
        session.execute("DROP KEYSPACE ks");
    }

    @AfterAll
    static void stop() {
        session.close();
        node.close();
    }

    @AfterEach
    void unthrottle() {
        throttle(64);
    }

    /** So that a migration takes a while. */
    private static void throttle(int megabytes) {
        node.nodetool("setcompactionthroughput", Integer.toString(megabytes));
    }

    private static void killAndRestart() {
        session.close();
        node.process().kill();
        node.restart();
        session = node.plainSession();
    }

    private static void fill(String table, String memtable) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, w int, s int static, x text, PRIMARY KEY (p, c))"
                        + " WITH memtable = '"
                        + memtable
                        + "'");
        for (int p = 0; p < STABLE; p++) insert(table, p, p);
    }

    private static void insert(String table, int p, int v) {
        PreparedStatement insert =
                session.prepare(
                        "INSERT INTO ks."
                                + table
                                + " (p, c, v, w, s, x) VALUES (?, 1, ?, ?, ?, ?)");
        session.execute(
                insert.bind(
                        p,
                        v % VALUES,
                        v % VALUES,
                        v % VALUES,
                        p < CHANGING ? "x".repeat(20_000) : "x"));
    }

    private void index(String table, String column) throws Exception {
        createIndex(table, column);
        awaitQueryable(table + "_" + column);
    }

    private void createIndex(String table, String column) {
        session.execute(
                "CREATE INDEX %1$s_%2$s ON ks.%1$s (%2$s)".formatted(table, column) + kind.using);
    }

    private void awaitQueryable(String index) throws Exception {
        kind.await(session, index, MOVES);
    }

    private static void alter(String table, String memtable) {
        session.execute("ALTER TABLE ks." + table + " WITH memtable = '" + memtable + "'");
    }

    private static boolean isMigrating(String table) {
        return session.execute("SELECT table_name FROM petra.migrations").all().stream()
                .anyMatch(row -> table.equals(row.getString(0)));
    }

    /** Until a part of it has moved, or all of it. */
    private static void awaitPart(String table) throws Exception {
        TestNode.await(
                "a part of " + table,
                MOVES,
                () ->
                        session
                                .execute("SELECT table_name, done_bytes FROM petra.migrations")
                                .all()
                                .stream()
                                .filter(row -> table.equals(row.getString(0)))
                                .noneMatch(row -> row.getLong(1) < 500_000));
    }

    private static Set<Integer> found(String table, String where) {
        return session.execute("SELECT p FROM ks." + table + where).all().stream()
                .map(row -> row.getInt(0))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** By each index, each row is found by what it has, and by nothing else. */
    private void check(String table, String... columns) {
        for (String column : columns) {
            List<Row> rows = session.execute("SELECT p, " + column + " FROM ks." + table).all();
            for (int v = 0; v < VALUES; v++) {
                int value = v;
                assertThat(found(table, " WHERE " + column + " = " + value))
                        .as(table + " " + column + " = " + value)
                        .isEqualTo(
                                rows.stream()
                                        .filter(row -> row.getInt(1) == value)
                                        .map(row -> row.getInt(0))
                                        .collect(Collectors.toCollection(TreeSet::new)));
            }
            if (kind == IndexKind.SAI)
                assertThat(found(table, " WHERE " + column + " >= 0")).hasSize(rows.size());
        }
    }

    /** Writes other partitions, and asks for those that nobody writes: they are always found. */
    private static final class Load implements AutoCloseable {
        private final AtomicBoolean stop = new AtomicBoolean();
        final AtomicInteger questions = new AtomicInteger();
        private final List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        private final String[] columns;
        private final List<Thread> threads;

        Load(String table, String... columns) {
            this.columns = columns;
            threads =
                    List.of(
                            new Thread(() -> repeat(i -> write(table, i))),
                            new Thread(() -> repeat(i -> ask(table, i))));
            threads.forEach(Thread::start);
        }

        private interface Action {
            void take(int number);
        }

        private void repeat(Action action) {
            try {
                for (int i = 0; !stop.get(); i++) {
                    action.take(i);
                    // Else the node does little but answer, and its way takes longer.
                    LockSupport.parkNanos(PAUSE);
                }
            } catch (RuntimeException | AssertionError e) {
                failures.add(e);
            }
        }

        private static void write(String table, int i) {
            int p = CHANGING + i % 1_000;
            insert(table, p, i / 7);
            if (i % 11 == 0) session.execute("DELETE FROM ks." + table + " WHERE p = " + p);
        }

        private void ask(String table, int i) {
            int v = i % VALUES;
            String column = columns[i % columns.length];
            Set<Integer> expected = new TreeSet<>();
            for (int p = v; p < STABLE; p += VALUES) expected.add(p);
            Set<Integer> found = found(table, " WHERE " + column + " = " + v);
            found.removeIf(p -> p >= CHANGING);
            assertThat(found).as(column + " = " + v).isEqualTo(expected);
            questions.incrementAndGet();
        }

        @Override
        public void close() {
            stop.set(true);
            threads.forEach(Uninterruptibles::joinUninterruptibly);
            assertThat(failures).isEmpty();
        }
    }

    @Test
    @EitherKind
    void queriesFindEverythingOnEveryWay() throws Exception {
        fill("ways", "default");
        // Each SSTable that leaves the store is a flush of the hidden table of each legacy index.
        String[] columns =
                kind == IndexKind.SAI ? new String[] {"v", "w", "s"} : new String[] {"v", "s"};
        for (String column : columns) index("ways", column);
        node.nodetool("flush", "ks", "ways");
        try (Load load = new Load("ways", columns)) {
            alterAndAsk("ways", "rocks", load);
            throttle(64);
            TestNode.awaitMigrations(session, MOVES);
            awaitSome(load);
            alterAndAsk("ways", "default", load);
            // Back before it has left, and out again before it is back.
            alter("ways", "rocks");
            awaitSome(load);
            alter("ways", "default");
            awaitSome(load);
            throttle(64);
            TestNode.awaitMigrations(session, MOVES);
            awaitSome(load);
        }
        assertThat(TableFiles.of(node, "ks", "ways").stores()).doesNotExist();
        check("ways", columns);
        node.nodetool("flush", "ks", "ways");
        node.nodetool("compact", "ks", "ways");
        check("ways", columns);
        killAndRestart();
        check("ways", columns);
    }

    /**
     * A migration out that was stopped for a while, and altered back, still had its memtable read;
     * the next migration out closed the store.
     */
    @Test
    void queriesFindEverythingWhenAMigrationOutEndsWhileAFormerOneIsStopped() throws Exception {
        assumeTrue(kind == IndexKind.SAI, BOTH_ALIKE);
        session.execute(
                "CREATE TABLE ks.twice (p int, c int, v int, w int, s int static, x text, PRIMARY"
                        + " KEY (p, c)) WITH memtable = 'rocks'");
        for (String column : List.of("v", "w", "s")) index("twice", column);
        for (int p = 0; p < STABLE / 2; p++) insert("twice", p, p);
        TableFiles files = TableFiles.of(node, "ks", "twice");
        boolean rested = false;
        for (int attempt = 0; attempt < ATTEMPTS && !rested; attempt++) {
            if (attempt > 0) sendBack("twice", "default");
            throttle(1);
            alter("twice", "default");
            stopAMigrationOut("twice");
            alter("twice", "rocks");
            alter("twice", "default");
            throttle(1_000);
            TestNode.await("the end of the store", MOVES, () -> !Files.exists(files.stores()));
            check("twice", "v", "w", "s");
            // For ten seconds, in which a slow machine may not get so far.
            rested = isMigrating("twice");
            TestNode.awaitMigrations(session, MOVES);
            check("twice", "v", "w", "s");
        }
        assertThat(rested).as("the former migration rested").isTrue();
        // A compaction may end as the migration does: it opens the indexes of what it wrote.
        // The node's other tables had tests of their own.
        assertThat(node.process().log().lines())
                .noneMatch(
                        line ->
                                line.contains("[ks.twice.")
                                        && line.contains("no longer queryable"));
    }

    /** One of few rows may end before it is stopped, and is begun anew. */
    private static void stopAMigrationOut(String table) throws Exception {
        awaitPart(table);
        Path stores = TableFiles.of(node, "ks", table).stores();
        TestNode.await(
                "a stopped migration",
                MOVES,
                () -> {
                    node.nodetool("stop", "UNKNOWN");
                    if (session.execute("SELECT state FROM petra.migrations").all().stream()
                            .anyMatch(row -> row.getString(0).startsWith("stopped"))) return true;
                    if (!Files.exists(stores)) {
                        alter(table, "rocks");
                        TestNode.awaitMigrations(session, MOVES);
                        alter(table, "default");
                    }
                    return false;
                });
    }

    private static String other(String memtable) {
        return memtable.equals("rocks") ? "default" : "rocks";
    }

    /** Sends a table on its way, until questions were answered that found it there. */
    private static void alterAndAsk(String table, String memtable, Load load) throws Exception {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            throttle(1);
            alter(table, memtable);
            awaitSome(load);
            if (isMigrating(table)) return;
            // On a slow machine they take longer than all of the way.
            sendBack(table, memtable);
        }
        throw new AssertionError(table + " was never on its way when it was asked");
    }

    private static void sendBack(String table, String memtable) throws Exception {
        throttle(64);
        alter(table, other(memtable));
        TestNode.awaitMigrations(session, MOVES);
    }

    private interface Step {
        void take() throws Exception;
    }

    /**
     * Sends a table on its way, and gives it an index there.
     *
     * @param create {@link #index} or {@link #createIndex} of that column
     */
    private static void indexOnTheWay(String table, String memtable, String column, Step create)
            throws Exception {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            throttle(1);
            alter(table, memtable);
            awaitPart(table);
            create.take();
            if (isMigrating(table)) return;
            // On a slow machine that takes longer than all of the way.
            session.execute("DROP INDEX ks.%s_%s".formatted(table, column));
            sendBack(table, memtable);
        }
        throw new AssertionError(table + " never got its index on its way");
    }

    private static void awaitSome(Load load) throws Exception {
        int before = load.questions.get();
        TestNode.await(
                "questions",
                MOVES,
                () -> load.questions.get() > before + 10 || !load.failures.isEmpty());
        assertThat(load.failures).isEmpty();
    }

    @Test
    @EitherKind
    void aKillOnAWayLosesNoEntry() throws Exception {
        fill("killed", "rocks");
        index("killed", "v");
        index("killed", "s");
        List<String> ways =
                kind == IndexKind.SAI
                        ? List.of("default", "rocks", "default", "default", "rocks", "rocks")
                        : List.of("default", "rocks", "default", "rocks");
        int number = CHANGING;
        for (String memtable : ways) {
            throttle(1);
            alter("killed", memtable);
            awaitPart("killed");
            for (int i = 0; i < 50; i++) insert("killed", number, number++);
            session.execute("DELETE FROM ks.killed WHERE p = " + (number - 3));
            if (memtable.equals("default")) awaitSSTable("killed");
            killAndRestart();
            check("killed", "v", "s");
            insert("killed", number, number++);
            check("killed", "v", "s");
        }
        throttle(64);
        TestNode.awaitMigrations(session, MOVES);
        check("killed", "v", "s");
        killAndRestart();
        check("killed", "v", "s");
        if (kind == IndexKind.LEGACY) assertThat(hiddenSSTables("ks.killed.killed_v")).isZero();
    }

    /** Some of it has left then, and on its way at 1 MiB/s most of it has not. */
    private static void awaitSSTable(String table) throws Exception {
        Path sstables = TableFiles.of(node, "ks", table).directory();
        TestNode.await(
                "an SSTable",
                MOVES,
                () ->
                        TableFiles.children(sstables).stream()
                                .anyMatch(file -> file.toString().endsWith("-Data.db")));
    }

    /** It waited for the node to join, which only the build of a view has to. */
    @Test
    void aTableLeavesWithItsIndexesBeforeTheNodeJoins() throws Exception {
        assumeTrue(kind == IndexKind.LEGACY, "the other is written with each SSTable");
        fill("early", "rocks");
        index("early", "v");
        throttle(1);
        alter("early", "default");
        // It begins when those who write have left the memtable.
        TestNode.await("its migration", MOVES, () -> isMigrating("early"));
        awaitPart("early");
        assertThat(isMigrating("early")).isTrue();
        node.process().kill();
        session.close();
        Path stores = TableFiles.of(node, "ks", "early").stores();
        assertThat(stores).exists();
        try (TestNode apart = TestNode.begin(directory, IndexMigrationIT::apart)) {
            apart.awaitLog("write survey mode is active", MOVES);
            TestNode.await("the end of the store", MOVES, () -> !Files.exists(stores));
        }
        node.restart();
        session = node.plainSession();
        check("early", "v");
    }

    private static NodeConfig.Builder apart(NodeConfig.Builder options) {
        return options.nativePort(node.process().nativePort())
                .storagePort(node.process().storagePort())
                .jmxPort(node.process().jmxPort())
                .jvmOptions("-Dcassandra.write_survey=true");
    }

    /** What was in the hidden table is dropped: all comes from the store. */
    private static int hiddenSSTables(String index) {
        String text = "SSTable count: ";
        return node.tryNodetool("tablestats", index)
                .output()
                .lines()
                .map(String::strip)
                .filter(line -> line.startsWith(text))
                .mapToInt(line -> Integer.parseInt(line.substring(text.length())))
                .sum();
    }

    /** The store knows nothing of it, and Cassandra takes it for complete. */
    @Test
    @EitherKind
    void anIndexThatATableGotOnItsWayOutIsBuiltWhenItComesBack() throws Exception {
        fill("turned", "rocks");
        indexOnTheWay("turned", "default", "v", () -> index("turned", "v"));
        assertThatThrownBy(() -> found("turned", " WHERE v = 1"))
                .isInstanceOf(DriverException.class);
        alter("turned", "rocks");
        Set<Integer> expected = new TreeSet<>();
        for (int p = 1; p < STABLE; p += VALUES) expected.add(p);
        TestNode.await(
                "the index",
                MOVES,
                () -> {
                    try {
                        assertThat(found("turned", " WHERE v = 1")).isEqualTo(expected);
                        return true;
                    } catch (DriverException e) {
                        // It is being built.
                        return false;
                    }
                });
        throttle(64);
        TestNode.awaitMigrations(session, MOVES);
        check("turned", "v");
        insert("turned", CHANGING, 3);
        check("turned", "v");
        killAndRestart();
        check("turned", "v");
    }

    /**
     * Left in the store, its number would be that of the index that is created again, and a stream
     * whose rows had no entries by then would pass for complete.
     */
    @Test
    void anIndexThatIsDroppedOnTheWayOutIsNotInTheStoreWhenTheTableComesBack() throws Exception {
        assumeTrue(kind == IndexKind.SAI, BOTH_ALIKE);
        fill("left", "rocks");
        index("left", "v");
        throttle(1);
        alter("left", "default");
        stopAMigrationOut("left");
        session.execute("DROP INDEX ks.left_v");
        alter("left", "rocks");
        throttle(64);
        TestNode.awaitMigrations(session, MOVES);
        assertThat(node.process().log())
                .contains("Dropping the entries of a former index of ks.left");
        index("left", "v");
        check("left", "v");
    }

    @Test
    @EitherKind
    void anIndexThatATableGetsOnAWayIsCompleteAtItsEnd() throws Exception {
        fill("gets", "default");
        node.nodetool("flush", "ks", "gets");
        indexOnTheWay("gets", "rocks", "v", () -> index("gets", "v"));
        check("gets", "v");
        throttle(64);
        TestNode.awaitMigrations(session, MOVES);
        check("gets", "v");
        indexOnTheWay("gets", "default", "w", () -> createIndex("gets", "w"));
        check("gets", "v");
        throttle(64);
        TestNode.awaitMigrations(session, MOVES);
        awaitQueryable("gets_w");
        check("gets", "v", "w");
        session.execute("DROP INDEX ks.gets_v");
        alter("gets", "rocks");
        TestNode.awaitMigrations(session, MOVES);
        check("gets", "w");
    }
}
