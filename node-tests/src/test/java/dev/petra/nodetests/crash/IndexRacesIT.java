// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** What happens to an index between two steps of what others do with its table's SSTables. */
@OneOf(variants = "indexes of tables on their way, races, and rules", of = 3, number = 2)
class IndexRacesIT {
    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final int ROWS = 300;

    private static final String SAI = "org.apache.cassandra.index.sai.";

    private static final List<String> POINTS =
            List.of(
                    OURS + "index.RowPages#next",
                    OURS + "migration.MigrateIn#migrate",
                    OURS + "sstable.SSTableExport#writeNext",
                    "org.apache.cassandra.index.SecondaryIndexManager#makeIndexQueryable",
                    SAI + "SSTableContext#create",
                    SAI + "StorageAttachedIndexBuilder#completeSSTable",
                    SAI + "StorageAttachedIndexGroup#deletePerSSTableFiles",
                    SAI + "StorageAttachedIndexGroup#onSSTableChanged",
                    SAI + "disk.format.IndexDescriptor#createComponentOnDisk",
                    SAI + "disk.v1.SSTableComponentsWriter#complete");

    /** As a warning names it. */
    private static final Pattern COMPACTION =
            Pattern.compile("Compaction [0-9a-f-]{36}, \\d+ of \\d+ bytes");

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static CrashPoints points;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() throws Exception {
        points = new CrashPoints(directory, POINTS);
        node =
                TestNode.start(
                        directory.resolve("node"),
                        options -> points.in(options, "-Dpetra.migration.sstable_bytes=32768"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() {
        session.close();
        node.close();
    }

    @AfterEach
    void release() throws IOException {
        points.release();
        node.nodetool("setcompactionthroughput", "64");
    }

    private static void execute(String statement) {
        session.execute(SimpleStatement.newInstance(statement).setTimeout(PATIENCE));
    }

    private static void index(String table, String column) {
        execute("CREATE INDEX %1$s_%2$s ON ks.%1$s (%2$s) USING 'sai'".formatted(table, column));
    }

    private static int found(String table, String column) {
        return session.execute("SELECT c FROM ks." + table + " WHERE " + column + " = 1")
                .all()
                .size();
    }

    /** Has a table migrate out, and returns when it has some SSTables, and an index of column v. */
    private static void migrateOut(String table) throws Exception {
        execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, w int, x text, PRIMARY KEY (p, c)) WITH memtable"
                        + " = 'rocks' AND compaction = {'class': 'SizeTieredCompactionStrategy',"
                        + " 'enabled': 'false'}");
        index(table, "v");
        TestNode.awaitQueryable(session, table + "_v", PATIENCE);
        insert(table, 0, ROWS);
        node.nodetool("setcompactionthroughput", "1");
        execute("ALTER TABLE ks." + table + " WITH memtable = 'default'");
        Path sstables = TableFiles.of(node, "ks", table).directory();
        TestNode.await("SSTables", PATIENCE, () -> count(sstables) >= 5);
    }

    /** Partitions of five rows, each of which is an SSTable when it has been migrated out. */
    private static void insert(String table, int from, int to) {
        PreparedStatement insert =
                session.prepare(
                        "INSERT INTO ks." + table + " (p, c, v, w, x) VALUES (?, ?, 1, 1, ?)");
        for (int i = from; i < to; i++) session.execute(insert.bind(i / 5, i, "x".repeat(20_000)));
    }

    private static long count(Path sstables) throws IOException {
        return TableFiles.children(sstables).stream()
                .filter(file -> file.toString().endsWith("-Data.db"))
                .count();
    }

    private static void awaitMigration(String table, String... columns) throws Exception {
        node.nodetool("setcompactionthroughput", "64");
        points.release();
        TestNode.awaitMigrations(session, PATIENCE);
        for (String column : columns) {
            TestNode.awaitQueryable(session, table + "_" + column, PATIENCE);
            assertThat(found(table, column)).as(column).isEqualTo(ROWS);
        }
    }

    private static List<String> log(String table, String text) {
        return lines(node.process().log(), table, text);
    }

    private static List<String> lines(String log, String table, String text) {
        return log.lines().filter(line -> line.contains(table) && line.contains(text)).toList();
    }

    /**
     * CREATE INDEX meets the end of a compaction. The compaction's SSTable is among the table's by
     * then, and its indexes are not complete.
     *
     * @param when and {@code method} where the compaction is held
     * @param then and {@code other} where the build of the index is held that does not wait for it
     * @param forLong whether to wait until the log says what the build waits for
     */
    private static void createIndexBeside(
            String table, String when, String method, String then, String other, boolean forLong)
            throws Exception {
        migrateOut(table);
        points.hold("enter", "SSTableExport#writeNext");
        points.awaitHeld();
        points.holdAlso(when, method);
        node.nodetool("enableautocompaction", "ks", table);
        points.awaitHeld();
        points.holdAlso(then, other);
        index(table, "w");
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5);
        while (!points.isHeld() && System.nanoTime() < end) TimeUnit.MILLISECONDS.sleep(20);
        if (forLong)
            node.awaitLog(
                    "a warning",
                    PATIENCE,
                    log ->
                            lines(log, "ks." + table, "more than a minute: [").stream()
                                    .anyMatch(line -> COMPACTION.matcher(line).find()));
        String compacted = "Compacted (";
        int before = log("/" + table + "-", compacted).size();
        points.releaseAt(when, method);
        node.awaitLog(
                "the compaction",
                PATIENCE,
                log -> lines(log, "/" + table + "-", compacted).size() > before);
        assertThat(found(table, "v")).isEqualTo(ROWS);
        awaitMigration(table, "v", "w");
        assertThat(log("[ks." + table + ".", "no longer queryable")).isEmpty();
    }

