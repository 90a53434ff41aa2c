// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import dev.petra.engine.mutants.NamedMutations;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.db.ConsistencyLevel;

/**
 * Runs histories, compares after each step, and shrinks the first that differs. Some go on in the
 * next process: what a history did so far is generated again, not executed.
 */
final class Fuzzer {
    private static final int STEPS = 60;
    private static final int STEPS_AFTER_A_RESTART = 25;
    private static final int LIVES = 3;
    private static final int QUERIES = 2;

    /** Cheap: only their results are compared. */
    private static final int QUERIES_BY_INDEX = 3;

    private static final int SURVIVORS = 6;
    private static final String PAGES = " -- pages of ";

    private static final long SHRINK_NANOS =
            TimeUnit.SECONDS.toNanos(Long.getLong("fuzz.shrink.seconds", 90));

    private final boolean purgesUnasked;
    private final int life;
    private final Deque<Run> survivors = new ArrayDeque<>();
    private int histories;
    private int steps;
    private int resumed;

    Fuzzer(int life, boolean purgesUnasked) {
        this.life = life;
        this.purgesUnasked = purgesUnasked;
    }

    static void prepare() {
        QueryProcessor.process(
                "CREATE KEYSPACE IF NOT EXISTS fuzz WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': 1}",
                ConsistencyLevel.ONE);
        QueryProcessor.process(
                "CREATE TABLE IF NOT EXISTS fuzz.spacer (k int PRIMARY KEY)", ConsistencyLevel.ONE);
    }

    /** A history on its way, with what it did so far. */
    private static final class Run {
        final long seed;
        final History history;
        final Twins twins;
        final List<String> script = new ArrayList<>();

        /** Its lives so far, as {@code <life>:<steps>:<purges unasked>,...}. */
        String lives = "";

        Run(long seed) {
            this.seed = seed;
            String fault = System.getProperty("fuzz.fault");
            // With one of rows the engine has no indexes.
            boolean withIndexes = fault == null || !NamedMutations.ofRows().contains(fault);
            this.history = new History(seed, withIndexes);
            this.twins = new Twins("h" + Long.toUnsignedString(seed, 36), history);
        }

        /** The next step, and what to ask after it, which is also random. */
        String next(boolean purgesUnasked, List<String> queries) {
            String step = history.next(purgesUnasked);
            script.add(step);
            for (int i = 0; i < QUERIES; i++)
                queries.add(history.select() + PAGES + (script.size() + i) % 4);
            for (int i = 0; i < QUERIES_BY_INDEX; i++) {
                String byIndex = history.selectByIndex();
                if (byIndex != null) queries.add(byIndex + PAGES + (1 + script.size() % 3));
            }
            return step;
        }
    }

    /**
     * Goes on with what an earlier process left, then runs histories of consecutive seeds.
     *
     * @param left {@link #survivors} of the process before
     * @return null, or the report of a difference
     */
    String run(String left, long seed, long nanos) {
        long end = System.nanoTime() + nanos;
        for (String survivor : left.split(" ", -1)) {
            if (survivor.isEmpty()) continue;
            String report = resume(survivor);
            if (report != null) return report;
        }
        for (long s = seed; System.nanoTime() - end < 0; s++) {
            Run run = new Run(s);
            histories++;
            String report = proceed(run, STEPS, true);
            if (report != null) return report;
        }
        return null;
    }

    private void keep(Run run) {
        survivors.add(run);
        if (survivors.size() > SURVIVORS) survivors.remove().twins.drop();
    }

    private String resume(String survivor) {
        String[] parts = survivor.split("=", -1);
        Run run = new Run(Long.parseLong(parts[0]));
        String[] lives = parts[1].split(",", -1);
        for (String before : lives) {
            String[] figures = before.split(":", -1);
            if (!run.lives.isEmpty()) restarted(run, Integer.parseInt(figures[0]));
            for (int i = Integer.parseInt(figures[1]); i > 0; i--)
                run.next(Boolean.parseBoolean(figures[2]), new ArrayList<>());
            run.lives += (run.lives.isEmpty() ? "" : ",") + before;
        }
        restarted(run, life);
        try {
            run.twins.awaitIndexes();
            run.twins.compare("SELECT * FROM @t", 2);
        } catch (Twins.Difference e) {
            // Seen where a column of a user type was dropped and added again: nothing to compare
            // with, and nothing of ours.
            if (!e.stockFailed) return report(run, e);
            System.err.println("Cassandra's own table cannot be read after a restart: " + survivor);
            run.twins.drop();
            return null;
        } catch (RuntimeException | AssertionError e) {
            return report(run, e);
        }
        resumed++;
        return proceed(run, STEPS_AFTER_A_RESTART, false);
    }

    private static void restarted(Run run, int life) {
        run.history.restarted(life);
        run.script.add("restart");
    }

