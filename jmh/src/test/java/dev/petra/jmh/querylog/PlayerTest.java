// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverTimeoutException;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.ColumnDefinition;
import com.datastax.oss.driver.api.core.cql.ColumnDefinitions;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.internal.core.cql.DefaultColumnDefinitions;
import com.datastax.oss.driver.internal.core.cql.DefaultRow;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Asking, comparing and taking times, of nodes that are made up. */
class PlayerTest {
    @TempDir Path directory;

    private static CompletionStage<Object> failed() {
        return CompletableFuture.failedFuture(new DriverTimeoutException("too late"));
    }

    /** A row of an int with these bytes. */
    private static CompletionStage<Object> row(int... bytes) {
        ByteBuffer value = ByteBuffer.allocate(bytes.length);
        for (int b : bytes) value.put((byte) b);
        ColumnDefinition column =
                made(
                        ColumnDefinition.class,
                        method ->
                                switch (method) {
                                    case "getName" -> CqlIdentifier.fromInternal("v");
                                    case "getType" -> DataTypes.INT;
                                    default -> throw new AssertionError(method);
                                });
        ColumnDefinitions columns = DefaultColumnDefinitions.valueOf(List.of(column));
        List<Row> rows = List.of(new DefaultRow(columns, List.of(value.flip())));
        return CompletableFuture.completedFuture(
                made(
                        AsyncResultSet.class,
                        method ->
                                switch (method) {
                                    case "getColumnDefinitions" -> columns;
                                    case "hasMorePages" -> false;
                                    case "currentPage" -> rows;
                                    default -> throw new AssertionError(method);
                                }));
    }

    /** What answers so to the names of methods. */
    private static <T> T made(Class<T> type, Function<String, Object> answers) {
        return type.cast(
                Proxy.newProxyInstance(
                        PlayerTest.class.getClassLoader(),
                        new Class<?>[] {type},
                        (proxy, method, arguments) -> answers.apply(method.getName())));
    }

    /** A node that answers so to a text, also to one that is to be prepared. */
    private static Player player(Function<String, CompletionStage<Object>> answers) {
        return new Player(
                (CqlSession)
                        Proxy.newProxyInstance(
                                PlayerTest.class.getClassLoader(),
                                new Class<?>[] {CqlSession.class},
                                (proxy, method, arguments) ->
                                        switch (method.getName()) {
                                            case "executeAsync", "prepareAsync" ->
                                                    answers.apply(
                                                            ((SimpleStatement) arguments[0])
                                                                    .getQuery());
                                            default -> throw new AssertionError(method);
                                        }));
    }

    /** Of the requests of this log. */
    private Selection selection(QueryLog log) {
        return new Selection(log, Set.of(new TableSchema.Table("ks", "t")), Long.MAX_VALUE);
    }

    private void written(String... cql) {
        try (WrittenLog log = new WrittenLog(directory)) {
            for (String text : cql) log.query(text);
        }
    }

    private Comparison compared(Player one, Player other) {
        Comparison comparison = new Comparison(one, other, asked -> {});
        try (QueryLog log = new QueryLog(List.of(directory))) {
            comparison.run(selection(log));
        }
        return comparison;
    }

    @Test
    void aStatementWithoutValuesIsAskedInItsKeyspace() {
        List<@Nullable CqlIdentifier> keyspaces = new ArrayList<>();
        CqlSession session =
                (CqlSession)
                        Proxy.newProxyInstance(
                                PlayerTest.class.getClassLoader(),
                                new Class<?>[] {CqlSession.class},
                                (proxy, method, arguments) -> {
                                    keyspaces.add(((SimpleStatement) arguments[0]).getKeyspace());
                                    return row(0, 0, 0, 1);
                                });
        for (String cql : List.of("SELECT * FROM t", "SELECT * FROM ks.t"))
            new Player(session)
                    .ask(
                            new LoggedQuery(
                                    1,
                                    "Ks",
                                    null,
                                    List.of(new LoggedQuery.Part(cql, List.of())),
                                    new LoggedQuery.Parameters(null, 5000, null, 1, 1),
                                    null));
        assertThat(keyspaces).containsExactly(CqlIdentifier.fromInternal("Ks"), null);
    }