    /** SAI writes the marker that says the files are complete before their last bytes. */
    @Test
    @OneOf(variants = "IndexRacesIT, a compaction", of = 2, number = 1)
    void createIndexWaitsForACompactionWhoseIndexesAreMarkedComplete() throws Exception {
        createIndexBeside(
                "marked",
                "leave",
                "IndexDescriptor#createComponentOnDisk",
                "enter",
                "StorageAttachedIndexBuilder#completeSSTable",
                true);
    }

    /** SAI built the SSTable anew, and deleted what the compaction was writing. */
    @Test
    @OneOf(variants = "IndexRacesIT, a compaction", of = 2, number = 2)
    void createIndexWaitsForACompactionWhoseIndexesAreBeingWritten() throws Exception {
        createIndexBeside(
                "unmarked",
                "enter",
                "SSTableComponentsWriter#complete",
                "leave",
                "StorageAttachedIndexGroup#deletePerSSTableFiles",
                false);
    }

    /** Cassandra would build it when the node starts. */
    @Test
    void anIndexThatCassandraTakesOutOfUseIsBuiltBeforeTheTableHasLeft() throws Exception {
        migrateOut("taken");
        points.fail("enter", "SSTableContext#create");
        node.awaitLog("[ks.taken.taken_v] Storage-attached index is no longer queryable", PATIENCE);
        awaitMigration("taken", "v");
    }

    /** It stayed out of use until the node was started again. */
    @Test
    void anIndexThatCassandraTookOutOfUseIsUsedWhenTheTableIsInTheEngine() throws Exception {
        execute(
                "CREATE TABLE ks.revived (p int, c int, v int, w int, x text, PRIMARY KEY (p, c))"
                        + " WITH memtable = 'default'");
        index("revived", "v");
        TestNode.awaitQueryable(session, "revived_v", PATIENCE);
        insert("revived", 0, ROWS);
        points.fail("enter", "SSTableContext#create");
        node.tryNodetool("flush", "ks", "revived");
        node.awaitLog("[ks.revived.revived_v] Storage-attached index is no longer", PATIENCE);
        points.release();
        assertThatThrownBy(() -> found("revived", "v")).isInstanceOf(DriverException.class);
        execute("ALTER TABLE ks.revived WITH memtable = 'rocks'");
        awaitMigration("revived", "v");
    }

