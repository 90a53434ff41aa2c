// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.servererrors.InvalidConfigurationInQueryException;
import com.datastax.oss.driver.api.core.servererrors.ReadFailureException;
import com.datastax.oss.driver.api.core.servererrors.WriteFailureException;
import dev.petra.launcher.FileTree;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeException;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WovenHome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A node that would show an empty table, or run without a join point, does not start; one with a
 * damaged table starts, and only that table fails.
 */
class StartIT {
    private static final Duration MOVES = Duration.ofMinutes(5);

    private static final String OURS = "dev.petra.cassandra.PetraMemtable";
    private static final Map<String, Object> TRIE_IS_OURS =
            configuration("trie", Map.of("class_name", OURS));

    private static final Map<String, Object> BATCH = Map.of("commitlog_sync", "batch");

    /** A store of that format, of {@code FormatTest}. */
    private static final Path FORMAT_1 = Path.of("../engine-rocks/src/test/resources/format-1");

    @TempDir static Path directory;
    private static boolean filled;

    @BeforeEach
    void fill() {
        if (filled) return;
        try (TestNode node = TestNode.start(directory, options -> options.overwriteConf(true));
                CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
            for (String table : new String[] {"a", "b", "c"}) {
                session.execute(
                        "CREATE TABLE ks."
                                + table
                                + " (p int PRIMARY KEY, v int) WITH memtable = 'rocks'");
                session.execute("INSERT INTO ks." + table + " (p, v) VALUES (1, 1)");
            }
            session.execute("CREATE TABLE ks.plain (p int PRIMARY KEY, v int)");
            session.execute("INSERT INTO ks.plain (p, v) VALUES (1, 1)");
            session.execute(
                    "CREATE TABLE ks.t (k text, c int, s text static, a text, b int,"
                            + " m map<text, text>, PRIMARY KEY (k, c))"
                            + " WITH CLUSTERING ORDER BY (c DESC) AND memtable = 'rocks'"
                            + " AND ID = 11111111-2222-3333-4444-555555555555");
            // Makes the store.
            session.execute("INSERT INTO ks.t (k, c) VALUES ('w', 1)");
            session.execute("CREATE TABLE ks.corrupt (p int PRIMARY KEY)");
            for (int p = 0; p < 100; p++)
                session.execute("INSERT INTO ks.corrupt (p) VALUES (?)", p);
            node.nodetool("flush", "ks", "corrupt");
            node.process().stop();
        }
        // As if the last version that wrote format 1 had left it.
        Path stores = new TableFiles(directory.resolve("data"), "ks", "t").stores();
        FileTree.delete(stores.resolve("1"));
        TableFiles.copy(FORMAT_1, stores.resolve("1"));
        filled = true;
    }

    private static Map<String, Object> configuration(String name, Map<String, Object> settings) {
        return Map.of("memtable", Map.of("configurations", Map.of(name, settings)));
    }

    private static Path guard(String table) {
        return new TableFiles(directory.resolve("data"), "ks", table).guard();
    }

    private static TestNode start(Path home, UnaryOperator<NodeConfig.Builder> options) {
        return TestNode.start(home, builder -> options.apply(builder.overwriteConf(true)));
    }

    private static TestNode start(UnaryOperator<NodeConfig.Builder> options) {
        return start(directory, options);
    }

    private static String refused(UnaryOperator<NodeConfig.Builder> options) throws IOException {
        return refused(directory, options);
    }

    private static String refused(Path home, UnaryOperator<NodeConfig.Builder> options)
            throws IOException {
        Path log = home.resolve("logs/system.log");
        Path output = home.resolve("logs/output.log");
        int logLength = Files.readString(log).length();
        int outputLength = Files.readString(output).length();
        assertThatThrownBy(() -> start(home, options).close())
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("ended before CQL was open");
        return Files.readString(log).substring(logLength)
                + Files.readString(output).substring(outputLength);
    }

