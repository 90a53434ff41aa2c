// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Copies that are not complete when a node of two disks is restarted, of tables in the format bti.
 * What they have to read yet is the tables' no more. Of one table it is whole.
 */
@OneOf(variants = "shadows that are not whole, and snapshots", of = 3, number = 2)
class ResumedCopyIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final List<String> TABLES = List.of("whole", "damaged", "incomplete");

    /** Of 10 KB each, in each of two flushes. */
    private static final int ROWS = 500;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    /** Of the node that is tried now. */
    private Path home;

    private List<Path> disks() {
        return Stream.of("data", "data2").map(home::resolve).toList();
    }

    private TestNode start() {
        Map<String, Object> shadow = ShadowTable.configuration("rocks", "shadow", "0");
        return TestNode.start(
                home,
                config ->
                        config.yaml(
                                Map.of(
                                        "data_file_directories",
                                        disks().stream().map(Path::toString).toList(),
                                        // Which bti needs.
                                        "storage_compatibility_mode",
                                        "NONE",
                                        "sstable",
                                        Map.of("selected_format", "bti"),
                                        // A kept file is no reason for it.
                                        "disk_failure_policy",
                                        "die",
                                        "memtable",
                                        Map.of("configurations", Map.of("rocks_shadow", shadow)))));
    }

    private List<Path> folders(String table) {
        return disks().stream()
                .map(disk -> new TableFiles(disk, "ks", table).directory())
                .map(each -> each.resolve("rocksdb_shadow"))
                .toList();
    }

    /** Rows in two SSTables on each disk, and deletions of some of the first in the second. */
    private static void fill(TestNode node, CqlSession session, String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (k int, c int, v text, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0");
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, c, v) VALUES (?, ?, ?)");
        String value = "v".repeat(10_000);
        for (int k = 0; k < ROWS; k++) session.execute(insert.bind(k, 1, value));
        node.nodetool("flush", "ks", table);
        for (int k = 0; k < 100; k++)
            session.execute("DELETE FROM ks." + table + " WHERE k = ?", k);
        // One is large enough to have an index of its rows.
        for (int i = 0; i < ROWS; i++)
            session.execute(i < 100 ? insert.bind(-1, i, value) : insert.bind(ROWS + i, 1, value));
        node.nodetool("flush", "ks", table);
    }

    /** The paths in CLOSED of what is to be copied, without the component. */
    private List<String> left(String table) throws IOException {
        for (Path folder : folders(table)) {
            if (!Files.exists(folder.resolve("CLOSED"))) continue;
            String closed = Files.readString(folder.resolve("CLOSED"));
            return Pattern.compile("(?m)^left=first [0-9]+ (.*)$")
                    .matcher(closed)
                    .results()
                    .map(line -> line.group(1))
                    .toList();
        }
        throw new AssertionError("no file CLOSED in " + folders(table));
    }

    /**
     * A node that was stopped while the copies of all tables were under way. Where compactions take
     * long a copy may be whole before that: then it is tried once more.
     */
    private TestNode stoppedMidway() throws Exception {
        for (int attempt = 1; ; attempt++) {
            home = directory.resolve("node" + attempt);
            TestNode node = start();
            copyAndStop(node);
            boolean isMidway = true;
            for (String table : TABLES) isMidway &= !left(table).isEmpty();
            if (isMidway || attempt == 4) return node;
            node.close();
        }
    }

    private void copyAndStop(TestNode node) throws Exception {
        try (CqlSession session = node.session()) {
            TestNode.createKeyspace(session, "ks", 1);
            for (String table : TABLES) fill(node, session, table);
            // All of it would take half a minute.
            node.nodetool("setcompactionthroughput", "1");
            for (String table : TABLES)
                session.execute("ALTER TABLE ks." + table + " WITH memtable = 'rocks_shadow'");
            // The first SSTable is copied, and the next one is begun.
            ShadowTable.await(
                    session,
                    "whole",
                    PATIENCE,
                    row -> row.getBoolean("caught_up") || isBetween(row.getLong("left_bytes")));
            assertThatThrownBy(
                            () -> session.execute("ALTER TABLE ks.whole WITH memtable = 'rocks'"))
                    .isInstanceOf(InvalidQueryException.class)
                    .hasMessageContaining("it does not have all of the table yet");
            // Purges the deletions with what they hide.
            for (String table : TABLES) node.nodetool("compact", "ks", table);
        }
        node.process().stop();
    }

    @Test
    void aCopyGoesOnOrIsMadeAnew() throws Exception {
        try (TestNode node = stoppedMidway()) {
            List<String> all = new ArrayList<>();
            for (String table : TABLES) {
                assertThat(left(table)).as(table).isNotEmpty();
                all.addAll(left(table));
            }
            assertThat(all).allMatch(path -> path.contains("/rocksdb_shadow/backups/"));
            for (Path disk : disks()) assertThat(all).anyMatch(path -> path.startsWith(disk + "/"));
            List<String> left = left("damaged");
            Path damaged = Path.of(left.get(left.size() - 1) + "-Data.db");
            byte[] content = Files.readAllBytes(damaged);
            content[content.length / 2] ^= 1;
            // Anew: the table's own file, which is deleted at the start, is the same one.
            Files.delete(damaged);
            Files.write(damaged, content);
            left = left("incomplete");
            Path missing = Path.of(left.get(left.size() - 1) + "-Partitions.db");
            Files.delete(missing);
            int whole = left("whole").size();

            node.restart();
            try (CqlSession session = node.session()) {
                assertThat(node.process().logSinceStart())
                        .contains("The shadow of ks.whole goes on; SSTables to copy: " + whole);
                String reason =
                        " has dropped out: an SSTable that it has to copy, and that was kept over"
                                + " the restart of the node, cannot be read: ";
                node.awaitLog("The shadow of ks.damaged" + reason + sstable(damaged), PATIENCE);
                node.awaitLog("The shadow of ks.incomplete" + reason + sstable(missing), PATIENCE);
                for (String table : TABLES) {
                    Row row =
                            ShadowTable.await(
                                    session,
                                    table,
                                    PATIENCE,
                                    each ->
                                            each.getBoolean("caught_up")
                                                    && each.getLong("copies")
                                                            == (table.equals("whole") ? 1 : 2));
                    assertThat(row.getLong("different")).isZero();
                    NodeTool.Result result = Commands.petra(node, "compare", "ks." + table);
                    assertThat(result.exitCode()).as(result.output()).isZero();
                    assertThat(session.execute("SELECT k FROM ks." + table).all())
                            .hasSize(2 * ROWS - 100);
                    for (Path folder : folders(table))
                        assertThat(TableFiles.children(folder.resolve("backups"))).isEmpty();
                }
            }
        }
    }

    private static boolean isBetween(long bytesLeft) {
        return bytesLeft > 0 && bytesLeft < 8 << 20;
    }

    private static String sstable(Path component) {
        String path = component.toString();
        return path.substring(0, path.lastIndexOf('-'));
    }
}
