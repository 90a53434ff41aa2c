// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.TruncateException;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.JoinedKill;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A shadow that becomes its table, and what may come between. The clean stop comes first, and a
 * crash that is the kill for another test as well, last.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class PromoteIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final int WRITERS = 3;
    private static final int KEYS = 200;

    /** Rows of the table whose shadow is damaged. */
    private static final int DAMAGED = 1_200;

    private static final String SHADOW = "rocks_shadow";
    private static final String FALLBACK = "rocks_fallback";

    private static final JoinedKill KILL = new JoinedKill();

    private static final List<String> STEPS =
            List.of(
                    "enter Takeover#prepare",
                    "leave TableGenerations#adopt",
                    "leave Takeover#prepare",
                    "enter Takeover#take",
                    "enter TableGenerations#makeAlive",
                    "leave TableGenerations#makeAlive",
                    "leave Takeover#take",
                    "leave Takeover#trySwitches",
                    "enter Promotion#tryStep",
                    "enter Promotion#complete",
                    "leave Promotion#complete",
                    "enter Promotion#giveUp",
                    "leave Promotion#giveUp",
                    "enter ShadowSource#end",
                    "leave ShadowSource#end",
                    "enter MigrateIn#finish");

    private static final List<String> POINTS =
            List.of(
                    OURS + "migration.Takeover#prepare",
                    OURS + "migration.Takeover#trySwitches",
                    OURS + "migration.Takeover#take",
                    OURS + "table.TableGenerations#adopt",
                    OURS + "table.TableGenerations#makeAlive",
                    OURS + "migration.Promotion#tryStep",
                    OURS + "migration.Promotion#complete",
                    OURS + "migration.Promotion#giveUp",
                    OURS + "migration.MigrateIn#finish",
                    OURS + "shadow.ShadowStore#doubled",
                    OURS + "shadow.ShadowCopy#looked",
                    OURS + "shadow.ShadowSource#end");

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static CrashPoints crashes;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() throws Exception {
        crashes = new CrashPoints(directory, POINTS);
        Map<String, Object> configurations =
                Map.of(SHADOW, mode("shadow"), FALLBACK, mode("fallback"));
        node =
                TestNode.start(
                        directory.resolve("node"),
                        config ->
                                crashes.in(
                                        config.yaml(
                                                Map.of(
                                                        "commitlog_sync",
                                                        "batch",
                                                        "commitlog_segment_size",
                                                        "1MiB",
                                                        "disk_failure_policy",
                                                        "stop_paranoid",
                                                        "memtable",
                                                        Map.of(
                                                                "configurations",
                                                                configurations)))));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    private static Map<String, Object> mode(String mode) {
        return ShadowTable.configuration("rocks", mode, "0");
    }

    @AfterEach
    void release() throws IOException {
        crashes.release();
    }

    @AfterAll
    static void stop() throws Exception {
        try {
            KILL.end(() -> node.process().kill(), PromoteIT::restart);
        } finally {
            if (session != null) session.close();
            if (node != null) node.close();
        }
    }

    private static void restart() {
        session.close();
        node.restart();
        session = node.plainSession();
    }

    private static void alter(String table, String memtable) {
        session.execute("ALTER TABLE ks." + table + " WITH memtable = '" + memtable + "'");
    }

    private static void awaitCaughtUp(String table) throws Exception {
        TestNode.await(
                "a shadow",
                PATIENCE,
                () -> {
                    Row row = ShadowTable.row(session, table);
                    return row != null
                            && row.getBoolean("caught_up")
                            && row.getLong("queued_writes") == 0;
                });
    }

    private static void shadow(String table) throws Exception {
        shadow(table, SHADOW);
    }

    private static void shadow(String table, String memtable) throws Exception {
        alter(table, memtable);
        awaitCaughtUp(table);
    }

    /** Until the shadow has answered: it leaves a read to the table where it is in doubt. */
    private static void awaitAnswered(String table, List<Writer> writers) throws Exception {
        TestNode.await(
                "an answer of the shadow",
                PATIENCE,
                () -> {
                    check(writers);
                    return ShadowTable.row(session, table).getLong("answered") > 0;
                });
    }

    private static void create(String table, String more) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (k int, c int, v text, PRIMARY KEY (k, c))"
                        + (more.isEmpty() ? "" : " WITH " + more));
    }

    /** A row in each partition, in an SSTable. */
    private static void fill(String table) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, c, v) VALUES (?, 1, ?)");
        for (int k = 0; k < KEYS; k++) session.execute(insert.bind(k, "v".repeat(100)));
        node.nodetool("flush", "ks", table);
    }

    private static Set<Integer> keys(String table) {
        return session.execute("SELECT k FROM ks." + table).all().stream()
                .map(row -> row.getInt(0))
                .collect(Collectors.toSet());
    }

    private static void awaitMigrated(String table) throws Exception {
        TestNode.awaitMigrations(session, PATIENCE);
        assertThat(sstables(table)).isEmpty();
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(ShadowTable.folder(node, table)));
        assertThat(ShadowTable.row(session, table)).isNull();
    }

    private static TableFiles files(String table) {
        return TableFiles.of(node, "ks", table);
    }

    private static List<Path> sstables(String table) {
        return TableFiles.children(files(table).directory()).stream()
                .filter(path -> path.toString().endsWith("-Data.db"))
                .toList();
    }

    private static void awaitPromoted(String table) throws Exception {
        awaitMigrated(table);
        node.awaitLog("The shadow of ks." + table + " is its store", PATIENCE);
    }

    private static void awaitRefused(String table, String reason) throws Exception {
        awaitMigrated(table);
        node.awaitLog(
                "The shadow of ks."
                        + table
                        + " does not become the table, whose SSTables are migrated: "
                        + reason,
                PATIENCE);
    }

    private static List<Writer> write(String table, int cycle) throws Exception {
        List<Writer> writers = new ArrayList<>();
        for (int w = 0; w < WRITERS; w++)
            writers.add(new Writer(session, "ks." + table, cycle, w).pausing(Duration.ofMillis(2)));
        writers.forEach(Thread::start);
        for (Writer writer : writers)
            assertThat(writer.started.await(2, TimeUnit.MINUTES)).isTrue();
        return writers;
    }

    private static List<Writer> fillByWriters(String table) throws Exception {
        session.execute(Writer.table("ks." + table));
        List<Writer> writers = write(table, 0);
        TimeUnit.MILLISECONDS.sleep(500);
        halt(writers);
        node.nodetool("flush", "ks", table);
        return writers;
    }

    private static void halt(List<Writer> writers) throws Exception {
        for (Writer writer : writers) {
            writer.assertIsWriting();
            writer.halt();
            writer.join();
            assertThat(writer.failure()).isNull();
        }
    }

    private static void check(List<Writer> writers) {
        for (Writer writer : writers) writer.check(session);
    }

    /** Whoever read one would fail. */
    private static void damage(String table) throws IOException {
        List<Path> all = sstables(table);
        assertThat(all).isNotEmpty();
        for (Path each : all)
            Files.write(each, new byte[(int) Files.size(each)], StandardOpenOption.WRITE);
    }

    @Test
    void itBecomesTheTableUnderWritesAndNoSSTableIsRead() throws Exception {
        List<Writer> before = fillByWriters("t");
        shadow("t");
        List<Writer> during = write("t", 1);
        damage("t");
        alter("t", "rocks");
        awaitPromoted("t");
        halt(during);
        check(before);
        check(during);
        KILL.then(
                "under writes",
                () -> {
                    check(before);
                    check(during);
                });
    }

    /** Which has left the former memtable for an SSTable. */
    @Test
    void aWriteThatWaitsForTheShadowIsWaitedFor() throws Exception {
        create("queued", "");
        fill("queued");
        shadow("queued");
        crashes.hold("enter", "ShadowStore#doubled");
        session.execute("INSERT INTO ks.queued (k, c, v) VALUES (-1, 1, 'v')");
        crashes.awaitHeld();
        alter("queued", "rocks");
        // Not on its way either, in which its shadow is not to be another's.
        for (String back : List.of(SHADOW, FALLBACK))
            assertThatThrownBy(() -> alter("queued", back))
                    .isInstanceOf(InvalidQueryException.class)
                    .hasMessageContaining(
                            "Shadow of table ks.queued: its data is in a storage engine");
        TimeUnit.SECONDS.sleep(5);
        assertThat(sstables("queued")).isNotEmpty();
        crashes.release();
        awaitPromoted("queued");
        assertThat(keys("queued")).hasSize(KEYS + 1).contains(-1);
    }

    /** The memtable of a table that is promoted: what answered its reads until then. */
    static List<String> promotedFrom() {
        return Drawn.of("PromoteIT, killed", List.of(SHADOW, FALLBACK));
    }

    /** One table each, so that what is killed later does not hide what was lost before. */
    @ParameterizedTest
    @MethodSource("promotedFrom")
    void aKillAtEachStepLosesNothing(String memtable) throws Exception {
        List<List<Writer>> all = new ArrayList<>();
        int number = 0;
        for (String point : CrashPoints.sample(STEPS)) {
            String table = "killed_" + memtable + number++;
            List<Writer> before = fillByWriters(table);
            all.add(before);
            shadow(table, memtable);
            if (memtable.equals(FALLBACK)) awaitAnswered(table, before);
            List<Writer> during = write(table, 1);
            all.add(during);
            String[] parts = point.split(" ", -1);
            crashes.arm(parts[0], parts[1]);
            try {
                alter(table, "rocks");
            } catch (DriverException e) {
                // The node ended before it answered.
                assertThat(point).isNotEmpty();
            }
            crashes.awaitCrash(node);
            restart();
            awaitMigrated(table);
            for (List<Writer> writers : all) check(writers);
        }
    }

    /** Before the table's memtable is switched, or after it. */
    static List<String> whileItHides() {
        return Drawn.of(
                "PromoteIT, hidden",
                List.of("enter Takeover#trySwitches", "enter Promotion#giveUp"));
    }

    @ParameterizedTest
    @MethodSource("whileItHides")
    void whatADeletionPastItsGraceHidesStaysHidden(String point) throws Exception {
        String table = name("hidden", point);
        createUnpurged(table);
        hold(point, table);
        writeOld(table);
        assertThat(rows(table)).containsExactly(1);
        crashes.release();
        awaitMigrated(table);
        assertThat(rows(table)).containsExactly(1);
        assertThat(keys(table)).hasSize(KEYS);
    }

    /** It was acknowledged before, and is shown, though the shadow was not told of it yet. */
    @Test
    void whatIsNotLookedAtYetIsWaitedFor() throws Exception {
        createPurged("unseen");
        crashes.hold("enter", "ShadowCopy#looked");
        writeOld("unseen");
        crashes.awaitHeld();
        alter("unseen", "rocks");
        TimeUnit.SECONDS.sleep(3);
        assertThat(sstables("unseen")).isNotEmpty();
        crashes.release();
        awaitRefused("unseen", "something that was written (timestamp 15)");
        assertThat(rows("unseen")).containsExactly(1, 2);
    }

    /** It was to be kept for longer since. */
    @Test
    void aDeletionThatMayHaveBeenPurgedAndWasNotIsKept() throws Exception {
        createUnpurged("longer");
        session.execute("ALTER TABLE ks.longer WITH gc_grace_seconds = 1000");
        alter("longer", "rocks");
        awaitPromoted("longer");
        node.nodetool("compact", "ks", "longer");
        writeOld("longer");
        assertThat(rows("longer")).containsExactly(1);
    }

    /** An error while what is made becomes the table's: it is made once more, of the SSTables. */
    @Test
    void aStoreThatCannotBecomeTheTablesIsNot() throws Exception {
        List<Writer> before = fillByWriters("failed");
        shadow("failed");
        crashes.fail("leave", "TableGenerations#makeAlive");
        alter("failed", "rocks");
        awaitRefused("failed", "its store could not be made the table's");
        check(before);
        List<Writer> after = write("failed", 1);
        halt(after);
        check(after);
    }

    /**
     * The segment with a row is still there, for another table's sake, and that with the row's
     * deletion is not. No SSTable says any more that the row is not to be replayed.
     */
    @Test
    @Order(Integer.MAX_VALUE)
    void whatTheCommitLogHasOfADeletedRowIsNotReplayed() throws Exception {
        session.execute("CREATE TABLE ks.unflushed (k int PRIMARY KEY)");
        create("replayed", "gc_grace_seconds = 0");
        session.execute("INSERT INTO ks.unflushed (k) VALUES (1)");
        session.execute("INSERT INTO ks.replayed (k, c, v) VALUES (1, 2, 'deleted')");
        fillSegments("replayed", 100);
        session.execute("DELETE FROM ks.replayed WHERE k = 1 AND c = 2");
        fillSegments("replayed", 200);
        fill("replayed");
        TimeUnit.SECONDS.sleep(2);
        shadow("replayed");
        crashes.arm("enter", "MigrateIn#finish");
        alter("replayed", "rocks");
        crashes.awaitCrash(node);
        restart();
        awaitMigrated("replayed");
        assertThat(rows("replayed")).containsExactly(1);
        // That segment was replayed.
        assertThat(session.execute("SELECT k FROM ks.unflushed").all()).hasSize(1);
        KILL.restarted();
    }

    private static void fillSegments(String table, int from) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, c, v) VALUES (?, 1, ?)");
        for (int k = from; k < from + 30; k++) session.execute(insert.bind(k, "v".repeat(100_000)));
    }

    private static String name(String prefix, String point) {
        return prefix + point.replaceAll("[ #]", "").toLowerCase(Locale.ROOT);
    }

    private static List<Integer> rows(String table) {
        return session.execute("SELECT c FROM ks." + table + " WHERE k = 1").all().stream()
                .map(row -> row.getInt(0))
                .toList();
    }

    /** Alters the table, and waits until its promotion is there. */
    private static void hold(String point, String table) throws Exception {
        String[] parts = point.split(" ", -1);
        crashes.hold(parts[0], parts[1]);
        alter(table, "rocks");
        crashes.awaitHeld();
    }

    /** A table with a deletion that it has not purged yet, though it may. */
    private static void createUnpurged(String table) throws Exception {
        create(
                table,
                "gc_grace_seconds = 0 AND compaction = {'class': 'SizeTieredCompactionStrategy',"
                        + " 'enabled': false}");
        session.execute("DELETE FROM ks." + table + " USING TIMESTAMP 20 WHERE k = 1");
        fill(table);
        TimeUnit.SECONDS.sleep(2);
        shadow(table);
    }

    /** Of every kind of deletion, from an SSTable of its own. */
    @Test
    void whatADeletionHidesInTheShadowGoesWithItLater() throws Exception {
        create(
                "both",
                "gc_grace_seconds = 0 AND compaction = {'class': 'SizeTieredCompactionStrategy',"
                        + " 'enabled': false}");
        for (int k = 1; k <= 5; k++)
            for (int c = 2; c <= 4; c++)
                session.execute(
                        "UPDATE ks.both USING TIMESTAMP 15 SET v = 'old' WHERE k = "
                                + k
                                + " AND c = "
                                + c);
        node.nodetool("flush", "ks", "both");
        session.execute("DELETE FROM ks.both USING TIMESTAMP 20 WHERE k = 1");
        session.execute("DELETE FROM ks.both USING TIMESTAMP 20 WHERE k = 2 AND c > 1 AND c < 9");
        for (int c = 2; c <= 4; c++) {
            String row = " AND c = " + c;
            session.execute("DELETE FROM ks.both USING TIMESTAMP 20 WHERE k = 3" + row);
            session.execute("DELETE v FROM ks.both USING TIMESTAMP 20 WHERE k = 4" + row);
            session.execute(
                    "UPDATE ks.both USING TIMESTAMP 20 AND TTL 1 SET v = 'new' WHERE k = 5" + row);
        }
        fill("both");
        TimeUnit.SECONDS.sleep(3);
        shadow("both");
        alter("both", "rocks");
        awaitPromoted("both");
        assertThat(session.execute("SELECT k, c FROM ks.both").all())
                .hasSize(KEYS)
                .allMatch(row -> row.getInt("c") == 1);
        // The deletions go by a compaction, as those of any table in the engine.
        node.nodetool("compact", "ks", "both");
        session.execute(
                "UPDATE ks.both USING TIMESTAMP 16 SET v = 'late' WHERE k IN (1, 2, 3, 4, 5) AND"
                        + " c = 2");
        assertThat(session.execute("SELECT k, c FROM ks.both").all()).hasSize(KEYS + 5);
    }

    private static void createPurged(String table) throws Exception {
        create(table, "gc_grace_seconds = 0");
        shadow(table);
        session.execute("DELETE FROM ks." + table + " USING TIMESTAMP 20 WHERE k = 1");
        fill(table);
        // The deletion may be purged from the next second on.
        TimeUnit.SECONDS.sleep(2);
        node.nodetool("compact", "ks", table);
        awaitCaughtUp(table);
    }

    private static void writeOld(String table) {
        session.execute(
                "INSERT INTO ks." + table + " (k, c, v) VALUES (1, 2, 'x') USING TIMESTAMP 15");
    }

    /** The shadow has the deletion until it may purge as any table in the engine. */
    @Test
    void whatTheTableHasPurgedIsPurgedInTheEngineToo() throws Exception {
        createPurged("purged");
        alter("purged", "rocks");
        awaitPromoted("purged");
        node.nodetool("compact", "ks", "purged");
        writeOld("purged");
        assertThat(rows("purged")).containsExactly(1, 2);
    }

    static List<String> whileItIsPurged() {
        return Drawn.of(
                "PromoteIT, purged",
                List.of("enter Takeover#prepare", "enter Takeover#trySwitches"));
    }

    @ParameterizedTest
    @MethodSource("whileItIsPurged")
    void whatTheTableHasPurgedHidesNothingThatIsWrittenMeanwhile(String point) throws Exception {
        String table = name("late", point);
        createPurged(table);
        hold(point, table);
        writeOld(table);
        assertThat(rows(table)).containsExactly(1, 2);
        crashes.release();
        awaitRefused(table, "something that was written (timestamp 15)");
        assertThat(rows(table)).containsExactly(1, 2);
        assertThat(keys(table)).hasSize(KEYS);
    }

    /** It is never shown: as in a replica that has not purged the deletion yet. */
    @Test
    void whatIsWrittenLateAfterTheSwitchIsHiddenFromThenOn() throws Exception {
        createPurged("after");
        hold("enter Promotion#giveUp", "after");
        writeOld("after");
        assertThat(rows("after")).containsExactly(1);
        crashes.release();
        awaitPromoted("after");
        assertThat(rows("after")).containsExactly(1);
        assertThat(keys("after")).hasSize(KEYS);
    }

    @Test
    void aLateWriteBeforeItHasTheSSTablesMigrated() throws Exception {
        createPurged("early");
        writeOld("early");
        TestNode.await(
                "it is told",
                PATIENCE,
                () -> !ShadowTable.row(session, "early").isNull("late_write"));
        alter("early", "rocks");
        awaitRefused("early", "something that was written (timestamp 15)");
        assertThat(rows("early")).containsExactly(1, 2);
    }

    /** Another replica may lack them, until a repair. */
    @Test
    void deletionsThatTheTableIsToKeepAreKept() throws Exception {
        create(
                "kept",
                "gc_grace_seconds = 0 AND compaction = {'class': 'SizeTieredCompactionStrategy',"
                        + " 'only_purge_repaired_tombstones': true}");
        session.execute("DELETE FROM ks.kept USING TIMESTAMP 20 WHERE k = 1");
        fill("kept");
        TimeUnit.SECONDS.sleep(2);
        shadow("kept");
        alter("kept", "rocks");
        awaitPromoted("kept");
        node.nodetool("compact", "ks", "kept");
        writeOld("kept");
        assertThat(rows("kept")).containsExactly(1);
    }

    /** It is none of those that the shadow had. */
    @Test
    @OneOf(variants = "PromoteIT, statements meanwhile", of = 2, number = 2)
    void anSSTableThatComesMeanwhileIsMigrated() throws Exception {
        create("source", "");
        writeOld("source");
        session.execute("INSERT INTO ks.source (k, c, v) VALUES (5, 777, 'imported')");
        createUnpurged("target");
        hold("enter Promotion#giveUp", "target");
        node.load("ks", "source", "target", directory.resolve("load"));
        assertThat(rows("target")).containsExactly(1);
        crashes.release();
        awaitPromoted("target");
        assertThat(session.execute("SELECT v FROM ks.target WHERE k = 5 AND c = 777").one())
                .isNotNull();
        assertThat(rows("target")).containsExactly(1);
        assertThat(keys("target")).hasSize(KEYS);
    }

    /** Two tables, and one whose shadow is damaged while the node is down for all three. */
    @Test
    @Order(1)
    @OneOf(variants = "PromoteIT, statements meanwhile", of = 2, number = 1)
    void statementsMeanwhileAndADamagedShadow() throws Exception {
        List<String> altered = new ArrayList<>();
        for (String point : List.of("enter Promotion#complete", "enter Promotion#giveUp")) {
            altered.add(name("altered", point));
            alterMeanwhile(altered.get(altered.size() - 1), point);
        }
        fillToBeDamaged();
        session.close();
        node.process().stop();
        for (String table : altered) files(table).restore("during");
        damageShadow();
        node.restart();
        session = node.plainSession();
        // As of its moment, but for what was dropped since.
        for (String table : altered) assertThat(keys(table)).as(table).hasSize(KEYS);
        TestNode.awaitMigrations(session, PATIENCE);
        for (String table : altered) {
            assertThat(keys(table)).as(table).hasSize(KEYS);
            assertThat(values(table, "w")).as(table).isEmpty();
            assertThat(values(table, "v")).as(table).isEmpty();
        }
        damagedShadowIsRefused();
    }

    private static void alterMeanwhile(String table, String point) throws Exception {
        create(table, "");
        fill(table);
        shadow(table);
        hold(point, table);
        assertThatThrownBy(() -> session.execute("TRUNCATE ks." + table))
                .as(table)
                .isInstanceOf(TruncateException.class);
        node.awaitLog("TRUNCATE of ks." + table + " cannot be done while", PATIENCE);
        node.nodetool("snapshot", "-t", "during", "-cf", table, "ks");
        session.execute("INSERT INTO ks." + table + " (k, c, v) VALUES (-1, 1, 'in the engine')");
        session.execute("ALTER TABLE ks." + table + " ADD w text");
        // In partitions of before, and in new ones.
        for (int k = -1; k < KEYS; k += 10)
            session.execute("UPDATE ks." + table + " SET w = 'w' WHERE k = " + k + " AND c = 1");
        assertThat(values(table, "w")).as(table).hasSize(KEYS / 10 + 1);
        assertThat(values(table, "v")).as(table).hasSize(KEYS + 1);
        session.execute("ALTER TABLE ks." + table + " DROP v");
        session.execute("ALTER TABLE ks." + table + " ADD v text");
        assertThat(values(table, "v")).as(table).isEmpty();
        alter(table, "default");
        session.execute("INSERT INTO ks." + table + " (k, c, v) VALUES (-2, 1, 'out of it')");
        assertAltered(table);
        crashes.release();
        TestNode.awaitMigrations(session, PATIENCE);
        assertAltered(table);
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(ShadowTable.folder(node, table)));
        // And in again, without a shadow.
        alter(table, "rocks");
        TestNode.awaitMigrations(session, PATIENCE);
        assertAltered(table);
    }

    /** The values of a column, by key. */
    private static Map<Integer, String> values(String table, String column) {
        return session.execute("SELECT k, " + column + " AS value FROM ks." + table).all().stream()
                .filter(row -> !row.isNull("value"))
                .collect(Collectors.toMap(row -> row.getInt("k"), row -> row.getString("value")));
    }

    /** The added column is as written, and of the dropped one there is what came later. */
    private static void assertAltered(String table) {
        assertThat(keys(table)).as(table).hasSize(KEYS + 2);
        assertThat(values(table, "w"))
                .as(table)
                .hasSize(KEYS / 10 + 1)
                .containsKeys(-1, 9, KEYS - 1);
        assertThat(values(table, "v")).as(table).containsOnly(Map.entry(-2, "out of it"));
    }

    /** Else each of its files would hold all windows. */
    @Test
    void aTableWithTimeWindowsIsMigratedFromItsSSTables() throws Exception {
        create("windows", "compaction = {'class': 'TimeWindowCompactionStrategy'}");
        fill("windows");
        shadow("windows");
        alter("windows", "rocks");
        awaitRefused("windows", "the table has time windows");
        assertThat(keys("windows")).hasSize(KEYS);
    }

    /** More than the engine holds in memory. */
    private static void fillToBeDamaged() throws Exception {
        create("damaged", "");
        PreparedStatement insert =
                session.prepare("INSERT INTO ks.damaged (k, c, v) VALUES (?, 1, ?)");
        Random random = new Random(1);
        for (int k = 0; k < DAMAGED; k++) session.execute(insert.bind(k, text(random, 50_000)));
        shadow("damaged");
    }

    private static void damageShadow() throws IOException {
        int damaged = 0;
        for (Path copy : TableFiles.children(ShadowTable.folder(node, "damaged")))
            if (Files.isDirectory(copy))
                for (Path file : TableFiles.children(copy))
                    if (file.toString().endsWith(".blob")) {
                        // But for the ends, which are read to open it.
                        long size = Files.size(file);
                        try (FileChannel data = FileChannel.open(file, StandardOpenOption.WRITE)) {
                            for (long at = 1_000; at < size - 100_000; at += 20_000)
                                damaged += data.write(ByteBuffer.allocate(100), at);
                        }
                    }
        assertThat(damaged).isPositive();
    }

    /** The table is whole: its clients do not notice, and the node goes on. */
    private static void damagedShadowIsRefused() throws Exception {
        awaitCaughtUp("damaged");
        alter("damaged", "rocks");
        awaitRefused("damaged", "");
        assertThat(keys("damaged")).hasSize(DAMAGED);
    }

    /** Which cannot be compressed by much. */
    private static String text(Random random, int length) {
        char[] text = new char[length];
        for (int i = 0; i < length; i++) text[i] = (char) ('a' + random.nextInt(64));
        return new String(text);
    }

    static List<String> whileItIsDropped() {
        return Drawn.of(
                "PromoteIT, dropped",
                List.of("enter Takeover#trySwitches", "enter Promotion#giveUp"));
    }

    @ParameterizedTest
    @MethodSource("whileItIsDropped")
    @Order(2)
    @OneOf(variants = "PromoteIT, statements meanwhile", of = 2, number = 2)
    void aTableThatIsDroppedMeanwhile(String point) throws Exception {
        String table = name("dropped", point);
        create(table, "");
        fill(table);
        shadow(table);
        hold(point, table);
        Path place = files(table).directory();
        CompletableFuture<?> drop =
                session.executeAsync("DROP TABLE ks." + table).toCompletableFuture();
        TimeUnit.MILLISECONDS.sleep(500);
        crashes.release();
        drop.get(2, TimeUnit.MINUTES);
        TestNode.awaitMigrations(session, PATIENCE);
        TestNode.await(
                "nothing is left",
                PATIENCE,
                () ->
                        !Files.exists(place.resolve("rocksdb"))
                                && !Files.exists(place.resolve("rocksdb_shadow")));
    }

    /** With what was written before, which is in it once. */
    @Test
    void countersAddUp() throws Exception {
        session.execute("CREATE TABLE ks.counted (k int, c int, n counter, PRIMARY KEY (k, c))");
        PreparedStatement add =
                session.prepare("UPDATE ks.counted SET n = n + 1 WHERE k = ? AND c = 1");
        for (int k = 0; k < KEYS; k++) session.execute(add.bind(k));
        node.nodetool("flush", "ks", "counted");
        shadow("counted");
        AtomicBoolean over = new AtomicBoolean();
        AtomicLong added = new AtomicLong(KEYS);
        CompletableFuture<Void> writer =
                CompletableFuture.runAsync(
                        () -> {
                            for (int k = 0; !over.get(); k++) {
                                session.execute(add.bind(k % KEYS));
                                added.incrementAndGet();
                                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
                            }
                        });
        alter("counted", "rocks");
        awaitPromoted("counted");
        over.set(true);
        writer.get(60, TimeUnit.SECONDS);
        long sum =
                session.execute("SELECT n FROM ks.counted").all().stream()
                        .mapToLong(row -> row.getLong(0))
                        .sum();
        assertThat(sum).isEqualTo(added.get());
    }

    /** A shadow has no entries. */
    @Test
    void aTableWithAnIndexIsMigratedFromItsSSTables() throws Exception {
        create("indexed", "");
        fill("indexed");
        session.execute("CREATE INDEX by_c ON ks.indexed (c) USING 'sai'");
        TestNode.awaitQueryable(session, "by_c", PATIENCE);
        shadow("indexed");
        session.execute("INSERT INTO ks.indexed (k, c, v) VALUES (-1, 1, 'before')");
        alter("indexed", "rocks");
        session.execute("INSERT INTO ks.indexed (k, c, v) VALUES (-2, 1, 'after')");
        awaitRefused("indexed", "the table has indexes");
        TestNode.awaitQueryable(session, "by_c", PATIENCE);
        assertThat(session.execute("SELECT k FROM ks.indexed WHERE c = 1").all()).hasSize(KEYS + 2);
    }

    /** It is done, and the table goes in afterwards. */
    @Test
    @OneOf(variants = "PromoteIT, statements meanwhile", of = 2, number = 2)
    void aTableThatIsTruncatedMeanwhile() throws Exception {
        create("truncated", "");
        fill("truncated");
        shadow("truncated");
        hold("enter Takeover#trySwitches", "truncated");
        session.execute("TRUNCATE ks.truncated");
        session.execute("INSERT INTO ks.truncated (k, c, v) VALUES (-1, 1, 'after')");
        crashes.release();
        awaitMigrated("truncated");
        TestNode.await(
                "it is in the engine",
                PATIENCE,
                () -> Files.exists(files("truncated").directory().resolve("rocksdb/LIVE")));
        assertThat(keys("truncated")).containsExactly(-1);
    }

    /** What goes to the former memtable comes to the store without entries. */
    @Test
    void anIndexThatComesMeanwhileHasAllRows() throws Exception {
        create("later", "");
        fill("later");
        shadow("later");
        crashes.hold("enter", "ShadowStore#doubled");
        session.execute("INSERT INTO ks.later (k, c, v) VALUES (-1, 1, 'waits')");
        crashes.awaitHeld();
        crashes.holdAlso("enter", "Promotion#tryStep");
        alter("later", "rocks");
        crashes.releaseAt("enter", "ShadowStore#doubled");
        crashes.awaitHeld();
        session.execute("CREATE INDEX later_c ON ks.later (c) USING 'sai'");
        TestNode.awaitQueryable(session, "later_c", PATIENCE);
        crashes.release();
        awaitMigrated("later");
        node.awaitLog(
                "The SSTables of ks.later are migrated, although its shadow has become its store:"
                        + " the table got an index",
                PATIENCE);
        assertThat(session.execute("SELECT k FROM ks.later WHERE c = 1").all()).hasSize(KEYS + 1);
    }

    /** What was made of its shadow goes, and the next shadow becomes the table. */
    @Test
    @OneOf(variants = "PromoteIT, statements meanwhile", of = 2, number = 2)
    void aTableThatIsAlteredBackMeanwhile() throws Exception {
        List<Writer> before = fillByWriters("back");
        shadow("back");
        hold("enter Takeover#trySwitches", "back");
        List<Writer> during = write("back", 1);
        alter("back", "default");
        crashes.release();
        shadow("back");
        halt(during);
        check(before);
        check(during);
        TestNode.await(
                "nothing is left",
                PATIENCE,
                () -> !Files.exists(files("back").directory().resolve("rocksdb")));
        damage("back");
        alter("back", "rocks");
        awaitPromoted("back");
        check(before);
        check(during);
    }
}
