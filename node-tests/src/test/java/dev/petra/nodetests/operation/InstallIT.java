// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.launcher.FreePorts;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.UnpackedCassandra;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.SortedMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * {@code petra install} and {@code petra uninstall} on a Cassandra laid out as its tarball, whose
 * start script takes its options and its class path from the files that they change.
 */
@OneOf(variants = "what operators set up: installation, TLS", of = 2, number = 1)
class InstallIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);

    @TempDir private Path directory;
    private UnpackedCassandra node;

    @BeforeEach
    void unpack() throws IOException {
        int storagePort = FreePorts.next();
        node = new UnpackedCassandra(directory, storagePort, storagePort);
    }

    @AfterEach
    void endNode() {
        node.close();
    }

    @Test
    void aNodeGetsPetraAndLosesItAgain() throws Exception {
        SortedMap<String, String> stock = node.files();

        assertThat(node.petra(1, "install"))
                .contains("# BEGIN petra", "there is no terminal to ask on");
        assertThat(node.petra(0, "install", "--dry-run"))
                .contains(
                        "+    rocks:", "+-javaagent:" + node.home().resolve("lib/petra-cassandra"));
        assertThat(node.files()).isEqualTo(stock);
        assertThat(node.petra(0, "install", "--yes", "--memory", "128MiB"))
                .contains("+        memory: 128MiB", "Petra is installed. Restart the node");
        assertThat(node.petra(0, "install", "--yes")).contains("nothing to do");

        node.start();
        assertThat(node.log()).contains("woven by the agent; memtable configurations [rocks]");
        node.cqlAlone(
                "CREATE KEYSPACE ks WITH replication ="
                        + " {'class': 'SimpleStrategy', 'replication_factor': 1};"
                        + " CREATE TABLE ks.own (k int PRIMARY KEY, v text)"
                        + " WITH memtable = 'rocks';"
                        + " CREATE TABLE ks.moved (k int PRIMARY KEY, v text)"
                        + " WITH memtable = 'rocks';"
                        + " CREATE TABLE ks.stock (k int PRIMARY KEY, v text);"
                        + " INSERT INTO ks.moved (k, v) VALUES (1, 'out of the engine');"
                        + " INSERT INTO ks.own (k, v) VALUES (1, 'in the engine');"
                        + " INSERT INTO ks.stock (k, v) VALUES (1, 'in an SSTable')");
        SortedMap<String, String> installed = node.files();
        assertThat(node.petra(1, "uninstall", "--yes"))
                .contains("a node runs with ", "(pid " + node.process().pid() + ")");
        node.stop();
        assertThat(node.petra(1, "uninstall", "--yes"))
                .contains("tables in Petra that could not be read any more: ks.moved, ks.own. ");
        assertThat(node.files()).isEqualTo(installed);

        // As a package update does that puts its own configuration in place.
        for (String file : List.of("cassandra.yaml", "jvm-server.options"))
            Files.writeString(node.home().resolve("conf/" + file), stock.get("conf/" + file));
        node.launch();
        assertThat(node.awaitEnd()).isEqualTo(3);
        assertThat(node.log()).contains("Detected unreadable sstables", TableFiles.GUARD);
        assertThat(node.petra(0, "install", "--yes", "--memory", "128MiB"))
                .contains("Petra is installed. Restart the node");
        assertThat(node.files()).isEqualTo(installed);

        node.start();
        assertThat(node.cql("SELECT v FROM ks.own")).contains("in the engine");
        node.cql("DROP TABLE ks.own; ALTER TABLE ks.moved WITH memtable = 'default'");
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (node.cql("SELECT table_name FROM petra.migrations").contains("moved")) {
            assertThat(System.nanoTime()).as(node.log()).isLessThan(end);
            Thread.sleep(200);
        }
        node.stop();
        assertThat(node.petra(0, "uninstall", "--yes"))
                .contains("1 snapshots of tables in Petra stay", "Petra is uninstalled.");
        assertThat(node.files()).isEqualTo(stock);
        assertThat(node.petra(0, "uninstall", "--yes")).contains("nothing to do");

        node.start();
        assertThat(node.logSinceStart()).doesNotContain("Petra");
        assertThat(node.cql("SELECT v FROM ks.stock")).contains("in an SSTable");
        assertThat(node.cql("SELECT v FROM ks.moved")).contains("out of the engine");
        assertThat(node.cql(1, "CREATE TABLE ks.x (k int PRIMARY KEY) WITH memtable = 'rocks'"))
                .contains("Memtable configuration \"rocks\" not found");
        node.stop();
    }
}
