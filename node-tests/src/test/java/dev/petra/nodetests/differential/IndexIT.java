// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WithAgent;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The same random statements on three tables, and the same random queries: by indexes in the
 * engine, by SAI's own in Cassandra's storage, and with ALLOW FILTERING in a table without any. The
 * first gives what the last does, in the same order; of the second is told where it differs.
 */
@WithAgent
@OneOf(variants = "random queries by indexes", of = 2, number = 1)
class IndexIT extends RandomIndexQueries {
    private static final String COLUMNS =
            "p int, q text, c int, d text, s int static, st text static, v int, w text, b boolean,"
                    + " big bigint, n varint, e decimal, i inet, t timestamp, fl float,"
                    + " f frozen<list<int>>, l list<int>, x set<text>, m map<text, int>,"
                    + " PRIMARY KEY ((p, q), c, d)";

    /** Of each index: what it is on, and its options. */
    private static final Map<String, String> INDEXES =
            Map.ofEntries(
                    Map.entry("p", ""),
                    Map.entry("q", ""),
                    Map.entry("c", ""),
                    Map.entry("d", ""),
                    Map.entry("s", ""),
                    Map.entry("v", ""),
                    Map.entry("w", " WITH OPTIONS = {'case_sensitive': 'false'}"),
                    Map.entry("b", ""),
                    Map.entry("big", ""),
                    Map.entry("n", ""),
                    Map.entry("e", ""),
                    Map.entry("i", ""),
                    Map.entry("t", ""),
                    Map.entry("fl", ""),
                    Map.entry("FULL(f)", ""),
                    Map.entry("l", ""),
                    Map.entry("x", ""),
                    Map.entry("KEYS(m)", ""),
                    Map.entry("VALUES(m)", ""),
                    Map.entry("ENTRIES(m)", ""));

    @TempDir static Path directory;

    IndexIT() {
        super(COLUMNS, INDEXES.keySet());
    }

