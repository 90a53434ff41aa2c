// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import dev.petra.nodetests.fixture.AgentJar;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * All reads compared for a while, under writes of each kind, with cells that expire between the two
 * reads, ties, deletions of each kind, and whatever moves data from one place to another: there is
 * no difference. With an engine that is wrong there is one soon. For an hour in the profile {@code
 * long}, or with {@code -Dpetra.shadow.seconds=3600}.
 *
 * <p>What {@code docs/shadow-design.md} names as differences that are no defect does not come:
 * cells of a tie do not expire, and deletions are not purged where timestamps are old.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ShadowSoakIT {
    private static final int SECONDS = Integer.getInteger("petra.shadow.seconds", 40);
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private static final Pattern REASONS =
            Pattern.compile(
                    "the table is being truncated|the table was truncated"
                            + "|the table's SSTables were changed \\((Scrub|Cleanup)\\)"
                            + "|the table was altered, truncated, cleaned up or scrubbed"
                            + "|what was written while the copy began was compacted");

    /** Within so many comparisons a mutant is found; most take some tens. */
    private static final int SOON = 5_000;

    /** Where two writes of one timestamp have to meet in one cell, 16,554 were seen. */
    private static final int SOME_TIME = 100_000;

    /** In which so many are compared, of which there are some 550 in a second. */
    private static final Duration SOME_TIME_PATIENCE = Duration.ofMinutes(10);

    /** Of those that show in reads of a partition, the ones that this load was seen to find. */
    private static final List<String> FOUND_HERE =
            List.of(
                    "loses-row-deletions",
                    "loses-cells-beside-a-row-deletion",
                    "ignores-range-tombstones",
                    "loses-row-markers",
                    "loses-static-rows",
                    "reads-forwards-in-reverse");

    /** As well, some of them after thousands of reads: partitions are soon written anew. */
    private static final List<String> ALSO_FOUND_HERE =
            List.of(
                    "loses-partition-deletions",
                    "loses-collection-deletions",
                    "forgets-ttls",
                    "drops-timestamps-up-to-zero",
                    "loses-empty-values",
                    "first-of-a-tie-counts",
                    "strips-tombstones-on-read",
                    "loses-boundaries",
                    "reads-only-the-first-slice",
                    "takes-every-bound-for-inclusive");

    /** The plainest and one that is drawn; in an hour all. */
    private static final List<String> MUTANTS = mutants();

    private static final int WRITERS = 3;
    private static final int READERS = 3;
    private static final int KEYS = 12;
    private static final int ROWS = 40;
    private static final int WIDE_ROWS = 3_000;

    private static final String BATCH = "BEGIN UNLOGGED BATCH ";

    /** What ties are of, up to 1: long before all else. */
    private static final long TIE = -1;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static TestNode node;
    private static volatile CqlSession session;
    private static final AtomicLong written = new AtomicLong();
    private static final AtomicLong read = new AtomicLong();

    @BeforeAll
    static void start() throws Exception {
        System.out.println("Shadow: -Dpetra.seed=" + SEED + " -Dpetra.shadow.seconds=" + SECONDS);
        Path jar = AgentJar.packFaultyEngine(directory);
        Map<String, Object> configurations = new HashMap<>();
        configurations.put("rocks_shadow", shadow(Map.of("engine", "rocks")));
        for (String each : MUTANTS)
            configurations.put(each, shadow(Map.of("engine", "faulty", "fault", each)));
        node =
                TestNode.start(
                        directory.resolve("node"),
                        config ->
                                config.yaml(
                                                Map.of(
                                                        "memtable",
                                                        Map.of("configurations", configurations),
                                                        "commitlog_sync",
                                                        "batch"))
                                        .jvmOptions(
                                                "-javaagent:" + jar,
                                                "-Dfuzz.go=" + directory.resolve("never")));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
        session.execute("CREATE TYPE ks.pair (a int, b text)");
    }

    private static List<String> mutants() {
        if (SECONDS >= 600)
            return Stream.of(FOUND_HERE, ALSO_FOUND_HERE).flatMap(List::stream).toList();
        int drawn = 1 + new SplittableRandom(SEED).nextInt(FOUND_HERE.size() - 1);
        return List.of(FOUND_HERE.get(0), FOUND_HERE.get(drawn));
    }

    private static Map<String, Object> shadow(Map<String, String> engine) {
        Map<String, String> parameters = new HashMap<>(engine);
        parameters.put("mode", "shadow");
        parameters.put("compared_share", "1");
        parameters.put("memory", "64MiB");
        parameters.put("direct_reads", "true");
        return ShadowTable.configuration(parameters);
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    /** Of one kind of table, what is written to it and read of it. */
    private enum Table {
        /** Of everything, with ties; nothing is purged. */
        PLAIN("", true),

        /** Deletions are purged after seconds. */
        PURGED(" AND gc_grace_seconds = 3", false),

        WIDE(" AND gc_grace_seconds = 3", false),

        COUNTED("", false);

        final String options;
        final boolean hasTies;

        Table(String options, boolean hasTies) {
            this.options = options;
            this.hasTies = hasTies;
        }

        String in(String prefix) {
            return "ks." + name(prefix);
        }

        String name(String prefix) {
            return prefix + name().toLowerCase(Locale.ROOT);
        }

        void create(String prefix, String memtable) {
            String columns =
                    this == COUNTED
                            ? "v counter"
                            : "s text STATIC, v text, w text, m map<int, text>, l list<text>, e"
                                    + " set<int>, n pair, u frozen<pair>, f frozen<list<int>>";
            session.execute(
                    "CREATE TABLE "
                            + in(prefix)
                            + " (k int, c int, "
                            + columns
                            + ", PRIMARY KEY (k, c)) WITH memtable = '"
                            + memtable
                            + "'"
                            + options);
        }

        String write(String prefix, SplittableRandom random) {
            String table = in(prefix);
            int k = random.nextInt(this == WIDE ? 2 : KEYS);
            int rows = this == WIDE ? WIDE_ROWS : ROWS;
            int c = random.nextInt(rows);
            int to = c + 1 + random.nextInt(rows / 8);
            String partition = " WHERE k = " + k;
            String row = partition + " AND c = " + c;
            if (this == COUNTED)
                return "UPDATE " + table + " SET v = v + " + random.nextInt(1, 9) + row;
            String expiring = " USING TTL " + random.nextInt(1, 6);
            String insert = "INSERT INTO " + table + " (k, c, v) VALUES (" + k + ", " + c + ", 'v";
            if (hasTies && random.nextInt(4) == 0) return tie(table, row, k, c, random);
            return switch (random.nextInt(32)) {
                case 0 -> "DELETE FROM " + table + row;
                case 1 -> "DELETE FROM " + table + partition + " AND c > " + c + " AND c < " + to;
                case 2 -> "DELETE FROM " + table + partition + " AND c >= " + c + " AND c <= " + to;
                case 3 ->
                        random.nextInt(8) == 0
                                ? "DELETE FROM " + table + partition + " AND c > " + c
                                : "DELETE v FROM " + table + row;
                case 4 ->
                        random.nextInt(8) == 0
                                ? "DELETE FROM " + table + partition + " AND c <= " + c
                                : "DELETE m[" + c % 5 + "] FROM " + table + row;
                case 5 ->
                        random.nextInt(20) == 0
                                ? "DELETE FROM " + table + partition
                                : "DELETE w FROM " + table + row;
                case 6 -> "DELETE m FROM " + table + row;
                case 7 -> "UPDATE " + table + " SET m = {1: 'a', 2: 'b'}" + row;
                case 8 -> "UPDATE " + table + expiring + " SET m[" + c % 5 + "] = 'x'" + row;
                case 9 -> "UPDATE " + table + " SET l = l + ['x'], e = e + {" + c + "}" + row;
                case 10 -> "UPDATE " + table + expiring + " SET l = ['a', 'b'], w = 'w'" + row;
                case 11 -> "UPDATE " + table + " SET e = {1, 2, 3}" + row;
                case 12 -> "UPDATE " + table + " SET s = 's" + c + "'" + partition;
                case 13 -> "UPDATE " + table + expiring + " SET s = 'gone'" + partition;
                case 14 -> "DELETE s FROM " + table + partition;
                case 15, 16, 17 -> insert + random.nextInt(1_000) + "')" + expiring;
                case 18 -> insert + "lwt') IF NOT EXISTS";
                case 19 -> insert + "')";
                case 20 -> "INSERT INTO " + table + " (k, c) VALUES (" + k + ", " + c + ")";
                case 21 -> "UPDATE " + table + " SET n.a = " + c + row;
                case 22 -> "UPDATE " + table + expiring + " SET n = {a: 1, b: 'x'}" + row;
                case 23 -> "DELETE n.a FROM " + table + row;
                case 24 ->
                        "UPDATE "
                                + table
                                + " SET u = {a: "
                                + c
                                + ", b: 'u'}, f = [1, "
                                + c
                                + "]"
                                + row;
                case 25 -> "UPDATE " + table + " SET l = ['p'] + l, m = m - {1}, e = e - {2}" + row;
                case 26 -> replaced("DELETE FROM " + table, row, insert + "new')");
                default -> insert + random.nextInt(1_000) + "')";
            };
        }

        /** A deletion and what is newer, in one update. */
        private static String replaced(String delete, String row, String insert) {
            long now = TimeUnit.MILLISECONDS.toMicros(System.currentTimeMillis());
            return BATCH
                    + delete
                    + (" USING TIMESTAMP " + now)
                    + row
                    + "; "
                    + insert
                    + (" USING TIMESTAMP " + (now + 1))
                    + "; APPLY BATCH";
        }

        /** None of what is of one timestamp expires. */
        private static String tie(String table, String row, int k, int c, SplittableRandom random) {
            String at = " USING TIMESTAMP " + (TIE + random.nextInt(3));
            String partition = " WHERE k = " + k;
            return switch (random.nextInt(12)) {
                case 0 -> "DELETE FROM " + table + at + row;
                case 1 -> "DELETE w FROM " + table + at + row;
                case 2 -> "UPDATE " + table + at + " SET m = {3: 'c'}" + row;
                case 3 -> "UPDATE " + table + at + " SET w = 't" + random.nextInt(9) + "'" + row;
                case 4 -> "DELETE m FROM " + table + at + row;
                case 5 ->
                        "DELETE FROM "
                                + table
                                + at
                                + partition
                                + " AND c >= "
                                + c
                                + " AND c < "
                                + (c + 3);
                case 6 ->
                        random.nextInt(8) == 0
                                ? "DELETE FROM " + table + at + partition
                                : "DELETE n FROM " + table + at + row;
                case 7 -> "UPDATE " + table + at + " SET n = {a: " + c + ", b: 't'}" + row;
                default ->
                        "INSERT INTO "
                                + table
                                + " (k, c, w, m) VALUES ("
                                + k
                                + ", "
                                + c
                                + ", 't"
                                + random.nextInt(9)
                                + "', {1: 't'})"
                                + at;
            };
        }

        SimpleStatement read(String prefix, SplittableRandom random) {
            String table = in(prefix);
            int rows = this == WIDE ? WIDE_ROWS : ROWS;
            int c = random.nextInt(rows);
            String of = " FROM " + table + " WHERE k = " + random.nextInt(this == WIDE ? 2 : KEYS);
            String order = random.nextBoolean() ? "" : " ORDER BY c DESC";
            String slice = " AND c > " + c + " AND c <= " + (c + rows / 8);
            String columns =
                    this == COUNTED || random.nextBoolean()
                            ? "SELECT *"
                            : random.nextBoolean() ? "SELECT c, v, m" : "SELECT c, m[1], n.a, u";
            String text =
                    switch (random.nextInt(12)) {
                        case 9 -> columns + " FROM " + table;
                        case 10 ->
                                columns
                                        + " FROM "
                                        + table
                                        + " WHERE token(k) > "
                                        + random.nextLong()
                                        + slice
                                        + " ALLOW FILTERING";
                        case 11 ->
                                (this == COUNTED ? "SELECT k, c" : "SELECT DISTINCT k, s")
                                        + " FROM "
                                        + table
                                        + " WHERE token(k) <= "
                                        + random.nextLong()
                                        + " LIMIT 5";
                        case 0 -> columns + of + order;
                        case 1, 2 -> columns + of + slice + order;
                        case 3 -> columns + of + " AND c = " + c;
                        case 4 -> columns + of + " AND c IN (" + c + ", " + (c + 3) + ", 1)";
                        case 5 -> columns + of + order + " LIMIT " + (1 + random.nextInt(9));
                        case 6 -> columns + of + " AND c < " + c + order + " LIMIT 20";
                        case 7 ->
                                columns
                                        + " FROM "
                                        + table
                                        + " WHERE k IN (0, 1) PER PARTITION LIMIT "
                                        + (1 + random.nextInt(9));
                        default -> this == COUNTED ? "SELECT v" + of : "SELECT DISTINCT k, s" + of;
                    };
            return SimpleStatement.newInstance(text).setPageSize(random.nextBoolean() ? 7 : 5_000);
        }
    }

    /** Does something again and again until it is halted, and what fails meanwhile, fails it. */
    private static final class Client extends Thread {
        private final Runnable step;
        private final int pauseMillis;
        private volatile boolean halted;
        private volatile Throwable failure;

        Client(Runnable step, int pauseMillis) {
            this.step = step;
            this.pauseMillis = pauseMillis;
        }

        @Override
        public void run() {
            try {
                while (!halted) {
                    step.run();
                    TimeUnit.MILLISECONDS.sleep(pauseMillis);
                }
            } catch (Throwable e) {
                failure = e;
            }
        }

        static void halt(List<Client> clients) throws InterruptedException {
            for (Client each : clients) each.halted = true;
            for (Client each : clients) {
                each.join();
                assertThat(each.failure).isNull();
            }
        }
    }

    private static List<Client> load(String prefix, long seed) {
        List<Client> clients = new ArrayList<>();
        for (int i = 0; i < WRITERS; i++) {
            SplittableRandom random = new SplittableRandom(seed + i);
            clients.add(new Client(() -> write(prefix, random), 4));
        }
        for (int i = 0; i < READERS; i++) {
            SplittableRandom random = new SplittableRandom(seed + 100 + i);
            clients.add(
                    new Client(
                            () -> {
                                session.execute(any(random).read(prefix, random))
                                        .forEach(row -> {});
                                read.incrementAndGet();
                            },
                            12));
        }
        clients.forEach(Thread::start);
        return clients;
    }

    private static Table any(SplittableRandom random) {
        return Table.values()[random.nextInt(Table.values().length)];
    }

    private static void write(String prefix, SplittableRandom random) {
        Table table = any(random);
        Statement<?> statement = SimpleStatement.newInstance(table.write(prefix, random));
        if (table != Table.COUNTED && random.nextInt(10) == 0) {
            // Of two partitions mostly.
            BatchStatement batch =
                    BatchStatement.newInstance(
                            random.nextBoolean() ? BatchType.LOGGED : BatchType.UNLOGGED);
            for (int i = 0; i < 2; i++) {
                String text = table.write(prefix, random);
                if (!text.contains(" IF ") && !text.startsWith(BATCH))
                    batch = batch.add(SimpleStatement.newInstance(text));
            }
            statement = batch;
        }
        session.execute(statement);
        written.incrementAndGet();
    }

    private static List<Row> shadows(String prefix) {
        return session
                .execute("SELECT * FROM petra.shadow WHERE keyspace_name = 'ks'")
                .all()
                .stream()
                .filter(row -> row.getString("table_name").startsWith(prefix))
                .toList();
    }

    private static void awaitCaughtUp(String prefix) throws Exception {
        TestNode.await(
                "shadows",
                PATIENCE,
                () -> {
                    List<Row> rows = shadows(prefix);
                    return rows.size() == Table.values().length
                            && rows.stream().allMatch(row -> row.getBoolean("caught_up"));
                });
    }

    private static void noDifference(String prefix) {
        List<String> found =
                session.execute("SELECT * FROM petra.shadow_differences").all().stream()
                        .filter(row -> row.getString("kind").equals("different"))
                        .map(Row::getFormattedContents)
                        .toList();
        assertThat(found).as("seed %s", SEED).isEmpty();
        for (Row row : session.execute("SELECT * FROM petra.comparisons"))
            if (row.getString("table_name").startsWith(prefix))
                assertThat(row.getLong("different"))
                        .as("seed %s: %s", SEED, row.getFormattedContents())
                        .isZero();
        for (Row row : shadows(prefix))
            assertThat(row.getLong("different"))
                    .as("seed %s: %s", SEED, row.getFormattedContents())
                    .isZero();
    }

    /** What the clients of this have compared since the node was started. */
    private static String summary(String prefix) {
        StringBuilder all = new StringBuilder();
        for (Row row : shadows(prefix))
            all.append(row.getString("table_name"))
                    .append(": equal ")
                    .append(row.getLong("equal"))
                    .append(", undecided ")
                    .append(row.getLong("undecided"))
                    .append(", not comparable ")
                    .append(row.getLong("not_comparable"))
                    .append(", passed over ")
                    .append(row.getLong("passed_over"))
                    .append(", copies ")
                    .append(row.getLong("copies"))
                    .append("; ");
        return all.toString();
    }

    /** Of each table three a second; on a machine that does much else there were 60. */
    private static void enoughWasCompared(String prefix) {
        for (Row row : shadows(prefix))
            assertThat(row.getLong("equal"))
                    .as("%s", row.getFormattedContents())
                    .isGreaterThan(50)
                    .isGreaterThan(SECONDS)
                    .isGreaterThan(row.getLong("not_comparable"));
    }

    /** A shadow drops out by what is done to its table here, and by nothing else. */
    private static void noneDroppedOutByItself() throws IOException {
        List<String> reasons = new ArrayList<>();
        for (String line : Files.readAllLines(directory.resolve("node/logs/system.log")))
            if (line.contains("The shadow of ks.t_") && line.contains(" has dropped out: "))
                reasons.add(line.substring(line.indexOf("out: ") + 5));
        assertThat(reasons)
                .as("seed %s", SEED)
                .allMatch(each -> REASONS.matcher(each).matches(), REASONS.pattern());
    }

    /** Moves data from one place to another, or takes all of it. */
    private static void maintain(SplittableRandom random) {
        Table table = any(random);
        String name = table.name("t_");
        switch (random.nextInt(12)) {
            case 0, 1, 2 -> node.nodetool("flush", "ks", name);
            case 3, 4, 5 -> node.nodetool("compact", "ks", name);
            case 6 -> node.nodetool("garbagecollect", "ks", name);
            case 7 -> node.nodetool("cleanup", "ks", name);
            // Cassandra's leaves out partitions with range deletions or cells with a TTL.
            case 8 -> node.nodetool("scrub", "ks", Table.COUNTED.name("t_"));
            case 9 -> session.execute("TRUNCATE ks." + name);
            default -> {
                awaitComparison();
                session.execute(
                        "INSERT INTO petra.comparisons (keyspace_name, table_name, token_range)"
                                + " VALUES ('ks', ?, '')",
                        name);
            }
        }
    }

    private static void awaitComparison() {
        try {
            awaitCaughtUp("t_");
            TestNode.await(
                    "comparisons",
                    PATIENCE,
                    () ->
                            session.execute("SELECT ended_at FROM petra.comparisons").all().stream()
                                    .noneMatch(row -> row.isNull("ended_at")));
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    @Order(1)
    @Timeout(value = 2, unit = TimeUnit.HOURS)
    @OneOf(variants = "ShadowSoakIT", of = 2, number = 1)
    void nothingDiffers() throws Exception {
        for (Table table : Table.values()) table.create("t_", "rocks_shadow");
        awaitCaughtUp("t_");
        SplittableRandom random = new SplittableRandom(SEED);
        // Three parts, with a clean restart and a kill between them.
        for (int part = 0; part < 3; part++) {
            List<Client> clients = load("t_", random.nextLong());
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS) / 3;
            while (System.nanoTime() < end) {
                TimeUnit.SECONDS.sleep(2);
                maintain(random);
                noDifference("t_");
                for (Client each : clients) assertThat(each.failure).isNull();
            }
            awaitCaughtUp("t_");
            TestNode.await(
                    "comparisons",
                    PATIENCE,
                    () -> shadows("t_").stream().allMatch(row -> row.getLong("equal") > 50));
            Client.halt(clients);
            noDifference("t_");
            enoughWasCompared("t_");
            noneDroppedOutByItself();
            System.out.println(
                    "Shadow: "
                            + written
                            + " writes, "
                            + read
                            + " reads; since the last start "
                            + summary("t_"));
            if (part == 2) break;
            session.close();
            if (part == 0) node.process().stop();
            else node.process().kill();
            node.restart();
            session = node.plainSession();
            noDifference("t_");
            awaitCaughtUp("t_");
        }
    }

    /** The same load, with engines that are wrong. */
    @Test
    @Order(2)
    @Timeout(value = 4, unit = TimeUnit.HOURS)
    @OneOf(variants = "ShadowSoakIT", of = 2, number = 2)
    void mutantsAreFoundSoon() throws Exception {
        for (int i = 0; i < MUTANTS.size(); i++) {
            String prefix = "m" + i + "_";
            String mutant = MUTANTS.get(i);
            for (Table table : Table.values()) table.create(prefix, mutant);
            awaitCaughtUp(prefix);
            List<Client> clients = load(prefix, SEED);
            try {
                TestNode.await(
                        mutant,
                        FOUND_HERE.contains(mutant) ? PATIENCE : SOME_TIME_PATIENCE,
                        () ->
                                shadows(prefix).stream()
                                        .anyMatch(row -> row.getLong("different") > 0));
            } finally {
                Client.halt(clients);
            }
            long compared =
                    shadows(prefix).stream().mapToLong(row -> row.getLong("compared")).sum();
            System.out.println("Shadow: " + mutant + " was found within " + compared + " reads");
            assertThat(compared)
                    .as("seed %s: %s", SEED, mutant)
                    .isLessThan(FOUND_HERE.contains(mutant) ? SOON : SOME_TIME);
            for (Table table : Table.values()) session.execute("DROP TABLE " + table.in(prefix));
        }
    }
}
