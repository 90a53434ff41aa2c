// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.servererrors.ReadFailureException;
import com.datastax.oss.driver.api.core.servererrors.WriteFailureException;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The disk with a table's store is not mounted when the node starts. */
@OneOf(variants = "a missing disk, a point of restore", of = 2, number = 2)
class MissingDiskIT {
    @TempDir Path directory;

    private Path disk(String name) {
        return directory.resolve(name);
    }

    /** Cassandra's own tables are on a third disk: they tell the node its schema. */
    private TestNode start() {
        return TestNode.start(
                directory,
                config ->
                        config.yaml(
                                Map.of(
                                        "data_file_directories",
                                        List.of(disk("data").toString(), disk("data2").toString()),
                                        "local_system_data_file_directory",
                                        disk("system").toString())));
    }

    private List<Path> markers() throws IOException {
        try (Stream<Path> files = Files.walk(disk("data2"))) {
            return files.filter(file -> file.endsWith("PETRA_STORE")).toList();
        }
    }

    @Test
    void theTableIsRefusedUntilTheDiskIsBackOrTheMarkersAreDeleted() throws IOException {
        try (TestNode node = start()) {
            try (CqlSession session = node.plainSession()) {
                TestNode.createKeyspace(session, "ks", 1);
                session.execute(
                        "CREATE TABLE ks.t (p int PRIMARY KEY, v int) WITH memtable = 'rocks'");
                session.execute("INSERT INTO ks.t (p, v) VALUES (1, 1)");
            }
            assertThat(markers()).hasSize(1);
            node.nodetool("listsnapshots");
            node.process().kill();
            Files.move(disk("data"), disk("away"));
            Files.createDirectory(disk("data"));

            node.restart();
            try (CqlSession session = node.plainSession()) {
                assertThatThrownBy(() -> session.execute("SELECT * FROM ks.t"))
                        .isInstanceOf(ReadFailureException.class);
                assertThatThrownBy(() -> session.execute("INSERT INTO ks.t (p, v) VALUES (2, 2)"))
                        .isInstanceOf(WriteFailureException.class);
                assertThat(node.process().logSinceStart())
                        .contains("The data of table ks.t is missing")
                        .contains("rm -f");
            }
            node.process().kill();
            Files.move(disk("data"), disk("empty"));
            Files.move(disk("away"), disk("data"));

            node.restart();
            try (CqlSession session = node.plainSession()) {
                assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(1);
            }
            node.process().kill();
            Files.move(disk("data"), disk("lost"));
            Files.createDirectory(disk("data"));
            for (Path marker : markers()) Files.delete(marker);

            node.restart();
            try (CqlSession session = node.plainSession()) {
                assertThat(session.execute("SELECT * FROM ks.t").all()).isEmpty();
                session.execute("INSERT INTO ks.t (p, v) VALUES (3, 3)");
                assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(1);
                session.execute("DROP TABLE ks.t");
            }
            assertThat(markers()).isEmpty();
        }
    }
}
