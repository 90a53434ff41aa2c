// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.cassandra.io.FSError;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * That a shadow had differences, over a restart: the table is not to be taken into the engine past
 * one. They are kept with the shadow's folder whatever becomes of the copy, since a copy that is
 * made anew says nothing of why the former one was wrong. The first is noted at once, further ones
 * once in a second. No method throws. Thread-safe.
 */
final class RememberedDifferences {
    private static final Logger logger = LoggerFactory.getLogger(RememberedDifferences.class);

    /** A sync of a file for each difference would be felt by the commit log. */
    private static final long INTERVAL_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final String name;
    private final LongSupplier nanoTime;
    private long found;
    private long noted;
    private long notedAt;
    private boolean hasFailed;
    private boolean isOver;

    /**
     * @param name of the table
     * @param nanoTime as {@link System#nanoTime}
     */
    RememberedDifferences(String name, LongSupplier nanoTime) {
        this.name = name;
        this.nanoTime = nanoTime;
    }

    /**
     * How many there were; 1 if that cannot be told.
     *
     * @param handed how many the shadow before has {@link #found}, whether they are noted or not
     */
    synchronized long recall(Supplier<List<ShadowFolder>> folders, long handed) {
        try {
            for (ShadowFolder each : folders.get()) noted = Math.max(noted, each.different());
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "Whether the shadow of {} had differences cannot be read; it counts as one that"
                            + " had",
                    name,
                    e);
            noted = 1;
        }
        found = Math.max(noted, handed);
        if (found > 0)
            logger.warn(
                    "The shadow of {} has had {} differences, see earlier lines of the log",
                    name,
                    found);
        catchUp(folders);
        return found;
    }

    /** How many there are. */
    synchronized long found() {
        return found;
    }

    /** Notes that there are so many by now. */
    synchronized void remember(long count, Supplier<List<ShadowFolder>> folders) {
        if (isOver) return;
        found = Math.max(found, count);
        if (noted == 0 || nanoTime.getAsLong() - notedAt >= INTERVAL_NANOS) catchUp(folders);
    }

    /** Notes what was not noted yet. */
    synchronized void catchUp(Supplier<List<ShadowFolder>> folders) {
        if (isOver || found == noted) return;
        notedAt = nanoTime.getAsLong();
        boolean hadFailed = hasFailed;
        hasFailed = false;
        try {
            // Whichever of the disks may be lost.
            for (ShadowFolder each : folders.get()) note(each, hadFailed);
        } catch (RuntimeException | FSError e) {
            failed(e, hadFailed);
        }
    }

    private void note(ShadowFolder folder, boolean hadFailed) {
        try {
            folder.writeDifferent(found);
            noted = found;
        } catch (RuntimeException | FSError e) {
            failed(e, hadFailed);
        }
    }

    private void failed(Throwable failure, boolean hadFailed) {
        if (!hadFailed && !hasFailed)
            logger.error(
                    "A difference of {} and its shadow cannot be noted on disk: a restart may"
                            + " forget it",
                    name,
                    failure);
        hasFailed = true;
    }

    /** The end: another shadow of the table may note what it finds. */
    synchronized void end(Supplier<List<ShadowFolder>> folders) {
        catchUp(folders);
        isOver = true;
    }

    /** Forgets all that was noted. Returns whether a restart has forgotten it, too. */
    synchronized boolean forget(Supplier<List<ShadowFolder>> folders) {
        found = 0;
        noted = 0;
        try {
            for (ShadowFolder each : folders.get()) each.deleteDifferent();
            return true;
        } catch (RuntimeException | FSError e) {
            logger.warn("The differences of {} and its former shadow are not forgotten", name, e);
            return false;
        }
    }
}
