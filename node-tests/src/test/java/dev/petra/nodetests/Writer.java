// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Owns a partition and writes rows 0, 1, 2, … one behind the other; every tenth step deletes the
 * row written five steps before, every thirteenth is an unlogged batch of two rows. So after a
 * crash the partition must be exactly what the steps up to some step make, that step being the last
 * acknowledged one or the one in flight: anything else is a loss, a hole, a torn batch or a
 * resurrection.
 */
final class Writer extends Thread {
    final CountDownLatch started = new CountDownLatch(1);
    private final CqlSession session;
    private final String table;
    private final int cycle;
    private final int writer;
    private final PreparedStatement insert;
    private final PreparedStatement delete;
    private volatile int acknowledged = -1;
    private volatile boolean halted;
    private boolean persistent;
    private volatile DriverException failure;

    /** Prepares its statements; the table has the columns of {@link #table}. */
    Writer(CqlSession session, String table, int cycle, int writer) {
        super("writer-" + writer);
        this.session = session;
        this.table = table;
        this.cycle = cycle;
        this.writer = writer;
        this.insert =
                session.prepare(
                        "INSERT INTO " + table + " (cycle, writer, step, v) VALUES (?, ?, ?, ?)");
        this.delete =
                session.prepare(
                        "DELETE FROM " + table + " WHERE cycle = ? AND writer = ? AND step = ?");
    }

    /** The statement that creates its table, options missing. */
    static String table(String name) {
        return "CREATE TABLE "
                + name
                + " (cycle int, writer int, step int, v text, PRIMARY KEY ((cycle, writer), step))";
    }

    /** The last step that the node said it had done; -1 for none. */
    int acknowledged() {
        return acknowledged;
    }

    /** Tries a step again until it is done, instead of ending with the first that fails. */
    Writer persistent() {
        persistent = true;
        return this;
    }

    /** What ended it, or null. */
    DriverException failure() {
        return failure;
    }

    /** Ends it after the step in flight. */
    void halt() {
        halted = true;
    }

    @Override
    public void run() {
        try {
            for (int step = 0; !halted; ) {
                if (!isDone(step)) continue;
                acknowledged = step++;
                started.countDown();
            }
        } catch (DriverException e) {
            // The node was killed: the step in flight may or may not be there.
            failure = e;
            started.countDown();
        }
    }

    private boolean isDone(int step) {
        try {
            session.execute(statement(step));
            // For hours, perhaps, on a machine with other work: a node that starts, for one.
            if (persistent) LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
            return true;
        } catch (DriverException e) {
            if (!persistent) throw e;
            // A node may be gone for a while.
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(100));
            return false;
        }
    }

    private Statement<?> statement(int step) {
        if (step % 10 == 9) return delete.bind(cycle, writer, step - 5);
        if (step % 13 == 12)
            return BatchStatement.newInstance(
                    BatchType.UNLOGGED,
                    insert.bind(cycle, writer, step, value(step)),
                    insert.bind(cycle, writer, -step, value(-step)));
        return insert.bind(cycle, writer, step, value(step));
    }

    private String value(int step) {
        return "c" + cycle + "w" + writer + "s" + step + "-" + "x".repeat(Math.abs(step % 300));
    }

    private Map<Integer, String> expectedAfter(int last) {
        Map<Integer, String> rows = new HashMap<>();
        for (int step = 0; step <= last; step++) {
            if (step % 10 == 9) rows.remove(step - 5);
            else {
                rows.put(step, value(step));
                if (step % 13 == 12) rows.put(-step, value(-step));
            }
        }
        return rows;
    }

    /** What it reads must be what was acknowledged, or that and the step in flight. */
    void check(CqlSession after) {
        Map<Integer, String> found = new HashMap<>();
        for (Row row :
                after.execute(
                        SimpleStatement.newInstance(
                                "SELECT step, v FROM " + table + " WHERE cycle = ? AND writer = ?",
                                cycle,
                                writer))) found.put(row.getInt("step"), row.getString("v"));
        Map<Integer, String> acked = expectedAfter(acknowledged);
        if (found.equals(acked)) return;
        assertThat(found)
                .describedAs("cycle %d writer %d acknowledged %d", cycle, writer, acknowledged)
                .isEqualTo(expectedAfter(acknowledged + 1));
    }
}