    @Test
    void failuresAreNoAnswers() {
        written(
                "SELECT 1 FROM ks.t",
                "SELECT 2 FROM ks.t",
                "DELETE FROM ks.t",
                "SELECT 4 FROM ks.t");
        Comparison comparison =
                compared(
                        player(cql -> cql.contains("1") ? row(0, 0, 0, 1) : failed()),
                        player(cql -> cql.contains("4") ? failed() : row(0, 0, 0, 1)));
        assertThat(comparison.asked()).isEqualTo(4);
        assertThat(comparison.compared()).isEqualTo(1);
        assertThat(comparison.rows()).isEqualTo(1);
        assertThat(comparison.failedOnOne()).isEqualTo(3);
        assertThat(comparison.failedOnOther()).isEqualTo(1);
        assertThat(comparison.failedOnBoth()).isEqualTo(1);
        assertThat(comparison.different()).isEqualTo(2);
        assertThat(comparison.differences())
                .extracting(difference -> difference.query().cql())
                .containsExactly("SELECT 2 FROM ks.t", "DELETE FROM ks.t");
    }

    @Test
    void aDamagedValueIsComparedByItsBytes() {
        written("SELECT 1 FROM ks.t", "SELECT 2 FROM ks.t", "SELECT 3 FROM ks.t");
        Comparison comparison =
                compared(
                        player(cql -> row(1, 2)),
                        player(cql -> cql.contains("2") ? row(1, 3) : row(1, 2)));
        assertThat(comparison.compared()).isEqualTo(3);
        assertThat(comparison.different()).isEqualTo(1);
        assertThat(comparison.differences())
                .singleElement()
                .satisfies(
                        difference -> {
                            assertThat(difference.number()).isEqualTo(2);
                            assertThat(difference.one()).isEqualTo("1 rows: [v:0x0102] ");
                            assertThat(difference.other()).isEqualTo("1 rows: [v:0x0103] ");
                        });
    }

    @Test
    void whatFailsHasNoTime() {
        written(
                "SELECT 1 FROM ks.t",
                "SELECT 2 FROM ks.t",
                "DELETE 3 FROM ks.t",
                "SELECT 4 FROM ks.t",
                "SELECT 5 FROM ks.t");
        Pace first = new Pace(player(cql -> failed()), 0, 2);
        Pace pace = new Pace(player(cql -> cql.contains("5") ? row() : failed()), 0, 2);
        try (QueryLog log = new QueryLog(List.of(directory))) {
            Selection selection = selection(log);
            first.run(selection, 2);
            pace.run(selection, Long.MAX_VALUE);
        }
        assertThat(first.reads().getTotalCount()).isZero();
        assertThat(first.failed()).isEqualTo(BitSet.valueOf(new long[] {0b110}));
        assertThat(pace.reads().getTotalCount()).isEqualTo(1);
        assertThat(pace.writes().getTotalCount()).isZero();
        assertThat(pace.failed()).isEqualTo(BitSet.valueOf(new long[] {0b11000}));
        assertThat(pace.errors()).containsOnlyKeys("DriverTimeoutException");
    }

    /** Three reads, each that much later than the one before. */
    private void writtenApart(long millis) {
        try (WrittenLog log = new WrittenLog(directory)) {
            log.query("SELECT 1 FROM ks.t").later(millis).query("SELECT 2 FROM ks.t");
            log.later(millis).query("SELECT 3 FROM ks.t");
        }
    }