    /** A query must not pass over its rows until they are in the engine as well. */
    @Test
    void anIndexIsNotUsedThatLacksAnSSTableWhichCameAsTheMigrationInEnded() throws Exception {
        Path inbox = indexedSSTables("arrived", ROWS - 10, ROWS);
        execute(
                "CREATE TABLE ks.arrived (p int, c int, v int, w int, x text, PRIMARY KEY (p, c))"
                        + " WITH memtable = 'default'");
        index("arrived", "v");
        TestNode.awaitQueryable(session, "arrived_v", PATIENCE);
        insert("arrived", 0, ROWS - 10);
        points.fail("enter", "SSTableContext#create");
        node.tryNodetool("flush", "ks", "arrived");
        String outOfUse = "Storage-attached index is no longer queryable";
        node.awaitLog(
                "the end of its use",
                PATIENCE,
                log -> !lines(log, "ks.arrived.", outOfUse).isEmpty());
        int before = log("ks.arrived.", outOfUse).size();
        points.hold("enter", "SecondaryIndexManager#makeIndexQueryable");
        execute("ALTER TABLE ks.arrived WITH memtable = 'rocks'");
        points.awaitHeld();
        points.failAlso("enter", "SSTableContext#create");
        node.nodetool("import", "--require-index-components", "ks", "arrived", inbox.toString());
        assertThat(log("ks.arrived.", outOfUse)).hasSizeGreaterThan(before);
        points.holdAlso("enter", "MigrateIn#migrate");
        points.releaseAt("enter", "SecondaryIndexManager#makeIndexQueryable");
        points.awaitHeld();
        assertThat(session.execute("SELECT c FROM ks.arrived").all()).hasSize(ROWS);
        assertThatThrownBy(() -> found("arrived", "v")).isInstanceOf(DriverException.class);
        awaitMigration("arrived", "v");
    }

    /** SSTables of such a table, with the files of an index of column v, in a folder of its own. */
    private static Path indexedSSTables(String table, int from, int to) throws Exception {
        TestNode.createKeyspace(session, "source", 1);
        execute(
                "CREATE TABLE source."
                        + table
                        + " (p int, c int, v int, w int, x text, PRIMARY KEY (p, c))");
        execute("CREATE INDEX %1$s_v ON source.%1$s (v) USING 'sai'".formatted(table));
        TestNode.awaitQueryable(session, table + "_v", PATIENCE);
        for (int i = from; i < to; i++)
            execute(
                    "INSERT INTO source.%s (p, c, v, w, x) VALUES (%d, %d, 1, 1, 'x')"
                            .formatted(table, i, i));
        node.nodetool("flush", "source", table);
        Path source = TableFiles.of(node, "source", table).directory();
        // From a folder without a table's id in its name Cassandra does not take those of indexes.
        Path inbox = directory.resolve("inbox/ks").resolve(source.getFileName());
        Files.createDirectories(inbox);
        for (Path file : TableFiles.children(source))
            if (Files.isRegularFile(file)) Files.copy(file, inbox.resolve(file.getFileName()));
        execute("DROP KEYSPACE source");
        return inbox;
    }

    /** The migration waited for ever for somebody to open it. */
    @Test
    void anSSTableWhoseIndexNobodyOpenedIsOpenedBeforeTheTableHasLeft() throws Exception {
        migrateOut("passed");
        points.fail("enter", "StorageAttachedIndexGroup#onSSTableChanged");
        node.awaitLog("Rows that were migrated out of ks.passed could not be", PATIENCE);
        awaitMigration("passed", "v");
    }

