// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.TempDir;

/** A node with many tables: killed while it makes them, out of descriptors, and when all go. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ManyTablesIT {
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());
    private static final int TABLES = Integer.getInteger("petra.tables", 50);
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /** Those that docs/sizing.md counts, as Linux cuts their names. */
    private static final Pattern THREADS =
            Pattern.compile(
                    "rocksdb:(low|high)|petra-(tick|flush|log-sync-?|purge|ranges|heal|windows.*)"
                            + "|Petra(Announceme|Upkeep|IndexSweep|Migrations|Disposals|StreamIdle)"
                            + ".*");

    @TempDir static Path directory;

    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node =
                TestNode.start(
                        directory,
                        // What a kill leaves out of a table's schema comes with the commit log.
                        config ->
                                config.jvmOptions(
                                        "-Dcassandra.ignore_corrupted_schema_tables=true"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() {
        session.close();
        node.close();
    }

    private static void restart() {
        node.restart();
        // Cassandra reads its schema before it replays the commit log: a table that was in flight
        // may be in the tables of the schema, and not in force.
        node.nodetool("reloadlocalschema");
        session = node.plainSession();
    }

    private static void create(CqlSession session, String table) {
        session.execute(
                "CREATE TABLE ks." + table + " (k int PRIMARY KEY, v int) WITH memtable = 'rocks'");
    }

    private static void insert(String table, int value) {
        session.execute("INSERT INTO ks." + table + " (k, v) VALUES (1, " + value + ")");
    }

    private static int value(String table) {
        return session.execute("SELECT v FROM ks." + table + " WHERE k = 1").one().getInt("v");
    }

    private static Set<String> tables() {
        return session
                .execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'")
                .all()
                .stream()
                .map(row -> row.getString("table_name"))
                .collect(Collectors.toSet());
    }

    private static Path process(String what) {
        return Path.of("/proc", "" + node.process().pid(), what);
    }

    private static long descriptors() throws IOException {
        try (Stream<Path> open = Files.list(process("fd"))) {
            return open.count();
        }
    }

    /** The names of threads that are the engine's, with how many there are. */
    private static Map<String, Long> threads() throws IOException {
        try (Stream<Path> tasks = Files.list(process("task"))) {
            return tasks.map(ManyTablesIT::name)
                    .filter(name -> name.matches("(?i).*(petra|rocksdb).*"))
                    .collect(
                            Collectors.groupingBy(
                                    name -> name.replaceAll("\\d+", "N"),
                                    TreeMap::new,
                                    Collectors.counting()));
        }
    }

    /** Of a thread; empty if it has ended meanwhile. */
    private static String name(Path task) {
        try {
            return Files.readString(task.resolve("comm")).strip();
        } catch (IOException e) {
            if (Files.notExists(task)) return "";
            throw new UncheckedIOException(e);
        }
    }

    /** Besides those in snapshots. */
    private static long stores() {
        return TableFiles.children(directory.resolve("data").resolve("ks")).stream()
                .filter(table -> Files.exists(table.resolve("rocksdb")))
                .count();
    }

    @Test
    @Order(1)
    void aNodeIsKilledAmongManyNewTables() throws Exception {
        System.out.println("ManyTablesIT: -Dpetra.seed=" + SEED);
        SplittableRandom random = new SplittableRandom(SEED);
        int least = random.nextInt(TABLES / 4, TABLES * 3 / 4);
        Set<String> made = new ConcurrentSkipListSet<>();
        CqlSession creating = session;
        Thread creator =
                new Thread(
                        () -> {
                            try {
                                // More than it has time for.
                                for (int t = 0; t < 10 * TABLES; t++) {
                                    create(creating, "t" + t);
                                    made.add("t" + t);
                                }
                            } catch (DriverException e) {
                                // The node was killed.
                            }
                        });
        creator.start();
        TestNode.await("tables", PATIENCE, () -> made.size() >= least);
        Thread.sleep(random.nextInt(50));
        assertThat(creator.isAlive()).isTrue();
        node.process().kill();
        creator.join();
        session.close();
        restart();
        assertThat(tables()).containsAll(made).hasSizeBetween(made.size(), made.size() + 1);
        for (int t = 0; t < TABLES; t++) {
            if (!tables().contains("t" + t)) create(session, "t" + t);
            insert("t" + t, t);
        }
        for (int t = 0; t < TABLES; t++) assertThat(value("t" + t)).isEqualTo(t);
    }

    /** Cassandra ends the process then, or stops what clients talk to. */
    @Test
    @Order(2)
    void aNodeThatRanOutOfDescriptorsHasAllThatItPromised() throws Exception {
        int before = tables().size();
        limit(descriptors() + 40);
        Set<String> written = new LinkedHashSet<>();
        assertThatThrownBy(
                        () -> {
                            for (int t = 0; t < TABLES; t++) {
                                create(session, "more" + t);
                                insert("more" + t, t);
                                written.add("more" + t);
                            }
                        })
                .isInstanceOf(DriverException.class);
        session.close();
        // What the JVM says, or Cassandra of its own call of open; where that fails in a flush, it
        // stops first and says why afterwards.
        Pattern why =
                Pattern.compile("Too many open files|errno \\(24\\)|disk_failure_policy is stop");
        TestNode.await(
                "why",
                PATIENCE,
                () -> !node.process().isAlive() || why.matcher(node.process().log()).find());
        if (node.process().isAlive()) node.process().kill();
        assertThat(node.process().log()).containsPattern(why);
        removeUnfinishedSchemaSSTables();
        restart();
        assertThat(tables()).hasSizeGreaterThanOrEqualTo(before + written.size());
        int t = 0;
        for (String table : written) assertThat(value(table)).isEqualTo(t++);
        for (t = 0; t < TABLES; t++) assertThat(value("t" + t)).isEqualTo(t);
    }

    /**
     * Of a flush that the lack of descriptors ended, Cassandra may leave an SSTable without its
     * statistics, and then it refuses to start. What is in it is still in the commit log.
     */
    private static void removeUnfinishedSchemaSSTables() throws IOException {
        Path schema = directory.resolve("data").resolve("system_schema");
        String end = "-Data.db";
        for (Path data : files(schema, name -> name.endsWith(end))) {
            String name = data.getFileName().toString();
            String sstable = name.substring(0, name.length() - end.length());
            if (Files.exists(data.resolveSibling(sstable + "-Statistics.db"))) continue;
            for (Path component : files(data.getParent(), other -> other.startsWith(sstable + "-")))
                Files.delete(component);
        }
    }

    private static List<Path> files(Path directory, Predicate<String> names) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.filter(file -> names.test(file.getFileName().toString())).toList();
        }
    }

    private static void limit(long descriptors) throws Exception {
        assertThat(
                        new ProcessBuilder(
                                        "prlimit",
                                        "--pid",
                                        "" + node.process().pid(),
                                        "--nofile=" + descriptors + ":")
                                .inheritIO()
                                .start()
                                .waitFor())
                .isZero();
    }

    @Test
    @Order(3)
    void allTablesGoAtOnce() throws Exception {
        long before = descriptors();
        long stores = stores();
        assertThat(stores).isGreaterThanOrEqualTo(TABLES);
        Map<String, Long> threads = threads();
        System.out.println("ManyTablesIT: " + stores + " stores, " + threads);
        assertThat(threads.keySet()).allMatch(name -> THREADS.matcher(name).matches());
        // They are not of single tables.
        assertThat(threads.values().stream().mapToLong(count -> count).sum())
                .isLessThan(Math.max(TABLES / 2, 40));
        assertThat(Files.readString(process("maps"))).doesNotContain("/rocksdb/");
        session.execute("DROP KEYSPACE ks");
        TestNode.await("no store", PATIENCE, () -> stores() == 0);
        TestNode.await("closed files", PATIENCE, () -> before - descriptors() > 5L * TABLES);
        assertThat(before - descriptors()).isLessThan(9 * stores);
    }
}
