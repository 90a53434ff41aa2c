// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.AgentJar;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.EitherKind;
import dev.petra.nodetests.fixture.IndexKind;
import dev.petra.nodetests.fixture.JoinedKill;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What happens to an index between two steps of what others do with it: no row is missed. Of each
 * kind of index.
 */
@OneOf(variants = "indexes in operation, and between two steps", of = 2, number = 2)
@ParameterizedClass
@MethodSource("kinds")
class IndexPointsIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);

    private static final Executor LATER = CompletableFuture.delayedExecutor(5, TimeUnit.SECONDS);

    /** More than a query reads at once. */
    private static final int ROWS = 300;

    private static final int FEW = 10;

    private static final List<String> POINTS =
            List.of(
                    OURS + "index.KeyBatches#fetch",
                    OURS + "index.RowPages#next",
                    OURS + "index.RowTerms#columns",
                    OURS + "index.StoreIndexBuilder#hasYielded",
                    OURS + "index.StoreIndexBuilder#isComplete",
                    OURS + "index.StoreIndexes#drop",
                    OURS + "index.StoreIndexes#dropFormer",
                    OURS + "index.StoreIndexes#setBuilt",
                    OURS + "index.StoreMemtableIndex#all",
                    OURS + "migration.MigrateIn#write",
                    "dev.petra.engine.rocks.db.PartitionLocks#sweeping",
                    "dev.petra.engine.rocks.index.RocksIndexes#define",
                    "dev.petra.engine.rocks.index.RocksIndexes#drop",
                    "dev.petra.engine.rocks.index.RocksIndexes#isRemoved",
                    "dev.petra.engine.rocks.index.RocksIndexes#isStale",
                    "dev.petra.engine.rocks.index.RocksIndexes#removeEntries",
                    "org.apache.cassandra.db.compaction.CompactionTask#runMayThrow",
                    "org.apache.cassandra.db.streaming.CassandraStreamReceiver#finishTransaction",
                    "org.apache.cassandra.index.SecondaryIndexManager#buildIndexesBlocking",
                    "org.apache.cassandra.index.internal.CassandraIndex#buildBlocking",
                    "org.apache.cassandra.index.sai.StorageAttachedIndex#startInitialBuild");

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path parent;

    private static final JoinedKill KILL = new JoinedKill();

    private static Path directory;
    private static CrashPoints crashes;
    private static TestNode node;
    private static CqlSession session;

    /** So that it may delete stale entries. */
    private static final String WAITED_FOR =
            "Cassandra takes a query by a legacy index for a write, and builds and TRUNCATE wait"
                    + " for it";

    private final IndexKind kind;

    static List<IndexKind> kinds() {
        return IndexKind.of("IndexPointsIT");
    }

    IndexPointsIT(IndexKind kind) {
        this.kind = kind;
    }

    /** Where a test has failed: else no statement after it could change the schema. */
    @AfterEach
    void release() throws IOException {
        crashes.release();
    }

    @BeforeEach
    void choose(TestInfo test) {
        kind.assumeChosen(test);
    }

    @BeforeParameterizedClassInvocation
    static void start(IndexKind kind) throws Exception {
        directory = Files.createDirectory(parent.resolve(kind.name()));
        crashes = new CrashPoints(directory, POINTS);
        Path jar = AgentJar.packFaultyEngine(directory);
        Map<String, Object> faulty =
                ShadowTable.configuration(Map.of("engine", "faulty", "memory", "128MiB"));
        node =
                TestNode.start(
                        directory.resolve("node"),
                        options ->
                                crashes.in(
                                                options,
                                                "-Dpetra.index.sweep_seconds=1",
                                                "-javaagent:" + jar,
                                                "-Dfuzz.go=" + directory.resolve("never"),
                                                "-Dfuzz.fault=loses-boundaries")
                                        .yaml(
                                                Map.of(
                                                        "disk_failure_policy",
                                                        "die",
                                                        "read_request_timeout",
                                                        "120s",
                                                        "range_request_timeout",
                                                        "120s",
                                                        "native_transport_timeout",
                                                        "120s",
                                                        "memtable",
                                                        Map.of(
                                                                "configurations",
                                                                Map.of("faulty", faulty)))));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterParameterizedClassInvocation
    static void stop() throws Exception {
        try {
            KILL.end(() -> node.process().kill(), IndexPointsIT::restart);
        } finally {
            session.close();
            node.close();
        }
    }

    private static void restart() {
        session.close();
        node.restart();
        session = node.plainSession();
    }

    private void create(String table) throws Exception {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, PRIMARY KEY (p, c)) WITH memtable = 'rocks'");
        index(table);
    }

    private void index(String table) throws Exception {
        session.execute("CREATE INDEX " + table + "_v ON ks." + table + " (v)" + kind.using);
        awaitQueryable(table);
    }

    private void awaitQueryable(String table) throws Exception {
        kind.await(session, table + "_v", PATIENCE);
    }

    private static void insert(String table, int from, int to) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (p, c, v) VALUES (?, ?, 1)");
        for (int i = from; i < to; i++) session.execute(insert.bind(i % 7, i));
    }

    private static SimpleStatement byIndex(String table) {
        return SimpleStatement.newInstance("SELECT c FROM ks." + table + " WHERE v = 1")
                .setTimeout(PATIENCE);
    }

    private static int found(String table) {
        return session.execute(byIndex(table)).all().size();
    }

    private static CompletableFuture<Integer> query(String table) {
        return session.executeAsync(byIndex(table))
                .thenApply(AsyncResultSet::remaining)
                .toCompletableFuture();
    }

    @Test
    void aBuildIsShownUntilItEnds() throws Exception {
        assumeTrue(kind == IndexKind.SAI, "what shows it is of Storage-Attached Indexes");
        create("shown");
        insert("shown", 0, ROWS);
        awaitEnd();
        execute("DROP INDEX ks.shown_v");
        crashes.hold("enter", "RowPages#next");
        try {
            execute("CREATE INDEX shown_v ON ks.shown (v)" + kind.using);
            crashes.awaitHeld();
            assertIsBuilt();
            assertThat(progress()).isZero();
            crashes.holdAlso("enter", "StoreIndexBuilder#isComplete");
            crashes.releaseAt("enter", "RowPages#next");
            crashes.awaitHeld();
            assertIsBuilt();
            // As much as there is of the ring before the last token.
            assertThat(progress()).isBetween(0.9, 1.0);
        } finally {
            crashes.release();
        }
        awaitEnd();
        crashes.hold("enter", "RowPages#next");
        CompletableFuture<Void> rebuild = rebuild("shown");
        try {
            crashes.awaitHeld();
            assertIsBuilt();
        } finally {
            crashes.release();
        }
        rebuild.get(3, TimeUnit.MINUTES);
        awaitEnd();
    }

    private static void assertIsBuilt() {
        assertThat(shown("shown_v")).isEqualTo("queryable: false, building: true");
        assertThatThrownBy(() -> found("shown")).isInstanceOf(DriverException.class);
    }

    /** How much of the build is done, from 0 to 1, as Cassandra's virtual table has it. */
    private static double progress() {
        List<Row> builds =
                session.execute("SELECT * FROM system_views.sstable_tasks").all().stream()
                        .filter(row -> "shown".equals(row.getString("table_name")))
                        .toList();
        assertThat(builds).hasSize(1);
        Row build = builds.get(0);
        assertThat(build.getString("kind")).isEqualTo("secondary index build");
        assertThat(build.getLong("total")).isPositive();
        return (double) build.getLong("progress") / build.getLong("total");
    }

    private static void awaitEnd() throws Exception {
        TestNode.await(
                "the end of the build",
                PATIENCE,
                () -> shown("shown_v").equals("queryable: true, building: false"));
        assertThat(found("shown")).isEqualTo(ROWS);
    }

    /** What Cassandra's virtual table has of an index. */
    private static String shown(String index) {
        return session.execute("SELECT * FROM system_views.sai_column_indexes").all().stream()
                .filter(row -> index.equals(row.getString("index_name")))
                .map(
                        row ->
                                "queryable: %s, building: %s"
                                        .formatted(
                                                row.getBoolean("is_queryable"),
                                                row.getBoolean("is_building")))
                .collect(Collectors.joining());
    }

    /** The query would find an index that has only begun to be built. */
    @Test
    void aQueryUnderWayTakesNoHalfRebuiltIndexForTheOld() throws Exception {
        assumeTrue(kind == IndexKind.SAI, WAITED_FOR);
        create("rebuilt");
        insert("rebuilt", 0, ROWS);
        crashes.hold("enter", "KeyBatches#fetch");
        CompletableFuture<Integer> query = query("rebuilt");
        crashes.awaitHeld();
        crashes.holdAlso("enter", "RowPages#next");
        CompletableFuture<Void> rebuild =
                CompletableFuture.runAsync(
                        () -> node.nodetool("rebuild_index", "ks", "rebuilt", "rebuilt_v"));
        crashes.awaitHeld();
        crashes.releaseOthers("enter", "RowPages#next");
        try {
            assertThatThrownBy(() -> query.get(3, TimeUnit.MINUTES))
                    .hasCauseInstanceOf(DriverException.class);
        } finally {
            crashes.release();
        }
        rebuild.get(3, TimeUnit.MINUTES);
        assertThat(found("rebuilt")).isEqualTo(ROWS);
    }

    @Test
    void aQueryUnderWayEndsWithTheTableThatIsTruncated() throws Exception {
        assumeTrue(kind == IndexKind.SAI, WAITED_FOR);
        create("emptied");
        insert("emptied", 0, ROWS);
        crashes.hold("enter", "KeyBatches#fetch");
        CompletableFuture<Integer> query = query("emptied");
        crashes.awaitHeld();
        try {
            session.execute(
                    SimpleStatement.newInstance("TRUNCATE ks.emptied").setTimeout(PATIENCE));
        } finally {
            crashes.release();
        }
        assertThat(query.get(3, TimeUnit.MINUTES)).isLessThanOrEqualTo(ROWS);
        assertThat(found("emptied")).isZero();
    }

    /** One kill, which meets a build, a drop, a sweep and an import of different tables. */
    @Test
    @EitherKind
    void whatWasUnderWayWhenTheNodeIsKilledIsDoneAnew() throws Exception {
        createWhatIsKilled();
        holdBuild();
        // From here on no statement can change the schema.
        CompletableFuture<AsyncResultSet> drop = holdDrop();
        CompletableFuture<Void> sweep = holdSweep();
        // The last: what came is migrated soon.
        CompletableFuture<NodeTool.Result> imported = holdImport();
        node.process().kill();
        session.close();
        assertThatThrownBy(() -> drop.get(3, TimeUnit.MINUTES)).isNotNull();
        assertThatThrownBy(() -> sweep.get(3, TimeUnit.MINUTES)).isNotNull();
        assertThat(imported.get(3, TimeUnit.MINUTES).exitCode()).isNotZero();
        crashes.release();
        Path stores = TableFiles.of(node, "ks", "former").stores();
        Path kept = directory.resolve("kept");
        TableFiles.copy(stores, kept);
        node.restart();
        session = node.plainSession();
        // At once: another sweep may begin by itself.
        theSweepHasTakenNoEntryThatIsWrittenAnew();
        whatWasImportedIsFound();
        theBuildWasDoneAnew();
        index("former");
        assertThat(found("former")).isEqualTo(ROWS);
        KILL.then(
                "a store of which a drop was under way",
                () -> {
                    Files.move(stores, directory.resolve("later"));
                    TableFiles.copy(kept, stores);
                },
                this::theStoreIsNotTakenForComplete);
    }

    private void createWhatIsKilled() throws Exception {
        create("halfway");
        for (int i = 0; i < FEW; i++) setValue(i, i);
        for (int i = 0; i < FEW; i++) setValue(i, FEW + i);
        session.execute(
                "CREATE TABLE ks.killed (p int, c int, v int, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
        insert("killed", 0, ROWS / 2);
        // Otherwise the node would write their entries when it replays their mutations.
        node.nodetool("flush", "ks", "killed");
        create("imported");
        insert("imported", 0, 10);
        session.execute("CREATE TABLE ks.source (p int, c int, v int, PRIMARY KEY (p, c))");
        insert("source", 10, 100);
        node.nodetool("flush", "ks", "source");
        create("former");
        insert("former", 0, ROWS / 2);
    }

    /** It has looked for memtables, of which none is in the engine, and not yet for SSTables. */
    @Test
    void aQueryUnderWayFindsTheRowsOfATableThatComesIn() throws Exception {
        assumeTrue(kind == IndexKind.SAI, "the other reads each table as of one moment");
        execute("CREATE TABLE ks.arriving (p int, c int, v int, PRIMARY KEY (p, c))");
        index("arriving");
        insert("arriving", 0, ROWS);
        node.nodetool("flush", "ks", "arriving");
        crashes.hold("leave", "StoreMemtableIndex#all");
        CompletableFuture<Integer> query = query("arriving");
        try {
            crashes.awaitHeld();
            execute("ALTER TABLE ks.arriving WITH memtable = 'rocks'");
            TestNode.await(
                    "a migration that waits, or is over",
                    PATIENCE,
                    () -> isMigrationWaitingFor("queries") || migrationStates().isEmpty());
        } finally {
            crashes.release();
        }
        assertThat(query.get(3, TimeUnit.MINUTES)).isEqualTo(ROWS);
        TestNode.awaitMigrations(session, PATIENCE);
        assertThat(found("arriving")).isEqualTo(ROWS);
    }

    /** It reported success. */
    @Test
    @EitherKind
    void garbagecollectSaysThatItSweepsNothingWhileATableComesIn() throws Exception {
        execute("CREATE TABLE ks.unswept (p int, c int, v int, PRIMARY KEY (p, c))");
        index("unswept");
        insert("unswept", 0, FEW);
        node.nodetool("flush", "ks", "unswept");
        crashes.hold("enter", "MigrateIn#write");
        try {
            execute("ALTER TABLE ks.unswept WITH memtable = 'rocks'");
            crashes.awaitHeld();
            assertThat(node.tryNodetool("garbagecollect", "ks", "unswept").output())
                    .contains("Aborted garbage collection");
        } finally {
            crashes.release();
        }
        TestNode.awaitMigrations(session, PATIENCE);
        node.nodetool("garbagecollect", "ks", "unswept");
    }

    private static boolean isMigrationWaitingFor(String what) {
        return migrationStates().stream().anyMatch(state -> state.contains(what));
    }

    private static List<String> migrationStates() {
        return session.execute("SELECT state FROM petra.migrations").all().stream()
                .map(row -> row.getString(0))
                .toList();
    }

    /**
     * Between DROP INDEX in the schema and in the store, rows come without entries. The store as it
     * is then must not pass for complete when the index is there again.
     */
    private static CompletableFuture<AsyncResultSet> holdDrop() throws Exception {
        crashes.holdAlso("enter", "StoreIndexes#dropFormer");
        CompletableFuture<AsyncResultSet> drop =
                session.executeAsync(
                                SimpleStatement.newInstance("DROP INDEX ks.former_v")
                                        .setTimeout(PATIENCE))
                        .toCompletableFuture();
        crashes.awaitHeld();
        insert("former", ROWS / 2, ROWS);
        return drop;
    }

    private void theStoreIsNotTakenForComplete() throws Exception {
        awaitQueryable("former");
        assertThat(session.execute("SELECT c FROM ks.former").all()).hasSize(ROWS);
        assertThat(found("former")).isEqualTo(ROWS);
    }

    /** While the build holds rows whose entries it has yet to write, as they were then. */
    private void holdBuild() throws Exception {
        crashes.hold("leave", "RowPages#next");
        execute("CREATE INDEX killed_v ON ks.killed (v)" + kind.using);
        crashes.awaitHeld();
        insert("killed", ROWS / 2, ROWS);
        session.execute("DELETE FROM ks.killed WHERE p = 0 AND c = 0");
        session.execute("UPDATE ks.killed SET v = 2 WHERE p = 1 AND c = 1");
    }

    private void theBuildWasDoneAnew() throws Exception {
        awaitQueryable("killed");
        assertThat(foundBy("killed", 1))
                .containsExactlyInAnyOrderElementsOf(IntStream.range(2, ROWS).boxed().toList());
        assertThat(foundBy("killed", 2)).containsExactly(1);
    }

    /** Those whose entries are written anew while they are swept. */
    private static final List<Integer> ANEW = List.of(0, 1, FEW - 1);

    /** Between two removals, of entries of which some are written anew. */
    private static CompletableFuture<Void> holdSweep() throws Exception {
        crashes.holdAlso("leave", "RocksIndexes#isRemoved");
        CompletableFuture<Void> sweep =
                CompletableFuture.runAsync(() -> node.nodetool("garbagecollect", "ks", "halfway"));
        crashes.awaitHeld();
        // The entry of 0 is gone; that of 1 was found to be stale, and is looked at once more.
        crashes.holdAlso("enter", "PartitionLocks#sweeping");
        crashes.releaseAt("leave", "RocksIndexes#isRemoved");
        crashes.awaitHeld();
        for (int i : ANEW) setValue(i, i);
        crashes.holdAlso("leave", "RocksIndexes#isStale");
        crashes.releaseAt("enter", "PartitionLocks#sweeping");
        crashes.awaitHeld();
        return sweep;
    }

    private void theSweepHasTakenNoEntryThatIsWrittenAnew() throws Exception {
        awaitQueryable("halfway");
        assertEachUnderItsValue();
        node.nodetool("garbagecollect", "ks", "halfway");
        assertEachUnderItsValue();
        // A former value of each row: of those written anew the second.
        assertThat(node.process().logSinceStart())
                .contains(
                        "Removed %d of %d entries from the indexes of ks.halfway in "
                                .formatted(FEW, 2 * FEW));
    }

    /** SSTables are live before a legacy index has their entries, and say so. */
    private static CompletableFuture<NodeTool.Result> holdImport() throws Exception {
        Path inbox = Files.createDirectories(directory.resolve("inbox/ks/imported"));
        for (Path file : TableFiles.children(TableFiles.of(node, "ks", "source").directory()))
            if (Files.isRegularFile(file)) Files.copy(file, inbox.resolve(file.getFileName()));
        crashes.holdAlso("enter", "SecondaryIndexManager#buildIndexesBlocking");
        CompletableFuture<NodeTool.Result> imported =
                CompletableFuture.supplyAsync(
                        () -> node.tryNodetool("import", "ks", "imported", inbox.toString()));
        crashes.awaitHeld();
        return imported;
    }

    private void whatWasImportedIsFound() throws Exception {
        awaitQueryable("imported");
        assertThat(session.execute("SELECT c FROM ks.imported").all()).hasSize(100);
        assertThat(found("imported")).isEqualTo(100);
        TestNode.awaitMigrations(session, PATIENCE);
        assertThat(found("imported")).isEqualTo(100);
    }

    /** When as many entries were written as make it worth that. */
    @Test
    @EitherKind
    void aSweepBeginsByItself() throws Exception {
        create("swept");
        PreparedStatement insert =
                session.prepare("INSERT INTO ks.swept (p, c, v) VALUES (?, ?, ?)");
        int partitions = 40;
        int rows = 100;
        int last = 3;
        for (int value = 0; value <= last; value++)
            for (int p = 0; p < partitions; p++) {
                BatchStatementBuilder batch = BatchStatement.builder(DefaultBatchType.UNLOGGED);
                for (int c = 0; c < rows; c++) batch.addStatement(insert.bind(p, c, value));
                session.execute(batch.build());
            }
        Pattern removed =
                Pattern.compile("Removed [1-9]\\d* of \\d+ entries from the indexes of ks.swept ");
        TestNode.await(
                "a sweep", PATIENCE, () -> removed.matcher(node.process().logSinceStart()).find());
        for (int value = 0; value <= last; value++)
            assertThat(foundBy("swept", value)).hasSize(value == last ? partitions * rows : 0);
    }

    private static void setValue(int row, int value) {
        session.execute(
                "INSERT INTO ks.halfway (p, c, v) VALUES (%1$d, %1$d, %2$d)".formatted(row, value));
    }

    private static void assertEachUnderItsValue() {
        for (int i = 0; i < FEW; i++) {
            List<Integer> row = List.of(i);
            List<Integer> none = List.of();
            assertThat(foundBy("halfway", i)).isEqualTo(ANEW.contains(i) ? row : none);
            assertThat(foundBy("halfway", FEW + i)).isEqualTo(ANEW.contains(i) ? none : row);
        }
    }

    private static List<Integer> foundBy(String table, int value) {
        return session.execute("SELECT c FROM ks." + table + " WHERE v = " + value).all().stream()
                .map(row -> row.getInt(0))
                .toList();
    }

    /**
     * A rebuild of a dropped index ends as if it were one of the index that was created in its
     * place: Cassandra then permits a rebuild beside the initial build. Each would begin again when
     * the other had begun.
     */
    @Test
    void ofTwoBuildsOfAnIndexTheOlderYields() throws Exception {
        create("twice");
        insert("twice", 0, ROWS);
        try {
            buildTwice();
        } finally {
            crashes.release();
        }
    }

    private void buildTwice() throws Exception {
        holdInitialBuild("twice");
        long before = logged("of index twice_v begins, from what is in");
        crashes.hold("enter", "StoreIndexBuilder#isComplete");
        CompletableFuture<Void> later = rebuild("twice");
        crashes.awaitHeld();
        crashes.release();
        later.get(3, TimeUnit.MINUTES);
        awaitQueryable("twice");
        node.awaitLog("of index twice_v ends because", PATIENCE);
        assertThat(found("twice")).isEqualTo(ROWS);
        assertThat(logged("of index twice_v begins, from what is in")).isEqualTo(before + 1);
    }

    /**
     * The other completed the index, and was over, between two looks of the older: that would begin
     * another round.
     */
    @Test
    void aBuildWhoseIndexAnotherCompletedEnds() throws Exception {
        create("overtaken");
        insert("overtaken", 0, ROWS);
        try {
            completeBetweenLooks();
        } finally {
            crashes.release();
        }
        node.awaitLog("of index overtaken_v ends because another build has completed", PATIENCE);
        awaitQueryable("overtaken");
        assertThat(found("overtaken")).isEqualTo(ROWS);
    }

    private void completeBetweenLooks() throws Exception {
        holdInitialBuild("overtaken");
        crashes.holdAlso("enter", "RowPages#next");
        CompletableFuture<Void> later = rebuild("overtaken");
        crashes.awaitHeld();
        crashes.holdAlso("leave", "StoreIndexBuilder#isComplete");
        crashes.releaseAt("enter", "StoreIndexBuilder#isComplete");
        crashes.awaitHeld();
        crashes.holdAlso("enter", "StoreIndexes#setBuilt");
        crashes.releaseAt("enter", "RowPages#next");
        crashes.awaitHeld();
        crashes.holdAlso("enter", "StoreIndexBuilder#hasYielded");
        crashes.releaseAt("leave", "StoreIndexBuilder#isComplete");
        crashes.awaitHeld();
        crashes.releaseAt("enter", "StoreIndexes#setBuilt");
        later.get(3, TimeUnit.MINUTES);
    }

    /** Cassandra took the index for complete when the older had ended, and nobody built it. */
    @Test
    void aBuildThatYieldsGoesOnIfTheOtherFails() throws Exception {
        assumeTrue(
                kind == IndexKind.SAI,
                "after a failure Cassandra notes of the other only a rebuild in IndexInfo");
        create("taken");
        insert("taken", 0, ROWS);
        try {
            failWhatIsYieldedTo();
        } finally {
            crashes.release();
        }
        awaitQueryable("taken");
        assertThat(found("taken")).isEqualTo(ROWS);
        awaitTold("taken_v", 3);
    }

    private void failWhatIsYieldedTo() throws Exception {
        holdInitialBuild("taken");
        crashes.holdAlso("enter", "RowTerms#columns");
        CompletableFuture<Void> later = rebuild("taken");
        crashes.awaitHeld();
        crashes.releaseAt("enter", "StoreIndexBuilder#isComplete");
        TestNode.await(
                "that the older yields",
                PATIENCE,
                () ->
                        node.process()
                                .log()
                                .lines()
                                .anyMatch(
                                        line ->
                                                line.contains("index taken_v")
                                                        && line.contains("which began later")));
        crashes.failAlso("enter", "RowPages#next");
        crashes.releaseAt("enter", "RowTerms#columns");
        assertThatThrownBy(() -> later.get(3, TimeUnit.MINUTES)).isNotNull();
    }

    /** Of an index that was created in the place of one whose rebuild goes on; at its end. */
    private void holdInitialBuild(String table) throws Exception {
        crashes.hold("enter", "RowPages#next");
        CompletableFuture<Void> former = rebuild(table);
        crashes.awaitHeld();
        execute("DROP INDEX ks.%s_v".formatted(table));
        execute("CREATE INDEX %1$s_v ON ks.%1$s (v)".formatted(table) + kind.using);
        crashes.hold("enter", "StoreIndexBuilder#isComplete");
        crashes.awaitHeld();
        // Cassandra may interrupt it.
        TestNode.await("the end of the former", PATIENCE, former::isDone);
    }

    /**
     * A rebuild of an index that was dropped and created again before its first round began took
     * away that the new one was complete, and ended without effect.
     */
    @Test
    void aRebuildOfADroppedIndexLeavesThatInItsPlaceComplete() throws Exception {
        assumeTrue(kind == IndexKind.SAI, "a rebuild of the other drops no entries first");
        create("replaced");
        insert("replaced", 0, ROWS);
        crashes.hold("enter", "StoreIndexes#drop");
        CompletableFuture<Void> former = rebuild("replaced");
        try {
            crashes.awaitHeld();
            execute("DROP INDEX ks.replaced_v");
            execute("CREATE INDEX replaced_v ON ks.replaced (v)" + kind.using);
            awaitQueryable("replaced");
            assertThat(found("replaced")).isEqualTo(ROWS);
        } finally {
            crashes.release();
        }
        TestNode.await("the end of the former", PATIENCE, former::isDone);
        assertThat(found("replaced")).isEqualTo(ROWS);
    }

    /**
     * Such a rebuild got the later number, and ended as one of a dropped index. Had the build of
     * the new index yielded to it, nobody would have built that.
     */
    @Test
    void noBuildYieldsToThatOfADroppedIndex() throws Exception {
        assumeTrue(kind == IndexKind.SAI, "a rebuild of the other drops no entries first");
        create("later");
        insert("later", 0, ROWS);
        try {
            // A rebuild comes here, an initial build does not.
            crashes.hold("enter", "StoreIndexes#drop");
            CompletableFuture<Void> former = rebuild("later");
            crashes.awaitHeld();
            execute("DROP INDEX ks.later_v");
            crashes.holdAlso("enter", "RowPages#next");
            execute("CREATE INDEX later_v ON ks.later (v)" + kind.using);
            crashes.awaitHeld();
            crashes.holdAlso("enter", "RowTerms#columns");
            crashes.releaseAt("enter", "StoreIndexes#drop");
            TestNode.await("the former", PATIENCE, () -> crashes.isHeld() || former.isDone());
            crashes.releaseAt("enter", "RowPages#next");
            awaitQueryable("later");
            crashes.release();
            TestNode.await("the end of the former", PATIENCE, former::isDone);
        } finally {
            crashes.release();
        }
        assertThat(found("later")).isEqualTo(ROWS);
    }

    /** A build that began while the table was out of the engine reads SSTables alone. */
    @Test
    @EitherKind
    void aTableThatComesBackBuildsAnIndexWhoseBuildBeganOutside() throws Exception {
        session.execute(
                "CREATE TABLE ks.outside (p int, c int, v int, x text, PRIMARY KEY (p, c)) WITH"
                        + " memtable = 'rocks'");
        PreparedStatement insert =
                session.prepare("INSERT INTO ks.outside (p, c, v, x) VALUES (?, ?, 1, ?)");
        for (int i = 0; i < ROWS; i++) session.execute(insert.bind(i, i, "x".repeat(20_000)));
        try {
            // So that the way out takes a while.
            node.nodetool("setcompactionthroughput", "1");
            execute("ALTER TABLE ks.outside WITH memtable = 'default'");
            crashes.hold(
                    "enter",
                    kind == IndexKind.SAI
                            ? "StorageAttachedIndex#startInitialBuild"
                            : "CassandraIndex#buildBlocking");
            execute("CREATE INDEX outside_v ON ks.outside (v)" + kind.using);
            crashes.awaitHeld();
            execute("ALTER TABLE ks.outside WITH memtable = 'rocks'");
            node.nodetool("setcompactionthroughput", "64");
            TestNode.await("that it waits", PATIENCE, () -> isMigrationWaitingFor("of an index"));
        } finally {
            crashes.release();
            node.nodetool("setcompactionthroughput", "64");
        }
        TestNode.awaitMigrations(session, PATIENCE);
        awaitQueryable("outside");
        assertThat(found("outside")).isEqualTo(ROWS);
    }

    private static void createOutside(String table) throws Exception {
        execute("CREATE TABLE ks." + table + " (p int, c int, v int, PRIMARY KEY (p, c))");
        execute("CREATE INDEX %1$s_v ON ks.%1$s (v)".formatted(table));
        IndexKind.LEGACY.await(session, table + "_v", PATIENCE);
        insert(table, 0, ROWS);
        node.nodetool("flush", "ks", table);
        assertThat(hiddenFiles(table)).isPositive();
    }

    /** Of the table that Cassandra keeps the entries of a legacy index in. */
    private static long hiddenFiles(String table) {
        Path hidden = TableFiles.of(node, "ks", table).directory().resolve("." + table + "_v");
        return TableFiles.children(hidden).stream()
                .filter(file -> file.toString().endsWith("-Data.db"))
                .count();
    }

    private static void assertInTheStoreAlone(String table) throws Exception {
        TestNode.await("no hidden SSTables", PATIENCE, () -> hiddenFiles(table) == 0);
        assertThat(found(table)).isEqualTo(ROWS);
    }

    /** They stayed for ever, and each query read them. */
    @Test
    void hiddenSSTablesGoThatWereCompactedWhileTheirTableCameIn() throws Exception {
        assumeTrue(kind == IndexKind.LEGACY, "the other has no hidden table");
        createOutside("compacted");
        // So that the compaction which is held is the one below.
        for (String keyspace : List.of("system", "system_schema"))
            node.nodetool("disableautocompaction", keyspace);
        crashes.hold("enter", "CompactionTask#runMayThrow");
        CompletableFuture<Void> compaction =
                CompletableFuture.runAsync(
                        () -> node.nodetool("compact", "ks", "compacted.compacted_v"));
        try {
            crashes.awaitHeld();
            execute("ALTER TABLE ks.compacted WITH memtable = 'rocks'");
            TestNode.awaitMigrations(session, PATIENCE);
            assertThat(hiddenFiles("compacted")).isPositive();
        } finally {
            crashes.release();
        }
        compaction.get(3, TimeUnit.MINUTES);
        assertInTheStoreAlone("compacted");
    }

    /** The build has read SSTables, whose entries come to the hidden table when it ends. */
    @Test
    void hiddenSSTablesGoWhenABuildEndsAfterItsTableCameIn() throws Exception {
        assumeTrue(kind == IndexKind.LEGACY, "the other has no hidden table");
        createOutside("built");
        CompletableFuture<Void> rebuild;
        crashes.hold("enter", "MigrateIn#write");
        try {
            execute("ALTER TABLE ks.built WITH memtable = 'rocks'");
            crashes.awaitHeld();
            crashes.holdAlso("enter", "RowPages#next");
            rebuild = rebuild("built");
            crashes.awaitHeld();
            crashes.releaseAt("enter", "MigrateIn#write");
            TestNode.awaitMigrations(session, PATIENCE);
        } finally {
            crashes.release();
        }
        rebuild.get(3, TimeUnit.MINUTES);
        assertInTheStoreAlone("built");
    }

    /** What other nodes are told of an index: 1 that it is built anew, 2 failed, 3 built. */
    private static int told(String index) {
        Matcher status =
                Pattern.compile("\"" + index + "\" ?: ?(\\d)")
                        .matcher(node.tryNodetool("gossipinfo").output());
        return status.find() ? Integer.parseInt(status.group(1)) : 0;
    }

    private static void awaitTold(String index, int status) throws Exception {
        TestNode.await(index + " " + status, PATIENCE, () -> told(index) == status);
    }

    private static long logged(String text) {
        return node.process().log().lines().filter(line -> line.contains(text)).count();
    }

    private static CompletableFuture<Void> rebuild(String table) {
        return CompletableFuture.runAsync(
                () -> node.nodetool("rebuild_index", "ks", table, table + "_v"));
    }

    private static void execute(String statement) {
        session.execute(SimpleStatement.newInstance(statement).setTimeout(PATIENCE));
    }

    /** The store would keep it until the node is restarted. */
    @Test
    void anIndexThatIsDroppedWhileItIsDefinedIsNotKept() throws Exception {
        session.execute("CREATE TABLE ks.brief (p int PRIMARY KEY, v int) WITH memtable = 'rocks'");
        session.execute("INSERT INTO ks.brief (p, v) VALUES (1, 1)");
        crashes.hold("enter", "RocksIndexes#define");
        CompletableFuture<AsyncResultSet> drop;
        try {
            execute("CREATE INDEX brief_v ON ks.brief (v)" + kind.using);
            crashes.awaitHeld();
            drop =
                    session.executeAsync(
                                    SimpleStatement.newInstance("DROP INDEX ks.brief_v")
                                            .setTimeout(PATIENCE))
                            .toCompletableFuture();
            // It may wait for the definition, or not.
            CompletableFuture.anyOf(drop, CompletableFuture.runAsync(() -> {}, LATER)).get();
        } finally {
            crashes.release();
        }
        drop.get(3, TimeUnit.MINUTES);
        node.awaitLog("Dropping the entries of a former index of ks.brief", PATIENCE);
    }

    /** Until the node was restarted, each write to the table waited for a lock. */
    @Test
    void aDropThatFailsIsTriedAgain() throws Exception {
        create("again");
        insert("again", 0, 10);
        crashes.fail("enter", "RocksIndexes#drop");
        execute("DROP INDEX ks.again_v");
        node.awaitLog("ColumnFamily='again') could not be removed from its store", PATIENCE);
        TestNode.await(
                "another attempt",
                PATIENCE,
                () -> logged("Dropping the entries of a former index of ks.again") > 1);
    }

    /** The store knew no such index any more, and its entries stayed until the next restart. */
    @Test
    void aDropThatFailsHalfWayIsTriedAgain() throws Exception {
        create("half");
        insert("half", 0, 10);
        crashes.fail("enter", "RocksIndexes#removeEntries");
        execute("DROP INDEX ks.half_v");
        node.awaitLog("ColumnFamily='half') could not be removed from its store", PATIENCE);
        node.awaitLog("Removed the entries of dropped indexes of ks.half", PATIENCE);
    }

    /** The indexes that were built for them would keep the files open until the node ends. */
    @Test
    @EitherKind
    void noIndexHoldsTheSSTablesOfAStreamThatFailed() throws Exception {
        create("loaded");
        insert("loaded", 0, 10);
        session.execute("CREATE TABLE ks.prepared (p int, c int, v int, PRIMARY KEY (p, c))");
        insert("prepared", 10, 100);
        Path sstables = TableFiles.of(node, "ks", "loaded").directory();
        crashes.fail("enter", "CassandraStreamReceiver#finishTransaction");
        assertThatThrownBy(() -> node.load("ks", "prepared", "loaded", directory.resolve("failed")))
                .isInstanceOf(AssertionError.class);
        node.awaitLog("Fails on purpose: enter", PATIENCE);
        TestNode.await("closed files", PATIENCE, () -> open(sstables).isEmpty());
        assertThat(found("loaded")).isEqualTo(10);
        node.load("ks", "prepared", "loaded", directory.resolve("loaded"));
        assertThat(found("loaded")).isEqualTo(100);
        TestNode.awaitMigrations(session, PATIENCE);
        assertThat(found("loaded")).isEqualTo(100);
    }

    /** The files of SAI in a directory that the node has open or mapped, deleted or not. */
    private static List<String> open(Path sstables) throws IOException {
        Path process = Path.of("/proc", Long.toString(node.process().pid()));
        List<String> open = new ArrayList<>(Files.readAllLines(process.resolve("maps")));
        try (Stream<Path> files = Files.list(process.resolve("fd"))) {
            for (Path file : files.toList()) open.add(target(file));
        }
        open.removeIf(file -> !file.contains(sstables + "/") || !file.contains("SAI+"));
        return open;
    }

    /** Empty if the file was closed meanwhile. */
    private static String target(Path descriptor) throws IOException {
        try {
            return Files.readSymbolicLink(descriptor).toString();
        } catch (NoSuchFileException e) {
            return "";
        }
    }

    /** Other nodes would go on asking this one by the other index, and fail. */
    @Test
    @EitherKind
    void allIndexesOfATableAreOutOfUseWhenOneIsDamaged() throws Exception {
        create("several");
        for (String column : List.of("w", "u"))
            execute("ALTER TABLE ks.several ADD " + column + " int");
        execute("CREATE INDEX several_w ON ks.several (w)" + kind.using);
        kind.await(session, "several_w", PATIENCE);
        insert("several", 0, ROWS);
        execute("INSERT INTO ks.several (p, c, w) VALUES (0, 0, 1)");
        node.nodetool("flush", "ks", "several");
        KILL.then(
                "one of several indexes is damaged",
                () -> damageIndex(TableFiles.of(node, "ks", "several").stores()),
                this::allAreOutOfUse);
    }

    private void allAreOutOfUse() throws Exception {
        awaitQueryable("several");
        crashes.hold("enter", "RocksIndexes#define");
        try {
            execute("CREATE INDEX several_u ON ks.several (u)" + kind.using);
            crashes.awaitHeld();
            assertThatThrownBy(() -> found("several")).isInstanceOf(DriverException.class);
            awaitTold("several_v", 2);
            awaitTold("several_w", 2);
            assertThat(told("several_u")).as("was never there").isNotEqualTo(2);
        } finally {
            crashes.release();
        }
        kind.await(session, "several_u", PATIENCE);
        node.nodetool("rebuild_index", "ks", "several", "several_v");
        assertThat(found("several")).isEqualTo(ROWS);
        awaitTold("several_v", 3);
        assertThat(told("several_w")).as("still lost").isEqualTo(2);
        node.nodetool("rebuild_index", "ks", "several", "several_w");
        assertThat(session.execute("SELECT c FROM ks.several WHERE w = 1").all()).hasSize(1);
        awaitTold("several_w", 3);
    }

    /** Under {@code disk_failure_policy: die}. */
    @Test
    @EitherKind
    void aDamagedIndexIsToldFromItsTableAndIsRebuilt() throws Exception {
        create("damaged");
        insert("damaged", 0, ROWS);
        node.nodetool("flush", "ks", "damaged");
        KILL.then(
                "a damaged index",
                () -> damageIndex(TableFiles.of(node, "ks", "damaged").stores()),
                this::itIsToldAndRebuilt);
    }

    private void itIsToldAndRebuilt() throws Exception {
        awaitQueryable("damaged");
        assertThatThrownBy(() -> found("damaged")).isInstanceOf(DriverException.class);
        node.awaitLog("nodetool rebuild_index ks damaged damaged_v", PATIENCE);
        assertThat(session.execute("SELECT c FROM ks.damaged").all()).hasSize(ROWS);
        insert("damaged", ROWS, ROWS + 10);
        assertThatThrownBy(() -> found("damaged")).isInstanceOf(DriverException.class);
        node.nodetool("rebuild_index", "ks", "damaged", "damaged_v");
        assertThat(found("damaged")).isEqualTo(ROWS + 10);
        node.nodetool("compact", "ks", "damaged");
        node.nodetool("verify", "-f", "ks", "damaged");
        insert("damaged", ROWS + 10, ROWS + 20);
        assertThat(found("damaged")).isEqualTo(ROWS + 20);
        KILL.then(
                "a rebuilt index",
                () -> {
                    awaitQueryable("damaged");
                    assertThat(found("damaged")).isEqualTo(ROWS + 20);
                });
    }

    private static void damageIndex(Path stores) throws IOException {
        int damaged = 0;
        try (Stream<Path> files = Files.walk(stores)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".sst")).toList()) {
                byte[] bytes = Files.readAllBytes(file);
                String text = new String(bytes, StandardCharsets.ISO_8859_1);
                // The column family's name, behind the end of what it is called there.
                if (!text.contains("nameindex")) continue;
                Arrays.fill(bytes, 50, 150, (byte) 0);
                Files.write(file, bytes);
                damaged++;
            }
        }
        assertThat(damaged).isPositive();
    }

    @Test
    @EitherKind
    void anEngineWithoutIndexesRefusesThem() {
        session.execute("CREATE TABLE ks.t (p int PRIMARY KEY, v int) WITH memtable = 'faulty'");
        assertThatThrownBy(() -> session.execute("CREATE INDEX ON ks.t (v)" + kind.using))
                .hasMessageContaining("this engine has no indexes");
        session.execute("INSERT INTO ks.t (p, v) VALUES (1, 1)");
        assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(1);
        session.execute("DROP TABLE ks.t");
    }
}
