// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.engine.DirectoryTree;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code restore_point_in_time}, from before tables were migrated into an engine. */
@OneOf(variants = "a missing disk, a point of restore", of = 2, number = 1)
class RestorePointIT {
    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final DateTimeFormatter POINT =
            DateTimeFormatter.ofPattern("yyyy:MM:dd HH:mm:ss").withZone(ZoneOffset.UTC);

    /** One that stays in the engine, one that leaves it again, one that was truncated before. */
    private static final List<String> TABLES = List.of("stays", "leaves", "truncated");

    @TempDir Path directory;

    @Test
    void whatWasLoggedBeforeAMigrationIsReplayed() throws Exception {
        Path archiving = directory.resolve("conf/commitlog_archiving.properties");
        Files.createDirectories(archiving.getParent());
        Files.writeString(archiving, "archive_command=\n");
        try (TestNode node = TestNode.start(directory)) {
            Instant point;
            try (CqlSession session = node.plainSession()) {
                TestNode.createKeyspace(session, "ks", 1);
                for (String table : TABLES)
                    session.execute("CREATE TABLE ks." + table + " (p int PRIMARY KEY)");
                insert(session, 0);
                session.execute("TRUNCATE ks.truncated");
                insert(session, 1);
                // The properties have it in seconds here.
                TimeUnit.MILLISECONDS.sleep(1_100);
                point = Instant.now();
                TimeUnit.MILLISECONDS.sleep(1_100);
                insert(session, 2);
                for (String table : TABLES)
                    session.execute("ALTER TABLE ks." + table + " WITH memtable = 'rocks'");
                TestNode.awaitMigrations(session, PATIENCE);
                session.execute("ALTER TABLE ks.leaves WITH memtable = 'default'");
                TestNode.awaitMigrations(session, PATIENCE);
            }
            node.process().kill();
            // As when there is no snapshot, and the commit log has all.
            for (String table : TABLES) deleteData(TableFiles.of(node, "ks", table));
            Files.writeString(
                    archiving,
                    "archive_command=\nrestore_point_in_time=" + POINT.format(point) + "\n");
            node.restart();
            String log = node.process().log();
            try (CqlSession session = node.plainSession()) {
                for (String table : List.of("stays", "leaves")) {
                    assertThat(rows(session, table)).as(table).containsExactlyInAnyOrder(0, 1);
                    assertThat(log).contains("is before table ks." + table + " was migrated");
                }
                // What was truncated does not come back.
                assertThat(log).contains("between the last TRUNCATE of table ks.truncated");
                assertThat(rows(session, "truncated")).isEmpty();
            }
        }
    }

    private static void insert(CqlSession session, int p) {
        for (String table : TABLES)
            session.execute("INSERT INTO ks." + table + " (p) VALUES (" + p + ")");
    }

    private static List<Integer> rows(CqlSession session, String table) {
        return session.execute("SELECT p FROM ks." + table).all().stream()
                .map(row -> row.getInt(0))
                .toList();
    }

    private static void deleteData(TableFiles table) throws IOException {
        DirectoryTree.delete(table.stores());
        for (Path file : TableFiles.children(table.directory()))
            if (Files.isRegularFile(file)) Files.delete(file);
    }
}
