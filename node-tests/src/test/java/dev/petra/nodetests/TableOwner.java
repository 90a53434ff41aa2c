// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Owns a table, and does to it whatever comes to its mind: writes and deletes rows, truncates it,
 * drops a column and adds it again, moves it into the engine and out of it, drops it and creates it
 * again. It knows what the table must hold; of the statement in flight when the node is killed, it
 * does not know whether it was done.
 */
final class TableOwner {
    private static final String ENGINE = "rocks";
    private static final String STOCK = "default";

    /** A drop of a column tells what is older by the millisecond. */
    private static final long MILLISECOND = 3;

    private final String table;
    private final SplittableRandom random;
    private State known = new State(false, ENGINE, true, new TreeMap<>());
    private State inFlight = known;
    private int step;
    private final AtomicLong done = new AtomicLong();
    private final List<String> history = new ArrayList<>();

    /** What the table holds: by key, two values. */
    private record State(
            boolean exists, String memtable, boolean second, Map<Integer, Values> rows) {
        State with(Map<Integer, Values> other) {
            return new State(exists, memtable, second, other);
        }
    }

    private record Values(String first, Integer second) {}

    TableOwner(String table, SplittableRandom random) {
        this.table = table;
        this.random = random;
    }

    /** How many statements were acknowledged. */
    long done() {
        return done.get();
    }

