// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Cassandra's data model through a driver, on pairs of tables: whatever is done to both, both
 * answer the same. After each test its tables are flushed and compacted, and at the end the node is
 * killed and all pairs are compared again.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class DataModelIT {
    @TempDir static Path directory;
    private static TestNode node;
    private static TwinTables twins;

    private static final Map<String, List<String>> TYPES = new LinkedHashMap<>();

    static {
        TYPES.put("ascii", List.of("'a'", "'ab'", "'b'"));
        TYPES.put("bigint", List.of("-9223372036854775808", "-1", "0", "9223372036854775807"));
        TYPES.put("blob", List.of("0x00", "0x00ff", "0xff"));
        TYPES.put("boolean", List.of("false", "true"));
        TYPES.put("date", List.of("'1969-12-31'", "'1970-01-01'", "'2200-01-01'"));
        TYPES.put("decimal", List.of("-1e20", "-0.5", "0", "1.25"));
        TYPES.put("double", List.of("-1e300", "-1.5", "0", "1e-300"));
        TYPES.put("float", List.of("-2.5", "0", "1e10"));
        TYPES.put("inet", List.of("'10.0.0.1'", "'255.1.2.3'", "'::1'"));
        TYPES.put("int", List.of("-2147483648", "-1", "0", "2147483647"));
        TYPES.put("smallint", List.of("-32768", "0", "32767"));
        TYPES.put("text", List.of("'a'", "'\u00e9'", "'\ud83d\ude00'"));
        TYPES.put("time", List.of("'00:00:00'", "'23:59:59.999999999'"));
        TYPES.put("timestamp", List.of("-1", "0", "253402300799999"));
        TYPES.put(
                "timeuuid",
                List.of(
                        "00000000-0000-1000-8000-000000000000",
                        "00000001-0000-1000-8080-808080808080"));
        TYPES.put("tinyint", List.of("-128", "0", "127"));
        TYPES.put(
                "uuid",
                List.of(
                        "00000000-0000-4000-8000-000000000000",
                        "ffffffff-ffff-4fff-bfff-ffffffffffff"));
        TYPES.put("varchar", List.of("'x'", "'xy'"));
        TYPES.put("varint", List.of("-170141183460469231731687303715884105728", "-1", "0", "300"));
        TYPES.put("frozen<list<int>>", List.of("[1]", "[1, 2]", "[2]"));
        TYPES.put("frozen<set<text>>", List.of("{'a'}", "{'a', 'b'}"));
        TYPES.put("frozen<map<int, text>>", List.of("{1: 'a'}", "{1: 'b'}"));
        TYPES.put("frozen<tuple<int, text>>", List.of("(1, 'a')", "(2, null)"));
        TYPES.put("frozen<person>", List.of("{name: 'a', age: 1}", "{name: 'b'}"));
        TYPES.put("vector<float, 3>", List.of("[0, 1, 2]", "[-1, 0, 5]"));
    }

    static List<String> types() {
        return Drawn.half("DataModelIT, types", List.copyOf(TYPES.keySet()));
    }

    @BeforeAll
    static void start() {
        node =
                TestNode.start(
                        directory,
                        config ->
                                config.yaml(
                                        Map.of(
                                                "commitlog_sync", "batch",
                                                "user_defined_functions_enabled", true,
                                                "row_cache_size", "16MiB",
                                                "commitlog_segment_size", "64MiB",
                                                "native_transport_max_frame_size", "64MiB")));
        twins = new TwinTables(node.plainSession(), "model");
        twins.session().execute("CREATE TYPE model.person (name text, age int)");
    }

    @AfterAll
    static void stop() {
        if (twins != null) twins.session().close();
        if (node != null) node.close();
    }

    @AfterEach
    void flushedAndCompactedItIsTheSame() {
        List<String> made = twins.takeNew();
        if (made.isEmpty()) return;
        twins.compare(made);
        for (String command : List.of("flush", "compact")) {
            node.nodetool(twins.arguments(command, made));
            twins.compare(made);
        }
    }

    private static int tables;

    private static String fresh() {
        return "t" + tables++;
    }

    private static List<String> all(String table) {
        return twins.query("SELECT * FROM @" + table);
    }

    // Types

    @ParameterizedTest
    @MethodSource("types")
    @Order(1)
    void everyTypeEverywhere(String type) {
        String table = fresh();
        twins.create(
                table,
                """
                k %1$s, a %1$s, d %1$s, s %1$s static, v %1$s, l list<%1$s>, e set<%1$s>,
                m map<%1$s, %1$s>, fl frozen<list<%1$s>>, fe frozen<set<%1$s>>,
                fm frozen<map<%1$s, %1$s>>, t tuple<%1$s, int>, x vector<%1$s, 2>,
                n map<text, frozen<map<%1$s, frozen<list<%1$s>>>>>, PRIMARY KEY (k, a, d)
                """
                        .formatted(type),
                "CLUSTERING ORDER BY (a ASC, d DESC)");
        List<String> values = TYPES.get(type);
        int rows = 0;
        for (String k : values.subList(0, 2))
            for (String a : values)
                for (String d : values) {
                    twins.both(
                            """
                            INSERT INTO @%1$s (k, a, d, s, v, l, e, m, fl, fe, fm, t, x, n)
                            VALUES (%2$s, %3$s, %4$s, %3$s, %4$s, [%3$s, %4$s, %3$s],
                            {%3$s, %4$s}, {%3$s: %4$s, %4$s: %3$s}, [%3$s, %4$s], {%4$s},
                            {%4$s: %3$s}, (%3$s, 1), [%3$s, %4$s], {'n': {%3$s: [%4$s, %3$s]}})
                            USING TIMESTAMP 5
                            """
                                    .formatted(table, k, a, d));
                    rows++;
                }
        assertThat(all(table)).hasSize(rows);
        String where = " FROM @" + table + " WHERE k = " + values.get(0);
        for (String a : values) {
            twins.query("SELECT *" + where + " AND a = " + a);
            twins.query("SELECT *" + where + " AND a > " + a + " ORDER BY a DESC, d ASC");
            twins.query("SELECT a, d, v" + where + " AND a <= " + a);
            for (String d : values) {
                assertThat(twins.query("SELECT *" + where + " AND a = " + a + " AND d = " + d))
                        .hasSize(1);
                twins.query("SELECT d" + where + " AND a = " + a + " AND d >= " + d);
            }
        }
        String row = " WHERE k = V AND a = V AND d = V".replace("V", values.get(0));
        String update = "UPDATE @" + table + " USING TIMESTAMP 6 SET ";
        twins.both(update + "l = l + [" + values.get(0) + "]" + row);
        twins.both(update + "e = e - {" + values.get(0) + "}" + row);
        twins.both(update + "m[" + values.get(1) + "] = " + values.get(1) + row);
        twins.both(update + "n = n + {'o': {}}" + row);
        twins.both("DELETE m[" + values.get(0) + "] FROM @" + table + " USING TIMESTAMP 7" + row);
        twins.both("DELETE v, t FROM @" + table + " USING TIMESTAMP 7" + row);
        assertThat(all(table)).hasSize(rows);
    }

    @Test
    @Order(2)
    void durationsWhereTheyMayBe() {
        String table = fresh();
        twins.create(
                table,
                "k int PRIMARY KEY, v duration, l list<duration>, m map<int, duration>, t tuple"
                        + "<duration, int>, f frozen<list<duration>>");
        twins.both(
                "INSERT INTO @"
                        + table
                        + " (k, v, l, m, t, f) VALUES (1, 1y2mo3d4h5m6s7ms8us9ns, [1d, -2h], {1:"
                        + " 3w}, (1ns, 1), [12mo])");
        assertThat(all(table)).singleElement().asString().contains("1y2mo3d4h5m6s7ms8us9ns");
        twins.refused("CREATE TABLE @x (k int, c duration, PRIMARY KEY (k, c))", "duration");
    }

    @Test
    @Order(2)
    void emptyValuesAndNulls() {
        String table = fresh();
        twins.create(
                table,
                "k int, c text, b blob, i int, t text, v varint, u uuid, o boolean, p tuple<int,"
                        + " text>, q person, PRIMARY KEY (k, c)");
        twins.both(
                "INSERT INTO @"
                        + table
                        + " (k, c, b, i, t, v, u, o, p, q) VALUES (1, '', 0x, blob_as_int(0x), '',"
                        + " blob_as_varint(0x), blob_as_uuid(0x), blob_as_boolean(0x), (null,"
                        + " null), {name: null})");
        twins.both("INSERT INTO @" + table + " (k, c, i, q) VALUES (1, 'n', null, null)");
        assertThat(all(table)).hasSize(2);
        Row row =
                twins.session()
                        .execute("SELECT b, i, t FROM model.rocks_" + table + " WHERE k = 1")
                        .one();
        assertThat(row.getByteBuffer(0)).isEqualTo(ByteBuffer.allocate(0));
        assertThat(row.isNull(1)).isFalse();
        assertThat(row.getString(2)).isEmpty();
    }

    @Test
    @Order(2)
    void userTypesThatGrow() {
        String table = fresh();
        twins.session().execute("CREATE TYPE model.growing (a int)");
        twins.create(
                table,
                "k int, c frozen<growing>, u growing, f frozen<growing>, l list<frozen<growing>>,"
                        + " PRIMARY KEY (k, c)");
        twins.both(
                "INSERT INTO @"
                        + table
                        + " (k, c, u, f, l) VALUES (1, {a: 1}, {a: 1}, {a: 1},"
                        + " [{a: 1}])");
        twins.session().execute("ALTER TYPE model.growing ADD b text");
        assertThat(all(table)).hasSize(1);
        twins.both(
                "INSERT INTO @"
                        + table
                        + " (k, c, u, f, l) VALUES (1, {a: 1, b: 'x'}, {a: 2, b:"
                        + " 'y'}, {b: 'z'}, [{a: 1}, {b: 'w'}])");
        twins.both("UPDATE @" + table + " SET u.b = 'added' WHERE k = 1 AND c = {a: 1}");
        twins.both("DELETE u.a FROM @" + table + " WHERE k = 1 AND c = {a: 1}");
        assertThat(all(table)).hasSize(2).anySatisfy(row -> assertThat(row).contains("added"));
        twins.session().execute("ALTER TYPE model.growing RENAME a TO z");
        assertThat(all(table)).hasSize(2);
    }

    // Statements

    private static String rows() {
        String table = fresh();
        twins.create(
                table,
                "k int, c int, d int, s int static, v int, w text, l list<int>, e set<int>, m"
                        + " map<int, text>, PRIMARY KEY (k, c, d)",
                "CLUSTERING ORDER BY (c DESC, d ASC)");
        for (int k = 0; k < 3; k++)
            for (int c = 0; c < 4; c++)
                for (int d = 0; d < 3; d++)
                    twins.both(
                            "INSERT INTO @"
                                    + table
                                    + " (k, c, d, s, v, w, l, e, m) VALUES (?, ?, ?, ?, ?, 'w',"
                                    + " [1, 2, 3], {1, 2}, {1: 'a', 2: 'b'}) USING TIMESTAMP 10",
                            k,
                            c,
                            d,
                            k,
                            100 * k + 10 * c + d);
        return table;
    }

    @Test
    @Order(3)
    void deletionsOfEveryKind() {
        String t = rows();
        String at = " FROM @" + t + " USING TIMESTAMP 20 WHERE k = 0";
        twins.both("DELETE v" + at + " AND c = 0 AND d = 0");
        twins.both("DELETE e[1], m[2], l[0] FROM @" + t + " WHERE k = 0 AND c = 0 AND d = 1");
        twins.both("DELETE l, e" + at + " AND c = 0 AND d = 2");
        twins.both("DELETE" + at + " AND c = 1 AND d = 1");
        twins.both("DELETE" + at + " AND c = 2 AND d > 0");
        twins.both("DELETE" + at + " AND c = 3");
        assertThat(twins.query("SELECT c, d FROM @" + t + " WHERE k = 0")).hasSize(3 + 2 + 1);
        twins.both("DELETE" + at.replace("k = 0", "k = 1") + " AND c >= 1 AND c < 3");
        assertThat(twins.query("SELECT c, d FROM @" + t + " WHERE k = 1")).hasSize(6);
        twins.both("DELETE s" + at.replace("k = 0", "k = 1"));
        assertThat(twins.query("SELECT DISTINCT k, s FROM @" + t + " WHERE k = 1"))
                .singleElement()
                .asString()
                .contains("s:NULL");
        twins.both("DELETE" + at.replace("k = 0", "k = 2"));
        assertThat(twins.query("SELECT * FROM @" + t + " WHERE k = 2")).isEmpty();
        // What is newer than a deletion shows, what is older does not.
        twins.both("INSERT INTO @" + t + " (k, c, d) VALUES (2, 0, 0) USING TIMESTAMP 19");
        assertThat(twins.query("SELECT * FROM @" + t + " WHERE k = 2")).isEmpty();
        twins.both("INSERT INTO @" + t + " (k, c, d) VALUES (2, 0, 0) USING TIMESTAMP 21");
        assertThat(twins.query("SELECT * FROM @" + t + " WHERE k = 2")).hasSize(1);
        twins.both("DELETE FROM @" + t + " WHERE k IN (0, 1) AND c IN (0, 1) AND d = 0");
        all(t);
    }

    @Test
    @Order(3)
    void updatesOfCollections() {
        String t = rows();
        String row = " WHERE k = 0 AND c = 0 AND d = 0";
        String update = "UPDATE @" + t + " SET ";
        for (String assignment :
                List.of(
                        "l = l + [4]",
                        "l = [0] + l",
                        "l[1] = 9",
                        "l = l - [2]",
                        "e = e + {7}",
                        "e = e - {1}",
                        "m[5] = 'f'",
                        "m = m + {6: 'g'}",
                        "m = m - {1}",
                        "m[2] = null",
                        "e = {}",
                        "l = [5, 6]",
                        "w = null",
                        "v = 8, w = 'x', m = {9: 'z'}")) {
            twins.both(update + assignment + row);
            twins.query("SELECT * FROM @" + t + row);
        }
        assertThat(twins.query("SELECT l, e, m, v, w FROM @" + t + row))
                .singleElement()
                .asString()
                .contains("[5,6]", "9:'z'", "v:8");
        twins.refused("UPDATE @" + t + " SET l[7] = 1" + row, "List index 7 out of bound");
    }

    @Test
    @Order(3)
    void timestampsInWhateverOrderNegativeAndEqual() {
        String t = fresh();
        twins.create(t, "k int, c int, v text, PRIMARY KEY (k, c)");
        long[] timestamps = {5, -3, 7, 0, -9_000_000_000_000_000L, 7, 6};
        for (int c = 0; c < 5; c++) {
            for (int i = 0; i < timestamps.length; i++) {
                long timestamp = timestamps[(i + c) % timestamps.length];
                String value = "v" + timestamp + (i % 2);
                if (i == 3 && c % 2 == 0) node.tryNodetool("flush", "model");
                twins.both(
                        "INSERT INTO @" + t + " (k, c, v) VALUES (1, ?, ?) USING TIMESTAMP ?",
                        c,
                        value,
                        timestamp);
            }
            assertThat(twins.query("SELECT v FROM @" + t + " WHERE k = 1 AND c = ?", c))
                    .singleElement()
                    .asString()
                    .contains("v7");
        }
        // A tie: the deletion stands.
        twins.both("DELETE v FROM @" + t + " USING TIMESTAMP 7 WHERE k = 1 AND c = 0");
        twins.both("INSERT INTO @" + t + " (k, c, v) VALUES (1, 0, 'zz') USING TIMESTAMP 7");
        assertThat(twins.query("SELECT v FROM @" + t + " WHERE k = 1 AND c = 0"))
                .singleElement()
                .asString()
                .contains("v:NULL");
        twins.query("SELECT c, WRITETIME(v) FROM @" + t);
    }

    @Test
    @Order(3)
    void batchesOfEveryKind() {
        String t = rows();
        String counters = fresh();
        twins.create(counters, "k int, c int, n counter, s counter static, PRIMARY KEY (k, c)");
        for (String kind : List.of("", "UNLOGGED "))
            twins.both(
                    "BEGIN %1$sBATCH INSERT INTO @%2$s (k, c, d, v) VALUES (7, 1, 1, 1); UPDATE"
                                    .formatted(kind, t)
                            + " @%1$s SET v = 2 WHERE k = 7 AND c = 1 AND d = 2; DELETE FROM @%1$s"
                                    .formatted(t)
                            + " WHERE k = 0; UPDATE @%1$s SET s = 5 WHERE k = 7; APPLY BATCH"
                                    .formatted(t));
        assertThat(twins.query("SELECT * FROM @" + t + " WHERE k = 7")).hasSize(2);
        assertThat(twins.query("SELECT * FROM @" + t + " WHERE k = 0")).isEmpty();
        for (int i = 0; i < 3; i++)
            twins.both(
                    "BEGIN COUNTER BATCH UPDATE @%1$s SET n = n + 2 WHERE k = 1 AND c = 1; UPDATE @%1$s"
                                    .formatted(counters)
                            + " SET n = n - 1 WHERE k = 1 AND c = 2; UPDATE @%1$s SET s = s + 1 WHERE k"
                                    .formatted(counters)
                            + " = 1; APPLY BATCH");
        assertThat(all(counters)).hasSize(2).anySatisfy(r -> assertThat(r).contains("n:6"));
        List<String> applied =
                twins.both(
                        "BEGIN BATCH INSERT INTO @%1$s (k, c, d, v) VALUES (8, 1, 1, 1) IF NOT EXISTS;"
                                        .formatted(t)
                                + " UPDATE @%1$s SET v = 2 WHERE k = 8 AND c = 1 AND d = 2; APPLY BATCH"
                                        .formatted(t));
        assertThat(applied).singleElement().asString().contains("true");
        assertThat(
                        twins.both(
                                "BEGIN BATCH INSERT INTO @%1$s (k, c, d, v) VALUES (8, 1, 1, 3) IF NOT"
                                                .formatted(t)
                                        + " EXISTS; DELETE FROM @%1$s WHERE k = 8 AND c = 1 AND d = 2;"
                                                .formatted(t)
                                        + " APPLY BATCH"))
                .first()
                .asString()
                .contains("false");
        assertThat(twins.query("SELECT v FROM @" + t + " WHERE k = 8")).hasSize(2);
    }

    @Test
    @Order(3)
    void countersCountAndAreDeleted() {
        String t = fresh();
        twins.create(t, "k int, c text, n counter, o counter, PRIMARY KEY (k, c)");
        for (int i = 1; i <= 200; i++)
            twins.both(
                    "UPDATE @" + t + " SET n = n + ?, o = o - 1 WHERE k = ? AND c = 'x'",
                    (long) i,
                    i % 3);
        node.tryNodetool("flush", "model");
        for (int i = 1; i <= 30; i++)
            twins.both("UPDATE @" + t + " SET n = n + 1000 WHERE k = ? AND c = 'x'", i % 3);
        // 3, 6, … 198, and ten times a thousand.
        assertThat(twins.query("SELECT n, o FROM @" + t + " WHERE k = 0"))
                .singleElement()
                .asString()
                .contains("n:" + ((3 + 198) * 33 + 10_000))
                .contains("o:-66");
        twins.both("DELETE n FROM @" + t + " WHERE k = 1 AND c = 'x'");
        twins.both("DELETE FROM @" + t + " WHERE k = 2");
        assertThat(twins.query("SELECT k, n, o FROM @" + t)).hasSize(2);
    }

    @Test
    @Order(3)
    void lightweightTransactionsAndTheirState() {
        String t = fresh();
        twins.create(t, "k int, c int, s int static, v int, m map<int, int>, PRIMARY KEY (k, c)");
        String insert = "INSERT INTO @" + t + " (k, c, v) VALUES (1, 1, 1) IF NOT EXISTS";
        assertThat(twins.both(insert)).singleElement().asString().contains("true");
        assertThat(twins.both(insert)).singleElement().asString().contains("false");
        String row = " WHERE k = 1 AND c = 1";
        assertThat(twins.both("UPDATE @" + t + " SET v = 2" + row + " IF v = 1"))
                .first()
                .asString()
                .contains("true");
        assertThat(twins.both("UPDATE @" + t + " SET v = 3" + row + " IF v = 1"))
                .first()
                .asString()
                .contains("false")
                .contains("v:2");
        for (String condition :
                List.of("v IN (2, 3)", "v > 1", "v != 7", "m = null", "EXISTS", "m[1] = null"))
            assertThat(twins.both("UPDATE @" + t + " SET v = 2" + row + " IF " + condition))
                    .describedAs(condition)
                    .first()
                    .asString()
                    .contains("true");
        assertThat(twins.both("UPDATE @" + t + " SET s = 1 WHERE k = 1 IF s = null"))
                .first()
                .asString()
                .contains("true");
        assertThat(twins.both("DELETE FROM @" + t + row + " IF v = 2"))
                .first()
                .asString()
                .contains("true");
        assertThat(twins.both("UPDATE @" + t + " SET v = 1" + row + " IF EXISTS"))
                .first()
                .asString()
                .contains("false");
        ResultSet serial =
                twins.session()
                        .execute(
                                SimpleStatement.newInstance(
                                                "SELECT s FROM model.rocks_" + t + " WHERE k = 1")
                                        .setConsistencyLevel(ConsistencyLevel.SERIAL));
        assertThat(serial.one().getInt(0)).isEqualTo(1);
    }

    // Expiry

    @Test
    @Order(4)
    void whatExpiresAndWhatDoesNot() throws InterruptedException {
        String t = fresh();
        twins.create(
                t,
                "k int, c int, v int, w int, m map<int, int>, PRIMARY KEY (k, c)",
                "default_time_to_live = 16",
                "gc_grace_seconds = 0");
        String into = "INSERT INTO @" + t + " (k, c, v, w) VALUES ";
        twins.both(into + "(1, 1, 1, 1)");
        twins.both(into + "(1, 2, 1, 1) USING TTL 0");
        twins.both(into + "(1, 3, 1, 1) USING TTL 6");
        twins.both("UPDATE @" + t + " USING TTL 6 SET v = 5 WHERE k = 1 AND c = 2");
        twins.both("UPDATE @" + t + " USING TTL 600 SET m[1] = 1 WHERE k = 1 AND c = 1");
        twins.both("UPDATE @" + t + " USING TTL 6 SET m[2] = 2 WHERE k = 1 AND c = 1");
        assertThat(twins.both("SELECT c, v FROM @" + t)).hasSize(3);
        List<String> ttls = new ArrayList<>();
        for (String prefix : List.of("rocks_", "stock_"))
            ttls.add(
                    twins.session()
                            .execute(
                                    "SELECT TTL(v) FROM model." + prefix + t + " WHERE k=1 AND c=1")
                            .one()
                            .getFormattedContents());
        assertThat(ttls)
                .allSatisfy(ttl -> assertThat(ttl).matches(".*ttl\\(v\\)\"?:(1[0-6]|[6-9])]"));
        TimeUnit.MILLISECONDS.sleep(7_100);
        assertThat(twins.both("SELECT c FROM @" + t)).hasSize(2);
        assertThat(twins.both("SELECT v, m FROM @" + t + " WHERE k = 1 AND c = 2"))
                .singleElement()
                .asString()
                .contains("v:NULL");
        TimeUnit.MILLISECONDS.sleep(10_000);
        assertThat(twins.both("SELECT c, v, m FROM @" + t)).hasSize(2);
        assertThat(twins.both("SELECT c, v, m FROM @" + t + " WHERE k = 1 AND c = 1"))
                .singleElement()
                .asString()
                .contains("v:NULL", "{1:1}");
    }

    @Test
    @Order(4)
    void expiryBetweenThePagesOfAQuery() throws InterruptedException {
        String t = fresh();
        twins.create(t, "k int, c int, v int, PRIMARY KEY (k, c)");
        for (int c = 0; c < 10; c++)
            twins.both(
                    "INSERT INTO @"
                            + t
                            + " (k, c, v) VALUES (1, ?, 1)"
                            + (c % 2 == 1 ? " USING TTL 6" : ""),
                    c);
        List<Integer> read = new ArrayList<>();
        for (Row row :
                twins.session()
                        .execute(
                                SimpleStatement.newInstance("SELECT c FROM model.rocks_" + t)
                                        .setPageSize(2))) {
            read.add(row.getInt(0));
            if (read.size() == 2) TimeUnit.MILLISECONDS.sleep(7_100);
        }
        // A page may have been fetched ahead; behind it only what lives for good is left.
        assertThat(read).startsWith(0, 1).contains(4, 6, 8).doesNotContain(5, 7, 9);
    }

    // Queries

    @Test
    @Order(5)
    void queriesOfEveryKind() {
        String t = rows();
        for (String query :
                List.of(
                        "SELECT * FROM @t",
                        "SELECT * FROM @t WHERE k = 1",
                        "SELECT c, d FROM @t WHERE k = 1 AND c = 2",
                        "SELECT c, d FROM @t WHERE k = 1 AND c > 0 AND c <= 2",
                        "SELECT c, d FROM @t WHERE k = 1 AND (c, d) > (1, 1)",
                        "SELECT c, d FROM @t WHERE k = 1 AND (c) IN ((3), (0), (9))",
                        "SELECT c, d FROM @t WHERE k = 1 AND c IN (0, 2) AND d IN (0, 2)",
                        "SELECT c, d FROM @t WHERE k = 1 AND c IN (0, 2) AND d > 0",
                        "SELECT c, d FROM @t WHERE k IN (2, 0) AND c = 1",
                        "SELECT k, c, d FROM @t WHERE k = 1 ORDER BY c ASC, d DESC",
                        "SELECT k, c, d FROM @t WHERE k = 1 ORDER BY c ASC, d DESC LIMIT 5",
                        "SELECT k, c, d FROM @t WHERE k = 1 AND c < 3 ORDER BY c ASC, d DESC",
                        "SELECT k, c, d FROM @t LIMIT 7",
                        "SELECT k, c, d FROM @t PER PARTITION LIMIT 2",
                        "SELECT k, c, d FROM @t PER PARTITION LIMIT 2 LIMIT 3",
                        "SELECT DISTINCT k FROM @t",
                        "SELECT DISTINCT k, s FROM @t",
                        "SELECT DISTINCT k, s FROM @t WHERE k = 1",
                        "SELECT k, count(*) FROM @t GROUP BY k",
                        "SELECT k, c, max(v), min(v), sum(v), avg(v) FROM @t GROUP BY k, c",
                        "SELECT count(*), count(w), max(c) FROM @t",
                        "SELECT k, token(k) FROM @t WHERE token(k) > token(1)",
                        "SELECT k, c FROM @t WHERE token(k) <= 0 PER PARTITION LIMIT 1",
                        "SELECT WRITETIME(v), WRITETIME(w), MAXWRITETIME(l), TTL(v) FROM @t",
                        "SELECT WRITETIME(m) FROM @t WHERE k = 1",
                        "SELECT v FROM @t WHERE v = 112 ALLOW FILTERING",
                        "SELECT v FROM @t WHERE v > 100 AND c = 1 ALLOW FILTERING",
                        "SELECT k FROM @t WHERE e CONTAINS 2 AND m CONTAINS KEY 1 ALLOW FILTERING",
                        "SELECT k FROM @t WHERE s = 1 ALLOW FILTERING",
                        "SELECT JSON * FROM @t WHERE k = 2",
                        "SELECT JSON k, l, m FROM @t",
                        "SELECT m[1], e[2], m[1..2] FROM @t WHERE k = 1",
                        "SELECT CAST(v AS text), to_json(m), blob_as_int(int_as_blob(v)) FROM @t",
                        "SELECT k AS x, v AS y FROM @t WHERE k = 0",
                        "SELECT s FROM @t WHERE k = 5")) twins.query(query.replace("@t", "@" + t));
        twins.both("INSERT INTO @" + t + " JSON '{\"k\": 9, \"c\": 1, \"d\": 2, \"l\": [4]}'");
        twins.both("INSERT INTO @" + t + " JSON '{\"k\": 1, \"c\": 1, \"d\": 1}' DEFAULT UNSET");
        assertThat(twins.query("SELECT v FROM @" + t + " WHERE k = 1 AND c = 1 AND d = 1"))
                .singleElement()
                .asString()
                .contains("v:111");
    }

    @Test
    @Order(5)
    void functionsOfUsers() {
        String t = rows();
        twins.session()
                .execute(
                        "CREATE FUNCTION model.twice(x int) RETURNS NULL ON NULL INPUT RETURNS int"
                                + " LANGUAGE java AS 'return 2 * x;'");
        twins.session()
                .execute(
                        "CREATE FUNCTION model.plus(a int, b int) CALLED ON NULL INPUT RETURNS int"
                                + " LANGUAGE java AS 'return a + (b == null ? 0 : b);'");
        twins.session()
                .execute(
                        "CREATE AGGREGATE model.total(int) SFUNC plus STYPE int FINALFUNC twice"
                                + " INITCOND 0");
        assertThat(twins.query("SELECT model.twice(v) FROM @" + t + " WHERE k = 1")).hasSize(12);
        assertThat(twins.query("SELECT model.total(v) FROM @" + t + " WHERE k = 0"))
                .singleElement()
                .asString()
                // 10 c + d over c of 0 to 3 and d of 0 to 2, twice
                .contains(Integer.toString(2 * (10 * 6 * 3 + 3 * 4)));
    }

    // ALTER TABLE

    @Test
    @Order(6)
    void columnsComeAndGoAndComeBack() {
        String t = rows();
        for (String prefix : List.of("rocks_", "stock_")) {
            String alter = "ALTER TABLE model." + prefix + t + " ";
            twins.session().execute(alter + "ADD x text");
            twins.session().execute(alter + "ADD (y map<int, int>, z int static)");
        }
        twins.both("UPDATE @" + t + " SET x = 'new', y[1] = 1 WHERE k = 0 AND c = 0 AND d = 0");
        twins.both("UPDATE @" + t + " SET z = 9 WHERE k = 0");
        all(t);
        for (String prefix : List.of("rocks_", "stock_")) {
            String alter = "ALTER TABLE model." + prefix + t + " ";
            twins.session().execute(alter + "DROP x");
            twins.session().execute(alter + "DROP (v, y)");
            twins.session().execute(alter + "RENAME c TO cc AND d TO dd");
        }
        assertThat(all(t)).allSatisfy(row -> assertThat(row).doesNotContain(" v:", "new"));
        for (String prefix : List.of("rocks_", "stock_"))
            for (String column : List.of("x text", "v int", "y map<int, int>"))
                twins.session().execute("ALTER TABLE model." + prefix + t + " ADD " + column);
        assertThat(twins.query("SELECT v, x, y FROM @" + t))
                .allSatisfy(row -> assertThat(row).contains("v:NULL", "x:NULL", "y:{}"));
        twins.both("UPDATE @" + t + " SET v = 77, x = 'again' WHERE k = 0 AND cc = 0 AND dd = 0");
        assertThat(twins.query("SELECT v, x FROM @" + t + " WHERE k = 0 AND cc = 0 AND dd = 0"))
                .singleElement()
                .asString()
                .contains("v:77", "again");
    }

    @Test
    @Order(6)
    void rowsInTheRowCacheFollowWrites() {
        String t = fresh();
        twins.create(
                t,
                "k int, c int, v int, PRIMARY KEY (k, c)",
                "caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}");
        for (int i = 0; i < 20; i++) {
            twins.both("INSERT INTO @" + t + " (k, c, v) VALUES (1, ?, ?)", i % 3, i);
            assertThat(twins.query("SELECT v FROM @" + t + " WHERE k = 1 AND c = ?", i % 3))
                    .singleElement()
                    .asString()
                    .contains("v:" + i);
        }
        twins.both("DELETE FROM @" + t + " WHERE k = 1 AND c = 1");
        assertThat(twins.query("SELECT c FROM @" + t + " WHERE k = 1")).hasSize(2);
    }

    // Large values

    @Test
    @Order(7)
    void largeAndSmallValuesInEveryPlace() {
        String t = fresh();
        twins.session().execute("CREATE TYPE model.holder (b blob, t text)");
        twins.create(
                t,
                "k int, c int, s blob static, v blob, w blob, l list<blob>, m map<int, blob>, u"
                        + " holder, f frozen<holder>, PRIMARY KEY (k, c)");
        int[] sizes = {0, 1, 16_383, 16_384, 16_385, 65_536, 1 << 20, 3};
        for (int c = 0; c < 4; c++)
            for (int i = 0; i < sizes.length; i++) {
                ByteBuffer large = filled(sizes[(i + c) % sizes.length], i);
                twins.both(
                        "INSERT INTO @"
                                + t
                                + " (k, c, s, v, l, m, u, f) VALUES (1, ?, ?, ?, ?, ?,"
                                + " {b: 0x01}, {b: 0x02}) USING TIMESTAMP ?",
                        c,
                        large,
                        large,
                        List.of(large, filled(20_000, 3)),
                        Map.of(1, large, 2, filled(17_000, 4)),
                        // Not in order, and each twice: ties.
                        (long) (i * 5 % 7));
                twins.both(
                        "UPDATE @"
                                + t
                                + " USING TIMESTAMP ? SET u.b = ?, m[3] = ? WHERE k = 1 AND c"
                                + " = ?",
                        (long) (i * 3 % 5),
                        large,
                        large,
                        c);
                if (i == 4) {
                    assertThat(node.tryNodetool("flush", "model").exitCode()).isZero();
                    twins.both(
                            "DELETE v FROM @" + t + " USING TIMESTAMP 3 WHERE k = 1 AND c = ?", c);
                }
            }
        twins.query("SELECT * FROM @" + t);
        twins.query("SELECT v FROM @" + t + " WHERE k = 1 AND c = 2");
        twins.query("SELECT w, c FROM @" + t + " WHERE k = 1");
        twins.query("SELECT m[1], u.b FROM @" + t + " WHERE k = 1 ORDER BY c DESC");
        twins.query("SELECT WRITETIME(v) FROM @" + t);
        twins.both("DELETE FROM @" + t + " WHERE k = 1 AND c > 2");
        ByteBuffer tenMegabytes = filled(10 << 20, 9);
        twins.both("INSERT INTO @" + t + " (k, c, w) VALUES (2, 1, ?)", tenMegabytes);
        for (String prefix : List.of("rocks_", "stock_"))
            assertThat(
                            twins.session()
                                    .execute("SELECT w FROM model." + prefix + t + " WHERE k = 2")
                                    .one()
                                    .getByteBuffer(0))
                    .isEqualTo(tenMegabytes);
        twins.both("UPDATE @" + t + " SET w = 0x05 WHERE k = 2 AND c = 1");
        assertThat(twins.query("SELECT w FROM @" + t + " WHERE k = 2"))
                .singleElement()
                .asString()
                .contains("0x05");
    }

    private static ByteBuffer filled(int size, int with) {
        ByteBuffer bytes = ByteBuffer.allocate(size);
        for (int i = 0; i < size; i++) bytes.put((byte) (i * 31 + with));
        return bytes.flip();
    }

    // Last

    @Test
    @Order(100)
    void afterAKillEverythingIsTheSame() {
        twins.session().close();
        node.process().kill();
        node.restart();
        twins.session(node.plainSession());
        twins.compareAll();
        for (String command : List.of("flush", "compact")) {
            node.nodetool(command, "model");
            twins.compareAll();
        }
    }
}