    /**
     * Nothing that was refused or damaged and mended has done anything to the tables. A store that
     * the schema does not know is a snapshot, where {@code auto_snapshot} is on as well.
     */
    @AfterAll
    static void startsAgain() {
        leaveUnknownStore();
        try (TestNode node = start(options -> options.yaml(Map.of("auto_snapshot", true)));
                CqlSession session = node.plainSession()) {
            assertUnknownStoreIsSnapshot(node);
            for (String table : new String[] {"a", "b", "c"})
                assertThat(session.execute("SELECT * FROM ks." + table).all())
                        .as("the rows of ks.%s", table)
                        .hasSize(1);
            for (String table : new String[] {"a", "b", "c", "t"})
                assertThat(guard(table)).as("the guard of ks.%s", table).exists();
            assertThat(session.execute("SELECT v FROM ks.a WHERE p = 1").one())
                    .as("a row of ks.a")
                    .isNotNull();
            assertThat(session.execute("SELECT JSON c, s, a FROM ks.t WHERE k IN ('x', 'y')").all())
                    .as("the rows of format 1")
                    .extracting(row -> row.getString(0))
                    .containsExactly(
                            "{\"c\": 1, \"s\": \"static\", \"a\": \"newer\"}",
                            "{\"c\": 8, \"s\": null, \"a\": \"after\"}");
        }
    }

    private static NodeConfig.Builder stock(NodeConfig.Builder options) {
        return options.home(WovenHome.STOCK).agent(false);
    }

    /** Neither the agent nor a woven Cassandra: for that see WovenIT. */
    @Test
    void withoutTheAgentAndTheConfiguration() throws IOException {
        Map<String, Object> stock = configuration("rocks", Map.of("class_name", "TrieMemtable"));
        assertThat(refused(options -> stock(options).yaml(stock)))
                .contains("Detected unreadable sstables", TableFiles.GUARD);
    }

    /** The same where an operator deleted the guards and the configuration is still there. */
    @Test
    void withoutTheAgent() throws IOException {
        assertThat(refused(StartIT::stock)).contains(TableFiles.GUARD);
        for (String table : new String[] {"a", "b", "c", "t"}) Files.delete(guard(table));
        assertThat(refused(StartIT::stock))
                .contains("Table ks.")
                .contains(
                        "is in a storage engine, which cannot work in this node: It has neither the"
                                + " agent")
                .contains("-javaagent:");
    }

    @Test
    void withoutTheAgentANewTableIsRefusedToo(@TempDir Path fresh) {
        try (TestNode node = TestNode.start(fresh, StartIT::stock);
                CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
            assertThatThrownBy(
                            () ->
                                    session.execute(
                                            "CREATE TABLE ks.t (p int PRIMARY KEY)"
                                                    + " WITH memtable = 'rocks'"))
                    .isInstanceOf(InvalidConfigurationInQueryException.class)
                    .hasMessageContaining("-javaagent:");
            session.execute("CREATE TABLE ks.plain (p int PRIMARY KEY)");
        }
    }

    @Test
    void withoutAConfigurationThatReadsTheTables() throws IOException {
        assertThat(
                        refused(
                                options ->
                                        options.yaml(
                                                configuration(
                                                        "rocks",
                                                        Map.of("class_name", "SkipListMemtable")))))
                .contains("There are tables in a storage engine")
                .contains("class_name: " + OURS);
    }

    @Test
    @OneOf(variants = "StartIT, configurations of a table", of = 2, number = 2)
    void withoutTheTablesConfiguration(@TempDir Path other) throws IOException {
        Map<String, Object> extra = configuration("extra", Map.of("inherits", "rocks"));
        try (TestNode node = start(other, options -> options.yaml(extra));
                CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
            session.execute("CREATE TABLE ks.t (p int PRIMARY KEY) WITH memtable = 'extra'");
            session.execute("INSERT INTO ks.t (p) VALUES (1)");
            node.process().stop();
        }
        assertThat(refused(other, options -> options))
                .contains("has its data in a storage engine")
                .contains("its memtable configuration 'extra' is not in cassandra.yaml")
                .contains("would show an empty table");
        try (TestNode node = start(other, options -> options.yaml(extra));
                CqlSession session = node.plainSession()) {
            assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(1);
        }
    }

