// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import com.google.common.base.Throwables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.FullDisk;
import dev.petra.engine.WriteStallException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.CorruptSSTableException;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.JVMStabilityInspector;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Migrates tables into engines and out of them, in the background, a step of one after a step of
 * another, on one thread. Thread-safe.
 */
public final class Migrations {
    private static final Logger logger = LoggerFactory.getLogger(Migrations.class);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(30);

    private static final Set<Migration> all = new LinkedHashSet<>();
    private static @Nullable ScheduledExecutorService thread;
    private static volatile boolean stopped;

    private Migrations() {}

    /** Adds a migration. It is begun when the node is up. */
    public static synchronized void begin(Migration migration) {
        all.add(migration);
        logger.info("{} begins", migration);
        ScheduledExecutorService running = thread;
        if (running != null) schedule(running, migration, Duration.ZERO);
    }

    /** To be called once the commit log was replayed. */
    public static synchronized void start() {
        if (stopped || thread != null) return;
        ScheduledExecutorService started =
                Executors.newSingleThreadScheduledExecutor(
                        work -> {
                            Thread made = new Thread(work, "PetraMigrations");
                            made.setDaemon(true);
                            return made;
                        });
        thread = started;
        all.forEach(migration -> schedule(started, migration, Duration.ZERO));
    }

    /** Before the engines are closed. They go on when the node starts again. */
    public static void stop() throws InterruptedException {
        ScheduledExecutorService running;
        synchronized (Migrations.class) {
            stopped = true;
            running = thread;
        }
        if (running == null) return;
        running.shutdown();
        if (!running.awaitTermination(STOP_PATIENCE.toSeconds(), TimeUnit.SECONDS))
            logger.warn(
                    "A step of a table's migration still runs while the node shuts down; the"
                            + " migration goes on when the node is restarted");
    }

    /** Whether {@link #stop} was called. */
    static boolean areStopped() {
        return stopped;
    }

    /** Those that are under way. */
    public static synchronized List<Migration> now() {
        return new ArrayList<>(all);
    }

    /** Whether one of a table out of its engine is under way. */
    static synchronized boolean isLeaving(TableGenerations stores) {
        return all.stream().anyMatch(each -> each.stores == stores && each instanceof MigrateOut);
    }

    /** What the latest migration of a table does or waits for. */
    public static synchronized String state(TableGenerations stores) {
        String state = "it is not under way on this node now";
        for (Migration each : all) if (each.stores == stores) state = each.state();
        return state;
    }

    /**
     * Waits for the step of a table's migration that is under way, when the table is dropped: what
     * it writes is then there to be deleted. A table that is created with the same ID would find
     * it.
     */
    public static void awaitStep(TableGenerations stores, Duration patience) {
        for (Migration migration : now()) {
            if (migration.stores != stores) continue;
            try {
                if (migration.awaitStep(Duration.ZERO)) continue;
                logger.info("DROP waits for a step of the migration of {}", stores.displayName());
                if (!migration.awaitStep(patience))
                    logger.warn(
                            "A step of the migration of {}, which was dropped, still runs; what it"
                                    + " writes is deleted when it ends",
                            stores.displayName());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                logger.warn(
                        "Interrupted while a step of the migration of {}, which was dropped, runs;"
                                + " what it writes is deleted when it ends",
                        stores.displayName());
            }
        }
    }

    private static synchronized void schedule(
            ScheduledExecutorService running, Migration migration, Duration when) {
        if (stopped) return;
        var unused =
                running.schedule(
                        () -> step(running, migration), when.toMillis(), TimeUnit.MILLISECONDS);
    }

    private static void step(ScheduledExecutorService running, Migration migration) {
        Duration next = Migration.LATER;
        try {
            next = next(migration);
        } catch (RuntimeException | Error e) {
            // Whatever it is, what was migrated is migrated; the rest is where it was.
            migration.state("failed, to be tried again: " + e.getMessage());
            if (!stopped) logger.error("{} failed and is tried again", migration, e);
            inspect(e);
        } finally {
            // Nobody sees what is thrown from here.
            if (next != null) schedule(running, migration, next);
        }
        if (next != null) return;
        logger.info("{} is over: {}", migration, migration.state());
        synchronized (Migrations.class) {
            all.remove(migration);
        }
    }

    private static @Nullable Duration next(Migration migration) {
        migration.newProgress();
        Duration next;
        try {
            next = migration.takeStep();
        } catch (WriteStallException e) {
            // Others have their turn meanwhile.
            migration.state("waiting: " + e.getMessage());
            next = Migration.SOON;
        }
        if (next == null || !migration.isStopRequested()) return next;
        migration.state("stopped for a while, by nodetool stop or what needs its SSTables");
        return Migration.LATER;
    }

    /**
     * Has Cassandra do with a failure as {@code disk_failure_policy} says, unless the node shuts
     * down. A full disk is waited for, and does not stop the node. Nor does a damaged file keep it
     * from starting, as Cassandra would have it: the next attempt is told, when the node is up.
     */
    static void inspect(Throwable failure) {
        if (stopped || FullDisk.isCauseOf(failure)) return;
        boolean isUp = StorageService.instance.isDaemonSetupCompleted();
        if (isUp || !isOfDisk(failure)) JVMStabilityInspector.inspectThrowable(failure);
    }

    private static boolean isOfDisk(Throwable failure) {
        return Throwables.getCausalChain(failure).stream()
                .anyMatch(e -> e instanceof FSError || e instanceof CorruptSSTableException);
    }
}