    /** Goes on until the node is gone. */
    void run(CqlSession session) {
        try {
            while (!Thread.currentThread().isInterrupted()) next(session);
        } catch (DriverException e) {
            history.add("ended by " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void next(CqlSession session) throws InterruptedException {
        step++;
        if (!known.exists) {
            create(session);
            return;
        }
        Map<Integer, Values> rows = new TreeMap<>(known.rows);
        int choice = random.nextInt(1_000);
        if (choice < 880) {
            int key = random.nextInt(200);
            Integer second = known.second && random.nextBoolean() ? step : null;
            Values before = rows.get(key);
            Integer kept = second == null && before != null ? before.second : second;
            String value = "s" + step + "x".repeat(random.nextInt(400));
            rows.put(key, new Values(value, kept));
            execute(
                    session,
                    "INSERT INTO "
                            + table
                            + (second == null
                                    ? " (k, v) VALUES (" + key + ", '" + value + "')"
                                    : " (k, v, w) VALUES ("
                                            + key
                                            + ", '"
                                            + value
                                            + "', "
                                            + second
                                            + ")"),
                    known.with(rows));
        } else if (choice < 980) {
            int key = random.nextInt(200);
            rows.remove(key);
            execute(session, "DELETE FROM " + table + " WHERE k = " + key, known.with(rows));
        } else if (choice < 986) {
            // Cassandra's own is not safe: its SSTables are gone before it says so, and without
            // them whatever the commit log still has is replayed.
            if (known.memtable.equals(ENGINE)) truncate(session);
        } else if (choice < 990)
            execute(
                    session,
                    "DROP TABLE " + table,
                    new State(false, ENGINE, true, new TreeMap<>()));
        else if (choice < 995) alterColumn(session, rows);
        else {
            String other = known.memtable.equals(ENGINE) ? STOCK : ENGINE;
            execute(
                    session,
                    "ALTER TABLE " + table + " WITH memtable = '" + other + "'",
                    new State(true, other, known.second, known.rows));
        }
    }

    private void create(CqlSession session) {
        String memtable = random.nextInt(4) == 0 ? STOCK : ENGINE;
        execute(
                session,
                "CREATE TABLE "
                        + table
                        + " (k int PRIMARY KEY, v text, w int) WITH memtable = '"
                        + memtable
                        + "'",
                new State(true, memtable, true, new TreeMap<>()));
    }

    private void truncate(CqlSession session) {
        State before = known;
        try {
            execute(session, "TRUNCATE " + table, known.with(new TreeMap<>()));
        } catch (DriverException e) {
            // Refused on its way into the engine or out of it; Cassandra's coordinator says only
            // that it failed.
            if (session.getMetadata().getNodes().values().stream()
                    .noneMatch(node -> node.getOpenConnections() > 0)) throw e;
            history.add("refused: " + e);
            Map<Integer, Values> rows = read(session);
            assertThat(rows).describedAs(about()).isEqualTo(before.rows);
            known = before;
            inFlight = before;
        }
    }

    private void alterColumn(CqlSession session, Map<Integer, Values> rows)
            throws InterruptedException {
        TimeUnit.MILLISECONDS.sleep(MILLISECOND);
        if (known.second) {
            rows.replaceAll((key, values) -> new Values(values.first, null));
            execute(
                    session,
                    "ALTER TABLE " + table + " DROP w",
                    new State(true, known.memtable, false, rows));
        } else
            execute(
                    session,
                    "ALTER TABLE " + table + " ADD w int",
                    new State(true, known.memtable, true, rows));
        TimeUnit.MILLISECONDS.sleep(MILLISECOND);
    }

    private void execute(CqlSession session, String cql, State after) {
        history.add(cql.length() > 80 ? cql.substring(0, 80) : cql);
        if (history.size() > 400) history.subList(0, 200).clear();
        inFlight = after;
        session.execute(SimpleStatement.newInstance(cql));
        known = after;
        done.incrementAndGet();
    }

    /**
     * The table must be as after the last acknowledged statement, or as after the one in flight.
     */
    void check(CqlSession session) {
        boolean exists =
                !session.execute(
                                SimpleStatement.newInstance(
                                        "SELECT * FROM system_schema.tables WHERE keyspace_name ="
                                                + " 'ks' AND table_name = ?",
                                        table.substring(table.indexOf('.') + 1)))
                        .all()
                        .isEmpty();
        State found = null;
        for (State possible : new State[] {known, inFlight})
            if (found == null
                    && possible.exists == exists
                    && (!exists || isAsIn(session, possible))) found = possible;
        if (found == null)
            assertThat(exists ? read(session) : null)
                    .describedAs(about() + "\nexists: " + exists)
                    .isEqualTo(known.exists ? known.rows : null);
        else {
            known = found;
            inFlight = found;
        }
    }

    private boolean isAsIn(CqlSession session, State state) {
        List<String> columns =
                session
                        .execute(
                                SimpleStatement.newInstance(
                                        "SELECT column_name FROM system_schema.columns WHERE"
                                                + " keyspace_name = 'ks' AND table_name = ?",
                                        table.substring(table.indexOf('.') + 1)))
                        .all()
                        .stream()
                        .map(row -> row.getString(0))
                        .toList();
        return columns.contains("w") == state.second
                && memtable(session).equals(state.memtable)
                && read(session).equals(state.rows);
    }

    private String memtable(CqlSession session) {
        String memtable =
                session.execute(
                                SimpleStatement.newInstance(
                                        "SELECT memtable FROM system_schema.tables WHERE"
                                                + " keyspace_name = 'ks' AND table_name = ?",
                                        table.substring(table.indexOf('.') + 1)))
                        .one()
                        .getString(0);
        return Objects.equals(memtable, ENGINE) ? ENGINE : STOCK;
    }

    private Map<Integer, Values> read(CqlSession session) {
        Map<Integer, Values> rows = new TreeMap<>();
        for (Row row : session.execute("SELECT * FROM " + table)) {
            boolean hasSecond = row.getColumnDefinitions().contains("w") && !row.isNull("w");
            rows.put(
                    row.getInt("k"),
                    new Values(row.getString("v"), hasSecond ? (Integer) row.getInt("w") : null));
        }
        return rows;
    }

    private String about() {
        return table
                + " after "
                + String.join(
                        "\n", history.subList(Math.max(0, history.size() - 60), history.size()))
                + "\nin flight: "
                + inFlight.exists
                + " "
                + inFlight.memtable
                + " "
                + inFlight.rows.size()
                + " rows";
    }
}
