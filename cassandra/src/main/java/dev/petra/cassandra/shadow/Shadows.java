// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.shadow.DoubledWrites.Doubled;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.SchemaChangeListener;
import org.apache.cassandra.schema.SchemaConstants;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The shadows of this node. No method but {@link #anew} throws, and none blocks a client: what goes
 * wrong has the shadow drop out. Thread-safe.
 */
public final class Shadows {
    private static final Logger logger = LoggerFactory.getLogger(Shadows.class);

    /** A table that is copied for hours must not keep the others waiting. */
    private static final int THREADS = 2;

    private static final Duration STOP_PATIENCE = Duration.ofSeconds(30);

    /** How long a clean shutdown waits for writes that are under way, of all shadows together. */
    private static final Duration WRITES_PATIENCE = Duration.ofSeconds(10);

    private static final Map<TableId, Shadow> tables = new ConcurrentHashMap<>();

    /** Those that have ended, and may be on disk yet; each until its last step. */
    private static final Map<TableId, Shadow> former = new ConcurrentHashMap<>();

    /** Tables that {@link #shrinkingBegins lose something}, and how many times at once. */
    private static final Map<ColumnFamilyStore, Integer> shrinking = new ConcurrentHashMap<>();

    private static final PurgeRules rules = new PurgeRules();
    private static final DoubledWrites writes = new DoubledWrites();
    private static final ComparedReads reads = new ComparedReads();

    /** Whether there is any: a node without is to pay for nothing but a look at this. */
    private static volatile boolean any;

    /** Whether there was any. */
    private static boolean started;

    private static volatile boolean stopped;

    /** Whether what copies did not end when the node shut down. */
    private static volatile boolean stillCopied;

    private static @Nullable ScheduledExecutorService threads;

    private Shadows() {}

    // Tables that come and go

    /** When a table was opened, and before it is written. */
    public static void opened(ColumnFamilyStore cfs) {
        try {
            follow(cfs, true);
        } catch (RuntimeException | Error e) {
            logger.error("Table {} has no shadow until the node is restarted", cfs, e);
        }
    }

    /** When all tables are open and the commit log was replayed. */
    public static void start(List<Path> tableDirectories) {
        List<Path> kept = new ArrayList<>();
        synchronized (Shadows.class) {
            if (threads != null || stopped) return;
            ScheduledThreadPoolExecutor made =
                    new ScheduledThreadPoolExecutor(
                            THREADS,
                            work -> {
                                Thread thread = new Thread(work, "PetraShadows");
                                thread.setDaemon(true);
                                return thread;
                            });
            made.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
            threads = made;
            tables.values().forEach(Shadows::schedule);
            former.values().forEach(Shadows::schedule);
        }
        Host.current().addListener(new Listener());
        for (Keyspace keyspace : Keyspace.all())
            for (ColumnFamilyStore cfs : keyspace.getColumnFamilyStores()) {
                followSchema(cfs);
                if (ShadowFactory.of(cfs.metadata()) != null)
                    kept.addAll(TableRegistry.directories(cfs));
            }
        ShadowFolder.deleteOthers(tableDirectories, kept);
    }

    private static final class Listener implements SchemaChangeListener {
        @Override
        public void onAlterTable(TableMetadata before, TableMetadata after, boolean affects) {
            rules.altered(before, after);
            ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(after.id);
            if (cfs != null) followSchema(cfs);
            Shadow shadow = tables.get(after.id);
            // Compactions that are under way purge by what it was.
            if (shadow != null)
                shadow.times.noteGcBefore(
                        FBUtilities.nowInSeconds() - before.params.gcGraceSeconds);
        }

        @Override
        public void onDropTable(TableMetadata table, boolean dropData) {
            rules.dropped(table.id);
        }
    }

    private static void followSchema(ColumnFamilyStore cfs) {
        try {
            follow(cfs, false);
        } catch (RuntimeException | Error e) {
            // Whoever changes the schema has nothing to do with it.
            logger.error("Table {} has no shadow until the node is restarted", cfs, e);
        }
    }

    /** Sees to it that a table has the shadow that its schema says. */
    private static synchronized void follow(ColumnFamilyStore cfs, boolean isOpening) {
        TableMetadata table = cfs.metadata();
        // A hidden index table has the id of its table.
        if (table.isIndex()) return;
        ShadowFactory wanted = ShadowFactory.of(table);
        Shadow present = tables.get(table.id);
        if (present != null && (present.cfs != cfs || wanted == null || !present.become(wanted))) {
            // Whoever promotes it ends it.
            if (present.cfs == cfs
                    && present.isPromoted()
                    && wanted == null
                    && (present.isPrepared() || isMigrating(cfs))) return;
            end(present, wanted == null);
            present = null;
        }
        if (wanted == null || present != null) return;
        if (SchemaConstants.isSystemKeyspace(table.keyspace) || table.isView()) {
            logger.error("Table {} cannot have a shadow: system tables and views have none", table);
            return;
        }
        Shadow made = new Shadow(cfs, wanted, former.get(table.id));
        made.recall();
        if (isOpening) made.resume();
        tables.put(table.id, made);
        any = true;
        startThreads();
        if (threads != null) schedule(made);
    }

    private static boolean isMigrating(ColumnFamilyStore cfs) {
        TableGenerations stores = TableRegistry.find(cfs);
        return EngineMemtables.current(cfs) != null
                && stores != null
                && stores.migration().isUnderWay();
    }

    private static synchronized void startThreads() {
        if (started) return;
        writes.start();
        reads.start();
        ShadowMetrics.register();
        started = true;
    }

    private static synchronized void end(Shadow shadow, boolean isForgotten) {
        shadow.end();
        if (isForgotten) shadow.forget();
        // Before: its last step removes it, which is none as long as the table has it.
        former.put(shadow.cfs.metadata.id, shadow);
        forget(shadow);
    }

    /** When a table is altered into an engine. Takes none of the locks here. */
    static void promote(ColumnFamilyStore cfs) {
        Shadow shadow = find(cfs);
        if (shadow != null) shadow.promote();
    }

    /** The shadow of a table that was altered into an engine, or null. */
    static @Nullable Shadow promoted(ColumnFamilyStore cfs) {
        Shadow shadow = find(cfs);
        return shadow == null || !shadow.isPromoted() ? null : shadow;
    }

    /** When a shadow was promoted, or could not be: the table has none any more. */
    static synchronized void promotionEnds(Shadow shadow) {
        if (tables.get(shadow.cfs.metadata.id) == shadow) end(shadow, true);
    }

    private static synchronized void forget(Shadow shadow) {
        tables.remove(shadow.cfs.metadata.id, shadow);
        any = !tables.isEmpty();
    }

    /** The shadow of a table, or null. */
    public static @Nullable Shadow of(TableId table) {
        return tables.get(table);
    }

    /** When DROP has unloaded a table. */
    public static void unloaded(ColumnFamilyStore cfs, Duration patience) {
        Shadow shadow = find(cfs);
        if (shadow == null) return;
        synchronized (Shadows.class) {
            shadow.end();
            forget(shadow);
        }
        try {
            if (!shadow.awaitGone(patience))
                logger.warn("{}, which was dropped, is deleted when its last read ends", shadow);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Has the shadow of a table made anew, without the differences of the former copies.
     *
     * @throws InvalidRequestException if it cannot be, or not for good, with the reason
     */
    public static void anew(String keyspace, String table) {
        String reason = anew(Host.current().table(keyspace, table));
        if (reason != null)
            throw new InvalidRequestException(
                    "The shadow of " + keyspace + "." + table + " " + reason);
    }

    /** Not while a shadow ends, nor when they stop: what is noted then must not be forgotten. */
    static synchronized @Nullable String anew(@Nullable TableMetadata table) {
        Shadow shadow = table == null ? null : tables.get(table.id);
        if (shadow == null) return "is not made anew: the table has none on this node";
        return stopped ? "is not made anew: the node is being drained" : shadow.anew();
    }

    /** Before TRUNCATE of a table. {@link #truncationEnds} follows, also after an exception. */
    public static void truncationBegins(ColumnFamilyStore cfs) {
        shrinkingBegins(cfs);
        Shadow shadow = find(cfs);
        if (shadow != null) shadow.dropOut("the table is being truncated");
    }

    /** The end of {@link #truncationBegins}. The next copy begins at once: it has little to do. */
    public static void truncationEnds(ColumnFamilyStore cfs) {
        notShrinking(cfs);
    }

    /**
     * Before the table may have less than was written to it: nothing is compared, and no copy
     * begins, until {@link #shrinkingEnds}, which follows also after an exception. A copy ends if
     * it is told that an SSTable was changed.
     */
    public static void shrinkingBegins(ColumnFamilyStore cfs) {
        shrinking.merge(cfs, 1, Integer::sum);
    }

    /**
     * The end of {@link #shrinkingBegins} where the table may have purged what the copy has: the
     * next one takes what is left.
     */
    public static void purged(ColumnFamilyStore cfs, String reason) {
        Shadow shadow = find(cfs);
        // First: nothing is compared between the two.
        if (shadow != null) shadow.dropOut(reason);
        shrinkingEnds(cfs);
    }

    /** The end of {@link #shrinkingBegins}. The next copy waits for a while: more may follow. */
    public static void shrinkingEnds(ColumnFamilyStore cfs) {
        Shadow shadow = find(cfs);
        // First: no copy begins between the two.
        if (shadow != null) shadow.shrunk();
        notShrinking(cfs);
    }

    private static void notShrinking(ColumnFamilyStore cfs) {
        shrinking.computeIfPresent(cfs, (same, count) -> count == 1 ? null : count - 1);
    }

    /** Whether something other than writes takes from the table. */
    public static boolean isShrinking(ColumnFamilyStore cfs) {
        return shrinking.containsKey(cfs);
    }

    /** From now on a table may purge by others than the rules of its schema. */
    public static void rulesOverridden(ColumnFamilyStore cfs, String how) {
        rules.overridden(cfs.metadata(), how);
    }

    /** The shortest {@code gc_grace_seconds} of a table since the node was started. */
    static int shortestGrace(TableMetadata table) {
        return rules.grace(table);
    }

    /** {@link PurgeRules#doubt}. */
    static @Nullable String purgeDoubt(TableMetadata table) {
        return rules.doubt(table);
    }

    /** Whether a table has a shadow, if only another than that which asks. */
    static boolean isKnown(TableId id) {
        return tables.containsKey(id);
    }

    private static @Nullable Shadow find(ColumnFamilyStore cfs) {
        if (!any) return null;
        Shadow shadow = tables.get(cfs.metadata.id);
        // A hidden index table has the id of its table.
        return shadow == null || shadow.cfs != cfs ? null : shadow;
    }

    /** Those that there are, by name. */
    public static List<Shadow> all() {
        List<Shadow> all = new ArrayList<>(tables.values());
        all.sort(Comparator.comparing(Shadow::keyspace).thenComparing(Shadow::table));
        return all;
    }

    // Writes and reads

    /**
     * Before a write goes to a table, in its group of {@code Keyspace.writeOrder}.
     *
     * @return for {@link #afterWrite}; null if it goes to no shadow
     */
    public static @Nullable Object beforeWrite(ColumnFamilyStore cfs, PartitionUpdate update) {
        Shadow shadow = find(cfs);
        if (shadow == null) return null;
        ShadowCopy copy = shadow.copy();
        if (copy == null || copy.isComplete()) return null;
        try {
            return Doubled.begin(copy, update);
        } catch (RuntimeException | Error e) {
            copy.fault("a write cannot be followed: " + e);
            return null;
        }
    }

    /**
     * When it is in the table, in the same group.
     *
     * @param begun what {@link #beforeWrite} returned
     * @param failure what the table threw; then it may have the write or not
     */
    public static void afterWrite(Object begun, @Nullable Throwable failure) {
        Doubled write = (Doubled) begun;
        boolean isEnded = false;
        try {
            if (failure != null) write.copy().fault("a write to the table failed: " + failure);
            isEnded = !write.copy().isOver();
            // It ends also what it cannot take.
            if (isEnded) writes.add(write);
        } catch (RuntimeException | Error e) {
            write.copy().fault("a write cannot be followed: " + e);
        } finally {
            if (!isEnded) write.end();
        }
    }

    /**
     * When a client's read begins; some are compared later.
     *
     * @return what {@link #compareLater} is to get; null for a read that is not compared
     */
    public static @Nullable Object sample(ReadCommand command) {
        if (!any) return null;
        Shadow shadow = tables.get(command.metadata().id);
        if (shadow == null
                || stopped
                || shadow.isPromoted()
                || command.indexQueryPlan() != null
                || ThreadLocalRandom.current().nextDouble() >= shadow.factory().share())
            return null;
        return shadow;
    }

    /**
     * Compares a read some time after the node has given its answer.
     *
     * @param sampled what {@link #sample} returned
     * @return the answer, for whoever asked
     */
    public static UnfilteredPartitionIterator compareLater(
            Object sampled, ReadCommand command, UnfilteredPartitionIterator answer) {
        return reads.addWhenClosed((Shadow) sampled, command, answer);
    }

    /**
     * Answers a client's read from the shadow, in mode fallback.
     *
     * @return null if the table is to answer
     * @see ShadowAnswers
     */
    public static @Nullable UnfilteredPartitionIterator answer(
            ReadCommand command, ColumnFamilyStore cfs, ReadExecutionController reading) {
        Shadow shadow = find(cfs);
        if (shadow == null || !shadow.factory().answers()) return null;
        if (command instanceof PartitionRangeReadCommand && ShadowAnswers.isOfTable()) return null;
        UnfilteredPartitionIterator answer = null;
        try {
            answer =
                    command instanceof PartitionRangeReadCommand range
                            ? ShadowAnswers.answer(shadow, range, reading)
                            : ShadowAnswers.answer(
                                    shadow, (SinglePartitionReadCommand) command, reading);
        } catch (RuntimeException | Error e) {
            ShadowCopy copy = shadow.copy();
            if (copy != null) ShadowAnswers.failed(copy, e);
        }
        if (answer == null) shadow.statistics().leftToTable.increment();
        else shadow.statistics().answered.increment();
        return answer;
    }

    // Steps

    private static void schedule(Shadow shadow) {
        // When it was just created, it is not among its keyspace's tables yet.
        schedule(shadow, ShadowCopy.SOON);
    }

    private static synchronized void schedule(Shadow shadow, Duration when) {
        ScheduledExecutorService running = threads;
        if (running == null || stopped) return;
        var unused = running.schedule(() -> step(shadow), when.toMillis(), TimeUnit.MILLISECONDS);
    }

    static void step(Shadow shadow) {
        Duration next = ShadowCopy.LATER;
        try {
            next = shadow.step();
        } catch (RuntimeException | Error e) {
            if (!stopped) logger.error("{} failed in a step, which is tried again", shadow, e);
        } finally {
            // Nobody sees what is thrown from here.
            if (next != null) schedule(shadow, next);
            else former.remove(shadow.cfs.metadata.id, shadow);
        }
    }

    /** Whether the node shuts down. */
    static boolean areStopped() {
        return stopped;
    }

    /** Before the node drains: nothing is copied or compared any more. Writes still go to both. */
    public static void stop() throws InterruptedException {
        ScheduledExecutorService running;
        synchronized (Shadows.class) {
            stopped = true;
            running = threads;
        }
        if (running == null) return;
        running.shutdown();
        stillCopied = true;
        stillCopied = !running.awaitTermination(STOP_PATIENCE.toSeconds(), TimeUnit.SECONDS);
        if (stillCopied) {
            logger.warn(
                    "A shadow is still being copied while the node shuts down. The next start makes"
                            + " its shadows anew");
        }
    }

    /** When the node has drained, before the engines are closed. */
    public static void close() {
        // Else the table may lose what its shadow has.
        if (!StorageService.instance.isDrained()) {
            logger.info("The node was not drained; the next start makes its shadows anew");
            return;
        }
        // What has no log must not be written while it is flushed.
        if (stillCopied) return;
        long deadline = System.nanoTime() + WRITES_PATIENCE.toNanos();
        Map<Shadow, ShadowRestart.Ending> endings = new LinkedHashMap<>();
        for (Shadow shadow : tables.values()) {
            ShadowRestart.Ending ending = shadow.ending(deadline);
            if (ending != null) endings.put(shadow, ending);
        }
        // Behind what has the deadline: one flush may take longer than that.
        endings.forEach(Shadow::close);
    }
}