    /** None is asked before it is due, and the rate is that of the log. */
    @ParameterizedTest
    @ValueSource(doubles = {1, 2})
    void requestsAreAskedWhenTheyAreDue(double speed) {
        writtenApart(200);
        List<Long> asked = new ArrayList<>();
        Pace pace =
                new Pace(
                        player(
                                cql -> {
                                    asked.add(System.nanoTime());
                                    return row(0, 0, 0, 1);
                                }),
                        speed,
                        2);
        long start = System.nanoTime();
        try (QueryLog log = new QueryLog(List.of(directory))) {
            pace.run(selection(log), Long.MAX_VALUE);
        }
        assertThat(asked).hasSize(3);
        for (int i = 0; i < 3; i++)
            assertThat(asked.get(i) - start)
                    .isGreaterThanOrEqualTo(
                            (long) (i * TimeUnit.MILLISECONDS.toNanos(200) / speed));
        assertThat(pace.rate()).isCloseTo(3 / 0.4 * speed, within(0.001));
        assertThat(pace.reads().getTotalCount()).isEqualTo(3);
    }

    /**
     * Requests that could not be asked in time have waited, whether the node has not answered those
     * before or whoever asks was held up.
     */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void timesCountFromWhenARequestWasDue(boolean isNodeSlow) {
        writtenApart(200);
        long delay = 900;
        Pace pace =
                new Pace(
                        player(
                                cql -> {
                                    if (!cql.contains("1")) return row(0, 0, 0, 1);
                                    if (isNodeSlow)
                                        return row(0, 0, 0, 1)
                                                .thenApplyAsync(
                                                        rows -> rows,
                                                        CompletableFuture.delayedExecutor(
                                                                delay, TimeUnit.MILLISECONDS));
                                    sleep(delay);
                                    return row(0, 0, 0, 1);
                                }),
                        1,
                        1);
        try (QueryLog log = new QueryLog(List.of(directory))) {
            pace.run(selection(log), Long.MAX_VALUE);
        }
        // Due 0, 200 and 400 ms after the first, which was answered after 900 ms: all that is
        // counted is at least the rest of these. Of three digits.
        assertThat(pace.reads().getTotalCount()).isEqualTo(3);
        assertThat(pace.reads().getMinValue())
                .isGreaterThan(TimeUnit.MILLISECONDS.toNanos(delay - 400 - 1));
        assertThat(pace.reads().getValueAtPercentile(50))
                .isGreaterThan(TimeUnit.MILLISECONDS.toNanos(delay - 200 - 1));
        assertThat(pace.reads().getMaxValue())
                .isGreaterThan(TimeUnit.MILLISECONDS.toNanos(delay - 1));
    }

    private static void sleep(long millis) {
        try {
            TimeUnit.MILLISECONDS.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    @Test
    void whatCouldNotBePreparedIsPreparedAgain() {
        LoggedQuery query =
                new LoggedQuery(
                        0,
                        null,
                        null,
                        List.of(
                                new LoggedQuery.Part(
                                        "SELECT ? FROM ks.t", List.of(ByteBuffer.allocate(1)))),
                        new LoggedQuery.Parameters(null, -1, null, Long.MIN_VALUE, Long.MIN_VALUE),
                        null);
        int[] prepared = new int[1];
        Player player =
                player(
                        cql -> {
                            prepared[0]++;
                            return failed();
                        });
        for (int i = 1; i <= 2; i++) {
            assertThat(player.ask(query)).isCompletedExceptionally();
            assertThat(prepared[0]).isEqualTo(i);
        }
    }

    @Test
    void whatCannotBeAskedHasFailed() {
        LoggedQuery none =
                new LoggedQuery(
                        0,
                        null,
                        null,
                        List.of(),
                        new LoggedQuery.Parameters(null, -1, null, Long.MIN_VALUE, Long.MIN_VALUE),
                        null);
        assertThat(player(cql -> row()).ask(none)).isCompletedExceptionally();
    }
}
