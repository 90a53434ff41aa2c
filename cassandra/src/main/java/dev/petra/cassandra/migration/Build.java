// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;

/**
 * Builds indexes and views of a table on a thread of its own: other tables' migrations go on,
 * however long that takes. One thread at a time.
 */
final class Build {
    private @Nullable Future<?> running;

    void begin(Runnable work) {
        FutureTask<?> task = new FutureTask<>(work, null);
        Thread thread = new Thread(task, "PetraMigrationBuild");
        thread.setDaemon(true);
        thread.start();
        // Set after the start: a task that could not be started is never done.
        running = task;
    }

    /**
     * Whether it goes on.
     *
     * @throws RuntimeException once, if it failed
     */
    boolean isRunning() {
        Future<?> present = running;
        if (present == null) return false;
        if (!present.isDone()) return true;
        running = null;
        FBUtilities.waitOnFuture(present);
        return false;
    }
}