    private String proceed(Run run, int count, boolean isNew) {
        try {
            if (isNew) run.twins.create(run.history.create());
            for (int i = 0; i < count; i++) {
                List<String> queries = new ArrayList<>();
                String step = run.next(purgesUnasked, queries);
                apply(run.twins, step);
                run.twins.compare("SELECT * FROM @t", 0);
                for (String query : queries) {
                    run.script.add(query);
                    apply(run.twins, query);
                    run.script.remove(run.script.size() - 1);
                }
                steps++;
            }
        } catch (Twins.Undecided e) {
            // What it had to do to find that out changed Cassandra's table.
            Twins.Figures.UNDECIDED.incrementAndGet();
            run.twins.drop();
            return null;
        } catch (RuntimeException | AssertionError e) {
            return report(run, e);
        }
        run.lives += (run.lives.isEmpty() ? "" : ",") + life + ":" + count + ":" + purgesUnasked;
        if (run.lives.split(",", -1).length < LIVES) keep(run);
        else run.twins.drop();
        return null;
    }

    private static void apply(Twins twins, String step) {
        for (String part : step.split("\n", -1)) {
            if (part.equals("flush")) twins.flush();
            else if (part.equals("compact")) {
                twins.flush();
                twins.compact();
            } else if (part.equals("sweep")) {
                twins.sweep();
            } else if (part.startsWith("clock ")) {
                FuzzClock.move(Long.parseLong(part.substring("clock ".length())));
            } else if (part.startsWith("SELECT")) {
                int at = part.indexOf(PAGES);
                twins.compare(
                        part.substring(0, at),
                        Integer.parseInt(part.substring(at + PAGES.length())));
            } else if (!part.equals("restart")) twins.execute(part);
        }
    }

    // Shrinking: whatever can be left out while the two still differ

    private int attempts;

    private String report(Run run, Throwable difference) {
        return "-Dpetra.seed="
                + run.seed
                + " (life "
                + life
                + ", after "
                + run.lives
                + ")\n"
                + difference
                + "\n\nshrunk:\n"
                + shrunk(run);
    }

    private String shrunk(Run run) {
        long end = System.nanoTime() + SHRINK_NANOS;
        List<String> left = new ArrayList<>(run.script);
        String difference = difference(run, left);
        if (difference == null)
            return "(it does not happen again in this process)\n" + text(run, left);
        for (int chunk = left.size() / 2; chunk > 0; chunk /= 2)
            for (int at = 0; at < left.size() && System.nanoTime() - end < 0; ) {
                List<String> fewer = new ArrayList<>(left);
                fewer.subList(at, Math.min(at + chunk, fewer.size())).clear();
                String still = difference(run, fewer);
                if (still == null) at += chunk;
                else {
                    left = fewer;
                    difference = still;
                }
            }
        return text(run, left) + difference;
    }

    private String difference(Run run, List<String> script) {
        Twins twins = new Twins("shrink" + attempts++, run.history);
        try {
            twins.create(run.history.create());
            for (String step : script) apply(twins, step);
            twins.compare("SELECT * FROM @t", 2);
            return null;
        } catch (Twins.Undecided e) {
            return null;
        } catch (RuntimeException | AssertionError e) {
            return "-- " + e;
        } finally {
            twins.drop();
        }
    }

    private static String text(Run run, List<String> script) {
        return "CREATE TYPE @u (a int, b text);\n"
                + run.history.create()
                + ";\n"
                + String.join(";\n", script)
                + ";\n";
    }

    // From one process to the next

    /** The histories that a process that comes after may go on with. */
    String survivors() {
        return String.join(" ", survivors.stream().map(run -> run.seed + "=" + run.lives).toList());
    }

    void figures(Properties into) {
        into.setProperty("histories", Integer.toString(histories));
        into.setProperty("resumed", Integer.toString(resumed));
        into.setProperty("steps", Integer.toString(steps));
        into.setProperty("statements", Twins.Figures.ACCEPTED.toString());
        into.setProperty("refused", Twins.Figures.REFUSED.toString());
        into.setProperty("queries", Twins.Figures.QUERIES.toString());
        into.setProperty("queries refused", Twins.Figures.QUERIES_REFUSED.toString());
        into.setProperty("queries with rows", Twins.Figures.QUERIES_WITH_ROWS.toString());
        into.setProperty("queries by index", Twins.Figures.BY_INDEX.toString());
        into.setProperty("by index with rows", Twins.Figures.BY_INDEX_WITH_ROWS.toString());
        into.setProperty("sweeps", Twins.Figures.SWEEPS.toString());
        into.setProperty("lost by Cassandra's", Twins.Figures.LOST.toString());
        into.setProperty("iterators", Twins.Figures.ITERATORS.toString());
        into.setProperty("digests", Twins.Figures.DIGESTS.toString());
        into.setProperty("undecided", Twins.Figures.UNDECIDED.toString());
    }
}
