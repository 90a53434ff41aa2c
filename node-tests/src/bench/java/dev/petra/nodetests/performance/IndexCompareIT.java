// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer.OrderAnnotation;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * What Storage-Attached Indexes cost on a {@code rocks} table and on a table as {@code
 * cassandra_latest.yaml} has it, on a node for each, in turns: writes with none, one and three of
 * them, and queries that match 1, 100 and 10,000 rows. {@code -Dit.test=IndexCompareIT
 * -Dpetra.index.rows=1000000}; with {@code -Dpetra.index.group=/sys/fs/cgroup/memory/index} the
 * nodes enter its control groups {@code rocks} and {@code trie}, which limit their memory. Prints;
 * {@code docs/performance.md} has figures.
 */
@EnabledIfSystemProperty(named = "petra.index.rows", matches = "\\d+")
@TestMethodOrder(OrderAnnotation.class)
@Timeout(value = 4, unit = TimeUnit.HOURS)
class IndexCompareIT {
    private static final long ROWS = Long.getLong("petra.index.rows", 1);
    private static final int ROUNDS = Integer.getInteger("petra.index.rounds", 5);
    private static final int MEMORY_MIB = Integer.getInteger("petra.index.memory", 512);

    /** Of a round, for each kind of table. */
    private static final long ROUND_NANOS =
            TimeUnit.SECONDS.toNanos(Integer.getInteger("petra.index.seconds", 5));

    private static final int IN_FLIGHT = 32;

    /** How often each row is written before queries that follow overwrites. */
    private static final int PASSES = 8;

    private static final List<String> KINDS = List.of("rocks", "trie");
    private static final List<String> INDEXED = List.of("hundred", "one", "many");

    /** What is not indexed is a part of this: 112 characters that hardly compress. */
    private static final String NOISE = noise(1 << 20);

    private static final int PAD = 112;

    /** Odd, so that it makes of each row's number another number. */
    private static final long MIX = 0x9E3779B97F4A7C15L;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static final @Nullable String GROUP = System.getProperty("petra.index.group");

    /** One for each kind of table. */
    private static final Map<String, TestNode> NODES = new LinkedHashMap<>();

    private static final Map<String, CqlSession> SESSIONS = new HashMap<>();

    @BeforeAll
    static void start() {
        Map<String, Object> latest = new HashMap<>();
        latest.put("memtable_allocation_type", "offheap_objects");
        latest.put("column_index_size", "4KiB");
        latest.put("concurrent_compactors", 8);
        latest.put("trickle_fsync", true);
        latest.put("storage_compatibility_mode", "NONE");
        latest.put("uuid_sstable_identifiers_enabled", true);
        latest.put("sstable", Map.of("selected_format", "bti"));
        // With the default of 1 GiB Cassandra's compaction of an index of a unique column takes all
        // of
        // a heap of that size, and the node ends.
        latest.put("sai_options", Map.of("segment_write_buffer_size", "128MiB"));
        for (String kind : KINDS) {
            NODES.put(
                    kind,
                    TestNode.start(
                            directory.resolve(kind),
                            config ->
                                    config.heap("1GiB")
                                            .wrapper(group(kind))
                                            .jvmOptions(TestNode.measured(1024))
                                            .yaml(latest)
                                            .engineParameters(
                                                    Map.of(
                                                            "engine",
                                                            "rocks",
                                                            "memory",
                                                            MEMORY_MIB + "MiB"))));
            SESSIONS.put(kind, NODES.get(kind).session());
            TestNode.createKeyspace(SESSIONS.get(kind), "ks", 1);
        }
    }

    /** A command that enters the control group, and there becomes what it is told to execute. */
    private static List<String> group(String kind) {
        return GROUP == null
                ? List.of()
                : List.of(
                        "sh",
                        "-c",
                        "echo $$ > \"$0\" && exec \"$@\"",
                        GROUP + "/" + kind + "/cgroup.procs");
    }

    @AfterAll
    static void stop() {
        SESSIONS.values().forEach(CqlSession::close);
        NODES.values().forEach(TestNode::close);
    }

    private static void create(String table, String kind, int indexes) {
        CqlSession session = SESSIONS.get(kind);
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (k bigint PRIMARY KEY, one bigint, hundred bigint, many bigint,"
                        + " pad text) WITH memtable = '"
                        + kind
                        + "' AND compaction = {'class': 'UnifiedCompactionStrategy'}");
        for (String column : INDEXED.subList(0, indexes))
            session.execute("CREATE INDEX ON ks." + table + " (" + column + ") USING 'sai'");
    }

    private static PreparedStatement insert(String table, String kind) {
        return SESSIONS.get(kind)
                .prepare(
                        "INSERT INTO ks."
                                + table
                                + " (k, one, hundred, many, pad) VALUES (?, ?, ?, ?, ?)");
    }