    @Test
    @OneOf(variants = "StartIT, settings", of = 4, number = 1)
    void withAnUnknownSetting() throws IOException {
        assertThat(refused(options -> options.engineParameters(Map.of("bogus", "1"))))
                .contains("The memtable configuration 'rocks' in cassandra.yaml cannot be used")
                .contains("[bogus]");
    }

    @Test
    @OneOf(variants = "StartIT, settings", of = 4, number = 2)
    void withAnIllFormedSetting() throws IOException {
        assertThat(refused(options -> options.engineParameters(Map.of("memory", "much"))))
                .contains("Setting 'memory' is 'much', but must be a size");
    }

    @Test
    @OneOf(variants = "StartIT, settings", of = 4, number = 3)
    void withADirectoryThatCannotTakeTheNativeLibrary() throws IOException {
        assertThat(
                        refused(
                                options ->
                                        options.engineParameters(
                                                Map.of("native_library_directory", "/proc/petra"))))
                .contains(
                        "native libraries of RocksDB and of this engine cannot be loaded from"
                                + " '/proc/petra'")
                .contains("Set 'native_library_directory' to a directory that is writable");
    }

    @Test
    @OneOf(variants = "StartIT, settings", of = 4, number = 4)
    void withAnUnknownEngine() throws IOException {
        assertThat(refused(options -> options.engineParameters(Map.of("engine", "stones"))))
                .contains("There is no storage engine named 'stones'")
                .contains("rocks");
    }

    static List<String> modes() {
        return Drawn.of("StartIT, mode", List.of("", "shadow", "fallback"));
    }

    @ParameterizedTest
    @MethodSource("modes")
    @OneOf(variants = "StartIT, configurations that have no table", of = 2, number = 1)
    void asTheDefaultMemtable(String mode) throws IOException {
        Map<String, Object> inDefault =
                mode.isEmpty()
                        ? Map.of("inherits", "rocks")
                        : Map.of("inherits", "rocks", "parameters", Map.of("mode", mode));
        assertThat(refused(options -> options.yaml(configuration("default", inDefault))))
                .contains("The memtable configuration 'default'")
                .contains("give the engine a configuration of another name");
    }

    @Test
    @OneOf(variants = "StartIT, configurations that have no table", of = 2, number = 2)
    void withAnUnknownMode() throws IOException {
        Map<String, Object> both =
                Map.of("inherits", "rocks", "parameters", Map.of("mode", "both"));
        assertThat(refused(options -> options.yaml(configuration("rocks_both", both))))
                .contains("mode", "both", "shadow", "fallback");
    }

