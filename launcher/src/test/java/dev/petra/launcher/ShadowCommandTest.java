// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.cql.ColumnDefinitions;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.ShadowCommand.Report.Node;
import dev.petra.launcher.ShadowCommand.Report.Shadow;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShadowCommandTest {
    private static final long MEBIBYTE = 1 << 20;
    private static final Node FIRST = new Node("127.0.0.1", 9042);
    private static final Node SECOND = new Node("127.0.0.2", 9042);

    @ParameterizedTest
    @CsvSource({
        "1000, 600, 'the engine takes 400 MiB less (40 %)'",
        "1000, 2500, 'the engine takes 1,500 MiB more (150 %)'",
        "1000, 1000, 'about the same'",
        "0, 0, 'too little in SSTables to tell'",
        "0, 50, 'too little in SSTables to tell'"
    })
    void whatChangingSavesOnDiskIsSaidInPlainWords(long ofTable, long ofShadow, String told) {
        assertThat(ShadowCommand.Report.difference(ofTable * MEBIBYTE, ofShadow * MEBIBYTE))
                .isEqualTo(told);
    }

    /** Each answer differed only as those of Cassandra's replicas may. */
    @Test
    void aShadowWhoseAnswersAreAllUndecidedWasCompared() {
        Map<String, Long> nothing = Map.of("equal", 0L, "different", 0L, "undecided", 0L);
        assertThat(shadow(nothing).isUntested()).isTrue();
        Map<String, Long> undecided = Map.of("equal", 0L, "different", 0L, "undecided", 3L);
        assertThat(shadow(undecided).isUntested()).isFalse();
        // Of a node of an older version.
        assertThat(shadow(Map.of("equal", 0L, "different", 0L)).isUntested()).isTrue();
    }

    /** A node of an older version does not tell all of them. */
    @Test
    void latenciesAreTheHighestOfAnyNode() {
        Shadow one = shadow(writes(3, 40, 2, 50));
        Shadow other = shadow(writes(2, 30, 4, 1_060));
        assertThat(ShadowCommand.Report.latencies(List.of(one, other), "writes", "write"))
                .isEqualTo(String.format("    writes: table 3 and 40, shadow 4 and 1,060%n"));
        Shadow old = shadow(Map.of("equal", 0L));
        assertThat(ShadowCommand.Report.latencies(List.of(one, old), "writes", "write")).isEmpty();
    }

    private static Map<String, Long> counts(long different) {
        return Map.of(
                "compared", 5L,
                "equal", 5L - different,
                "different", different,
                "not_comparable", 0L,
                "table_bytes", 0L,
                "shadow_bytes", 0L);
    }

    private static boolean write(
            StringWriter told, Shadow shadow, Map<Node, Set<String>> inEngine) {
        return ShadowCommand.Report.write(
                new PrintWriter(told), "ks.t", List.of(shadow), inEngine, inEngine.size());
    }

    /** The exit code was 1 as soon as the first of several nodes was moved. */
    @Test
    void aNodeThatHasTheTableInItsEngineIsDone() {
        Shadow shadow = shadow(counts(0));
        StringWriter moved = new StringWriter();
        assertThat(write(moved, shadow, Map.of(FIRST, Set.of(), SECOND, Set.of("ks.t")))).isTrue();
        assertThat(moved.toString())
                .contains("ks.t: 1 of 2 nodes have caught up")
                .contains("  127.0.0.2:9042: the table is in the engine already");
        StringWriter without = new StringWriter();
        assertThat(write(without, shadow, Map.of(FIRST, Set.of(), SECOND, Set.of("ks.u"))))
                .isFalse();
        assertThat(without.toString()).contains("  127.0.0.2:9042: has no shadow of this table");
    }

    /** It had sums only, and each node had to be asked for the rest. */
    @Test
    void theDifferencesOfANodeAreTold() {
        Shadow shadow =
                shadow(
                        counts(1),
                        List.of(
                                difference("different", "3", "row c=5", "v=1", ""),
                                difference("undecided: late write", "4", "row c=6", "v=2", "")));
        StringWriter told = new StringWriter();
        assertThat(write(told, shadow, Map.of(FIRST, Set.of()))).isFalse();
        assertThat(told.toString())
                .contains("127.0.0.1:9042: caught up, 1 different")
                .contains("partition 3, row c=5: the table has: v=1; the shadow has: nothing")
                .doesNotContain("partition 4");
    }

    private static Row difference(
            String kind, String key, String place, String table, String shadow) {
        return row(
                Map.of(),
                Map.of(
                        "kind", kind,
                        "partition_key", key,
                        "place", place,
                        "only_in_table", table,
                        "only_in_shadow", shadow));
    }

    private static Map<String, Long> writes(
            long tableP50, long tableP99, long shadowP50, long shadowP99) {
        return Map.of(
                "table_write_micros_p50", tableP50,
                "table_write_micros_p99", tableP99,
                "shadow_write_micros_p50", shadowP50,
                "shadow_write_micros_p99", shadowP99);
    }

    private static Shadow shadow(Map<String, Long> counts) {
        return shadow(counts, List.of());
    }

    /** One that has caught up, and was not compared by {@code petra compare}. */
    private static Shadow shadow(Map<String, Long> counts, List<Row> differences) {
        return new Shadow(FIRST, row(counts, Map.of("state", "caught up")), null, differences);
    }

    private static Row row(Map<String, Long> counts, Map<String, String> texts) {
        ColumnDefinitions columns =
                proxy(
                        ColumnDefinitions.class,
                        (self, method, arguments) ->
                                counts.containsKey(arguments[0])
                                        || texts.containsKey(arguments[0]));
        return proxy(
                Row.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "getColumnDefinitions" -> columns;
                            case "getBoolean" -> true;
                            case "getLong" -> counts.get(arguments[0]);
                            case "getDouble" -> (double) counts.getOrDefault(arguments[0], 0L);
                            case "getString" -> texts.get(arguments[0]);
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(
                Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
