// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.db.ConsistencyLevel;

/** Runs histories, compares after each step, and shrinks the first that differs. */
final class Fuzzer {
    private static final int STEPS = 60;
    private static final int SURVIVORS = 6;
    private static final long SHRINK_NANOS = TimeUnit.SECONDS.toNanos(90);

    private final Deque<Twins> survivors = new ArrayDeque<>();
    private int histories;
    private int steps;
    private int queries;

    static void prepare() {
        execute(
                "CREATE KEYSPACE IF NOT EXISTS fuzz WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': 1}");
        execute("CREATE TYPE IF NOT EXISTS fuzz.pair (a int, b text)");
    }

    private static void execute(String cql) {
        QueryProcessor.process(cql, ConsistencyLevel.ONE);
    }

    /**
     * Runs histories of consecutive seeds.
     *
     * @return null, or the report of a difference
     */
    String run(long seed, long nanos) {
        long end = System.nanoTime() + nanos;
        for (long s = seed; System.nanoTime() - end < 0; s++) {
            String report = history(s);
            if (report != null) return report;
        }
        return null;
    }

    private String history(long seed) {
        History history = new History(seed);
        Twins twins = new Twins("h" + Long.toUnsignedString(seed, 36));
        List<String> script = new ArrayList<>();
        try {
            twins.create(history.create());
            for (int i = 0; i < STEPS; i++) {
                String step = history.next();
                script.add(step);
                apply(twins, step);
                compare(twins, script, "SELECT * FROM @t", 0);
                for (int q = 0; q < 2; q++) compare(twins, script, history.select(), i % 4);
                steps++;
            }
            histories++;
        } catch (RuntimeException | AssertionError e) {
            return "-Dpetra.seed="
                    + seed
                    + "\n"
                    + e
                    + "\n\nshrunk:\n"
                    + shrunk(history.create(), script);
        }
        survivors.add(twins);
        if (survivors.size() > SURVIVORS) survivors.remove().drop();
        return null;
    }

    private void compare(Twins twins, List<String> script, String select, int page) {
        script.add(select);
        twins.compare(select, page);
        script.remove(script.size() - 1);
        queries++;
    }

    private static void apply(Twins twins, String step) {
        FuzzClock.move(1);
        if (step.equals("flush")) twins.flush();
        else if (step.equals("compact")) {
            twins.flush();
            twins.compact();
        } else if (step.startsWith("clock ")) {
            FuzzClock.move(Long.parseLong(step.substring("clock ".length())));
        } else if (step.startsWith("SELECT")) {
            twins.compare(step, 2);
        } else {
            for (String statement : step.split("\n", -1)) {
                twins.execute(statement);
                FuzzClock.move(1);
            }
        }
    }

    // Shrinking: whatever can be left out while the two still differ

    private String shrunk(String create, List<String> script) {
        long end = System.nanoTime() + SHRINK_NANOS;
        List<String> left = new ArrayList<>(script);
        String difference = difference(create, left);
        if (difference == null) return "(it does not happen again)\n" + text(create, left);
        for (int chunk = left.size() / 2; chunk > 0; chunk /= 2)
            for (int at = 0; at < left.size() && System.nanoTime() - end < 0; ) {
                List<String> fewer = new ArrayList<>(left);
                fewer.subList(at, Math.min(at + chunk, fewer.size())).clear();
                String still = difference(create, fewer);
                if (still == null) at += chunk;
                else {
                    left = fewer;
                    difference = still;
                }
            }
        return text(create, left) + difference;
    }

    private int attempts;

    private String difference(String create, List<String> script) {
        Twins twins = new Twins("shrink" + attempts++);
        try {
            twins.create(create);
            for (String step : script) apply(twins, step);
            twins.compare("SELECT * FROM @t", 2);
            return null;
        } catch (RuntimeException | AssertionError e) {
            return "-- " + e;
        } finally {
            twins.drop();
        }
    }

    private static String text(String create, List<String> script) {
        return create + ";\n" + String.join(";\n", script) + ";\n";
    }

    // From one process to the next

    /** The tables that are left, to be compared again by a process that comes after. */
    String survivors() {
        return String.join(" ", survivors.stream().map(Twins::rocks).toList());
    }

    /** Compares what an earlier process left. */
    static String afterRestart(String survivors) {
        for (String rocks : survivors.split(" ", -1)) {
            if (rocks.isEmpty()) continue;
            Twins twins = new Twins(rocks.substring(0, rocks.length() - 2));
            try {
                twins.compare("SELECT * FROM @t", 2);
                twins.compact();
                twins.compare("SELECT * FROM @t", 3);
            } catch (Twins.Difference e) {
                // Seen where a column of a user type was dropped and added again: nothing to
                // compare with, and nothing of ours.
                if (!e.stockFailed) return "after a restart: " + rocks + "\n" + e;
                System.err.println(
                        "Cassandra's own table cannot be read after a restart: " + rocks);
            } catch (RuntimeException | AssertionError e) {
                return "after a restart: " + rocks + "\n" + e;
            }
            twins.drop();
        }
        return null;
    }

    String figures() {
        return histories + " histories, " + steps + " steps, " + queries + " queries";
    }
}
