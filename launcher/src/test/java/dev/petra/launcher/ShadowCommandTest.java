// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.cql.ColumnDefinitions;
import com.datastax.oss.driver.api.core.cql.Row;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShadowCommandTest {
    private static final long MEBIBYTE = 1 << 20;

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
        ShadowCommand.Report.Shadow one = shadow(writes(3, 40, 2, 50));
        ShadowCommand.Report.Shadow other = shadow(writes(2, 30, 4, 1_060));
        assertThat(ShadowCommand.Report.latencies(List.of(one, other), "writes", "write"))
                .isEqualTo(String.format("    writes: table 3 and 40, shadow 4 and 1,060%n"));
        ShadowCommand.Report.Shadow old = shadow(Map.of("equal", 0L));
        assertThat(ShadowCommand.Report.latencies(List.of(one, old), "writes", "write")).isEmpty();
    }

    private static Map<String, Long> writes(
            long tableP50, long tableP99, long shadowP50, long shadowP99) {
        return Map.of(
                "table_write_micros_p50", tableP50,
                "table_write_micros_p99", tableP99,
                "shadow_write_micros_p50", shadowP50,
                "shadow_write_micros_p99", shadowP99);
    }

    /** One that has caught up, and was not compared by {@code petra compare}. */
    private static ShadowCommand.Report.Shadow shadow(Map<String, Long> counts) {
        ColumnDefinitions columns =
                proxy(
                        ColumnDefinitions.class,
                        (self, method, arguments) -> counts.containsKey(arguments[0]));
        Row row =
                proxy(
                        Row.class,
                        (self, method, arguments) ->
                                switch (method.getName()) {
                                    case "getColumnDefinitions" -> columns;
                                    case "getBoolean" -> true;
                                    case "getLong" -> counts.get(arguments[0]);
                                    case "getDouble" ->
                                            (double) counts.getOrDefault(arguments[0], 0L);
                                    default ->
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                });
        return new ShadowCommand.Report.Shadow(
                new ShadowCommand.Report.Node("127.0.0.1", 9042), row, null);
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(
                Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