    /**
     * A table without an index is migrated; one with a SASI index fails until one of two mends, and
     * one WITH COMPACT STORAGE or with a materialized view until its memtable is Cassandra's again.
     * What only the commit log has is replayed into the store of its table.
     */
    @Test
    @OneOf(variants = "StartIT, configurations of a table", of = 2, number = 1)
    void anotherClassOfAConfigurationMigratesItsTables(@TempDir Path other) throws Exception {
        TableFiles files = new TableFiles(other.resolve("data"), "ks", "t");
        String byIndex = "SELECT * FROM ks.i WHERE v = 1";
        String byView = "SELECT * FROM ks.m_by_v WHERE v = 1";
        try (TestNode node =
                        start(
                                other,
                                // With batch an acknowledged write is in the commit log, also for
                                // a killed process.
                                options ->
                                        options.yaml(BATCH)
                                                .yaml(
                                                        Map.of(
                                                                "sasi_indexes_enabled",
                                                                true,
                                                                "materialized_views_enabled",
                                                                true)));
                CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
            createInTrie(session, "t");
            session.execute("CREATE TABLE ks.i (p int PRIMARY KEY, v int) WITH memtable = 'trie'");
            session.execute("INSERT INTO ks.i (p, v) VALUES (1, 1)");
            session.execute(
                    "CREATE CUSTOM INDEX by_v ON ks.i (v) USING"
                            + " 'org.apache.cassandra.index.sasi.SASIIndex'");
            session.execute("CREATE TABLE ks.m (p int PRIMARY KEY, v int) WITH memtable = 'trie'");
            session.execute(
                    "CREATE MATERIALIZED VIEW ks.m_by_v AS SELECT * FROM ks.m WHERE p IS NOT NULL"
                            + " AND v IS NOT NULL PRIMARY KEY (v, p)");
            session.execute("INSERT INTO ks.m (p, v) VALUES (1, 1)");
            session.execute("CREATE TABLE ks.u (p int PRIMARY KEY) WITH memtable = 'rocks'");
            session.execute(
                    "CREATE TABLE ks.c (p int PRIMARY KEY, v int) WITH COMPACT STORAGE AND memtable"
                            + " = 'trie'");
            session.execute("INSERT INTO ks.c (p, v) VALUES (1, 1)");
            assertThat(node.tryNodetool("flush", "ks").exitCode()).isZero();
            createInTrie(session, "logged");
            node.process().kill();
        }
        TableFiles logged = new TableFiles(other.resolve("data"), "ks", "logged");
        assertThat(hasNoSSTables(logged)).isTrue();
        try (TestNode node = start(other, options -> options.yaml(TRIE_IS_OURS));
                CqlSession session = node.plainSession()) {
            assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(1);
            assertThat(session.execute("SELECT * FROM ks.logged").all()).hasSize(1);
            assertThat(logged.generations()).containsExactly("1");
            for (String statement :
                    List.of(
                            "SELECT * FROM ks.c",
                            "INSERT INTO ks.c (p, v) VALUES (2, 1)",
                            "SELECT * FROM ks.i",
                            byIndex,
                            "SELECT * FROM ks.m",
                            byView,
                            "INSERT INTO ks.m (p, v) VALUES (2, 1)",
                            "INSERT INTO ks.i (p, v) VALUES (2, 1)",
                            "DELETE FROM ks.i WHERE p = 1"))
                assertThatThrownBy(() -> session.execute(statement)).as(statement).isNotNull();
            assertThat(node.process().log())
                    .contains("Table ks.i cannot be used, every read and write of it will fail")
                    .contains("has the index 'by_v'")
                    .contains("has the materialized view 'm_by_v'")
                    .contains("has COMPACT STORAGE, which is not supported");
            session.execute("INSERT INTO ks.u (p) VALUES (1)");
            // The others wait for as long as they are unfit.
            TestNode.await(
                    "the migration of ks.t",
                    MOVES,
                    () ->
                            migrating(session).equals(List.of("c", "i", "m"))
                                    && hasNoSSTables(files));
            session.execute("INSERT INTO ks.t (p, v) VALUES (2, 2)");
            assertThat(files.generations()).containsExactly("1");
            node.process().kill();
        }
        // The first mend: a class of Cassandra's again.
        try (TestNode node = start(other, options -> options);
                CqlSession session = node.plainSession()) {
            assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(2);
            assertThat(session.execute("SELECT * FROM ks.logged").all()).hasSize(1);
            TestNode.awaitMigrations(session, MOVES);
            assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(2);
            assertThat(session.execute("SELECT * FROM ks.logged").all()).hasSize(1);
            assertThat(files.stores()).doesNotExist();
            assertThat(session.execute(byIndex).all()).hasSize(1);
            assertThat(session.execute("SELECT * FROM ks.c").all()).hasSize(1);
            assertThat(session.execute(byView).all()).hasSize(1);
            assertThat(session.execute("SELECT * FROM ks.m").all()).hasSize(1);
            session.execute("DROP TABLE ks.c");
            session.execute("DROP MATERIALIZED VIEW ks.m_by_v");
            session.execute("DROP TABLE ks.m");
            assertThat(new TableFiles(other.resolve("data"), "ks", "i").stores()).doesNotExist();
            node.process().stop();
        }
        // The second.
        try (TestNode node = start(other, options -> options.yaml(TRIE_IS_OURS));
                CqlSession session = node.plainSession()) {
            session.execute("DROP INDEX ks.by_v");
            assertThat(session.execute("SELECT * FROM ks.i").all()).hasSize(1);
            TestNode.awaitMigrations(session, MOVES);
            session.execute("INSERT INTO ks.i (p, v) VALUES (2, 2)");
            assertThat(session.execute("SELECT * FROM ks.i").all()).hasSize(2);
        }
    }

