// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import dev.petra.launcher.FileTree;
import dev.petra.nodetests.fixture.EitherKind;
import dev.petra.nodetests.fixture.IndexKind;
import dev.petra.nodetests.fixture.JoinedKill;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The life of an index on a table in the engine, on a real node: no row is ever missed by it. Of
 * each kind of index. The kills of the last test are those of the others as well; the clean stop
 * comes first, which leaves nothing in memory.
 */
@OneOf(variants = "indexes in operation, and between two steps", of = 2, number = 1)
@ParameterizedClass
@MethodSource("kinds")
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class IndexLifeIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final int VALUES = 10;

    private static final JoinedKill KILL = new JoinedKill();

    @TempDir static Path parent;
    private static Path directory;
    private static TestNode node;
    private static CqlSession session;

    private final IndexKind kind;

    static List<IndexKind> kinds() {
        return IndexKind.of("IndexLifeIT");
    }

    IndexLifeIT(IndexKind kind) {
        this.kind = kind;
    }

    @BeforeEach
    void choose(TestInfo test) {
        kind.assumeChosen(test);
    }

    @BeforeParameterizedClassInvocation
    static void start(IndexKind kind) {
        directory = parent.resolve(kind.name());
        node =
                TestNode.start(
                        directory,
                        // Sweeps by themselves would take entries away that are counted.
                        options ->
                                (kind == IndexKind.SAI
                                                ? options.yaml(Map.of("sasi_indexes_enabled", true))
                                                : options)
                                        .jvmOptions("-Dpetra.index.sweep_seconds=3600"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterParameterizedClassInvocation
    static void stop() throws Exception {
        try {
            KILL.end(() -> node.process().kill(), IndexLifeIT::restart);
        } finally {
            session.close();
            node.close();
        }
    }

    private static void create(String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, w int, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
    }

    private static void insert(String table, int from, int to) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (p, c, v, w) VALUES (?, ?, ?, ?)");
        for (int i = from; i < to; i++)
            session.execute(insert.bind(i % 17, i, i % VALUES, i % VALUES + 100));
    }

    /** Between two writes that go on while something else is done. */
    private static void pause() {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
    }

    private static long count(String table, String where) {
        return session.execute("SELECT c FROM ks." + table + " WHERE " + where).all().size();
    }

    private static long all(String table) {
        return session.execute("SELECT c FROM ks." + table).all().size();
    }

    private static long found(String table, String column, int first) {
        long found = 0;
        for (int v = 0; v < VALUES; v++) found += count(table, column + " = " + (first + v));
        return found;
    }

    /** Each row is found by its value, and by nothing else. */
    private void check(String table, String column, int first) {
        assertThat(found(table, column, first)).as(table).isEqualTo(all(table));
        if (kind == IndexKind.SAI)
            assertThat(count(table, column + " >= " + first)).as(table).isEqualTo(all(table));
    }

    private void awaitQueryable(String index) throws Exception {
        kind.await(session, index, PATIENCE);
    }

    private static void restart() {
        session.close();
        node.restart();
        session = node.plainSession();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "CREATE CUSTOM INDEX \"Of\" ON ks.refused (\"V\") USING"
                        + " 'org.apache.cassandra.index.sasi.SASIIndex'"
                        + "|SASI indexes are not supported. Use CREATE INDEX \"Of\" ON ks.refused"
                        + " (\"V\") USING 'sai'",
                "CREATE CUSTOM INDEX i ON ks.refused (ENTRIES(m)) USING"
                        + " 'org.apache.cassandra.index.internal.keys.KeysIndex'"
                        + "|custom index classes are not supported. Use CREATE INDEX i ON"
                        + " ks.refused (entries(m)) USING 'sai'",
                "CREATE INDEX ON ks.refused (vec) USING 'sai'|searches a graph",
                "ALTER TABLE ks.indexed WITH memtable = 'rocks'"
                        + "|CREATE INDEX by_v ON ks.indexed (v) USING 'sai'. DROP INDEX ks.by_v"
                        + " first"
            })
    void whatIsNotSupportedIsRefusedWithTheMend(String cql, String mend) {
        assumeTrue(kind == IndexKind.SAI, "it is of neither kind");
        session.execute(
                "CREATE TABLE IF NOT EXISTS ks.refused (p int PRIMARY KEY, \"V\" text, m map<int,"
                        + " int>, vec vector<float, 2>) WITH memtable = 'rocks'");
        session.execute("CREATE TABLE IF NOT EXISTS ks.indexed (p int PRIMARY KEY, v text)");
        session.execute(
                "CREATE CUSTOM INDEX IF NOT EXISTS by_v ON ks.indexed (v) USING"
                        + " 'org.apache.cassandra.index.sasi.SASIIndex'");
        assertThatThrownBy(() -> session.execute(cql))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("in a storage engine")
                .hasMessageContaining(mend);
        assertThat(session.execute("SELECT * FROM ks.refused").all()).isEmpty();
        assertThat(
                        session.execute(
                                "SELECT * FROM system_schema.indexes WHERE keyspace_name = 'ks' AND"
                                        + " table_name = 'refused'"))
                .isEmpty();
    }

    @Test
    @EitherKind
    void anIndexOfAnEmptyTableIsThereAfterARestart() throws Exception {
        create("empty");
        session.execute("CREATE INDEX empty_v ON ks.empty (v)" + kind.using);
        awaitQueryable("empty_v");
        assertThat(count("empty", "v = 1")).isZero();
        insert("empty", 0, 200);
        check("empty", "v", 0);
        KILL.then("of an empty table", this::truncateTheOneThatWasEmpty);
    }

    private void truncateTheOneThatWasEmpty() throws Exception {
        awaitQueryable("empty_v");
        check("empty", "v", 0);
        session.execute("TRUNCATE ks.empty");
        assertThat(count("empty", "v = 1")).isZero();
        insert("empty", 50, 150);
        check("empty", "v", 0);
        KILL.then(
                "of an empty table, truncated",
                () -> {
                    awaitQueryable("empty_v");
                    check("empty", "v", 0);
                });
    }

    @Test
    @EitherKind
    void anIndexIsBuiltWhileTheTableIsWritten() throws Exception {
        create("busy");
        insert("busy", 0, 3_000);
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger written = new AtomicInteger(3_000);
        List<Throwable> failures = new ArrayList<>();
        List<Thread> writers = new ArrayList<>();
        for (int w = 0; w < 4; w++) {
            Thread writer =
                    new Thread(
                            () -> {
                                try {
                                    while (!stop.get()) {
                                        int i = written.getAndIncrement();
                                        insert("busy", i, i + 1);
                                        pause();
                                    }
                                } catch (DriverException e) {
                                    failures.add(e);
                                }
                            });
            writer.start();
            writers.add(writer);
        }
        for (int i = 0; i < 4; i++) {
            session.execute("CREATE INDEX busy_v ON ks.busy (v)" + kind.using);
            awaitQueryable("busy_v");
            int before = written.get();
            long found = 0;
            for (int v = 0; v < VALUES; v++) found += count("busy", "v = " + v);
            // Those under way may not be written yet.
            assertThat(found).isGreaterThanOrEqualTo(before - 4);
            session.execute("DROP INDEX ks.busy_v");
        }
        session.execute("CREATE INDEX busy_v ON ks.busy (v)" + kind.using);
        awaitQueryable("busy_v");
        stop.set(true);
        for (Thread writer : writers) writer.join();
        assertThat(failures).isEmpty();
        assertThat(all("busy")).isEqualTo(written.get());
        check("busy", "v", 0);
    }

    /** A page of a build that ended with the only row of its partition ended the build. */
    @Test
    @EitherKind
    void anIndexOfATableWithoutClusteringIsBuiltOfManyPages() throws Exception {
        session.execute(
                "CREATE TABLE ks.paged (p int PRIMARY KEY, v text) WITH memtable = 'rocks'");
        PreparedStatement insert = session.prepare("INSERT INTO ks.paged (p, v) VALUES (?, ?)");
        String text = "v".repeat(8_000);
        for (int p = 0; p < 500; p++) session.execute(insert.bind(p, text + p % VALUES));
        session.execute("CREATE INDEX paged_v ON ks.paged (v)" + kind.using);
        awaitQueryable("paged_v");
        for (int v = 0; v < VALUES; v++)
            assertThat(found("paged", "v = '" + text + v + "'")).isEqualTo(500 / VALUES);
    }

    @Test
    @Order(Integer.MAX_VALUE)
    void aKillDuringABuildOrAWriteLosesNoEntry() throws Exception {
        create("killed");
        insert("killed", 0, 4_000);
        for (int cycle = 0; cycle < 2; cycle++) {
            session.execute("CREATE INDEX IF NOT EXISTS killed_v ON ks.killed (v)" + kind.using);
            int from = 4_000 + cycle * 10_000;
            Thread writer =
                    new Thread(
                            () -> {
                                try {
                                    insert("killed", from, from + 10_000);
                                } catch (DriverException e) {
                                    // Killed.
                                }
                            });
            writer.start();
            if (cycle > 0) Thread.sleep(500);
            node.process().kill();
            writer.join();
            restart();
            awaitQueryable("killed_v");
            check("killed", "v", 0);
            KILL.restarted();
        }
    }

    @Test
    void anIndexOfTheSameNameOnAnotherColumnFindsNothingOfTheFormer() throws Exception {
        create("again");
        insert("again", 0, 100);
        session.execute("CREATE INDEX again_i ON ks.again (v)" + kind.using);
        awaitQueryable("again_i");
        session.execute("DROP INDEX ks.again_i");
        insert("again", 100, 150);
        session.execute("CREATE INDEX again_i ON ks.again (w)" + kind.using);
        awaitQueryable("again_i");
        check("again", "w", 100);
        session.execute("DROP INDEX ks.again_i");
        insert("again", 150, 200);
        session.execute("CREATE INDEX again_i ON ks.again (v)" + kind.using);
        awaitQueryable("again_i");
        check("again", "v", 0);
    }

    @Test
    void anIndexedColumnThatIsDroppedAndAddedAgainIsFoundByWhatItHasSince() throws Exception {
        create("altered");
        insert("altered", 0, 200);
        session.execute("CREATE INDEX altered_v ON ks.altered (v)" + kind.using);
        awaitQueryable("altered_v");
        // As in Cassandra's own storage.
        assertThatThrownBy(() -> session.execute("ALTER TABLE ks.altered DROP v"))
                .hasMessageContaining("altered_v");
        session.execute("DROP INDEX ks.altered_v");
        session.execute("ALTER TABLE ks.altered DROP v");
        session.execute("ALTER TABLE ks.altered ADD v int");
        session.execute("CREATE INDEX altered_v ON ks.altered (v)" + kind.using);
        awaitQueryable("altered_v");
        assertThat(found("altered", "v", 0)).isZero();
        insert("altered", 100, 150);
        assertThat(found("altered", "v", 0)).isEqualTo(50);
        KILL.then(
                "of a column that is added again",
                () -> {
                    awaitQueryable("altered_v");
                    assertThat(found("altered", "v", 0)).isEqualTo(50);
                    insert("altered", 0, 200);
                    check("altered", "v", 0);
                });
    }

    @Test
    void whatHasExpiredIsNotFound() throws Exception {
        session.execute(
                "CREATE TABLE ks.expires (p int, c int, s int static, v int, w int, x set<int>,"
                        + " PRIMARY KEY (p, c)) WITH memtable = 'rocks'");
        for (String column : List.of("c", "s", "v", "x")) {
            session.execute(
                    "CREATE INDEX expires_%1$s ON ks.expires (%1$s)".formatted(column)
                            + kind.using);
            awaitQueryable("expires_" + column);
        }
        session.execute("INSERT INTO ks.expires (p, c, s, v, w, x) VALUES (1, 1, 1, 1, 1, {1})");
        session.execute(
                "INSERT INTO ks.expires (p, c, s, v, w, x) VALUES (2, 1, 1, 1, 1, {1}) USING TTL"
                        + " 15");
        // Only its value expires, and only one element.
        session.execute("INSERT INTO ks.expires (p, c, v, x) VALUES (3, 1, 2, {2})");
        session.execute(
                "UPDATE ks.expires USING TTL 15 SET v = 1, x = x + {1} WHERE p = 3 AND c = 1");
        List<String> queries = List.of("c = 1", "s = 1", "v = 1", "x CONTAINS 1", "v = 2");
        assertThat(queries.stream().map(IndexLifeIT::expiring))
                .containsExactly(
                        Set.of(1, 2, 3), Set.of(1, 2), Set.of(1, 2, 3), Set.of(1, 2, 3), Set.of());
        TestNode.await("the expiry", PATIENCE, () -> expiring("v = 1").equals(Set.of(1)));
        // The value that another has hidden until that expired does not come back.
        List<Set<Integer>> left = List.of(Set.of(1, 3), Set.of(1), Set.of(1), Set.of(1), Set.of());
        assertThat(queries.stream().map(IndexLifeIT::expiring)).containsExactlyElementsOf(left);
        assertThat(expiring("x CONTAINS 2")).containsExactly(3);
        node.nodetool("garbagecollect", "ks", "expires");
        assertThat(queries.stream().map(IndexLifeIT::expiring)).containsExactlyElementsOf(left);
        assertThat(expiring("x CONTAINS 2")).containsExactly(3);
    }

    private static Set<Integer> expiring(String where) {
        return session.execute("SELECT p FROM ks.expires WHERE " + where).all().stream()
                .map(row -> row.getInt(0))
                .collect(Collectors.toSet());
    }

    @Test
    void overwrittenAndDeletedRowsAreNotFoundAndARebuildFindsAll() throws Exception {
        create("changed");
        session.execute("CREATE INDEX changed_v ON ks.changed (v)" + kind.using);
        awaitQueryable("changed_v");
        insert("changed", 0, 500);
        for (int i = 0; i < 500; i += 3)
            session.execute(
                    "UPDATE ks.changed SET v = "
                            + (i + 1) % VALUES
                            + " WHERE p = "
                            + i % 17
                            + " AND c = "
                            + i);
        for (int i = 1; i < 500; i += 7)
            session.execute("DELETE FROM ks.changed WHERE p = " + i % 17 + " AND c = " + i);
        session.execute("DELETE FROM ks.changed WHERE p = 3");
        check("changed", "v", 0);
        node.nodetool("rebuild_index", "ks", "changed", "changed_v");
        check("changed", "v", 0);
        node.nodetool("compact", "ks", "changed");
        check("changed", "v", 0);
    }

    @Test
    @Order(1)
    @EitherKind
    void aSnapshotHasTheIndexAsItWas() throws Exception {
        create("snapped");
        session.execute("CREATE INDEX snapped_v ON ks.snapped (v)" + kind.using);
        awaitQueryable("snapped_v");
        insert("snapped", 0, 100);
        TableFiles files = TableFiles.of(node, "ks", "snapped");
        node.nodetool("snapshot", "-t", "s", "ks");
        insert("snapped", 100, 200);
        session.execute("DELETE FROM ks.snapped WHERE p = 3");
        session.execute("CREATE INDEX snapped_w ON ks.snapped (w)" + kind.using);
        awaitQueryable("snapped_w");
        check("snapped", "v", 0);
        session.close();
        node.process().stop();
        FileTree.delete(files.stores());
        TableFiles.copy(files.snapshots("s").get(0), files.stores());
        node.restart();
        session = node.plainSession();
        awaitQueryable("snapped_v");
        assertThat(all("snapped")).isEqualTo(100);
        check("snapped", "v", 0);
        // The snapshot does not know it.
        awaitQueryable("snapped_w");
        check("snapped", "w", 100);
        insert("snapped", 300, 320);
        check("snapped", "v", 0);
        check("snapped", "w", 100);
    }

    @Test
    @EitherKind
    void importedSSTablesAreFoundAtOnceAndWhenTheyAreInTheStore() throws Exception {
        create("imported");
        session.execute("CREATE INDEX imported_v ON ks.imported (v)" + kind.using);
        awaitQueryable("imported_v");
        insert("imported", 0, 50);
        session.execute("CREATE TABLE ks.source (p int, c int, v int, w int, PRIMARY KEY (p, c))");
        insert("source", 40, 150);
        session.execute("DELETE FROM ks.source WHERE p = 5");
        node.nodetool("flush", "ks", "source");
        Path inbox = directory.resolve("inbox/ks/imported");
        Files.createDirectories(inbox);
        for (Path file : TableFiles.children(TableFiles.of(node, "ks", "source").directory()))
            if (Files.isRegularFile(file)) Files.copy(file, inbox.resolve(file.getFileName()));
        node.nodetool("import", "ks", "imported", inbox.toString());
        assertThat(count("imported", "v = 1")).isPositive();
        check("imported", "v", 0);
        TestNode.awaitMigrations(session, PATIENCE);
        check("imported", "v", 0);
        assertThat(all("imported")).isGreaterThan(120);
        refresh("imported", "source");
        check("imported", "v", 0);
        TestNode.awaitMigrations(session, PATIENCE);
        check("imported", "v", 0);
        assertThat(all("imported")).isGreaterThan(170);
        KILL.then("imported", () -> check("imported", "v", 0));
    }

    /** By SSTables of another table in the table's own directory. */
    private static void refresh(String table, String from) throws Exception {
        session.execute("TRUNCATE ks." + from);
        insert(from, 140, 200);
        session.execute("DELETE FROM ks." + from + " WHERE p = 7");
        node.nodetool("flush", "ks", from);
        Path directory = TableFiles.of(node, "ks", table).directory();
        for (Path file : TableFiles.children(TableFiles.of(node, "ks", from).directory()))
            if (Files.isRegularFile(file))
                Files.copy(file, directory.resolve(file.getFileName().toString()));
        node.nodetool("refresh", "ks", table);
    }

    /** SSTables that were written without an index, which Cassandra itself does not take. */
    @Test
    @EitherKind
    void whatSstableloaderSendsIsFoundAtOnceAndWhenItIsInTheStore() throws Exception {
        create("loaded");
        session.execute("CREATE INDEX loaded_v ON ks.loaded (v)" + kind.using);
        session.execute("CREATE INDEX loaded_w ON ks.loaded (w)" + kind.using);
        awaitQueryable("loaded_v");
        awaitQueryable("loaded_w");
        insert("loaded", 0, 50);
        session.execute(
                "CREATE TABLE ks.prepared (p int, c int, v int, w int, PRIMARY KEY (p, c))");
        insert("prepared", 40, 150);
        session.execute("DELETE FROM ks.prepared WHERE p = 5");
        node.load("ks", "prepared", "loaded", directory.resolve("prepared"));
        assertThat(count("loaded", "v = 1")).isEqualTo(14);
        check("loaded", "v", 0);
        check("loaded", "w", 100);
        TestNode.awaitMigrations(session, PATIENCE);
        check("loaded", "v", 0);
        check("loaded", "w", 100);
        assertThat(all("loaded")).isGreaterThan(120);
        assertThat(node.process().log())
                .doesNotContain("LEAK DETECTED")
                .doesNotContain("Streaming error occurred");
        KILL.then(
                "loaded",
                () -> {
                    check("loaded", "v", 0);
                    check("loaded", "w", 100);
                });
    }

    /** The log of what was flushed is deleted some time after the flush. */
    private static long roomOnceItIsSteady(Path disk) throws Exception {
        while (true) {
            long before = Files.getFileStore(disk).getUsableSpace();
            Thread.sleep(2_000);
            if (Files.getFileStore(disk).getUsableSpace() == before) return before;
        }
    }

    /**
     * The build had the store open all the while it waited for room, and the store is opened anew
     * only when nobody reads it: writes failed until the node was restarted.
     */
    @Test
    @EitherKind
    void aBuildOnAFullDiskGoesOnWhenThereIsRoomAndSoDoWrites() throws Exception {
        Path disk = directory.resolve("data/narrow");
        Files.createDirectories(disk);
        boolean mounted = mount("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", disk + "");
        if (!mounted) System.err.println("IndexLifeIT: NOT RUN on a full disk: no right to mount");
        assumeTrue(mounted, "no right to mount a tmpfs");
        try {
            TestNode.createKeyspace(session, "narrow", 1);
            session.execute(
                    "CREATE TABLE narrow.t (p int, c int, v text, PRIMARY KEY (p, c))"
                            + " WITH memtable = 'rocks'");
            PreparedStatement insert =
                    session.prepare("INSERT INTO narrow.t (p, c, v) VALUES (?, ?, ?)");
            String text = "v".repeat(500);
            for (int i = 0; i < 20_000; i++)
                session.execute(insert.bind(i % 17, i, text + i % VALUES));
            node.nodetool("flush", "narrow", "t");
            Path ballast = disk.resolve("ballast");
            long room = roomOnceItIsSteady(disk) - (3 << 20);
            try (var out = Files.newOutputStream(ballast)) {
                for (byte[] block = new byte[1 << 20]; room > 0; room -= block.length)
                    out.write(block, 0, (int) Math.min(room, block.length));
            }
            session.execute("CREATE INDEX narrow_v ON narrow.t (v)" + kind.using);
            TestNode.await("a full disk", PATIENCE, () -> !isWritten(insert.bind(1, -1, "w")));
            assertThat(node.tryNodetool("compactionstats").output())
                    .contains("Secondary index build")
                    .contains("narrow");
            Files.delete(ballast);
            TestNode.await("writes", PATIENCE, () -> isWritten(insert.bind(1, -2, "w")));
            awaitQueryable("narrow_v");
            for (int v = 0; v < VALUES; v++)
                assertThat(inFull("v = '" + text + v + "'")).isEqualTo(20_000 / VALUES);
            assertThat(inFull("v = 'w'")).isPositive();
            assertThat(node.process().log()).contains("of index narrow_v is complete");
            session.execute("DROP KEYSPACE narrow");
        } finally {
            mount("umount", "-l", disk + "");
        }
    }

    private static long inFull(String where) {
        return session.execute("SELECT c FROM narrow.t WHERE " + where).all().size();
    }

    private static boolean isWritten(BoundStatement insert) {
        try {
            session.execute(insert);
            return true;
        } catch (DriverException e) {
            return false;
        }
    }

    private static boolean mount(String... command) throws Exception {
        return new ProcessBuilder(command).inheritIO().start().waitFor() == 0;
    }

    @Test
    void virtualTablesTellOfAnIndex() throws Exception {
        assumeTrue(kind == IndexKind.SAI, "they are of Storage-Attached Indexes");
        create("told");
        insert("told", 0, 2_000);
        assertThat(system("told_v", "is_queryable")).isEmpty();
        session.execute("CREATE INDEX told_v ON ks.told (v)" + kind.using);
        awaitQueryable("told_v");
        assertThat(system("told_v", "is_queryable")).containsExactly(true);
        TestNode.await(
                "the end of the build",
                PATIENCE,
                () -> system("told_v", "is_building").equals(List.of(false)));
        assertThat(
                        session.execute(
                                        "SELECT * FROM system.\"IndexInfo\" WHERE table_name = 'ks'"
                                                + " AND index_name = 'told_v'")
                                .all())
                .hasSize(1);
        assertThat(
                        session.execute(
                                        "SELECT value FROM petra.metrics WHERE keyspace_name = 'ks'"
                                                + " AND table_name = 'told' AND metric ="
                                                + " 'index_entries'")
                                .one()
                                .getLong(0))
                .isEqualTo(2_000);
        session.execute("DROP INDEX ks.told_v");
        assertThat(system("told_v", "is_queryable")).isEmpty();
    }

    @Test
    void garbagecollectRemovesEntriesOfFormerValues() throws Exception {
        create("swept");
        session.execute("CREATE INDEX swept_v ON ks.swept (v)" + kind.using);
        awaitQueryable("swept_v");
        insert("swept", 0, 1_000);
        PreparedStatement update =
                session.prepare("UPDATE ks.swept SET v = ? WHERE p = ? AND c = ?");
        for (int i = 0; i < 1_000; i++) session.execute(update.bind(1_000 + i % VALUES, i % 17, i));
        node.nodetool("garbagecollect", "ks", "swept");
        assertThat(node.process().log())
                .contains("Removed 1000 of 2000 entries from the indexes of ks.swept in ");
        check("swept", "v", 1_000);
        for (int v = 0; v < VALUES; v++) assertThat(count("swept", "v = " + v)).isZero();
    }

    /** Of a row without clustering, of a static row, and of parts of the primary key. */
    @Test
    @EitherKind
    void garbagecollectKeepsEntriesOfEveryKindOfRow() throws Exception {
        session.execute(
                "CREATE TABLE ks.skinny (p int, q int, v int, x set<int>, PRIMARY KEY ((p, q)))"
                        + " WITH memtable = 'rocks'");
        session.execute(
                "CREATE TABLE ks.wide (p int, q int, c int, s int static, v int,"
                        + " PRIMARY KEY ((p, q), c)) WITH memtable = 'rocks'");
        for (String index : List.of("skinny (q)", "skinny (v)", "skinny (x)"))
            session.execute("CREATE INDEX ON ks." + index + kind.using);
        for (String index : List.of("wide (q)", "wide (c)", "wide (s)", "wide (v)"))
            session.execute("CREATE INDEX ON ks." + index + kind.using);
        for (String index : List.of("skinny_q", "skinny_v", "skinny_x"))
            awaitQueryable(index + "_idx");
        for (String index : List.of("wide_q", "wide_c", "wide_s", "wide_v"))
            awaitQueryable(index + "_idx");
        for (int round = 1; round <= 2; round++)
            for (int i = 0; i < 100; i++) {
                session.execute(
                        "INSERT INTO ks.skinny (p, q, v, x) VALUES (%1$d, %1$d, %2$d, {%2$d})"
                                .formatted(i, i * round));
                session.execute(
                        "INSERT INTO ks.wide (p, q, c, s, v) VALUES (%1$d, %1$d, %1$d, %2$d, %2$d)"
                                .formatted(i, i * round));
            }
        node.nodetool("garbagecollect", "ks", "skinny", "wide");
        // All but those of 0 were written twice.
        assertThat(node.process().log())
                .contains("Removed 198 of 498 entries from the indexes of ks.skinny in ")
                .contains("Removed 198 of ");
        for (int i = 0; i < 100; i++) {
            assertThat(found("skinny", "q = " + i)).isEqualTo(1);
            assertThat(found("skinny", "v = " + 2 * i)).isEqualTo(1);
            assertThat(found("skinny", "x CONTAINS " + 2 * i)).isEqualTo(1);
            assertThat(found("wide", "q = " + i)).isEqualTo(1);
            assertThat(found("wide", "c = " + i)).isEqualTo(1);
            assertThat(found("wide", "s = " + 2 * i)).isEqualTo(1);
            assertThat(found("wide", "v = " + 2 * i)).isEqualTo(1);
        }
    }

    /** A row that lives by a large cell alone, of a column that builds and sweeps do not read. */
    @Test
    @EitherKind
    void aRowThatLivesByAColumnWithoutAnIndexIsFoundByItsKeyColumns() throws Exception {
        session.execute(
                "CREATE TABLE ks.alive (p int, q int, c int, v int, w text, PRIMARY KEY ((p, q),"
                        + " c)) WITH memtable = 'rocks'");
        String large = "w".repeat(20_000);
        for (int i = 0; i < 50; i++)
            session.execute(
                    "UPDATE ks.alive SET w = '%2$s' WHERE p = %1$d AND q = %1$d AND c = %1$d"
                            .formatted(i, large));
        for (String column : List.of("q", "c", "v"))
            session.execute("CREATE INDEX ON ks.alive (" + column + ")" + kind.using);
        for (String column : List.of("q", "c", "v")) awaitQueryable("alive_" + column + "_idx");
        for (int i = 50; i < 100; i++)
            session.execute(
                    "UPDATE ks.alive SET w = '%2$s' WHERE p = %1$d AND q = %1$d AND c = %1$d"
                            .formatted(i, large));
        session.execute("UPDATE ks.alive SET w = null WHERE p = 3 AND q = 3 AND c = 3");
        node.nodetool("garbagecollect", "ks", "alive");
        assertThat(node.process().log())
                .contains("Removed 2 of 200 entries from the indexes of ks.alive in ");
        for (int i = 0; i < 100; i++) {
            assertThat(found("alive", "q = " + i)).isEqualTo(i == 3 ? 0 : 1);
            assertThat(found("alive", "c = " + i)).isEqualTo(i == 3 ? 0 : 1);
        }
    }

    /** It is there if the column is added again, as in Cassandra. */
    @Test
    void aRowThatLivesByADroppedColumnIsFoundWhenTheColumnIsThereAgain() throws Exception {
        session.execute(
                "CREATE TABLE ks.readded (p int, q int, c int, d int, w int, PRIMARY KEY ((p, q),"
                        + " c, d)) WITH memtable = 'rocks'");
        for (String column : List.of("q", "c"))
            session.execute("CREATE INDEX ON ks.readded (" + column + ")" + kind.using);
        for (String column : List.of("q", "c")) awaitQueryable("readded_" + column + "_idx");
        long later = (System.currentTimeMillis() + 3_600_000) * 1_000;
        session.execute(
                "UPDATE ks.readded USING TIMESTAMP "
                        + later
                        + " SET w = 1 WHERE p = 2 AND q = 3 AND c = 4 AND d = 5");
        session.execute("UPDATE ks.readded SET w = 1 WHERE p = 3 AND q = 4 AND c = 5 AND d = 6");
        // Cassandra takes the time of a drop in milliseconds.
        Thread.sleep(5);
        session.execute("ALTER TABLE ks.readded DROP w");
        node.nodetool("garbagecollect", "ks", "readded");
        session.execute("CREATE INDEX ON ks.readded (d)" + kind.using);
        awaitQueryable("readded_d_idx");
        session.execute("ALTER TABLE ks.readded ADD w int");
        for (String where : List.of("q = 3", "c = 4", "d = 5"))
            assertThat(found("readded", where)).as(where).isEqualTo(1);
        assertThat(node.process().log())
                .contains("Removed 2 of 4 entries from the indexes of ks.readded in ");
    }

    /** A row keeps one form of a value, and is found by all in which it was written. */
    @Test
    void whatIsEqualInAnotherFormIsFoundAfterASweep() throws Exception {
        session.execute(
                "CREATE TABLE ks.forms (k int, c decimal, v decimal, x set<decimal>, PRIMARY KEY"
                        + " (k, c)) WITH memtable = 'rocks'");
        for (String column : List.of("c", "v", "x"))
            session.execute("CREATE INDEX ON ks.forms (" + column + ")" + kind.using);
        for (String column : List.of("c", "v", "x")) awaitQueryable("forms_" + column + "_idx");
        for (String form : List.of("1.0", "1.00"))
            session.execute(
                    "UPDATE ks.forms SET v = %1$s, x = x + {%1$s} WHERE k = 1 AND c = %1$s"
                            .formatted(form));
        for (int swept = 0; swept < 2; swept++) {
            for (String form : List.of("1.0", "1.00"))
                for (String where : List.of("c = ", "v = ", "x CONTAINS "))
                    assertThat(found("forms", where + form))
                            .as("%s%s, swept %d times", where, form, swept)
                            .isEqualTo(1);
            node.nodetool("garbagecollect", "ks", "forms");
        }
    }

    private static long found(String table, String where) {
        return session.execute("SELECT * FROM ks." + table + " WHERE " + where).all().size();
    }

    /** The same values again and again: what is written while its entry is looked at stays. */
    @Test
    void whatIsWrittenWhileAnIndexIsSweptIsFound() throws Exception {
        create("rewritten");
        session.execute("CREATE INDEX rewritten_v ON ks.rewritten (v)" + kind.using);
        awaitQueryable("rewritten_v");
        insert("rewritten", 0, 500);
        PreparedStatement update =
                session.prepare("UPDATE ks.rewritten SET v = ? WHERE p = ? AND c = ?");
        AtomicBoolean stop = new AtomicBoolean();
        CompletableFuture<Void> writer =
                CompletableFuture.runAsync(
                        () -> {
                            for (int round = 0; !stop.get(); round++)
                                for (int i = 0; i < 500; i++) {
                                    session.execute(update.bind((i + round) % VALUES, i % 17, i));
                                    pause();
                                }
                        });
        try {
            for (int i = 0; i < 10; i++) node.nodetool("garbagecollect", "ks", "rewritten");
        } finally {
            stop.set(true);
        }
        writer.get();
        check("rewritten", "v", 0);
        node.nodetool("garbagecollect", "ks", "rewritten");
        check("rewritten", "v", 0);
    }

    /** Cassandra does not close what it read of such a partition, and the store stayed open. */
    @Test
    void aTableLeavesItsStoreAfterAQueryByAFormerValueOfAStaticColumn() throws Exception {
        assumeTrue(kind == IndexKind.LEGACY, "the other reads no stale entries");
        session.execute(
                "CREATE TABLE ks.stale (p int, c int, s int static, PRIMARY KEY (p, c)) WITH"
                        + " memtable = 'rocks'");
        session.execute("CREATE INDEX stale_s ON ks.stale (s)");
        awaitQueryable("stale_s");
        for (int s = 1; s <= 2; s++)
            session.execute("INSERT INTO ks.stale (p, c, s) VALUES (1, 1, " + s + ")");
        assertThat(session.execute("SELECT c FROM ks.stale WHERE s = 1").all()).isEmpty();
        assertThat(session.execute("SELECT c FROM ks.stale WHERE s = 2").all()).hasSize(1);
        Path stores = TableFiles.of(node, "ks", "stale").stores();
        session.execute("ALTER TABLE ks.stale WITH memtable = 'default'");
        TestNode.awaitMigrations(session, PATIENCE);
        assertThat(stores).doesNotExist();
        assertThat(session.execute("SELECT c FROM ks.stale WHERE s = 2").all()).hasSize(1);
    }

    /** The term is as long as Cassandra's hidden table takes it. */
    @Test
    void aValueThatIsTooLargeIsRefusedAndTheNextSmallerIsFound() throws Exception {
        assumeTrue(kind == IndexKind.LEGACY, "the other has limits of its own");
        session.execute(
                "CREATE TABLE ks.sized (p int PRIMARY KEY, v text) WITH memtable = 'rocks'");
        // Such a value, from before the index, is not found by it, and hinders no build.
        session.execute("INSERT INTO ks.sized (p, v) VALUES (1, ?)", "v".repeat(70_000));
        session.execute("CREATE INDEX sized_v ON ks.sized (v)");
        awaitQueryable("sized_v");
        assertThatThrownBy(
                        () ->
                                session.execute(
                                        "INSERT INTO ks.sized (p, v) VALUES (2, ?)",
                                        "v".repeat(65_535)))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("Cannot index value of size 65535");
        session.execute("INSERT INTO ks.sized (p, v) VALUES (3, ?)", "v".repeat(65_534));
        assertThat(session.execute("SELECT p FROM ks.sized WHERE v = ?", "v".repeat(65_534)).all())
                .singleElement()
                .satisfies(row -> assertThat(row.getInt(0)).isEqualTo(3));
        node.nodetool("rebuild_index", "ks", "sized", "sized_v");
        assertThat(session.execute("SELECT p FROM ks.sized WHERE v = ?", "v".repeat(65_534)).all())
                .hasSize(1);
    }

    private static List<Boolean> system(String index, String column) {
        return session.execute("SELECT * FROM system_views.sai_column_indexes").all().stream()
                .filter(row -> index.equals(row.getString("index_name")))
                .map(row -> row.getBoolean(column))
                .toList();
    }
}
