// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Writes that no client waits for, and that wait for an engine which is behind. */
final class StalledWrites {
    private static final Logger logger = LoggerFactory.getLogger(StalledWrites.class);

    /** How long a write may find the engine too far behind. */
    private static final Duration PATIENCE = Duration.ofMinutes(10);

    private static final int PAUSE_MILLIS = 100;

    private StalledWrites() {}

    /**
     * Writes to a store. Throws nothing.
     *
     * @param isOver whether it is of no use any more
     * @return why that failed; null if it did not, or if it is of no use
     */
    static @Nullable String write(
            TableStore store, PartitionUpdate update, BooleanSupplier isOver) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!isOver.getAsBoolean()) {
            try {
                store.writeUnsynced(update);
                return null;
            } catch (WriteStallException e) {
                if (e.isDiskFull()) return "its disk is full";
                if (System.nanoTime() - deadline > 0) return "its engine is too far behind";
                if (!pause()) return "interrupted while its engine was behind";
            } catch (RuntimeException | Error e) {
                if (!isOver.getAsBoolean())
                    logger.error(
                            "A write to the shadow of {} failed", update.metadata().toString(), e);
                return "a write to it failed: " + e.getMessage();
            }
        }
        return null;
    }

    private static boolean pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(PAUSE_MILLIS);
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}
