// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.engine.WriteStallException;
import java.time.Duration;
import java.util.function.Consumer;

/** Writes that nobody would repeat if the store did not take them now. */
public final class WriteStalls {
    /** A write to a full disk fails at once. */
    private static final Duration PAUSE = Duration.ofMillis(100);

    private WriteStalls() {}

    /**
     * Does something, and repeats it for as long as the store is behind with compaction or its disk
     * is full.
     *
     * @param refused called before each pause; what it throws ends the attempts
     */
    public static void sitOut(Runnable write, Consumer<WriteStallException> refused) {
        while (true) {
            try {
                write.run();
                return;
            } catch (WriteStallException e) {
                refused.accept(e);
                Uninterruptibles.sleepUninterruptibly(PAUSE);
            }
        }
    }
}