    private static List<String> migrating(CqlSession session) {
        return session.execute("SELECT table_name FROM petra.migrations").all().stream()
                .map(row -> row.getString(0))
                .toList();
    }

    private static boolean hasNoSSTables(TableFiles files) {
        return TableFiles.children(files.directory()).stream()
                .noneMatch(file -> file.toString().endsWith("-Data.db"));
    }

    private static void createInTrie(CqlSession session, String table) {
        session.execute(
                "CREATE TABLE ks." + table + " (p int PRIMARY KEY, v int) WITH memtable = 'trie'");
        session.execute("INSERT INTO ks." + table + " (p, v) VALUES (1, 1)");
    }

    @Test
    @OneOf(variants = "StartIT, a store that is not whole or not known", of = 2, number = 2)
    void damageConcernsOneTable() throws IOException {
        TableFiles a = new TableFiles(directory.resolve("data"), "ks", "a");
        TableFiles b = new TableFiles(directory.resolve("data"), "ks", "b");
        TableFiles c = new TableFiles(directory.resolve("data"), "ks", "c");
        Path live = b.stores().resolve("LIVE");
        Path identity = c.stores().resolve("1/CURRENT");
        String wasLive = Files.readString(live);
        String wasIdentity = Files.readString(identity);
        // The lowest generation that is alive would be the third, and the first garbage.
        Files.writeString(live, wasLive.replaceFirst("^1", "3"));
        Files.writeString(identity, "garbage\n");
        try (TestNode node = start(options -> options.yaml(BATCH));
                CqlSession session = node.plainSession()) {
            for (String table : new String[] {"b", "c"}) {
                assertThatThrownBy(() -> session.execute("SELECT * FROM ks." + table))
                        .isInstanceOf(ReadFailureException.class);
                assertThatThrownBy(
                                () ->
                                        session.execute(
                                                "INSERT INTO ks."
                                                        + table
                                                        + " (p, v) VALUES (2, 2)"))
                        .isInstanceOf(WriteFailureException.class);
                assertThat(node.process().logSinceStart())
                        .contains("Table ks." + table + " is not available on this node");
                // A snapshot without the data must not look like one.
                assertThat(node.tryNodetool("snapshot", "-t", "x", "-cf", table, "ks").exitCode())
                        .isNotZero();
                assertThat(node.tryNodetool("flush", "ks", table).exitCode()).isNotZero();
            }
            assertThat(session.execute("SELECT * FROM ks.a").all()).hasSize(1);
            assertThat(session.execute("SELECT * FROM ks.plain").all()).hasSize(1);
            assertThat(a.generations()).containsExactly("1");
            // When it is replayed, Cassandra asks all tables of the keyspace for a flush.
            session.execute("INSERT INTO ks.plain (p, v) VALUES (1, 1)");
            node.process().kill();
            node.restart();
            try (CqlSession again = node.plainSession()) {
                assertThat(again.execute("SELECT * FROM ks.a").all()).hasSize(1);
            }
        } finally {
            Files.writeString(live, wasLive);
            Files.writeString(identity, wasIdentity);
        }
    }