    @BeforeAll
    static void start() {
        System.out.println("IndexIT: -Dpetra.seed=" + SEED);
        node =
                TestNode.start(
                        directory,
                        options ->
                                options.jvmOptions(TestNode.VERIFIED)
                                        .yaml(
                                                Map.of(
                                                        "sai_sstable_indexes_per_query_fail_threshold",
                                                        1_000)));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @Override
    CqlSession connect() {
        return node.plainSession();
    }

    @Override
    String using(String target) {
        return " USING 'sai'" + INDEXES.get(target);
    }

    /** All that there are. */
    @Override
    void awaitBuilt(String name) throws Exception {
        TestNode.await(
                "indexes",
                Duration.ofMinutes(3),
                () ->
                        session
                                .execute("SELECT * FROM system_views.sai_column_indexes")
                                .all()
                                .stream()
                                .allMatch(row -> row.getBoolean("is_queryable")));
    }

    @Test
    @Order(6)
    void truncated() throws Exception {
        for (String table : TABLES) session.execute("TRUNCATE ks." + table + "after");
        for (String query : List.of("v = 1", "p >= 0", "x CONTAINS 'x1'"))
            assertThat(session.execute(select("oursafter", query)).all()).as(query).isEmpty();
        change("after");
        compare("after");
    }

    /** Partly in SSTables meanwhile, in which Cassandra's own index finds what it finds. */
    @Test
    @Order(7)
    void migrated() throws Exception {
        for (String memtable : List.of("default", "rocks")) {
            isInEngine = false;
            node.nodetool("setcompactionthroughput", "1");
            try {
                session.execute("ALTER TABLE ks.oursafter WITH memtable = '" + memtable + "'");
                compare("after");
                change("after");
                compare("after");
            } finally {
                node.nodetool("setcompactionthroughput", "64");
                TestNode.awaitMigrations(session, Duration.ofMinutes(3));
            }
            awaitBuilt("after");
            isInEngine = memtable.equals("rocks");
            compare("after");
            change("after");
            compare("after");
        }
    }

    // Statements

    @Override
    String statement() {
        // Each of its own: between two expiring cells of one timestamp the time of day decides. And
        // even: an INSERT deletes the collection as of the timestamp before its own.
        String using = " USING TIMESTAMP " + 2L * random.nextInt(1, 100_000_000);
        return switch (random.nextInt(16)) {
            case 0 -> "DELETE FROM @" + using + " WHERE " + partition();
            case 1 -> "DELETE FROM @" + using + " WHERE " + row();
            case 2 ->
                    "DELETE FROM @"
                            + using
                            + " WHERE "
                            + partition()
                            + " AND c >= "
                            + random.nextInt(8)
                            + " AND c < "
                            + random.nextInt(8);
            case 3 -> "DELETE " + regular() + " FROM @" + using + " WHERE " + row();
            case 4 -> "DELETE s FROM @" + using + " WHERE " + partition();
            case 5 ->
                    "UPDATE @"
                            + using
                            + " SET s = "
                            + number()
                            + ", st = '"
                            + text()
                            + "' WHERE "
                            + partition();
            case 6 ->
                    "UPDATE @"
                            + using
                            + " AND TTL 100000 SET v = "
                            + number()
                            + ", x = x + {'"
                            + text()
                            + "'} WHERE "
                            + row();
            case 7 -> "UPDATE @" + using + " SET l = l + [" + number() + "] WHERE " + row();
            case 8 ->
                    "UPDATE @"
                            + using
                            + " SET m['"
                            + text()
                            + "'] = "
                            + number()
                            + " WHERE "
                            + row();
            case 9 -> "DELETE m['" + text() + "'], l FROM @" + using + " WHERE " + row();
            default -> insert(using);
        };
    }

    private String insert(String using) {
        Map<String, String> columns =
                Map.ofEntries(
                        Map.entry("v", number()),
                        Map.entry(
                                "w",
                                "'"
                                        + (random.nextBoolean()
                                                ? text()
                                                : text().toUpperCase(Locale.ROOT))
                                        + "'"),
                        Map.entry("b", String.valueOf(random.nextBoolean())),
                        Map.entry("big", random.nextInt(10) + "000000000"),
                        Map.entry("n", varint()),
                        Map.entry("e", decimal()),
                        Map.entry("i", inet()),
                        Map.entry("t", "'2026-01-0" + (1 + random.nextInt(9)) + "'"),
                        Map.entry("fl", random.nextInt(-3, 3) + ".5"),
                        Map.entry("f", list()),
                        Map.entry("l", list()),
                        Map.entry("x", "{'" + text() + "', '" + text() + "'}"),
                        Map.entry("m", map()));
        return insert(using, columns);
    }

    private String regular() {
        return List.of("v", "w", "n", "f", "l", "x", "m", "i", "e").get(random.nextInt(9));
    }

    private String varint() {
        return List.of(
                        "0",
                        "-1",
                        "127",
                        "340282366920938463463374607431768211456",
                        "340282366920938463463374607431768211457",
                        "-340282366920938463463374607431768211457")
                .get(random.nextInt(6));
    }

    private String decimal() {
        return List.of("0", "1.10", "1.1", "-2.5", "1E+40", "1.00000000000000000000000000000000001")
                .get(random.nextInt(6));
    }

    private String inet() {
        return List.of("'10.0.0.1'", "'10.0.0.2'", "'::1'", "'192.168.1.1'").get(random.nextInt(4));
    }

    // Queries

    @Override
    void compare(String name) {
        for (int i = 0; i < QUERIES; i++) {
            List<String> terms = new ArrayList<>();
            for (int t = 1 + random.nextInt(3); t > 0; t--) terms.add(condition());
            if (random.nextInt(5) == 0) terms.add(partition());
            // Cassandra takes one equality of a column, and no other condition besides it.
            List<String> once = new ArrayList<>();
            List<String> columns = new ArrayList<>();
            for (String term : String.join(" AND ", terms).split(" AND ", -1)) {
                String column = term.split("[ \\[]", 2)[0];
                if (!columns.contains(column)) once.add(term);
                columns.add(column);
            }
            String where = String.join(" AND ", once);
            List<String> ours = rows("ours" + name, where, 5_000);
            List<String> plain = plain(name, once);
            if (!isInEngine) {
                assertThat(plain).as(where).containsAll(ours);
                continue;
            }
            assertThat(ours).as(where).isEqualTo(plain);
            // Cassandra's own is no judge where it finds less than there is.
            if (!rows("stock" + name, where, 5_000).equals(plain))
                System.out.println("SAI in Cassandra's storage differs: " + where);
            int page = 1 + random.nextInt(4);
            assertThat(rows("ours" + name, where, page))
                    .as("%s by %d", where, page)
                    .isEqualTo(ours);
        }
    }

    /** No filter does what an analyzer does: of that column's condition the test takes care. */
    private static List<String> plain(String name, List<String> conditions) {
        List<String> others =
                conditions.stream().filter(condition -> !condition.startsWith("w ")).toList();
        String text =
                conditions.stream()
                        .filter(condition -> condition.startsWith("w "))
                        .map(condition -> condition.replaceAll("^w = '(.*)'$", "$1"))
                        .findFirst()
                        .orElse(null);
        SimpleStatement select =
                others.isEmpty()
                        ? SimpleStatement.newInstance("SELECT * FROM ks.plain" + name)
                        : select("plain" + name, String.join(" AND ", others));
        return session.execute(select).all().stream()
                .filter(row -> text == null || text.equals(lower(row.getString("w"))))
                .map(Row::getFormattedContents)
                .toList();
    }

    private static @Nullable String lower(@Nullable String value) {
        return value == null ? null : value.toLowerCase(Locale.ROOT);
    }

    private static List<String> rows(String table, String where, int page) {
        return session.execute(select(table, where).setPageSize(page)).all().stream()
                .map(Row::getFormattedContents)
                .toList();
    }

    private String condition() {
        String compare = List.of(" = ", " < ", " > ", " <= ", " >= ").get(random.nextInt(5));
        return switch (random.nextInt(20)) {
            case 0 -> "p" + compare + random.nextInt(4);
            case 1 -> "q = '" + text() + "'";
            case 2 -> "c" + compare + random.nextInt(8);
            case 3 -> "d = '" + text() + "'";
            case 4, 5 -> "s" + compare + number();
            case 6, 7, 8 -> "v" + compare + number();
            case 9 -> "w = '" + text() + "'";
            case 10 -> "b = " + random.nextBoolean();
            case 11 -> "big" + compare + random.nextInt(10) + "000000000";
            case 12 -> "n" + compare + varint();
            case 13 -> "e" + compare + decimal();
            case 14 -> "i" + compare + inet();
            case 15 -> "t" + compare + "'2026-01-0" + (1 + random.nextInt(9)) + "'";
            case 16 -> "f = " + list();
            case 17 -> "l CONTAINS " + number();
            case 18 -> "x CONTAINS '" + key() + "'";
            default ->
                    switch (random.nextInt(3)) {
                        case 0 -> "m CONTAINS KEY '" + key() + "'";
                        case 1 -> "m CONTAINS " + number();
                        default -> "m['" + key() + "'] = " + number();
                    };
        };
    }
}
