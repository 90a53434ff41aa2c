// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

/**
 * Whether this thread is switching a memtable in order to throw the old one's data away. Without
 * this mark a new memtable of a table that has one is refused: it would lose the data.
 */
public final class Truncation {
    private static final ThreadLocal<Integer> depth = ThreadLocal.withInitial(() -> 0);

    private Truncation() {}

    /** From here on, until {@link #end}. May be nested. */
    public static void begin() {
        depth.set(depth.get() + 1);
    }

    /** The end of one {@link #begin}. */
    public static void end() {
        int left = depth.get() - 1;
        if (left == 0) depth.remove();
        else depth.set(left);
    }

    /**
     * The error of a TRUNCATE that finds the table on its way.
     *
     * @param state what the migration does or waits for, and what ends that
     */
    public static IllegalStateException isMigrating(String table, String state) {
        return new IllegalStateException(
                "TRUNCATE of "
                        + table
                        + " cannot be done while the table is being migrated into a storage"
                        + " engine or out of it ("
                        + state
                        + "): see petra.migrations, and try again when that is over.");
    }

    /** Whether this thread is between the two. */
    public static boolean isRunning() {
        return depth.get() > 0;
    }
}