    /** SAI took the SSTable's last row for the last of all, and ended there. */
    @Test
    void rowsBehindTheLastRowOfAnSSTableAreFoundInTheStore() throws Exception {
        execute("CREATE TABLE ks.behind (p int, c int, v int, w int, PRIMARY KEY (p, c))");
        for (String column : List.of("v", "w")) {
            index("behind", column);
            TestNode.awaitQueryable(session, "behind_" + column, PATIENCE);
        }
        insertRows("behind", 0, 100);
        node.nodetool("flush", "ks", "behind");
        points.hold("enter", "MigrateIn#migrate");
        execute("ALTER TABLE ks.behind WITH memtable = 'rocks'");
        points.awaitHeld();
        insertRows("behind", 100, 300);
        for (String more : List.of("", " AND w = 1", " AND c >= 0"))
            assertThat(
                            session.execute(
                                            SimpleStatement.newInstance(
                                                            "SELECT c FROM ks.behind WHERE p = 1"
                                                                    + " AND v = 1"
                                                                    + more)
                                                    .setPageSize(150))
                                    .all())
                    .as(more)
                    .hasSize(300);
        assertThat(session.execute("SELECT c FROM ks.behind WHERE p=1 AND v=1 AND c>=200").all())
                .hasSize(100);
        points.release();
        TestNode.awaitMigrations(session, PATIENCE);
    }

    private static void insertRows(String table, int from, int to) {
        for (int c = from; c < to; c++)
            session.execute("INSERT INTO ks." + table + " (p, c, v, w) VALUES (1, ?, 1, 1)", c);
    }

    private static CompletableFuture<NodeTool.Result> rebuild(String table) {
        return CompletableFuture.supplyAsync(
                () -> node.tryNodetool("rebuild_index", "ks", table, table + "_v"));
    }

    /** A table in the engine, of whose index a rebuild is held. */
    private static CompletableFuture<NodeTool.Result> rebuildHeld(String table) throws Exception {
        execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, w int, x text, PRIMARY KEY (p, c)) WITH memtable"
                        + " = 'rocks'");
        index(table, "v");
        TestNode.awaitQueryable(session, table + "_v", PATIENCE);
        insert(table, 0, ROWS);
        points.hold("enter", "RowPages#next");
        CompletableFuture<NodeTool.Result> rebuild = rebuild(table);
        points.awaitHeld();
        return rebuild;
    }

    /** There is nothing left to build. */
    @Test
    void truncateDoesNotFailTheBuildOfAnIndex() throws Exception {
        CompletableFuture<NodeTool.Result> rebuild = rebuildHeld("emptied");
        execute("TRUNCATE ks.emptied");
        insert("emptied", 0, 10);
        points.release();
        NodeTool.Result result = rebuild.get(3, TimeUnit.MINUTES);
        assertThat(result.exitCode()).as(result.output()).isZero();
        assertThat(found("emptied", "v")).isEqualTo(10);
        // The new store had it complete: it is not built there.
        assertThat(log("emptied_v", "was made with the index")).hasSize(1);
    }

    /** CREATE INDEX stops what has the table's SSTables; a build from the store has none. */
    @Test
    void createIndexDoesNotFailTheBuildOfAnother() throws Exception {
        CompletableFuture<NodeTool.Result> rebuild = rebuildHeld("another");
        index("another", "w");
        points.release();
        NodeTool.Result result = rebuild.get(3, TimeUnit.MINUTES);
        assertThat(result.exitCode()).as(result.output()).isZero();
        TestNode.awaitQueryable(session, "another_w", PATIENCE);
        for (String column : List.of("v", "w"))
            assertThat(found("another", column)).isEqualTo(ROWS);
    }

    @Test
    void nodetoolStopEndsABuildThatRebuildIndexRepeats() throws Exception {
        CompletableFuture<NodeTool.Result> rebuild = rebuildHeld("stopped");
        node.nodetool("stop", "INDEX_BUILD");
        points.release();
        assertThat(rebuild.get(3, TimeUnit.MINUTES).exitCode()).isNotZero();
        assertThat(log("stopped_v", "failed. Please run full index rebuild")).isNotEmpty();
        assertThatThrownBy(() -> found("stopped", "v")).isInstanceOf(DriverException.class);
        assertThat(rebuild("stopped").get(3, TimeUnit.MINUTES).exitCode()).isZero();
        assertThat(found("stopped", "v")).isEqualTo(ROWS);
    }
}
