// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.nodetests.fixture.TestNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/**
 * The same random statements on three tables, and the same random queries: by indexes in the
 * engine, by the same indexes in Cassandra's storage, and with ALLOW FILTERING in a table without
 * any. What all kinds of indexes go through.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
abstract class RandomIndexQueries {
    static final long SEED = Long.getLong("petra.seed", System.nanoTime());
    static final int LENGTH = Integer.getInteger("petra.index.length", 1);
    static final List<String> TABLES = List.of("ours", "stock", "plain");
    private static final int STATEMENTS = 140 * LENGTH;
    static final int QUERIES = 70 * LENGTH;

    /** Of the class that runs. */
    static TestNode node;

    static CqlSession session;

    final SplittableRandom random = new SplittableRandom(SEED);

    /** Whether all of the tables that are named ours is in the engine. */
    boolean isInEngine = true;

    private final String columns;
    private final Collection<String> targets;

    /**
     * @param columns of the tables
     * @param targets what the indexes are on
     */
    RandomIndexQueries(String columns, Collection<String> targets) {
        this.columns = columns;
        this.targets = targets;
    }

    @AfterAll
    static void stop() {
        session.close();
        node.close();
    }

    abstract CqlSession connect();

    /** What CREATE INDEX has behind a target. */
    abstract String using(String target);

    /** Until the indexes of the tables of a name are built. */
    abstract void awaitBuilt(String name) throws Exception;

    abstract String statement();

    /** Asks the three tables of a name, and compares what they say. */
    abstract void compare(String name);

    static String index(String table, String target) {
        return table + "_" + target.replaceAll("\\W", "_");
    }

    private void create(String name) {
        for (String table : TABLES)
            session.execute(
                    "CREATE TABLE ks."
                            + table
                            + name
                            + " ("
                            + columns
                            + ") WITH CLUSTERING ORDER BY (c DESC, d ASC)"
                            + (table.equals("ours") ? " AND memtable = 'rocks'" : ""));
    }

    private void index(String name) throws Exception {
        for (String table : List.of("ours", "stock"))
            for (String target : targets) createIndex(table + name, target);
        awaitBuilt(name);
    }

    final void createIndex(String table, String target) {
        session.execute(
                "CREATE INDEX %s ON ks.%s (%s)%s"
                        .formatted(index(table, target), table, target, using(target)));
    }

    @Test
    @Order(1)
    void writtenAfterTheIndexes() throws Exception {
        create("after");
        index("after");
        change("after");
        compare("after");
        node.nodetool("flush", "ks");
        change("after");
        compare("after");
    }

    @Test
    @Order(2)
    void builtOfWhatWasThere() throws Exception {
        create("before");
        change("before");
        index("before");
        compare("before");
        change("before");
        compare("before");
        // A compaction drops what is overwritten, and no entry that is needed.
        node.nodetool("compact", "ks");
        compare("before");
    }

    @Test
    @Order(3)
    void afterAKill() throws Exception {
        session.close();
        // Cassandra's commit log has it only with its next sync.
        node.nodetool("flush", "ks", "stockafter", "stockbefore", "plainafter", "plainbefore");
        node.process().kill();
        node.restart();
        session = connect();
        awaitBuilt("after");
        awaitBuilt("before");
        compare("after");
        compare("before");
        change("after");
        compare("after");
    }

    /** An entry that is removed too early is a row that is not found. */
    @Test
    @Order(4)
    void swept() throws Exception {
        for (int round = 0; round < 3; round++) {
            node.nodetool("garbagecollect", "ks", "oursafter", "oursbefore");
            compare("after");
            compare("before");
            change("after");
            compare("after");
        }
        assertThat(node.process().log())
                .containsPattern(
                        "Removed [1-9]\\d* of \\d+ entries from the indexes of ks.oursafter")
                .containsPattern(
                        "Removed [1-9]\\d* of \\d+ entries from the indexes of ks.oursbefore");
    }

    @Test
    @Order(5)
    void rebuilt() throws Exception {
        List<String> command = new ArrayList<>(List.of("rebuild_index", "ks", "oursafter"));
        for (String target : targets) command.add(index("oursafter", target));
        node.nodetool(command.toArray(String[]::new));
        compare("after");
        change("after");
        compare("after");
    }

    final void change(String name) {
        for (int i = 0; i < STATEMENTS; i++) {
            String statement = statement();
            for (String table : TABLES)
                session.execute(statement.replace("@", "ks." + table + name));
        }
    }

    static SimpleStatement select(String table, String where) {
        return SimpleStatement.newInstance(
                "SELECT * FROM ks." + table + " WHERE " + where + " ALLOW FILTERING");
    }

    // What statements and queries are made of

    /**
     * @param values of regular columns, of which it has some
     */
    final String insert(String using, Map<String, String> values) {
        List<String> chosen =
                values.keySet().stream().sorted().filter(column -> random.nextInt(3) > 0).toList();
        String names = chosen.stream().map(column -> ", " + column).collect(Collectors.joining());
        String terms =
                chosen.stream()
                        .map(column -> ", " + values.get(column))
                        .collect(Collectors.joining());
        boolean hasStatic = random.nextInt(6) == 0;
        return "INSERT INTO @ (p, q, c, d"
                + (hasStatic ? ", s" : "")
                + names
                + ") VALUES ("
                + random.nextInt(4)
                + ", '"
                + text()
                + "', "
                + random.nextInt(8)
                + ", '"
                + text()
                + "'"
                + (hasStatic ? ", " + number() : "")
                + terms
                + ")"
                + using
                + (random.nextInt(5) == 0 ? " AND TTL 100000" : "");
    }

    final String partition() {
        return "p = " + random.nextInt(4) + " AND q = '" + text() + "'";
    }

    final String row() {
        return partition() + " AND c = " + random.nextInt(8) + " AND d = '" + text() + "'";
    }

    final String number() {
        return String.valueOf(random.nextInt(-4, 5));
    }

    final String text() {
        return List.of("", "x1", "x2", "x\u00e9", "y").get(random.nextInt(5));
    }

    final String key() {
        return List.of("x1", "x2", "y").get(random.nextInt(3));
    }

    final String list() {
        return IntStream.range(0, 1 + random.nextInt(3))
                .mapToObj(i -> number())
                .collect(Collectors.joining(", ", "[", "]"));
    }

    /** Of two values of one key, Cassandra takes now the one and now the other. */
    final String map() {
        String value = "'" + text() + "': " + number();
        return random.nextBoolean() ? "{" + value + "}" : "{'z': " + number() + ", " + value + "}";
    }
}
