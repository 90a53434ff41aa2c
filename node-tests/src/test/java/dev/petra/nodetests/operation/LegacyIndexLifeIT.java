// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import dev.petra.nodetests.fixture.IndexKind;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is of legacy indexes alone; {@link IndexLifeIT} is of both kinds. */
class LegacyIndexLifeIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final int VALUES = 10;

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

    private static void create(String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, x text, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
    }

    private static void insert(String table, int from, int to) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (p, c, v, x) VALUES (?, ?, ?, ?)");
        for (int i = from; i < to; i++)
            session.execute(insert.bind(i % 17, i, i % VALUES, "x".repeat(200)));
    }

    private static long count(String table, int v) {
        return session.execute("SELECT c FROM ks." + table + " WHERE v = " + v).all().size();
    }

    private static long found(String table) {
        long found = 0;
        for (int v = 0; v < VALUES; v++) found += count(table, v);
        return found;
    }

    private static long all(String table) {
        return session.execute("SELECT c FROM ks." + table).all().size();
    }

    private static void check(String table) {
        assertThat(found(table)).as(table).isEqualTo(all(table));
    }

    private static void awaitBuilt(String index) throws Exception {
        IndexKind.LEGACY.await(session, index, PATIENCE);
    }

    private static void killAndRestart() {
        session.close();
        node.process().kill();
        node.restart();
        session = node.session();
    }

    /** Also where the column has another type and the index the former name. */
    @Test
    void anIndexedColumnThatIsDroppedAndAddedAgainIsFoundByWhatItHasSince() throws Exception {
        create("altered");
        insert("altered", 0, 200);
        session.execute("CREATE INDEX altered_v ON ks.altered (v)");
        awaitBuilt("altered_v");
        // As in Cassandra's own storage.
        assertThatThrownBy(() -> session.execute("ALTER TABLE ks.altered DROP v"))
                .hasMessageContaining("altered_v");
        session.execute("DROP INDEX ks.altered_v");
        session.execute("ALTER TABLE ks.altered DROP v");
        session.execute("ALTER TABLE ks.altered ADD v int");
        session.execute("CREATE INDEX altered_v ON ks.altered (v)");
        awaitBuilt("altered_v");
        assertThat(found("altered")).isZero();
        insert("altered", 100, 150);
        assertThat(found("altered")).isEqualTo(50);
        killAndRestart();
        assertThat(found("altered")).isEqualTo(50);
        insert("altered", 0, 200);
        check("altered");
    }

    @Test
    void whatHasExpiredIsNotFound() throws Exception {
        session.execute(
                "CREATE TABLE ks.expires (p int, c int, s int static, v int, w int, x set<int>,"
                        + " PRIMARY KEY (p, c)) WITH memtable = 'rocks'");
        for (String column : List.of("c", "s", "v", "x")) {
            session.execute("CREATE INDEX expires_%1$s ON ks.expires (%1$s)".formatted(column));
            awaitBuilt("expires_" + column);
        }
        session.execute("INSERT INTO ks.expires (p, c, s, v, w, x) VALUES (1, 1, 1, 1, 1, {1})");
        session.execute(
                "INSERT INTO ks.expires (p, c, s, v, w, x) VALUES (2, 1, 1, 1, 1, {1}) USING TTL"
                        + " 15");
        // Only its value expires, and only one element.
        session.execute("INSERT INTO ks.expires (p, c, v, x) VALUES (3, 1, 2, {2})");
        session.execute(
                "UPDATE ks.expires USING TTL 15 SET v = 1, x = x + {1} WHERE p = 3 AND c = 1");
        List<String> queries = List.of("c = 1", "s = 1", "v = 1", "x CONTAINS 1");
        assertThat(queries.stream().map(LegacyIndexLifeIT::partitions))
                .containsExactly(Set.of(1, 2, 3), Set.of(1, 2), Set.of(1, 2, 3), Set.of(1, 2, 3));
        TestNode.await("the expiry", PATIENCE, () -> partitions("v = 1").equals(Set.of(1)));
        List<Set<Integer>> left = List.of(Set.of(1, 3), Set.of(1), Set.of(1), Set.of(1));
        assertThat(queries.stream().map(LegacyIndexLifeIT::partitions))
                .containsExactlyElementsOf(left);
        assertThat(partitions("x CONTAINS 2")).containsExactly(3);
        node.nodetool("garbagecollect", "ks", "expires");
        assertThat(queries.stream().map(LegacyIndexLifeIT::partitions))
                .containsExactlyElementsOf(left);
    }

    private static Set<Integer> partitions(String where) {
        return session.execute("SELECT p FROM ks.expires WHERE " + where).all().stream()
                .map(row -> row.getInt(0))
                .collect(Collectors.toSet());
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