    /**
     * A transaction is synced before the commit log can say that it was committed; and what was
     * synced is there, or the table says that it is not.
     */
    @Test
    void damageInASyncedLogIsNotTakenForItsEnd(@TempDir Path other) throws Exception {
        UnaryOperator<NodeConfig.Builder> rarelySynced =
                options ->
                        options.yaml(
                                Map.of(
                                        "commitlog_sync",
                                        "periodic",
                                        "commitlog_sync_period",
                                        "3600000ms"));
        try (TestNode node = TestNode.start(other, rarelySynced);
                CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
            for (String table : new String[] {"a", "b"})
                session.execute(
                        "CREATE TABLE ks."
                                + table
                                + " (p int PRIMARY KEY, v text) WITH memtable = 'rocks'");
            for (int p = 0; p < 100; p++)
                for (String table : new String[] {"a", "b"})
                    session.execute(
                            "INSERT INTO ks." + table + " (p, v) VALUES (?, ?)",
                            p,
                            "x".repeat(200));
            Path mark = TableFiles.of(node, "ks", "a").stores().resolve("1/SYNCED");
            // On a slow machine there may have been one already, of fewer rows.
            byte[] before = Files.exists(mark) ? Files.readAllBytes(mark) : new byte[0];
            session.execute("INSERT INTO ks.a (p, v) VALUES (100, 'x') IF NOT EXISTS");
            TestNode.await(
                    "the log is synced",
                    MOVES,
                    () -> Files.exists(mark) && !Arrays.equals(Files.readAllBytes(mark), before));
            node.process().kill();
        }
        Path store = new TableFiles(other.resolve("data"), "ks", "a").stores().resolve("1");
        Path log =
                TableFiles.children(store).stream()
                        .filter(file -> file.toString().endsWith(".log"))
                        .max((a, b) -> Long.compare(a.toFile().length(), b.toFile().length()))
                        .orElseThrow();
        byte[] whole = Files.readAllBytes(log);
        byte[] damaged = whole.clone();
        damaged[5_000] ^= 4;
        Files.write(log, damaged);
        try (TestNode node = start(other, rarelySynced);
                CqlSession session = node.plainSession()) {
            assertThatThrownBy(() -> session.execute("SELECT * FROM ks.a"))
                    .isInstanceOf(ReadFailureException.class);
            assertThatThrownBy(() -> session.execute("INSERT INTO ks.a (p) VALUES (1000)"))
                    .isInstanceOf(WriteFailureException.class);
            assertThat(node.process().logSinceStart())
                    .contains("Table ks.a is not available on this node")
                    .contains(log + " cannot be read from byte ")
                    .contains("Restore it from a snapshot");
            assertThat(session.execute("SELECT * FROM ks.b").all()).hasSize(100);
            node.process().kill();
        }
        assertThat(Files.readAllBytes(log)).isEqualTo(damaged);
        Files.write(log, whole);
        try (TestNode node = start(other, rarelySynced);
                CqlSession session = node.plainSession()) {
            assertThat(session.execute("SELECT * FROM ks.a").all()).hasSize(101);
        }
    }

    /** An interrupted DROP, or an old schema that was restored: the data is moved aside. */
    @Test
    @OneOf(variants = "StartIT, a store that is not whole or not known", of = 2, number = 1)
    void aStoreThatTheSchemaDoesNotKnowBecomesASnapshot() throws Exception {
        Map<String, Object> extra = Map.of("auto_snapshot", false);
        Path gone = leaveUnknownStore();
        try (TestNode node = start(options -> options.yaml(extra));
                CqlSession session = node.plainSession()) {
            assertUnknownStoreIsSnapshot(node);
            assertThat(session.execute("SELECT * FROM ks.a").all()).hasSize(1);
            node.process().stop();
        }
        leaveUnknownStore();
        try (TestNode node =
                start(
                        options ->
                                options.yaml(extra)
                                        .jvmOptions(
                                                "-Dcassandra.snapshot.ttl_cleanup_period_seconds=1",
                                                "-Dpetra.unknown_table_ttl=1s"))) {
            node.awaitLog("it is deleted after", MOVES);
            Path snapshots = gone.resolve("snapshots");
            TestNode.await(
                    snapshots + " is emptied",
                    MOVES,
                    () -> TableFiles.children(snapshots).isEmpty());
            assertThat(gone.resolve("rocksdb")).doesNotExist();
        }
        FileTree.delete(gone);
    }

    private static Path unknownTable() {
        return directory.resolve("data/ks/gone-00112233445566778899aabbccddeeff");
    }

    private static Path leaveUnknownStore() {
        Path gone = unknownTable();
        if (Files.exists(gone)) FileTree.delete(gone);
        gone.toFile().mkdirs();
        TableFiles.copy(
                new TableFiles(directory.resolve("data"), "ks", "a").stores(),
                gone.resolve("rocksdb"));
        return gone;
    }