    /** The values by which a row is found: each of them is that of 1, 100 or 10,000 rows. */
    private static BoundStatement row(PreparedStatement insert, long key, long values) {
        return insert.bind(key, one(values), hundred(values), many(values), pad(values));
    }

    private static String noise(int length) {
        SplittableRandom random = new SplittableRandom(3);
        StringBuilder noise = new StringBuilder(length);
        for (int i = 0; i < length; i++) noise.append((char) random.nextInt(' ', 127));
        return noise.toString();
    }

    private static String pad(long row) {
        int at = (int) Math.floorMod(row * MIX, (long) NOISE.length() - PAD);
        return NOISE.substring(at, at + PAD);
    }

    private static long one(long row) {
        return row * MIX;
    }

    private static long hundred(long row) {
        return row % Math.max(1, ROWS / 100);
    }

    /** The rows of one {@link #hundred} are all of one of these. */
    private static long many(long row) {
        return hundred(row) % Math.max(1, ROWS / 10_000);
    }

    /** Neither node does anything then. */
    private static void settle() throws Exception {
        for (TestNode node : NODES.values()) node.nodetool("flush", "ks");
        double before;
        do {
            before = cpuSeconds();
            TimeUnit.SECONDS.sleep(3);
        } while (cpuSeconds() - before > 0.3);
    }

    private static double cpuSeconds() {
        return NODES.values().stream().mapToDouble(NodeMetrics::cpuSeconds).sum();
    }

    @Test
    @Order(1)
    void writesWithNoneOneAndThreeIndexes() throws Exception {
        SplittableRandom random = new SplittableRandom(1);
        long rows = Math.max(1, ROWS / 10);
        for (int indexes : new int[] {0, 1, 3}) {
            PreparedStatement[] inserts = new PreparedStatement[KINDS.size()];
            for (int kind = 0; kind < inserts.length; kind++) {
                String table = KINDS.get(kind) + "_w" + indexes;
                create(table, KINDS.get(kind), indexes);
                inserts[kind] = insert(table, KINDS.get(kind));
            }
            double[][] rates = new double[inserts.length][ROUNDS];
            double[][] cpu = new double[inserts.length][ROUNDS];
            for (int round = -2; round < ROUNDS; round++)
                for (int i = 0; i < inserts.length; i++) {
                    // Who is first is not the same each time.
                    int kind = (i + Math.floorMod(round, 2)) % 2;
                    TestNode node = NODES.get(KINDS.get(kind));
                    settle();
                    double cpuBefore = NodeMetrics.cpuSeconds(node);
                    long begun = System.nanoTime();
                    long sent =
                            new ClosedLoop(SESSIONS.get(KINDS.get(kind)), IN_FLIGHT)
                                    .run(
                                            Long.MAX_VALUE,
                                            ROUND_NANOS,
                                            number ->
                                                    row(
                                                            inserts[kind],
                                                            random.nextLong(rows),
                                                            random.nextLong(ROWS)));
                    double seconds = (System.nanoTime() - begun) / 1e9;
                    // What is written is paid for when it is in files.
                    settle();
                    if (round < 0) continue;
                    rates[kind][round] = sent / seconds;
                    cpu[kind][round] = (NodeMetrics.cpuSeconds(node) - cpuBefore) / sent * 1e6;
                }
            for (int kind = 0; kind < inserts.length; kind++)
                System.out.printf(
                        Locale.ROOT,
                        "IndexCompareIT: %d indexes, %s: writes/s %s, CPU with flush, µs %s%n",
                        indexes,
                        KINDS.get(kind),
                        spread(rates[kind]),
                        spread(cpu[kind]));
        }
    }

    /** Median, least and most. */
    private static String spread(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return String.format(
                Locale.ROOT,
                "%.0f (%.0f–%.0f)",
                sorted[sorted.length / 2],
                sorted[0],
                sorted[sorted.length - 1]);
    }

    @Test
    @Order(2)
    void queries() throws Exception {
        for (String kind : KINDS) {
            create(kind + "_q", kind, 3);
            PreparedStatement insert = insert(kind + "_q", kind);
            long begun = System.nanoTime();
            new ClosedLoop(SESSIONS.get(kind), IN_FLIGHT)
                    .run(ROWS, Long.MAX_VALUE, number -> row(insert, number, number));
            settle();
            System.out.printf(
                    Locale.ROOT,
                    "IndexCompareIT: %s: %d rows after %.0f s%n",
                    kind,
                    ROWS,
                    (System.nanoTime() - begun) / 1e9);
        }
        queries("flushed");
        for (String kind : KINDS) NODES.get(kind).nodetool("compact", "ks", kind + "_q");
        settle();
        queries("compacted");
    }

