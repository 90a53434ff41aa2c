// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.ReadFailureException;
import dev.petra.nodetests.fixture.AgentJar;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Tables whose shadow answers reads, with Cassandra's storage to fall back to at any time. */
class FallbackIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static CrashPoints points;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() throws Exception {
        System.out.println("Fallback: -Dpetra.seed=" + SEED);
        points = new CrashPoints(directory, List.of(OURS + "shadow.ShadowStore#doubled"));
        Path jar = AgentJar.packFaultyEngine(directory);
        Map<String, Object> configurations =
                Map.of(
                        "rocks_shadow", configuration("rocks", "shadow"),
                        "rocks_fallback", configuration("rocks", "fallback"),
                        "faulty_fallback", configuration("faulty", "fallback"),
                        "faulty_compared", ShadowTable.configuration("faulty", "fallback", "1"));
        node =
                TestNode.start(
                        directory.resolve("node"),
                        config ->
                                points.in(
                                        config.yaml(
                                                Map.of(
                                                        "memtable",
                                                        Map.of("configurations", configurations),
                                                        "materialized_views_enabled",
                                                        true,
                                                        "row_cache_size",
                                                        "16MiB",
                                                        "commitlog_sync",
                                                        "batch")),
                                        "-javaagent:" + jar,
                                        "-Dfuzz.go=" + directory.resolve("never"),
                                        "-Dfuzz.fault=loses-row-deletions"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    private static Map<String, Object> configuration(String engine, String mode) {
        return ShadowTable.configuration(engine, mode, engine.equals("rocks") ? "0.2" : "0");
    }

    @AfterEach
    void release() throws IOException {
        points.release();
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    private static void alter(String table, String memtable) {
        session.execute("ALTER TABLE ks." + table + " WITH memtable = '" + memtable + "'");
    }

    private static void awaitAnswering(String table) throws Exception {
        TestNode.await(
                "the shadow of " + table + " to answer",
                PATIENCE,
                () -> {
                    Row row = ShadowTable.row(session, table);
                    return row != null && row.getString("answers").equals("yes");
                });
    }

    private static void awaitNothingQueued(String table) throws Exception {
        TestNode.await(
                "writes",
                PATIENCE,
                () -> ShadowTable.row(session, table).getLong("queued_writes") == 0);
    }

    private static long answered(String table) {
        return ShadowTable.row(session, table).getLong("answered");
    }

    private static long leftToTable(String table) {
        return ShadowTable.row(session, table).getLong("left_to_table");
    }

    private static void create(String table) {
        session.execute("CREATE TABLE ks." + table + " (k int, c int, v text, PRIMARY KEY (k, c))");
    }

    private static String value(String table, int k, int c) {
        Row row =
                session.execute("SELECT v FROM ks." + table + " WHERE k = ? AND c = ?", k, c).one();
        return row == null ? null : row.getString("v");
    }

    /** Reads after each write what it has written, and keeps what it must find. */
    private static final class Client extends Thread {
        private final String table;
        private final int key;
        private final SplittableRandom random;
        private final Map<Integer, String> model = new TreeMap<>();
        private final PreparedStatement insert;
        private final PreparedStatement row;
        private final PreparedStatement range;
        private final PreparedStatement partition;
        private final PreparedStatement read;
        private final PreparedStatement backwards;
        private final PreparedStatement one;
        private final PreparedStatement all;
        private final PreparedStatement tokens;
        private volatile boolean halted;
        private volatile Throwable failure;
        private final AtomicLong reads = new AtomicLong();

        Client(String table, int key) {
            super("client-" + key);
            this.table = "ks." + table;
            this.key = key;
            this.random = new SplittableRandom(SEED + key);
            insert = session.prepare("INSERT INTO " + this.table + " (k, c, v) VALUES (?, ?, ?)");
            row = session.prepare("DELETE FROM " + this.table + " WHERE k = ? AND c = ?");
            range =
                    session.prepare(
                            "DELETE FROM " + this.table + " WHERE k = ? AND c >= ? AND c < ?");
            partition = session.prepare("DELETE FROM " + this.table + " WHERE k = ?");
            read = session.prepare("SELECT c, v FROM " + this.table + " WHERE k = ?");
            backwards =
                    session.prepare(
                            "SELECT c, v FROM " + this.table + " WHERE k = ? ORDER BY c DESC");
            one = session.prepare("SELECT c, v FROM " + this.table + " WHERE k = ? AND c = ?");
            all = session.prepare("SELECT k, c, v FROM " + this.table);
            tokens =
                    session.prepare(
                            "SELECT k, c, v FROM "
                                    + this.table
                                    + " WHERE token(k) >= token(?) AND c < 15 ALLOW FILTERING");
        }

        @Override
        public void run() {
            try {
                for (int step = 0; !halted; step++) {
                    write(step);
                    check();
                    TimeUnit.MILLISECONDS.sleep(1);
                }
            } catch (Throwable e) {
                failure = e;
            }
        }

        private void write(int step) {
            int c = random.nextInt(30);
            switch (random.nextInt(10)) {
                case 0 -> {
                    session.execute(row.bind(key, c));
                    model.remove(c);
                }
                case 1 -> {
                    session.execute(range.bind(key, c, c + 5));
                    for (int i = c; i < c + 5; i++) model.remove(i);
                }
                case 2 -> {
                    if (random.nextInt(5) > 0) return;
                    session.execute(partition.bind(key));
                    model.clear();
                }
                default -> {
                    session.execute(insert.bind(key, c, "s" + step));
                    model.put(c, "s" + step);
                }
            }
        }

        private void check() {
            PreparedStatement which = random.nextBoolean() ? read : backwards;
            assertThat(rows(session.execute(which.bind(key)).all())).isEqualTo(model);
            int c = random.nextInt(30);
            Map<Integer, String> found = rows(session.execute(one.bind(key, c)).all());
            assertThat(found.get(c)).isEqualTo(model.get(c));
            // Pages end within partitions, this one among them.
            int page = 1 + random.nextInt(40);
            assertThat(ofRange(all.bind().setPageSize(page))).isEqualTo(model);
            Map<Integer, String> half = new TreeMap<>(model);
            half.keySet().removeIf(each -> each >= 15);
            assertThat(ofRange(tokens.bind(key).setPageSize(page))).isEqualTo(half);
            reads.addAndGet(4);
        }

        /** What a range has in this client's partition. */
        private Map<Integer, String> ofRange(BoundStatement range) {
            return rows(
                    session.execute(range).all().stream()
                            .filter(each -> each.getInt("k") == key)
                            .toList());
        }

        private static Map<Integer, String> rows(List<Row> rows) {
            Map<Integer, String> found = new TreeMap<>();
            for (Row each : rows) found.put(each.getInt("c"), each.getString("v"));
            return found;
        }

        void halt() throws InterruptedException {
            halted = true;
            join();
            assertThat(failure).as("%s, seed %s", table, SEED).isNull();
        }

        /** Waits for so many more reads, each of which was right. */
        void awaitReads(int more) throws Exception {
            long wanted = reads.get() + more;
            TestNode.await(
                    getName() + " of " + table,
                    PATIENCE,
                    () -> reads.get() >= wanted || failure != null);
            assertThat(failure).as("%s, seed %s", table, SEED).isNull();
        }
    }

    /** Each client reads what it has written, through each ALTER. */
    @Test
    void whatWasWrittenIsReadOnTheWayThereAndBack() throws Exception {
        create("t");
        List<Client> clients = new ArrayList<>();
        for (int i = 0; i < 3; i++) clients.add(new Client("t", i));
        clients.forEach(Thread::start);
        for (Client each : clients) each.awaitReads(50);
        alter("t", "rocks_shadow");
        TestNode.await(
                "a shadow", PATIENCE, () -> ShadowTable.row(session, "t").getBoolean("caught_up"));
        assertThat(ShadowTable.row(session, "t").getString("answers"))
                .isEqualTo("no: mode is shadow");
        for (Client each : clients) each.awaitReads(50);
        assertThat(answered("t")).isZero();

        alter("t", "rocks_fallback");
        awaitAnswering("t");
        // It is the same one.
        assertThat(ShadowTable.row(session, "t").getLong("copies")).isEqualTo(1);
        for (String verb : List.of("flush", "compact", "flush", "garbagecollect")) {
            for (Client each : clients) each.awaitReads(200);
            node.nodetool(verb, "ks", "t");
        }
        for (Client each : clients) each.awaitReads(200);
        // Of which each was right.
        assertThat(answered("t")).isGreaterThan(1_000);
        assertThat(ShadowTable.row(session, "t").getLong("equal")).isPositive();
        assertThat(ShadowTable.row(session, "t").getLong("different")).isZero();
        assertThat(ShadowTable.row(session, "t").getString("answers")).isEqualTo("yes");

        alter("t", "default");
        // At once: nothing is copied.
        assertThat(session.execute("SELECT * FROM petra.migrations").all()).isEmpty();
        assertThat(ShadowTable.row(session, "t")).isNull();
        for (Client each : clients) each.awaitReads(100);

        alter("t", "rocks_fallback");
        awaitAnswering("t");
        for (Client each : clients) each.awaitReads(100);
        alter("t", "rocks");
        for (Client each : clients) each.awaitReads(100);
        TestNode.awaitMigrations(session, PATIENCE);
        node.awaitLog("The shadow of ks.t is its store", PATIENCE);
        for (Client each : clients) each.awaitReads(100);
        for (Client each : clients) each.halt();
    }

    /** Its client has an answer before the shadow has the write. */
    @Test
    void aWriteThatIsNotInTheShadowYetIsRead() throws Exception {
        create("queued");
        session.execute("INSERT INTO ks.queued (k, c, v) VALUES (1, 1, 'old')");
        alter("queued", "rocks_fallback");
        awaitAnswering("queued");
        assertThat(value("queued", 1, 1)).isEqualTo("old");
        assertThat(answered("queued")).isEqualTo(1);
        points.hold("enter", "ShadowStore#doubled");
        session.execute("INSERT INTO ks.queued (k, c, v) VALUES (1, 1, 'new')");
        points.awaitHeld();
        assertThat(value("queued", 1, 1)).isEqualTo("new");
        session.execute("INSERT INTO ks.queued (k, c, v) VALUES (2, 1, 'other')");
        assertThat(session.execute("SELECT v FROM ks.queued").all())
                .extracting(row -> row.getString("v"))
                .containsExactlyInAnyOrder("new", "other");
        session.execute("DELETE FROM ks.queued WHERE k = 1");
        assertThat(value("queued", 1, 1)).isNull();
        assertThat(session.execute("SELECT v FROM ks.queued").all()).hasSize(1);
        assertThat(answered("queued")).isEqualTo(1);
        points.release();
        awaitNothingQueued("queued");
        assertThat(value("queued", 1, 1)).isNull();
        assertThat(answered("queued")).isEqualTo(2);
        assertThat(session.execute("SELECT v FROM ks.queued").all()).hasSize(1);
        assertThat(answered("queued")).isGreaterThan(2);
    }

    /** By pages, which begin and end within partitions, with what is filtered behind the read. */
    @Test
    void rangesAreAnswered() throws Exception {
        create("ranges");
        for (int k = 0; k < 40; k++)
            for (int c = 0; c < 10; c++)
                session.execute(
                        "INSERT INTO ks.ranges (k, c, v) VALUES (?, ?, ?)", k, c, "v" + c % 3);
        node.nodetool("flush", "ks", "ranges");
        session.execute("DELETE FROM ks.ranges WHERE k = 1");
        session.execute("DELETE FROM ks.ranges WHERE k = 2 AND c >= 5");
        String half = " WHERE token(k) > " + Long.MIN_VALUE / 2 + " AND token(k) <= 0";
        List<String> queries =
                List.of(
                        "SELECT * FROM ks.ranges",
                        "SELECT DISTINCT k FROM ks.ranges",
                        "SELECT k, count(*) FROM ks.ranges GROUP BY k",
                        "SELECT * FROM ks.ranges PER PARTITION LIMIT 3",
                        "SELECT * FROM ks.ranges LIMIT 77",
                        "SELECT * FROM ks.ranges WHERE v = 'v1' ALLOW FILTERING",
                        "SELECT k, c FROM ks.ranges WHERE c > 3 AND c <= 7 ALLOW FILTERING",
                        "SELECT * FROM ks.ranges" + half);
        List<List<String>> before = queries.stream().map(FallbackIT::formatted).toList();
        alter("ranges", "rocks_fallback");
        awaitAnswering("ranges");
        TestNode.await(
                "the shadow to answer all, also what ALTER has flushed",
                PATIENCE,
                () -> {
                    long left = leftToTable("ranges");
                    formatted("SELECT * FROM ks.ranges");
                    return leftToTable("ranges") == left;
                });
        long answered = answered("ranges");
        long left = leftToTable("ranges");
        for (int i = 0; i < queries.size(); i++)
            assertThat(formatted(queries.get(i))).as(queries.get(i)).isEqualTo(before.get(i));
        // 370 rows in pages of 7; no write keeps the shadow from any.
        assertThat(answered("ranges") - answered).isGreaterThan(100);
        assertThat(leftToTable("ranges")).isEqualTo(left);
        TestNode.await(
                "a range that is compared, of the table itself",
                PATIENCE,
                () -> {
                    formatted("SELECT * FROM ks.ranges");
                    return ShadowTable.row(session, "ranges").getLong("equal") > 0;
                });
        assertThat(ShadowTable.row(session, "ranges").getLong("different")).isZero();
        session.execute("DROP TABLE ks.ranges");
    }

    private static List<String> formatted(String query) {
        return session.execute(SimpleStatement.newInstance(query).setPageSize(7)).all().stream()
                .map(Row::getFormattedContents)
                .toList();
    }

    /** A snapshot has the table alone, whoever answers. */
    @ParameterizedTest
    @MethodSource("modes")
    void truncateAndImportShowAtOnce(String mode) throws Exception {
        String table = "truncated_" + mode;
        boolean answers = mode.equals("fallback");
        create(table);
        for (int c = 0; c < 10; c++)
            session.execute("INSERT INTO ks." + table + " (k, c, v) VALUES (1, ?, 'v')", c);
        alter(table, "rocks_" + mode);
        awaitCaughtUp(table, answers);
        node.nodetool("snapshot", "-t", "rows", "ks." + table);
        assertThat(value(table, 1, 5)).isEqualTo("v");
        session.execute("TRUNCATE ks." + table);
        assertThat(value(table, 1, 5)).isNull();
        awaitCaughtUp(table, answers);
        assertThat(value(table, 1, 5)).isNull();
        long before = answered(table);
        Path snapshots = TableFiles.of(node, "ks", table).directory().resolve("snapshots");
        for (Path each : TableFiles.children(snapshots))
            assertThat(TableFiles.children(each))
                    .as("the table alone in %s", each)
                    .isNotEmpty()
                    .allMatch(Files::isRegularFile);
        Path rows = snapshots.resolve("rows");
        Path imported = Files.createDirectories(directory.resolve("import/ks/" + table));
        for (Path each : TableFiles.children(rows))
            if (each.getFileName().toString().contains("-big-")
                    || each.getFileName().toString().contains("-bti-"))
                Files.copy(each, imported.resolve(each.getFileName()));
        node.nodetool("import", "ks", table, imported.toString());
        for (int c = 0; c < 10; c++) assertThat(value(table, 1, c)).isEqualTo("v");
        awaitCaughtUp(table, answers);
        for (int c = 0; c < 10; c++) assertThat(value(table, 1, c)).isEqualTo("v");
        long since = answered(table) - before;
        if (answers) assertThat(since).isGreaterThanOrEqualTo(10);
        else assertThat(since).isZero();
    }

    private static void awaitCaughtUp(String table, boolean answers) throws Exception {
        if (answers) awaitAnswering(table);
        else
            TestNode.await(
                    "a shadow",
                    PATIENCE,
                    () -> {
                        Row row = ShadowTable.row(session, table);
                        return row != null && row.getBoolean("caught_up");
                    });
    }

    /**
     * While clients read what they have written, a column comes, is written and goes again: no
     * value of it comes back, and none of another column is lost.
     */
    @Test
    void columnsThatComeAndGo() throws Exception {
        create("columns");
        alter("columns", "rocks_fallback");
        awaitAnswering("columns");
        for (int c = 0; c < ROWS; c++)
            session.execute("INSERT INTO ks.columns (k, c, v) VALUES (?, ?, ?)", -1, c, "v" + c);
        List<Client> clients = new ArrayList<>();
        for (int i = 0; i < 2; i++) clients.add(new Client("columns", i));
        clients.forEach(Thread::start);
        AtomicInteger round = new AtomicInteger();
        AtomicBoolean over = new AtomicBoolean();
        CompletableFuture<Void> reader =
                CompletableFuture.runAsync(
                        () -> {
                            while (!over.get()) readWhileTheyComeAndGo(round);
                        });
        try {
            for (int i = 1; i <= 3; i++) {
                session.execute("ALTER TABLE ks.columns ADD w text");
                round.set(i);
                addedColumnIs(Map.of());
                Map<Integer, String> written = new TreeMap<>();
                for (int c = i % 2; c < ROWS; c += 2) {
                    session.execute(
                            "UPDATE ks.columns SET w = ? WHERE k = -1 AND c = ?", "w" + i, c);
                    written.put(c, "w" + i);
                    addedColumnIs(written);
                }
                // Others go from the memtable.
                if (i == 2) node.nodetool("flush", "ks", "columns");
                for (Client each : clients) each.awaitReads(20);
                addedColumnIs(written);
                session.execute("ALTER TABLE ks.columns DROP w");
                onlyTheOtherColumnIsThere();
            }
        } finally {
            over.set(true);
        }
        reader.get(60, TimeUnit.SECONDS);
        for (Client each : clients) each.halt();

        // From here on nobody else reads.
        awaitNothingQueued("columns");
        answeredByTheShadow(1, FallbackIT::onlyTheOtherColumnIsThere);
        session.execute("ALTER TABLE ks.columns ADD w text");
        answeredByTheShadow(2, () -> addedColumnIs(Map.of()));
        session.execute("UPDATE ks.columns SET w = 'last' WHERE k = -1 AND c = 3");
        awaitNothingQueued("columns");
        answeredByTheShadow(2, () -> addedColumnIs(Map.of(3, "last")));
        session.execute("ALTER TABLE ks.columns DROP w");
        answeredByTheShadow(1, FallbackIT::onlyTheOtherColumnIsThere);
        Row row = ShadowTable.row(session, "columns");
        assertThat(row.getLong("different")).as(row.getFormattedContents()).isZero();
        assertThat(row.getLong("equal")).as(row.getFormattedContents()).isPositive();
        assertThat(row.getLong("copies")).as(row.getFormattedContents()).isEqualTo(1);
        session.execute("DROP TABLE ks.columns");
    }

    private static final int ROWS = 6;

    /** Of the added column nothing is there of a round that is over. */
    private static void readWhileTheyComeAndGo(AtomicInteger round) {
        int before = round.get();
        List<Row> rows;
        try {
            rows = session.execute("SELECT * FROM ks.columns WHERE k = -1").all();
        } catch (ReadFailureException e) {
            // In Cassandra itself, with any storage, if a read that began before an ALTER meets
            // what
            // was written to a column that is new.
            System.out.println("A read beside an ALTER: " + e.getMessage());
            return;
        }
        int after = round.get();
        assertThat(rows).hasSize(ROWS);
        for (Row each : rows) {
            assertThat(each.getString("v")).isEqualTo("v" + each.getInt("c"));
            if (!each.getColumnDefinitions().contains("w") || each.isNull("w")) continue;
            assertThat(Integer.parseInt(each.getString("w").substring(1)))
                    .as("seen from round %d to %d", before, after)
                    .isBetween(before, after);
        }
    }

    private static void addedColumnIs(Map<Integer, String> written) {
        Map<Integer, String> found = new TreeMap<>();
        List<Row> rows = session.execute("SELECT c, v, w FROM ks.columns WHERE k = -1").all();
        assertThat(rows).hasSize(ROWS);
        for (Row each : rows) {
            assertThat(each.getString("v")).isEqualTo("v" + each.getInt("c"));
            if (!each.isNull("w")) found.put(each.getInt("c"), each.getString("w"));
        }
        assertThat(found).isEqualTo(written);
        Row one = session.execute("SELECT w FROM ks.columns WHERE k = -1 AND c = 3").one();
        assertThat(one.getString("w")).isEqualTo(written.get(3));
    }

    private static void onlyTheOtherColumnIsThere() {
        List<Row> rows = session.execute("SELECT * FROM ks.columns WHERE k = -1").all();
        assertThat(rows)
                .hasSize(ROWS)
                .allSatisfy(
                        each -> {
                            assertThat(each.getColumnDefinitions()).hasSize(3);
                            assertThat(each.getString("v")).isEqualTo("v" + each.getInt("c"));
                        });
    }

    /** Reads until the shadow answers all: an ALTER flushes, and the table may answer meanwhile. */
    private static void answeredByTheShadow(int reads, Runnable reading) throws Exception {
        TestNode.await(
                "the shadow to answer",
                PATIENCE,
                () -> {
                    long answered = answered("columns");
                    long left = leftToTable("columns");
                    reading.run();
                    return answered("columns") == answered + reads
                            && leftToTable("columns") == left;
                });
    }

    static List<String> modes() {
        return Drawn.of("FallbackIT, mode", List.of("shadow", "fallback"));
    }

    /** Which would take ten seconds here. */
    @ParameterizedTest
    @MethodSource("modes")
    void nothingIsCopiedOnTheWayBack(String mode) throws Exception {
        String table = "back_" + mode;
        create(table);
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, c, v) VALUES (?, 1, ?)");
        for (int k = 0; k < 200; k++) session.execute(insert.bind(k, "v".repeat(50_000)));
        node.nodetool("flush", "ks", table);
        alter(table, "rocks_" + mode);
        TestNode.await(
                "a shadow",
                PATIENCE,
                () -> ShadowTable.row(session, table).getBoolean("caught_up"));
        List<Path> before = sstables(table);
        assertThat(before).isNotEmpty();
        node.nodetool("setcompactionthroughput", "1");
        try {
            long began = System.nanoTime();
            alter(table, "default");
            System.out.printf(
                    "From %s to default: %d ms%n",
                    mode, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
            assertThat(session.execute("SELECT * FROM petra.migrations").all()).isEmpty();
            assertThat(node.tryNodetool("compactionstats").output()).doesNotContain(table);
            assertThat(ShadowTable.row(session, table)).isNull();
            assertThat(sstables(table)).containsExactlyElementsOf(before);
        } finally {
            node.nodetool("setcompactionthroughput", "64");
        }
        for (int k = 0; k < 200; k++) assertThat(value(table, k, 1)).hasSize(50_000);
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(ShadowTable.folder(node, table)));
        session.execute("DROP TABLE ks." + table);
    }

    private static List<Path> sstables(String table) {
        return TableFiles.children(TableFiles.of(node, "ks", table).directory()).stream()
                .filter(path -> path.toString().endsWith("-Data.db"))
                .sorted()
                .toList();
    }

    @Test
    void aKillAndACleanRestartLoseNothing() throws Exception {
        session.execute(Writer.table("ks.killed"));
        List<List<Writer>> all = new ArrayList<>();
        alter("killed", "rocks_fallback");
        for (int cycle = 0; cycle < 2; cycle++) {
            awaitAnswering("killed");
            List<Writer> writers = new ArrayList<>();
            for (int w = 0; w < 3; w++)
                writers.add(
                        new Writer(session, "ks.killed", cycle, w).pausing(Duration.ofMillis(2)));
            writers.forEach(Thread::start);
            for (Writer each : writers)
                assertThat(each.started.await(2, TimeUnit.MINUTES)).isTrue();
            TimeUnit.SECONDS.sleep(2);
            for (Writer each : writers) each.checkMeanwhile(session);
            node.process().kill();
            for (Writer each : writers) each.join();
            session.close();
            node.restart();
            session = node.plainSession();
            all.add(writers);
            // By the table, and by the shadow.
            for (List<Writer> some : all) for (Writer each : some) each.check(session);
            awaitAnswering("killed");
            long before = answered("killed");
            for (List<Writer> some : all) for (Writer each : some) each.check(session);
            assertThat(answered("killed")).isGreaterThan(before);
        }
        session.close();
        node.process().stop();
        node.restart();
        session = node.plainSession();
        TestNode.await(
                "a shadow",
                PATIENCE,
                () -> ShadowTable.row(session, "killed").getBoolean("caught_up"));
        node.awaitLog("The shadow of ks.killed goes on", PATIENCE);
        for (List<Writer> some : all) for (Writer each : some) each.check(session);
        assertThat(answered("killed")).isPositive();
    }

    /** That it is the shadow which answers, and that it does not once it was found wrong. */
    @Test
    void aShadowThatWasFoundWrongAnswersNoMore() throws Exception {
        create("wrong");
        session.execute("INSERT INTO ks.wrong (k, c, v) VALUES (1, 1, 'v')");
        alter("wrong", "faulty_fallback");
        awaitAnswering("wrong");
        session.execute("DELETE FROM ks.wrong WHERE k = 1 AND c = 1");
        awaitNothingQueued("wrong");
        // This engine loses deletions of rows.
        assertThat(value("wrong", 1, 1)).isEqualTo("v");
        assertThat(Commands.petra(node, "shadow", "report").output())
                .contains("the shadow answers reads: yes; so far ");
        assertThat(Commands.petra(node, "compare", "ks.wrong").exitCode()).isEqualTo(1);
        assertThat(value("wrong", 1, 1)).isNull();
        assertThat(ShadowTable.row(session, "wrong").getString("answers"))
                .isEqualTo("no: it had another answer than the table");
        session.execute("DROP TABLE ks.wrong");
    }

    /** It is compared with the table itself, not with what the shadow answers for that. */
    @Test
    void aRangeThatWasFoundWrongIsAnsweredNoMore() throws Exception {
        create("wrong_range");
        session.execute("INSERT INTO ks.wrong_range (k, c, v) VALUES (1, 1, 'v')");
        alter("wrong_range", "faulty_compared");
        awaitAnswering("wrong_range");
        session.execute("DELETE FROM ks.wrong_range WHERE k = 1 AND c = 1");
        awaitNothingQueued("wrong_range");
        assertThat(session.execute("SELECT v FROM ks.wrong_range").all()).hasSize(1);
        TestNode.await(
                "the range to be compared",
                PATIENCE,
                () -> ShadowTable.row(session, "wrong_range").getLong("different") > 0);
        assertThat(session.execute("SELECT v FROM ks.wrong_range").all()).isEmpty();
        session.execute("DROP TABLE ks.wrong_range");
    }

    /** In the file to which the stop has flushed it, or in one of large values. */
    static List<String> damaged() {
        return Drawn.of("FallbackIT, damage", List.of("sst", "blob"));
    }

    @ParameterizedTest
    @MethodSource("damaged")
    void aShadowThatIsDamagedAtRestLeavesReadsToTheTable(String kind) throws Exception {
        int bytes = kind.equals("blob") ? 100_000 : 1_000;
        String table = "damaged_" + kind;
        session.execute("CREATE TABLE ks." + table + " (k int PRIMARY KEY, v blob)");
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, v) VALUES (?, ?)");
        for (int k = 0; k < 500; k++) session.execute(insert.bind(k, blob(k, bytes)));
        alter(table, "rocks_fallback");
        awaitAnswering(table);
        session.close();
        node.process().stop();
        damage(ShadowTable.folder(node, table), kind);
        node.restart();
        session = node.plainSession();
        awaitAnswering(table);
        for (int k = 0; k < 500; k++)
            assertThat(session.execute("SELECT v FROM ks." + table + " WHERE k = ?", k).one())
                    .isNotNull()
                    .returns(blob(k, bytes), row -> row.getByteBuffer("v"));
        node.awaitLog("The shadow of ks." + table + " cannot be read; the table answers", PATIENCE);
        awaitAnswering(table);
        session.execute("DROP TABLE ks." + table);
    }

    private static ByteBuffer blob(int key, int bytes) {
        byte[] value = new byte[bytes];
        new Random(key).nextBytes(value);
        return ByteBuffer.wrap(value);
    }

    private static void damage(Path folder, String kind) throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.walk(folder)) {
            files = all.filter(each -> each.toString().endsWith("." + kind)).toList();
        }
        int damaged = 0;
        for (Path file : files) {
            byte[] data = Files.readAllBytes(file);
            if (data.length < 10_000) continue;
            for (int at = 1_000; at < data.length / 2; at += 500) data[at] ^= 1;
            Files.write(file, data, StandardOpenOption.WRITE);
            damaged++;
        }
        assertThat(damaged).as("%s", files).isPositive();
    }

    @Test
    void indexesAndViewsAreAsEver() throws Exception {
        session.execute("CREATE TABLE ks.found (k int PRIMARY KEY, a int, b int)");
        session.execute("CREATE INDEX found_a ON ks.found (a)");
        session.execute("CREATE INDEX found_b ON ks.found (b) USING 'sai'");
        session.execute(
                "CREATE MATERIALIZED VIEW ks.by_a AS SELECT * FROM ks.found WHERE k IS NOT NULL AND"
                        + " a IS NOT NULL PRIMARY KEY (a, k)");
        for (int k = 0; k < 50; k++)
            session.execute("INSERT INTO ks.found (k, a, b) VALUES (?, ?, ?)", k, k % 5, k % 7);
        alter("found", "rocks_fallback");
        TestNode.await(
                "a shadow",
                PATIENCE,
                () -> ShadowTable.row(session, "found").getBoolean("caught_up"));
        // A write that reads first must not fail with the shadow.
        assertThat(ShadowTable.row(session, "found").getString("answers"))
                .isEqualTo("no: the table has materialized views");
        for (int k = 0; k < 50; k += 2)
            for (int a = 10; a < 15; a++)
                session.execute("UPDATE ks.found SET a = ?, b = ? WHERE k = ?", a, a, k);
        session.execute("DELETE FROM ks.found WHERE k = 4");
        for (String query :
                List.of(
                        "SELECT k FROM ks.found WHERE a = %d",
                        "SELECT k FROM ks.found WHERE b = %d",
                        "SELECT k FROM ks.by_a WHERE a = %d")) {
            for (int a = 10; a < 14; a++)
                assertThat(session.execute(String.format(query, a)).all()).as(query).isEmpty();
            assertThat(session.execute(String.format(query, 14)).all()).as(query).hasSize(24);
        }
        assertThat(session.execute("SELECT k FROM ks.by_a").all()).hasSize(49);
        assertThat(answered("found")).isZero();
        session.execute("DROP MATERIALIZED VIEW ks.by_a");
        awaitAnswering("found");
        for (int k = 0; k < 50; k++)
            assertThat(session.execute("SELECT a FROM ks.found WHERE k = ?", k).all())
                    .hasSize(k == 4 ? 0 : 1);
        for (String column : List.of("a", "b"))
            assertThat(session.execute("SELECT k FROM ks.found WHERE " + column + " = 14").all())
                    .hasSize(24);
        assertThat(answered("found")).isGreaterThanOrEqualTo(50);
        assertThat(ShadowTable.row(session, "found").getLong("different")).isZero();
        session.execute("DROP TABLE ks.found");
    }

    @Test
    void whatHasARowCacheIsAnsweredByTheTable() throws Exception {
        session.execute(
                "CREATE TABLE ks.cached (k int PRIMARY KEY, v text) WITH memtable ="
                        + " 'rocks_fallback' AND caching = {'keys': 'ALL', 'rows_per_partition':"
                        + " 'ALL'}");
        session.execute("INSERT INTO ks.cached (k, v) VALUES (1, 'v')");
        TestNode.await(
                "a shadow",
                PATIENCE,
                () -> ShadowTable.row(session, "cached").getBoolean("caught_up"));
        assertThat(session.execute("SELECT v FROM ks.cached WHERE k = 1").one()).isNotNull();
        assertThat(ShadowTable.row(session, "cached").getString("answers"))
                .isEqualTo("no: the table has a row cache");
        assertThat(answered("cached")).isZero();
        session.execute("DROP TABLE ks.cached");
    }
}