    private static void assertUnknownStoreIsSnapshot(TestNode node) {
        assertThat(unknownTable().resolve("rocksdb")).as("a store of no table").doesNotExist();
        assertThat(TableFiles.children(unknownTable().resolve("snapshots")))
                .as("what became of a store of no table")
                .singleElement()
                .satisfies(
                        tag -> {
                            assertThat(tag.getFileName().toString()).startsWith("dropped-");
                            assertThat(tag.resolve("rocksdb/1")).isNotEmptyDirectory();
                        });
        assertThat(node.process().logSinceStart()).contains("belongs to no table of the schema");
        assertThat(node.tryNodetool("listsnapshots").output())
                .as("the snapshot of a store of no table")
                .contains("-gone");
    }

    /** An exception would come from the midst of a change of the schema, and leave half of it. */
    @Test
    @OneOf(variants = "StartIT, a store that is not whole or not known", of = 2, number = 2)
    void aStoreThatComesBackDamagedWhenItsTableIsCreated() throws Exception {
        List<String> damaged = List.of("LIVE", "1/CURRENT");
        Path whole = new TableFiles(directory.resolve("data"), "ks", "a").stores();
        for (int i = 0; i < damaged.size(); i++) {
            Path aside = damagedTable(i).resolve("snapshots/dropped-1-back" + i);
            Files.createDirectories(aside);
            Files.createFile(aside.resolve("PETRA_ASIDE"));
            TableFiles.copy(whole, aside.resolve("rocksdb"));
            Files.writeString(aside.resolve("rocksdb").resolve(damaged.get(i)), "garbage\n");
        }
        try (TestNode node = start(options -> options);
                CqlSession session = node.plainSession()) {
            for (int i = 0; i < damaged.size(); i++) {
                session.execute(
                        "CREATE TABLE ks.back"
                                + i
                                + " (p int PRIMARY KEY, v int)"
                                + " WITH ID = 22222222-3333-4444-5555-66666666666"
                                + i);
                assertThat(node.process().logSinceStart())
                        .contains("Data of table ks.back" + i + " that is in a storage engine");
                session.execute("INSERT INTO ks.back" + i + " (p) VALUES (2)");
                assertThat(session.execute("SELECT * FROM ks.back" + i).all()).hasSize(1);
                session.execute("DROP TABLE ks.back" + i);
            }
            node.process().stop();
        }
        for (int i = 0; i < damaged.size(); i++) FileTree.delete(damagedTable(i));
    }

    private static Path damagedTable(int i) {
        return directory.resolve("data/ks/back" + i + "-2222222233334444555566666666666" + i);
    }

    /** Cassandra ends a node that meets a damaged file before it is up. */
    @Test
    void withACorruptSSTableOnItsWayIntoTheEngine() throws Exception {
        UnaryOperator<NodeConfig.Builder> stop =
                options -> options.yaml(Map.of("disk_failure_policy", "stop"));
        for (Path file :
                TableFiles.children(
                        new TableFiles(directory.resolve("data"), "ks", "corrupt").directory()))
            if (file.toString().endsWith("-Data.db"))
                Files.write(file, new byte[(int) Files.size(file)]);
        try (TestNode node = start(stop);
                CqlSession session = node.plainSession()) {
            session.execute("ALTER TABLE ks.corrupt WITH memtable = 'rocks'");
            awaitCannotBeMigrated(session);
        }
        try (TestNode node = start(stop);
                CqlSession session = node.plainSession()) {
            awaitCannotBeMigrated(session);
            session.execute("DROP TABLE ks.corrupt");
        }
    }

    private static void awaitCannotBeMigrated(CqlSession session) throws Exception {
        TestNode.await(
                "that it cannot be migrated",
                MOVES,
                () ->
                        session.execute("SELECT state FROM petra.migrations").all().stream()
                                .anyMatch(row -> row.getString(0).contains("cannot be migrated")));
    }
}