    /** Each row was there with other values: their entries are stale until they are swept. */
    @Test
    @Order(3)
    void queriesAfterOverwrites() throws Exception {
        long rows = Math.max(1, ROWS / 10);
        for (String kind : KINDS) {
            create(kind + "_o", kind, 3);
            PreparedStatement insert = insert(kind + "_o", kind);
            // The last pass leaves a row of its own number in each key.
            new ClosedLoop(SESSIONS.get(kind), IN_FLIGHT)
                    .run(
                            PASSES * rows,
                            Long.MAX_VALUE,
                            number -> {
                                long left = PASSES - 1 - number / rows;
                                long key = number % rows;
                                return row(insert, key, (key + left * (rows / PASSES + 13)) % rows);
                            });
        }
        settle();
        long matches = rows / Math.max(1, ROWS / 100);
        overwritten("overwritten", matches, rows);
        for (String kind : KINDS) NODES.get(kind).nodetool("garbagecollect", "ks", kind + "_o");
        settle();
        overwritten("swept", matches, rows);
    }

    private static void overwritten(String state, long matches, long rows) throws Exception {
        measure(
                "_o",
                state + ", hundred = ? (" + matches + " rows)",
                matches,
                "hundred = ?",
                (s, row) -> s.bind(hundred(row % rows)));
    }

    private static void queries(String state) throws Exception {
        measure("_q", state + ", one = ? (1 row)", 1, "one = ?", (s, row) -> s.bind(one(row)));
        measure(
                "_q",
                state + ", hundred = ? (100 rows)",
                Math.min(100, ROWS),
                "hundred = ?",
                (s, row) -> s.bind(hundred(row)));
        measure(
                "_q",
                state + ", many = ? (10,000 rows)",
                Math.min(10_000, ROWS),
                "many = ?",
                (s, row) -> s.bind(many(row)));
        measure(
                "_q",
                state + ", hundred >= ? AND hundred < ? (1,000 rows)",
                Math.min(1_000, ROWS),
                "hundred >= ? AND hundred < ?",
                (s, row) -> {
                    long from = Math.max(0, Math.min(hundred(row), ROWS / 100 - 10));
                    return s.bind(from, from + 10);
                });
        measure(
                "_q",
                state + ", hundred = ? AND many = ? (100 rows)",
                Math.min(100, ROWS),
                "hundred = ? AND many = ?",
                (s, row) -> s.bind(hundred(row), many(row)));
    }

    private interface Query {
        BoundStatement of(PreparedStatement statement, long row);
    }

    private static void measure(String table, String what, long matches, String where, Query query)
            throws Exception {
        Map<String, PreparedStatement> selects = new HashMap<>();
        for (String kind : KINDS)
            selects.put(
                    kind,
                    SESSIONS.get(kind)
                            .prepare("SELECT k, pad FROM ks." + kind + table + " WHERE " + where));
        SplittableRandom random = new SplittableRandom(2);
        double[][] micros = new double[KINDS.size()][ROUNDS];
        double[][] cpu = new double[KINDS.size()][ROUNDS];
        double[][] read = new double[KINDS.size()][ROUNDS];
        for (int round = -2; round < ROUNDS; round++)
            for (int i = 0; i < KINDS.size(); i++) {
                int kind = (i + Math.floorMod(round, 2)) % 2;
                TestNode node = NODES.get(KINDS.get(kind));
                CqlSession session = SESSIONS.get(KINDS.get(kind));
                long readBefore = NodeMetrics.readFromDisk(node);
                double cpuBefore = NodeMetrics.cpuSeconds(node);
                long begun = System.nanoTime();
                int asked = 0;
                for (; System.nanoTime() - begun < ROUND_NANOS; asked++) {
                    BoundStatement bound =
                            query.of(selects.get(KINDS.get(kind)), random.nextLong(ROWS));
                    long rows = 0;
                    for (Row ignored : session.execute(bound.setTimeout(Duration.ofMinutes(1))))
                        rows++;
                    assertThat(rows).as("%s of %s", what, KINDS.get(kind)).isEqualTo(matches);
                }
                if (round < 0) continue;
                micros[kind][round] = (System.nanoTime() - begun) / 1e3 / asked;
                cpu[kind][round] = (NodeMetrics.cpuSeconds(node) - cpuBefore) / asked * 1e6;
                read[kind][round] = (NodeMetrics.readFromDisk(node) - readBefore) / 1e3 / asked;
            }
        Function<Integer, String> figures =
                kind ->
                        "µs "
                                + spread(micros[kind])
                                + ", CPU µs "
                                + spread(cpu[kind])
                                + ", KB from disk "
                                + spread(read[kind]);
        System.out.printf(
                Locale.ROOT,
                "IndexCompareIT: %s: rocks: %s; trie: %s%n",
                what,
                figures.apply(0),
                figures.apply(1));
    }
}
