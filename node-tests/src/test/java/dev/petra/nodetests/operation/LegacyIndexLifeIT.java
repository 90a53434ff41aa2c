// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import dev.petra.nodetests.fixture.IndexKind;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is of legacy indexes alone; {@link IndexLifeIT} is of both kinds. */
class LegacyIndexLifeIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node = TestNode.start(directory, options -> options);
        session = node.session();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() {
        session.close();
        node.close();
    }

    private static void awaitBuilt(String index) throws Exception {
        IndexKind.LEGACY.await(session, index, PATIENCE);
    }

    /** Cassandra does not close what it read of such a partition, and the store stayed open. */
    @Test
    void aTableLeavesItsStoreAfterAQueryByAFormerValueOfAStaticColumn() throws Exception {
        session.execute(
                "CREATE TABLE ks.stale (p int, c int, s int static, PRIMARY KEY (p, c)) WITH"
                        + " memtable = 'rocks'");
        session.execute("CREATE INDEX stale_s ON ks.stale (s)");
        awaitBuilt("stale_s");
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
        session.execute(
                "CREATE TABLE ks.sized (p int PRIMARY KEY, v text) WITH memtable = 'rocks'");
        // Such a value, from before the index, is not found by it, and hinders no build.
        session.execute("INSERT INTO ks.sized (p, v) VALUES (1, ?)", "v".repeat(70_000));
        session.execute("CREATE INDEX sized_v ON ks.sized (v)");
        awaitBuilt("sized_v");
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
}
