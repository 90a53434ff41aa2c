// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.servererrors.ReadFailureException;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A table's own options, set through CQL, as they show on disk and to whoever sets them. */
class OptionsIT {
    private static final int ROWS = 2_000;

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() throws IOException {
        // What is not written anew.
        Files.createDirectories(directory.resolve("conf"));
        Files.writeString(
                directory.resolve("conf/commitlog_archiving.properties"),
                "archive_command=/bin/true %path %name\n");
        node =
                TestNode.start(
                        directory,
                        config -> config.yaml(Map.of("tombstone_failure_threshold", 500)));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    private static void create(String table, String options) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (k int PRIMARY KEY, v text) WITH memtable = 'rocks' AND "
                        + options);
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, v) VALUES (?, ?)");
        Random random = new Random(1);
        for (int i = 0; i < ROWS; i++) {
            StringBuilder text = new StringBuilder();
            while (text.length() < 1_000) text.append(random.nextInt(40)).append(' ');
            session.execute(insert.bind(i, text.toString()));
        }
        node.nodetool("flush", "ks", table);
    }

    @Test
    void compressionAppliesToNewFilesAndUpgradesstablesRewritesTheOld() throws IOException {
        create("c", "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}");
        long small = TableFiles.of(node, "ks", "c").dataBytes();
        assertThat(small).isLessThan(ROWS * 1_000L / 2);
        session.execute("ALTER TABLE ks.c WITH compression = {'enabled': 'false'}");
        node.nodetool("upgradesstables", "ks", "c");
        assertThat(TableFiles.of(node, "ks", "c").dataBytes()).isEqualTo(small);
        node.nodetool("upgradesstables", "-a", "ks", "c");
        assertThat(TableFiles.of(node, "ks", "c").dataBytes()).isGreaterThan(ROWS * 1_000L);
        session.execute("ALTER TABLE ks.c WITH compression = {'class': 'DeflateCompressor'}");
        node.nodetool("recompress_sstables", "ks", "c");
        assertThat(TableFiles.of(node, "ks", "c").dataBytes()).isLessThan(ROWS * 1_000L / 2);
        assertThat(session.execute("SELECT count(*) FROM ks.c").one().getLong(0)).isEqualTo(ROWS);
    }

    @Test
    void theFormatsOfAllCompressorsAreReadAfterARestart() {
        List<String> compressors = List.of("LZ4", "Zstd", "Snappy", "Deflate", "Noop");
        for (String name : compressors)
            create(
                    "r_" + name.toLowerCase(Locale.ROOT),
                    "compression = {'class': '" + name + "Compressor'}");
        session.close();
        node.process().kill();
        node.restart();
        session = node.plainSession();
        for (String name : compressors)
            assertThat(session.execute("SELECT count(*) FROM ks.r_" + name).one().getLong(0))
                    .isEqualTo(ROWS);
    }

    @Test
    void whatTheEngineDoesNotHonourIsSaidToWhoSetsIt() {
        assertThat(
                        session.execute(
                                        "CREATE TABLE ks.w (k int PRIMARY KEY) WITH memtable ="
                                                + " 'rocks' AND compaction = {'class':"
                                                + " 'TimeWindowCompactionStrategy',"
                                                + " 'tombstone_threshold': 0.5}")
                                .getExecutionInfo()
                                .getWarnings())
                .anyMatch(warning -> warning.contains("[tombstone_threshold] is ignored"));
        assertThat(
                        session.execute(
                                        "ALTER TABLE ks.w WITH compaction = {'class':"
                                                + " 'UnifiedCompactionStrategy',"
                                                + " 'scaling_parameters': 'L8, T4'}")
                                .getExecutionInfo()
                                .getWarnings())
                .isEmpty();
        assertThat(
                        session.execute("ALTER TABLE ks.w WITH crc_check_chance = 0.5")
                                .getExecutionInfo()
                                .getWarnings())
                .singleElement()
                .asString()
                .contains("ks.w", "rocks", "crc_check_chance is ignored");
        assertThat(
                        session.execute("ALTER TABLE ks.w WITH comment = 'x'")
                                .getExecutionInfo()
                                .getWarnings())
                .isEmpty();
    }

    @Test
    void whatHasExpiredInATimeWindowGoesByItself() throws Exception {
        session.execute(
                "CREATE TABLE ks.w2 (k int PRIMARY KEY, v text) WITH memtable = 'rocks' AND"
                        + " gc_grace_seconds = 0 AND compaction = {'class':"
                        + " 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES',"
                        + " 'compaction_window_size': 1,"
                        + " 'expired_sstable_check_frequency_seconds': 1}");
        for (int i = 0; i < ROWS; i++)
            session.execute(
                    "INSERT INTO ks.w2 (k, v) VALUES ("
                            + i
                            + ", 'v') USING TTL 1 AND TIMESTAMP "
                            + i);
        node.nodetool("flush", "ks", "w2");
        session.execute("INSERT INTO ks.w2 (k, v) VALUES (1, 'stays')");
        node.nodetool("flush", "ks", "w2");
        TestNode.await("the expired file goes", Duration.ofMinutes(1), () -> files("w2") == 1);
        assertThat(session.execute("SELECT v FROM ks.w2").all())
                .singleElement()
                .satisfies(row -> assertThat(row.getString(0)).isEqualTo("stays"));
        assertThat(node.process().logSinceStart()).contains("Dropped 1 files of ks.w2");
    }

    /** The store does not know what was repaired, so it purges nothing. */
    @Test
    void whereOnlyRepairedTombstonesMayGoNoneDoes() throws Exception {
        session.execute(
                "CREATE TABLE ks.r (k int PRIMARY KEY, v text) WITH memtable = 'rocks' AND"
                        + " gc_grace_seconds = 0 AND compaction = {'class':"
                        + " 'UnifiedCompactionStrategy', 'only_purge_repaired_tombstones': true}");
        for (int i = 0; i < 10; i++) {
            session.execute("INSERT INTO ks.r (k, v) VALUES (" + i + ", 'v')");
            session.execute("DELETE FROM ks.r WHERE k = " + i);
        }
        TimeUnit.MILLISECONDS.sleep(1100);
        node.nodetool("compact", "ks", "r");
        assertThat(purged("r")).isZero();
        session.execute(
                "ALTER TABLE ks.r WITH compaction = {'class': 'UnifiedCompactionStrategy'}");
        node.nodetool("compact", "ks", "r");
        assertThat(purged("r")).isPositive();
    }

    private static long purged(String table) {
        return session.execute(
                        "SELECT purged FROM petra.tables WHERE keyspace_name = 'ks' AND"
                                + " table_name = '"
                                + table
                                + "'")
                .one()
                .getLong(0);
    }

    private static long files(String table) {
        return session.execute(
                        "SELECT value FROM petra.metrics WHERE keyspace_name = 'ks' AND"
                                + " table_name = '"
                                + table
                                + "' AND metric = 'level_0_files'")
                .one()
                .getLong(0);
    }

    @Test
    void incrementalBackupsAreSaidToLeaveItOut() {
        assertThat(node.tryNodetool("enablebackup").exitCode()).isZero();
        try {
            assertThat(
                            session.execute(
                                            "CREATE TABLE ks.backup (p int PRIMARY KEY)"
                                                    + " WITH memtable = 'rocks'")
                                    .getExecutionInfo()
                                    .getWarnings())
                    .anyMatch(warning -> warning.contains("incremental_backups does not include"));
            assertThat(
                            session.execute("ALTER TABLE ks.backup WITH comment = 'x'")
                                    .getExecutionInfo()
                                    .getWarnings())
                    .isEmpty();
        } finally {
            assertThat(node.tryNodetool("disablebackup").exitCode()).isZero();
        }
    }

    @Test
    void archivedCommitLogsAreSaidToLeaveItOut() throws Exception {
        assertThat(
                        session.execute(
                                        "CREATE TABLE ks.archived (p int PRIMARY KEY)"
                                                + " WITH memtable = 'rocks'")
                                .getExecutionInfo()
                                .getWarnings())
                .anyMatch(warning -> warning.contains("commitlog_archiving.properties"));
        session.close();
        node.process().kill();
        node.restart();
        session = node.plainSession();
        assertThat(node.process().log())
                .contains("restores do not include the tables in storage engines");
    }

    @Test
    void tombstonesThatAReadMeetsAreLimited() {
        session.execute(
                "CREATE TABLE ks.deleted (p int, c int, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
        PreparedStatement delete = session.prepare("DELETE FROM ks.deleted WHERE p = 1 AND c = ?");
        for (int c = 0; c < 500; c++) session.execute(delete.bind(c));
        assertThat(session.execute("SELECT * FROM ks.deleted WHERE p = 1").all()).isEmpty();
        session.execute(delete.bind(500));
        assertThatThrownBy(() -> session.execute("SELECT * FROM ks.deleted WHERE p = 1"))
                .isInstanceOf(ReadFailureException.class);
    }
}
