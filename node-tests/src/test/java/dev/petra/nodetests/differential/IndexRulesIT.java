// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.nodetests.fixture.IndexKind;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.management.JMX;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * The rules that Cassandra has for indexes: guardrails, analyzers, which queries need ALLOW
 * FILTERING. A table in the engine and one in Cassandra's own storage do the same, in the same
 * words.
 */
@OneOf(variants = "indexes of tables on their way, races, and rules", of = 3, number = 3)
class IndexRulesIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final int TEN_MEGABYTES = 10 << 20;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static TestNode node;
    private static JMXConnector jmx;
    private static Guardrails guardrails;

    /** Guardrails do not apply to it, nor to anyone where the node asks for no password. */
    private static CqlSession superuser;

    private static CqlSession user;
    private static TwinTables tables;

    /** What is used of Cassandra's bean. A threshold that is null does not apply. */
    public interface Guardrails {
        void setSaiStringTermSizeThreshold(@Nullable String warn, @Nullable String fail);

        void setSaiFrozenTermSizeThreshold(@Nullable String warn, @Nullable String fail);

        void setSecondaryIndexesPerTableThreshold(int warn, int fail);

        void setSecondaryIndexesEnabled(boolean enabled);

        void setNonPartitionRestrictedQueryEnabled(boolean enabled);

        void setAllowFilteringEnabled(boolean enabled);
    }

    @BeforeAll
    static void start() throws Exception {
        node =
                TestNode.start(
                        directory,
                        options ->
                                options.yaml(Map.of("authenticator", "PasswordAuthenticator"))
                                        .jvmOptions(
                                                "-Dcassandra.superuser_setup_delay_ms=0",
                                                "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
                                                // The test says when.
                                                "-Dpetra.index.sweep_seconds=3600"));
        node.awaitLog("Created default superuser role 'cassandra'", PATIENCE);
        superuser = node.session("cassandra", "cassandra");
        superuser.execute("CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true");
        user = node.session("plain", "plain");
        tables = new TwinTables(user, "ks");
        jmx = node.jmx();
        guardrails =
                JMX.newMBeanProxy(
                        jmx.getMBeanServerConnection(),
                        new ObjectName("org.apache.cassandra.db:type=Guardrails"),
                        Guardrails.class);
    }

    @AfterAll
    static void stop() throws Exception {
        if (jmx != null) jmx.close();
        if (user != null) user.close();
        if (superuser != null) superuser.close();
        node.close();
    }

    /** As they are by default. */
    @AfterEach
    void takeGuardrailsBack() {
        tables.session(user);
        guardrails.setSaiStringTermSizeThreshold("1KiB", "8KiB");
        guardrails.setSaiFrozenTermSizeThreshold("1KiB", "8KiB");
        guardrails.setSecondaryIndexesPerTableThreshold(-1, -1);
        guardrails.setSecondaryIndexesEnabled(true);
        guardrails.setNonPartitionRestrictedQueryEnabled(true);
        guardrails.setAllowFilteringEnabled(true);
    }

    private static void limitTerms() {
        guardrails.setSaiStringTermSizeThreshold("8B", "16B");
        guardrails.setSaiFrozenTermSizeThreshold("24B", "32B");
    }

    /** Creates indexes on both tables of a pair, and waits until both are built. */
    private static void index(IndexKind kind, String table, String... targets) throws Exception {
        for (String target : targets)
            assertThat(tables.same("CREATE INDEX ON @" + table + " (" + target + ")" + kind.using))
                    .isEmpty();
        await(kind, table, targets);
    }

    private static void await(IndexKind kind, String table, String... targets) throws Exception {
        for (String target : targets)
            for (String prefix : List.of("rocks_", "stock_"))
                kind.await(superuser, prefix + indexOf(table, target), PATIENCE);
    }

    /** The name that Cassandra gives it. */
    private static String indexOf(String table, String target) {
        return table + "_" + target.replaceAll(".*\\(|\\).*", "") + "_idx";
    }

    private static void rebuild(String table, String... targets) throws Exception {
        for (String target : targets)
            for (String prefix : List.of("rocks_", "stock_"))
                node.nodetool(
                        "rebuild_index", "ks", prefix + table, prefix + indexOf(table, target));
        await(IndexKind.SAI, table, targets);
    }

    private static String text(int size) {
        return "v".repeat(size);
    }

    // Terms that are too large

    @Test
    void aTermOverTheLimitIsRefused() throws Exception {
        tables.create(
                "refused",
                "k int, c int, s text static, v text, a text, f frozen<list<text>>, x set<text>,"
                        + " m map<text, text>, PRIMARY KEY (k, c)");
        index(IndexKind.SAI, "refused", "s", "v", "FULL(f)", "x", "ENTRIES(m)");
        tables.same(
                "CREATE INDEX ON @refused (a) USING 'sai' WITH OPTIONS = {'case_sensitive':"
                        + " false}");
        await(IndexKind.SAI, "refused", "a");
        limitTerms();
        for (int size : new int[] {1, 8, 9, 16, 17, 60}) {
            String row = " WHERE k = " + size + " AND c = 0";
            String value = "'" + text(size) + "'";
            List<List<String>> outcomes =
                    List.of(
                            tables.same("UPDATE @refused SET s = " + value + " WHERE k = " + size),
                            tables.same("UPDATE @refused SET v = " + value + row),
                            tables.same("UPDATE @refused SET a = " + value + row),
                            tables.same("UPDATE @refused SET f = [" + value + "]" + row),
                            tables.same("UPDATE @refused SET x = x + {" + value + "}" + row),
                            tables.same("UPDATE @refused SET m['k'] = " + value + row));
            if (size == 1) assertThat(outcomes).containsOnly(List.of());
            if (size == 9)
                assertThat(outcomes.get(1).toString())
                        .contains(
                                "Value of column 'v' has size 9, this exceeds the warning"
                                        + " threshold of 8.");
            if (size == 60)
                assertThat(outcomes)
                        .allSatisfy(
                                outcome ->
                                        assertThat(outcome.toString())
                                                .contains("exceeds the failure threshold of "));
            for (String where :
                    List.of("s = #", "v = #", "a = #", "f = [#]", "x CONTAINS #", "m['k'] = #"))
                tables.query("SELECT * FROM @refused WHERE " + where.replace("#", value));
        }
        assertThat(tables.same("SELECT k FROM @refused WHERE v = '" + text(16) + "'")).hasSize(1);
        tables.compareAll();
    }

    /** Also one that a superuser writes, whom no guardrail stops. */
    @Test
    void aTermOverTheLimitIsNotInTheIndex() throws Exception {
        tables.create("left", "k int PRIMARY KEY, v text, w text, f frozen<list<text>>");
        write("left", 1, 40);
        write("left", 2, 10);
        index(IndexKind.SAI, "left", "w");
        limitTerms();
        index(IndexKind.SAI, "left", "v", "FULL(f)");
        findLeft(1, 40, "1", "", "");
        findLeft(2, 10, "2", "2", "2");
        tables.session(superuser);
        write("left", 3, 50);
        write("left", 4, 41);
        write("left", 4, 11);
        findLeft(3, 50, "", "", "");
        findLeft(4, 41, "", "", "");
        findLeft(4, 11, "4", "4", "4");
        node.nodetool("flush", "ks", "rocks_left", "stock_left");
        findLeft(3, 50, "", "", "");
        rebuild("left", "v", "f");
        findLeft(1, 40, "1", "", "");
        findLeft(2, 10, "2", "2", "2");
        findLeft(3, 50, "", "", "");
        guardrails.setSaiStringTermSizeThreshold("1KiB", "8KiB");
        guardrails.setSaiFrozenTermSizeThreshold("1KiB", "8KiB");
        rebuild("left", "v", "w", "f");
        findLeft(1, 40, "1", "1", "1");
        findLeft(3, 50, "3", "3", "3");
        findLeft(4, 41, "", "", "");
        findLeft(4, 11, "4", "4", "4");
    }

    private static void write(String table, int k, int size) {
        assertThat(
                        tables.same(
                                "INSERT INTO @%1$s (k, v, w, f) VALUES (%2$d, '%3$s', '%3$s',"
                                                .formatted(table, k, text(size))
                                        + " ['"
                                        + text(size)
                                        + "'])"))
                .isEmpty();
    }

    private static void findLeft(int k, int size, String w, String v, String f) {
        assertThat(tables.same("SELECT k FROM @left WHERE k = " + k)).hasSize(1);
        assertThat(found("left", "w = '" + text(size) + "'")).isEqualTo(w);
        assertThat(found("left", "v = '" + text(size) + "'")).isEqualTo(v);
        assertThat(found("left", "f = ['" + text(size) + "']")).isEqualTo(f);
    }

    /** The keys of the rows that a condition finds. */
    private static String found(String table, String where) {
        return tables.same("SELECT k FROM @" + table + " WHERE " + where).stream()
                .map(row -> row.replaceAll("\\W*k:(\\d+)\\W*", "$1"))
                .collect(Collectors.joining(","));
    }

    @Test
    void tenMegabytesInAnIndexedColumn() throws Exception {
        tables.create("large", "k int PRIMARY KEY, b blob, t text, f frozen<list<blob>>");
        tables.create("legacy", "k int PRIMARY KEY, b blob");
        String text = text(TEN_MEGABYTES);
        ByteBuffer blob = ByteBuffer.allocate(TEN_MEGABYTES);
        String insertText = "INSERT INTO @large (k, t) VALUES (?, ?)";
        String insertList = "INSERT INTO @large (k, f) VALUES (?, ?)";
        String insertBlob = "INSERT INTO @legacy (k, b) VALUES (?, ?)";
        assertThat(tables.same(insertText, 1, text)).isEmpty();
        assertThat(tables.same(insertList, 2, List.of(blob))).isEmpty();
        assertThat(tables.same(insertBlob, 1, blob)).isEmpty();
        assertThat(tables.same("CREATE INDEX ON @large (b) USING 'sai'").toString())
                .contains("Unsupported type: blob");
        index(IndexKind.SAI, "large", "t", "FULL(f)");
        index(IndexKind.LEGACY, "legacy", "b");
        assertThat(tables.same(insertText, 3, text).toString())
                .contains("has size " + TEN_MEGABYTES + ", this exceeds the failure threshold");
        assertThat(tables.same(insertList, 4, List.of(blob)).toString())
                .contains("Value of column 'f' has size ");
        assertThat(tables.same(insertBlob, 3, blob).toString())
                .contains("Cannot index value of size " + TEN_MEGABYTES);
        tables.session(superuser);
        assertThat(tables.same(insertText, 5, text)).isEmpty();
        assertThat(tables.same("SELECT k FROM @large WHERE t = ?", text)).isEmpty();
        tables.same("SELECT k FROM @legacy WHERE b = ?", blob);
        assertThat(tables.same("SELECT k FROM @large")).hasSize(3);
        assertThat(tables.same("SELECT k FROM @legacy")).hasSize(1);
        assertThat(tables.same(insertText, 1, "t")).isEmpty();
        assertThat(tables.same(insertBlob, 1, ByteBuffer.allocate(1))).isEmpty();
        assertThat(found("large", "t = 't'")).isEqualTo("1");
        assertThat(found("legacy", "b = 0x00")).isEqualTo("1");
    }

    // Many indexes

    /** Cassandra's own storage has none here, which would take twice the time, and filters. */
    @Test
    void aHundredIndexes() throws Exception {
        List<String> columns = IntStream.range(0, 100).mapToObj(i -> "v" + i).toList();
        tables.create("many", "k int PRIMARY KEY, " + String.join(" int, ", columns) + " int");
        insertMany(columns, 1);
        for (String column : columns)
            user.execute("CREATE INDEX ON ks.rocks_many (" + column + ") USING 'sai'");
        for (String column : columns)
            IndexKind.SAI.await(superuser, "rocks_" + indexOf("many", column), PATIENCE);
        insertMany(columns, 2);
        for (int i = 0; i < columns.size(); i++) {
            int k = i % 2 + 1;
            assertThat(found("many", columns.get(i) + " = " + k + " ALLOW FILTERING"))
                    .isEqualTo("" + k);
        }
        String all =
                columns.stream()
                        .map(column -> column + " = 2")
                        .collect(Collectors.joining(" AND "));
        assertThat(found("many", all + " ALLOW FILTERING")).isEqualTo("2");
    }

    private static void insertMany(List<String> columns, int k) {
        assertThat(
                        tables.same(
                                "INSERT INTO @many (k, "
                                        + String.join(", ", columns)
                                        + ") VALUES ("
                                        + k
                                        + (", " + k).repeat(columns.size())
                                        + ")"))
                .isEmpty();
    }

    @Test
    void moreIndexesThanATableMayHaveAreRefused() throws Exception {
        tables.create("few", "k int PRIMARY KEY, v int, w int, x int");
        guardrails.setSecondaryIndexesPerTableThreshold(1, 2);
        index(IndexKind.SAI, "few", "v");
        assertThat(tables.same("CREATE INDEX ON @few (w) USING 'sai'").toString())
                .contains("current number of indexes 2 exceeds warning threshold of 1.");
        for (IndexKind kind : IndexKind.values())
            assertThat(tables.same("CREATE INDEX ON @few (x)" + kind.using).toString())
                    .contains("Tables cannot have more than 2 secondary indexes");
        guardrails.setSecondaryIndexesPerTableThreshold(-1, -1);
        guardrails.setSecondaryIndexesEnabled(false);
        for (IndexKind kind : IndexKind.values())
            assertThat(tables.same("CREATE INDEX ON @few (x)" + kind.using).toString())
                    .contains("Creating secondary indexes is not allowed");
    }

    // Analyzers

    /** Alike by case, by how an accent is written, or by what is left of them in ASCII. */
    private static final List<String> WORDS =
            List.of(
                    "\u00c4rger",
                    "\u00e4rger",
                    "A\u0308rger",
                    "a\u0308rger",
                    "Arger",
                    "arger",
                    "stra\u00dfe",
                    "STRASSE",
                    "strasse",
                    "\ufb01n",
                    "fin",
                    "\u0130x",
                    "ix",
                    "\u4e2d",
                    "");

    @Test
    void anAnalyzedColumnIsFoundByWhatItsAnalyzerMakesEqual() throws Exception {
        List<String> options =
                IntStream.range(1, 8)
                        .mapToObj(
                                i ->
                                        "{'case_sensitive': %s, 'normalize': %s, 'ascii': %s}"
                                                .formatted((i & 1) == 0, (i & 2) > 0, (i & 4) > 0))
                        .toList();
        List<String> columns = IntStream.range(1, 8).mapToObj(i -> "v" + i).toList();
        tables.create(
                "analyzed",
                "k int, c int, s text static, "
                        + String.join(" text, ", columns)
                        + " text, x set<text>, l list<text>, m map<text, text>, PRIMARY KEY (k,"
                        + " c)");
        // The first half is built, the other written.
        for (int i = 0; i < WORDS.size() / 2; i++) insertAnalyzed(columns, i);
        for (int i = 0; i < columns.size(); i++) analyze(columns.get(i), options.get(i));
        for (String target : List.of("s", "x", "l", "VALUES(m)")) analyze(target, options.get(6));
        await(IndexKind.SAI, "analyzed", columns.toArray(String[]::new));
        await(IndexKind.SAI, "analyzed", "s", "x", "l", "m");
        for (int i = WORDS.size() / 2; i < WORDS.size(); i++) insertAnalyzed(columns, i);
        findAnalyzed(columns);
        // Each word is at the place of another.
        for (int i = 0; i < WORDS.size(); i += 2)
            for (String column : columns)
                assertThat(
                                tables.same(
                                        "UPDATE @analyzed SET "
                                                + column
                                                + " = ? WHERE k = ? AND c = 0",
                                        WORDS.get((i + 4) % WORDS.size()),
                                        i))
                        .isEmpty();
        node.nodetool("flush", "ks", "rocks_analyzed", "stock_analyzed");
        node.nodetool("garbagecollect", "ks", "rocks_analyzed", "stock_analyzed");
        findAnalyzed(columns);
    }

    private static void analyze(String target, String options) {
        assertThat(
                        tables.same(
                                "CREATE INDEX ON @analyzed ("
                                        + target
                                        + ") USING 'sai' WITH OPTIONS = "
                                        + options))
                .isEmpty();
    }

    private static void insertAnalyzed(List<String> columns, int k) {
        String word = "'" + WORDS.get(k) + "'";
        assertThat(
                        tables.same(
                                "INSERT INTO @analyzed (k, c, s, x, l, m, "
                                        + String.join(", ", columns)
                                        + ") VALUES (%1$d, 0, %2$s, {%2$s}, [%2$s], {'k': %2$s}"
                                                .formatted(k, word)
                                        + (", " + word).repeat(columns.size())
                                        + ")"))
                .isEmpty();
    }

    private static void findAnalyzed(List<String> columns) {
        int alike = 0;
        for (String word : WORDS) {
            for (String column : columns) alike += foundAnalyzed(column + " = ", word).size() - 1;
            for (String column : List.of("s = ", "x CONTAINS ", "l CONTAINS ", "m CONTAINS "))
                alike += foundAnalyzed(column, word).size() - 1;
        }
        assertThat(alike).as("found by a word that is not what was written").isGreaterThan(100);
        assertThat(foundAnalyzed("v1 = ", "\u00c4RGER")).hasSize(2);
    }

    private static List<String> foundAnalyzed(String condition, String word) {
        return tables.same("SELECT * FROM @analyzed WHERE " + condition + "?", word);
    }

    @Test
    void optionsThatNoAnalyzerHasAreRefused() {
        tables.create("unanalyzed", "k int, c text, v text, n int, PRIMARY KEY (k, c)");
        for (String options :
                List.of(
                        "(v) USING 'sai' WITH OPTIONS = {'ascii': 'maybe'}",
                        "(v) USING 'sai' WITH OPTIONS = {'case_sensitive': ''}",
                        "(v) USING 'sai' WITH OPTIONS = {'index_analyzer': 'standard'}",
                        "(v) USING 'sai' WITH OPTIONS = {'mode': 'CONTAINS'}",
                        "(n) USING 'sai' WITH OPTIONS = {'normalize': true}",
                        "(c) USING 'sai' WITH OPTIONS = {'normalize': true}",
                        "(k) USING 'sai'",
                        "(w) USING 'sai'")) assertRefused("CREATE INDEX ON @unanalyzed " + options);
    }

    private static void assertRefused(String cql) {
        assertThat(tables.same(cql))
                .singleElement()
                .asString()
                .as(cql)
                .matches(
                        "(?s)(InvalidQueryException|InvalidConfigurationInQueryException|SyntaxError):"
                            + " .*");
    }

    // Queries

    @Test
    void queriesThatAnIndexDoesNotNarrowDown() throws Exception {
        tables.create(
                "wide", "k int, c int, s int static, v int, w int, t text, PRIMARY KEY (k, c)");
        index(IndexKind.SAI, "wide", "v", "t");
        for (int i = 0; i < 60; i++)
            assertThat(
                            tables.same(
                                    "INSERT INTO @wide (k, c, s, v, w, t) VALUES (?, ?, 1, ?, ?,"
                                            + " 'same')",
                                    i % 7,
                                    i,
                                    i % 2,
                                    i % 3))
                    .isEmpty();
        for (String where :
                List.of("v >= 0", "t = 'same'", "v > -1 AND t = 'same'", "v < 100 AND v >= 0"))
            assertThat(tables.query("SELECT * FROM @wide WHERE " + where)).as(where).hasSize(60);
        for (String where :
                List.of(
                        "w = 1",
                        "s = 1",
                        "c > 3",
                        "v >= 0 AND w = 1",
                        "v >= 0 AND c > 3",
                        "t > 'a'",
                        "v = 1 AND t > 'a'",
                        "v IN (0, 1)",
                        "k = 1 AND w = 1",
                        "k IN (1, 2) AND w = 1",
                        "token(k) > 0 AND v = 1 AND w = 1"))
            for (boolean permitted : new boolean[] {true, false}) {
                guardrails.setAllowFilteringEnabled(permitted);
                assertRefused("SELECT * FROM @wide WHERE " + where);
                List<String> filtered =
                        tables.same("SELECT * FROM @wide WHERE " + where + " ALLOW FILTERING");
                if (permitted) assertThat(filtered).as(where).isNotEmpty();
                else
                    assertThat(filtered.toString())
                            .as(where)
                            .contains("Querying with ALLOW FILTERING is not allowed");
            }
        guardrails.setAllowFilteringEnabled(true);
        for (String query :
                List.of(
                        "t LIKE 'sa%'",
                        "v != 1",
                        "v = 1 ORDER BY c",
                        "k = 1 AND v = 1 ORDER BY c DESC",
                        "v = 1 ORDER BY v",
                        "v = 1 ORDER BY v LIMIT 3",
                        "v = 1 OR w = 1",
                        "v CONTAINS 1",
                        "v = 'text'",
                        "k IN (1, 2) AND v = 1"))
            assertRefused("SELECT * FROM @wide WHERE " + query);
        tables.query("SELECT * FROM @wide WHERE k = 1 AND v = 1");
        tables.query("SELECT * FROM @wide WHERE token(k) > 0 AND v = 1");
        guardrails.setNonPartitionRestrictedQueryEnabled(false);
        for (String where : List.of("v = 1", "v >= 0 AND t = 'same'"))
            assertThat(tables.same("SELECT * FROM @wide WHERE " + where).toString())
                    .contains("Non-partition key restricted query is not allowed");
        assertThat(tables.query("SELECT * FROM @wide WHERE k = 1 AND v = 1")).isNotEmpty();
    }

    @Test
    void queriesThatALegacyIndexDoesNotNarrowDown() throws Exception {
        tables.create("former", "k int, c int, v int, w int, PRIMARY KEY (k, c)");
        index(IndexKind.LEGACY, "former", "v");
        for (int i = 0; i < 30; i++)
            assertThat(
                            tables.same(
                                    "INSERT INTO @former (k, c, v, w) VALUES (?, ?, ?, ?)",
                                    i % 7,
                                    i,
                                    i % 2,
                                    i % 3))
                    .isEmpty();
        assertThat(tables.query("SELECT * FROM @former WHERE v = 1")).hasSize(15);
        for (String where : List.of("w = 1", "v > 0", "v = 1 AND w = 1", "v = 1 AND c > 3")) {
            assertRefused("SELECT * FROM @former WHERE " + where);
            assertThat(tables.query("SELECT * FROM @former WHERE " + where + " ALLOW FILTERING"))
                    .as(where)
                    .isNotEmpty();
        }
        for (String query : List.of("v != 1", "v = 1 ORDER BY c", "k IN (1, 2) AND v = 1"))
            assertRefused("SELECT * FROM @former WHERE " + query);
        guardrails.setNonPartitionRestrictedQueryEnabled(false);
        assertThat(tables.same("SELECT * FROM @former WHERE v = 1").toString())
                .contains("Non-partition key restricted query is not allowed");
    }

    @Test
    void aColumnWithAnIndexIsNotDropped() throws Exception {
        tables.create("kept", "k int PRIMARY KEY, v int, w int");
        index(IndexKind.SAI, "kept", "v");
        index(IndexKind.LEGACY, "kept", "w");
        assertRefused("ALTER TABLE @kept DROP v");
        assertRefused("ALTER TABLE @kept DROP w");
    }
}
