// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.commitlog;

/**
 * Whether this thread is deciding which of the commit log's records are replayed at start.
 *
 * <p>Cassandra skips those of tables whose memtable is durable by itself. Such records of ours can
 * only come from a time when the table was in another memtable, because its configuration in {@code
 * cassandra.yaml} said so or the plugin was missing; they are in no store, and must be replayed.
 */
public final class ReplayPlan {
    private static final ThreadLocal<Boolean> planning = new ThreadLocal<>();

    private ReplayPlan() {}

    /** The thread decides from here on, until {@link #end}. Blocks on disk. */
    public static void begin() {
        RestorePoint.forgetLaterMigrations();
        planning.set(true);
    }

    /** The end of {@link #begin}. */
    public static void end() {
        planning.remove();
    }

    /** Whether this thread is between the two. */
    public static boolean isMade() {
        return planning.get() != null;
    }
}
