// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.commitlog;

/** Whether the node has replayed its commit log, as each start does before it opens CQL. */
public final class LogReplay {
    private static volatile boolean over;

    private LogReplay() {}

    /** All is replayed: from here on a write is one that somebody waits for. */
    public static void ended() {
        over = true;
    }

    /** Whether {@link #ended} was called. Does not block. */
    public static boolean isOver() {
        return over;
    }
}
