// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The last differences between a table and its shadow. Each partition is logged once, and few in a
 * minute. Those that are undecided are kept apart, so that they drive none out, and are not logged.
 * Thread-safe.
 */
public final class Differences {
    private static final Logger logger = LoggerFactory.getLogger(Differences.class);

    /** How many are kept, and how many that are undecided. */
    static final int KEPT = 100;

    /** How many partitions are known to have been logged. */
    private static final int REMEMBERED = 1_000;

    /** How many are logged in a minute. */
    static final int LOGGED = 10;

    /**
     * One of them.
     *
     * @param atMillis when it was found, since 1970
     * @param kind {@code different}, or what is undecided and why
     * @param key of the partition
     * @param where in the partition
     * @param table what the table has there, and the shadow has not
     * @param shadow what the shadow has there, and the table has not
     */
    public record Difference(
            long atMillis, String kind, String key, String where, String table, String shadow) {}

    private final String name;
    private final LongSupplier nanoTime;
    private final BooleanSupplier answers;
    private final Deque<Difference> last = new ArrayDeque<>();
    private final Deque<Difference> undecided = new ArrayDeque<>();
    private final Map<String, Boolean> logged =
            new LinkedHashMap<>() {
                private static final long serialVersionUID = 1;

                @Override
                protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
                    return size() > REMEMBERED;
                }
            };

    private long minuteBegan;
    private int inThisMinute;

    /**
     * @param name of the table
     * @param nanoTime as {@link System#nanoTime}
     * @param answers whether clients are answered by the shadow
     */
    Differences(String name, LongSupplier nanoTime, BooleanSupplier answers) {
        this.name = name;
        this.nanoTime = nanoTime;
        this.answers = answers;
        this.minuteBegan = nanoTime.getAsLong();
    }

    /** Adds one. Returns whether it was logged. */
    synchronized boolean add(Difference difference) {
        keep(last, difference);
        if (logged.containsKey(difference.key()) || !mayLog()) return false;
        logged.put(difference.key(), true);
        logger.warn(
                "Table {} and its shadow differ in partition {}, {}. The table has: {}. The shadow"
                        + " has: {}. {}",
                name,
                difference.key(),
                difference.where(),
                shown(difference.table()),
                shown(difference.shadow()),
                answers.getAsBoolean()
                        ? "A client may have got what the shadow has; from now on the table answers"
                        : "Clients get what the table has");
        return true;
    }

    /** Adds one that is no defect of either side. */
    synchronized void addUndecided(Difference difference) {
        keep(undecided, difference);
    }

    private static void keep(Deque<Difference> all, Difference difference) {
        all.addLast(difference);
        if (all.size() > KEPT) all.removeFirst();
    }

    private static String shown(String side) {
        return side.isEmpty() ? "nothing" : side;
    }

    private boolean mayLog() {
        long now = nanoTime.getAsLong();
        if (now - minuteBegan >= TimeUnit.MINUTES.toNanos(1)) {
            minuteBegan = now;
            inThisMinute = 0;
        }
        return inThisMinute++ < LOGGED;
    }

    /** The last ones but for those that are undecided, the newest first. */
    synchronized List<Difference> last() {
        return newestFirst(last);
    }

    /** The last ones that are undecided, the newest first. */
    synchronized List<Difference> undecided() {
        return newestFirst(undecided);
    }

    /** Forgets all of them. */
    synchronized void forget() {
        last.clear();
        undecided.clear();
        logged.clear();
    }

    private static List<Difference> newestFirst(Deque<Difference> kept) {
        List<Difference> all = new ArrayList<>(kept.size());
        kept.descendingIterator().forEachRemaining(all::add);
        return all;
    }
}
