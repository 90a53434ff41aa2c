// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import java.util.function.IntFunction;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * {@code emp} and {@code timeseries} on a real node with a real driver: everything that was written
 * comes back, however it is asked for. Values are made from the key, so that each can be checked.
 */
class WorkloadsIT {
    private static final int EMP_ROWS = Integer.getInteger("petra.emp.rows", 50_000);
    private static final int SERIES = 50;
    private static final int SERIES_ROWS = Integer.getInteger("petra.timeseries.rows", 25_000);
    private static final int POINTS = SERIES_ROWS / SERIES;
    private static final int IN_FLIGHT = 256;

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void load() throws InterruptedException {
        node =
                TestNode.start(
                        directory,
                        config ->
                                config.engineParameters(
                                        Map.of(
                                                "engine",
                                                "rocks",
                                                "memory",
                                                "128MiB",
                                                "direct_reads",
                                                "true",
                                                "write_stall_timeout",
                                                "10s",
                                                // So that there are many files of few rows.
                                                "write_buffer",
                                                EMP_ROWS > 20_000 ? "4MiB" : "1MiB")));
        session = node.session();
        TestNode.createKeyspace(session, "ks", 1);
        session.execute(
                "CREATE TABLE ks.emp (emp_uname text PRIMARY KEY, emp_dept text, emp_first text,"
                        + " emp_last text) WITH memtable = 'rocks'");
        session.execute(
                "CREATE TABLE ks.timeseries (sensor text, at timestamp, value double, note text,"
                        + " PRIMARY KEY (sensor, at)) WITH CLUSTERING ORDER BY (at DESC)"
                        + " AND memtable = 'rocks'");
        PreparedStatement emp =
                session.prepare(
                        "INSERT INTO ks.emp (emp_uname, emp_dept,"
                                + " emp_first, emp_last) VALUES (?, ?, ?, ?)");
        PreparedStatement point =
                session.prepare(
                        "INSERT INTO ks.timeseries (sensor, at, value, note) VALUES (?, ?, ?, ?)");
        Thread other =
                new Thread(
                        () ->
                                inParallel(
                                        SERIES_ROWS,
                                        i -> {
                                            int at = i / SERIES;
                                            return point.bind(
                                                    sensor(i % SERIES),
                                                    instant(at),
                                                    value(i % SERIES, at),
                                                    text(i, 40));
                                        },
                                        (i, rows) -> {}));
        other.start();
        inParallel(
                EMP_ROWS,
                i -> emp.bind(user(i), text(i, 100), text(i + 1, 200), text(i + 2, 300)),
                (i, rows) -> {});
        other.join();
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    /** Runs statements with a bounded number in flight; a failure of any fails all. */
    private static void inParallel(
            int count,
            IntFunction<BoundStatement> statement,
            BiConsumer<Integer, AsyncResultSet> check) {
        Semaphore free = new Semaphore(IN_FLIGHT);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (int i = 0; i < count && failure.get() == null; i++) {
            free.acquireUninterruptibly();
            int index = i;
            CompletionStage<AsyncResultSet> result = session.executeAsync(statement.apply(i));
            result.whenComplete(
                    (rows, error) -> {
                        try {
                            if (error != null) failure.compareAndSet(null, error);
                            else check.accept(index, rows);
                        } catch (Throwable t) {
                            failure.compareAndSet(null, t);
                        } finally {
                            free.release();
                        }
                    });
        }
        free.acquireUninterruptibly(IN_FLIGHT);
        if (failure.get() != null) throw new AssertionError(failure.get());
    }

    private static String user(int i) {
        return "user" + i;
    }

    private static String sensor(int i) {
        return "sensor" + i;
    }

    private static java.time.Instant instant(int at) {
        // On both sides of the epoch.
        return java.time.Instant.ofEpochMilli((at - POINTS / 2) * 1_000L);
    }

    private static double value(int sensor, int at) {
        return sensor + at / 1e6;
    }

    private static String text(int seed, int length) {
        SplittableRandom random = new SplittableRandom(seed);
        StringBuilder text = new StringBuilder(length);
        for (int i = 0; i < length; i++) text.append((char) ('a' + random.nextInt(26)));
        return text.toString();
    }

    private static void checkEmp(Row row) {
        int i = Integer.parseInt(row.getString("emp_uname").substring("user".length()));
        assertThat(row.getString("emp_dept")).isEqualTo(text(i, 100));
        assertThat(row.getString("emp_first")).isEqualTo(text(i + 1, 200));
        assertThat(row.getString("emp_last")).isEqualTo(text(i + 2, 300));
    }

    private static void checkPoint(Row row, int sensor, int at) {
        assertThat(row.getInstant("at")).isEqualTo(instant(at));
        assertThat(row.getDouble("value")).isEqualTo(value(sensor, at));
        assertThat(row.getString("note")).isEqualTo(text(at * SERIES + sensor, 40));
    }

    @Test
    void everyEmployeeIsFoundByKey() {
        PreparedStatement select = session.prepare("SELECT * FROM ks.emp WHERE emp_uname = ?");
        inParallel(
                EMP_ROWS,
                i -> select.bind(user(i)),
                (i, rows) -> {
                    Row row = rows.one();
                    assertThat(row).describedAs(user(i)).isNotNull();
                    checkEmp(row);
                });
    }

    @Test
    void aMissingKeyIsNotFound() {
        assertThat(session.execute("SELECT * FROM ks.emp WHERE emp_uname = 'nobody'").one())
                .isNull();
    }

    @Test
    void aFullScanFindsEveryEmployeeOnce() {
        boolean[] seen = new boolean[EMP_ROWS];
        for (Row row :
                session.execute(
                        SimpleStatement.newInstance("SELECT * FROM ks.emp").setPageSize(997))) {
            checkEmp(row);
            int i = Integer.parseInt(row.getString("emp_uname").substring("user".length()));
            assertThat(seen[i]).isFalse();
            seen[i] = true;
        }
        for (int i = 0; i < EMP_ROWS; i++) assertThat(seen[i]).describedAs(user(i)).isTrue();
    }

    @Test
    void inFindsExactlyTheKeysAskedFor() {
        SplittableRandom random = new SplittableRandom(7);
        for (int round = 0; round < 50; round++) {
            List<String> keys = new ArrayList<>();
            for (int i = 0; i < 20; i++) keys.add(user(random.nextInt(EMP_ROWS)));
            keys.add("nobody");
            List<Row> rows =
                    session.execute(
                                    SimpleStatement.newInstance(
                                            "SELECT * FROM ks.emp WHERE emp_uname IN ?", keys))
                            .all();
            rows.forEach(WorkloadsIT::checkEmp);
            assertThat(rows)
                    .extracting(r -> r.getString("emp_uname"))
                    .containsExactlyInAnyOrderElementsOf(
                            keys.stream().filter(k -> !k.equals("nobody")).distinct().toList());
        }
    }

    @Test
    void everySeriesIsReadInBothDirectionsInSmallPages() {
        for (int sensor = 0; sensor < SERIES; sensor++) {
            for (boolean ascending : new boolean[] {false, true}) {
                int at = ascending ? 0 : POINTS - 1;
                for (Row row :
                        session.execute(
                                SimpleStatement.newInstance(
                                                "SELECT * FROM ks.timeseries WHERE sensor = ?"
                                                        + " ORDER BY at "
                                                        + (ascending ? "ASC" : "DESC"),
                                                sensor(sensor))
                                        .setPageSize(33))) {
                    checkPoint(row, sensor, at);
                    at += ascending ? 1 : -1;
                }
                assertThat(at).isEqualTo(ascending ? POINTS : -1);
            }
        }
    }

    @Test
    void slicesLimitsAndPointsOfASeries() {
        SplittableRandom random = new SplittableRandom(11);
        for (int round = 0; round < 300; round++) {
            int sensor = random.nextInt(SERIES);
            int from = random.nextInt(POINTS);
            int to = Math.min(POINTS - 1, from + random.nextInt(50));
            int limit = 1 + random.nextInt(60);
            boolean open = random.nextBoolean();
            boolean ascending = random.nextBoolean();
            List<Row> rows =
                    session.execute(
                                    SimpleStatement.newInstance(
                                            "SELECT * FROM ks.timeseries WHERE sensor = ? AND at "
                                                    + (open ? ">" : ">=")
                                                    + " ? AND at "
                                                    + (open ? "<" : "<=")
                                                    + " ? ORDER BY at "
                                                    + (ascending ? "ASC" : "DESC")
                                                    + " LIMIT ?",
                                            sensor(sensor),
                                            instant(from),
                                            instant(to),
                                            limit))
                            .all();
            int low = open ? from + 1 : from;
            int high = open ? to - 1 : to;
            int wanted = Math.min(limit, Math.max(0, high - low + 1));
            assertThat(rows).hasSize(wanted);
            for (int i = 0; i < wanted; i++)
                checkPoint(rows.get(i), sensor, ascending ? low + i : high - i);
        }
    }

    @Test
    void pointsByClusteringInAndNewestFirst() {
        SplittableRandom random = new SplittableRandom(13);
        for (int round = 0; round < 100; round++) {
            int sensor = random.nextInt(SERIES);
            int a = random.nextInt(POINTS);
            int b = random.nextInt(POINTS);
            List<Row> rows =
                    session.execute(
                                    SimpleStatement.newInstance(
                                            "SELECT * FROM ks.timeseries WHERE sensor = ? AND at IN"
                                                    + " ?",
                                            sensor(sensor),
                                            List.of(instant(a), instant(b))))
                            .all();
            assertThat(rows).hasSize(a == b ? 1 : 2);
            checkPoint(rows.get(0), sensor, Math.max(a, b));
            Row newest =
                    session.execute(
                                    SimpleStatement.newInstance(
                                            "SELECT * FROM ks.timeseries WHERE sensor = ? LIMIT 1",
                                            sensor(sensor)))
                            .one();
            checkPoint(newest, sensor, POINTS - 1);
            Row exact =
                    session.execute(
                                    SimpleStatement.newInstance(
                                            "SELECT * FROM ks.timeseries WHERE sensor = ? AND at ="
                                                    + " ?",
                                            sensor(sensor),
                                            instant(a)))
                            .one();
            checkPoint(exact, sensor, a);
        }
    }

    @Test
    void aScanOfAllSeriesCountsEveryPoint() {
        long count = 0;
        for (Row row :
                session.execute(
                        SimpleStatement.newInstance("SELECT sensor, at FROM ks.timeseries")
                                .setPageSize(5_000))) {
            assertThat(row.getString("sensor")).startsWith("sensor");
            count++;
        }
        assertThat(count).isEqualTo((long) SERIES * POINTS);
    }
}
