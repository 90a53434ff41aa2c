// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Throttle;
import dev.petra.cassandra.table.Truncation;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ColumnFamilyStore.FlushReason;
import org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes a table's shadow its store, when the table was altered into the engine. Until that is
 * prepared its memtable stays Cassandra's. Then the memtable is switched to the store, which lacks
 * nothing, and {@link Promotion} gives the SSTables up unread. {@code docs/shadow-design.md} says
 * why nothing is lost by it, and nothing comes back.
 *
 * <p>If it cannot be, the table goes in as without a shadow. Thread-safe.
 */
final class Takeover {
    private static final Logger logger = LoggerFactory.getLogger(Takeover.class);

    /** What a table waits for, whose shadow is prepared. */
    static final String STATE = "its shadow becomes its store";

    /** How often the switch is tried: whenever an SSTable came meanwhile, once more. */
    private static final int ATTEMPTS = 60;

    /** How long SSTables that came by a stream may take to be copied to the shadow. */
    private static final Duration CATCH_UP_PATIENCE = Duration.ofMinutes(10);

    /** How long writes that have ended in the table may take to be in the shadow. */
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    static final Map<ColumnFamilyStore, Takeover> all = new ConcurrentHashMap<>();

    /** One at a time: each may keep writes in memory. */
    private static final ExecutorService thread =
            Executors.newSingleThreadExecutor(
                    work -> {
                        Thread made = new Thread(work, "PetraTakeover");
                        made.setDaemon(true);
                        return made;
                    });

    private final ColumnFamilyStore cfs;
    private final EngineKey engine;
    private final ShadowSource shadow;

    /** Shorter in tests. */
    Duration catchUpPatience = CATCH_UP_PATIENCE;

    /** Null until it is prepared. */
    private volatile @Nullable TableGenerations stores;

    /** Of the shadow's files. */
    private final AtomicLong verifiedBytes = new AtomicLong();

    private volatile boolean isVerified;

    /** The table's SSTables while the switch may be; null otherwise. */
    private volatile @Nullable Set<SSTableReader> expected;

    volatile State state = State.WAITING;

    /**
     * How far it is. It is at work while it has a store of the table that may be open, or is about
     * to make it.
     *
     * <pre>
     *             goes on   at work   set by                             then
     *   WAITING   yes       no        for another table's                WORKING
     *   WORKING   yes       yes       run()                              FAILED, TAKEN, ENDING
     *   FAILED    yes       yes       take(): the store could not be     TAKEN, ENDING
     *                                 made the table's
     *   TAKEN     yes       yes       take(): the store is the table's   ENDING
     *   ENDING    no        yes       end(): what was not taken goes     OVER
     *   OVER      no        no        end()                              none
     * </pre>
     *
     * <p>Any thread may {@link #take}, and again after it has failed, until the failure is seen.
     * What was taken stays so, or {@link #end} would delete it. FAILED, TAKEN and ENDING are set
     * under the lock of {@link TableRegistry}; the others need none, since {@link #take} does
     * nothing before there is a store, nor from ENDING on. {@link #expected} is no part of this: it
     * is taken back without the lock, while {@link #take} may be under way.
     */
    enum State {
        WAITING,
        WORKING,
        FAILED,
        TAKEN,
        ENDING,
        OVER;

        boolean goesOn() {
            return compareTo(ENDING) < 0;
        }

        boolean isAtWork() {
            return this != WAITING && this != OVER;
        }
    }

    Takeover(ColumnFamilyStore cfs, EngineKey engine, ShadowSource shadow) {
        this.cfs = cfs;
        this.engine = engine;
        this.shadow = shadow;
    }

    /** Why the shadow does not become the store. */
    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused(String reason) {
            super(reason);
        }
    }

    /**
     * Begins, if the table has a shadow that may become its store. Does not block: the caller holds
     * the table's memtables.
     */
    static boolean begin(ColumnFamilyStore cfs, EngineKey engine) {
        ShadowSource.announce(cfs);
        ShadowSource shadow = ShadowSource.of(cfs);
        if (shadow == null) return false;
        Takeover begun = new Takeover(cfs, engine, shadow);
        try {
            begun.check();
        } catch (Refused e) {
            begun.tell(e);
            return false;
        }
        shadow.prepared(begun::isGoingOnAndWanted);
        all.put(cfs, begun);
        thread.execute(begun::run);
        return true;
    }

    /** The one that is under way, or null. */
    static @Nullable Takeover of(ColumnFamilyStore cfs) {
        Takeover present = all.get(cfs);
        return present == null || !present.isGoingOn() ? null : present;
    }

    /**
     * Refuses to open a table's stores while one that was given up may have them open.
     *
     * @throws IllegalStateException if so
     */
    static void requireClosed(ColumnFamilyStore cfs) {
        Takeover present = all.get(cfs);
        if (present != null && present.state.isAtWork())
            throw new IllegalStateException(
                    "What was made of the shadow of " + cfs.metadata + " is being deleted.");
    }

    /** Whether the one of a table is over, and only has it go in by the other way. */
    static boolean hasRefused(ColumnFamilyStore cfs) {
        Takeover present = all.get(cfs);
        return present != null && !present.state.goesOn();
    }

    /** The tables that it is under way of and that are not in their engine yet. */
    static void forEach(Consumer<ColumnFamilyStore> use) {
        all.forEach(
                (cfs, each) -> {
                    if (each.isWanted()) use.accept(cfs);
                });
    }

    /** How far it is, for operators. */
    TableLifecycle.Waiting progress() {
        long done = verifiedBytes.get();
        if (isVerified) return new TableLifecycle.Waiting(cfs, STATE, done, 0L);
        String what =
                state == State.WAITING
                        ? ", after that of another table"
                        : ", whose files are being verified";
        // Compactions change how many there are.
        long left = Math.max(0, shadow.diskBytes() - done);
        return new TableLifecycle.Waiting(cfs, STATE + what, done, left);
    }

    /**
     * Whether the table is to have another memtable of Cassandra's until this is over. One that
     * waits for another table's may have lost its shadow.
     */
    boolean isGoingOn() {
        return state.goesOn() && !shadow.isOver();
    }

    private boolean isGoingOnAndWanted() {
        return isGoingOn() && isWanted();
    }

    private void tell(Throwable reason) {
        String refused =
                "The shadow of {} does not become the table, whose SSTables are migrated: {}";
        if (reason instanceof Refused) logger.info(refused, cfs.metadata, reason.getMessage());
        else logger.warn(refused, cfs.metadata, reason.getMessage(), reason);
    }

    private void run() {
        state = State.WORKING;
        try {
            check();
            prepare();
            trySwitches();
        } catch (RuntimeException | Error e) {
            if (isWanted()) tell(e);
            else logger.debug("The table {} was dropped or altered", cfs.metadata, e);
        } finally {
            end();
        }
    }

    /** Whatever is thrown here, the table stays where its data is, and is tried again. */
    private void end() {
        // Not while another thread takes it.
        boolean isGivenUp =
                TableRegistry.exclusively(
                        () -> {
                            State former = state;
                            state = State.ENDING;
                            return former != State.TAKEN;
                        });
        try {
            if (isGivenUp) {
                shadow.abandon();
                abandon();
                state = State.OVER;
                if (!isWanted()) {
                    TableLifecycle.letIn(cfs);
                    shadow.end();
                } else if (Shadows.isShrinking(cfs))
                    // A TRUNCATE would be refused half-way.
                    TableLifecycle.waits(
                            cfs, "a TRUNCATE, cleanup, scrub or forcecompact of it is not over");
                else switchMemtable();
            }
        } catch (RuntimeException | FSError e) {
            logger.error("{} is not in its engine yet; this is tried again", cfs.metadata, e);
        } finally {
            state = State.OVER;
            shadow.endSwitch();
            shadow.prepared(() -> false);
            all.remove(cfs, this);
        }
    }

    private void abandon() {
        TableGenerations present = stores;
        stores = null;
        if (present == null) return;
        present.close();
        present.deleteDirectory();
    }

    /** Makes the store, or throws why that cannot be. */
    void prepare() {
        checkCounts(ShadowSource.sstables(cfs));
        // Nobody has read most of it, and then the SSTables go.
        shadow.verify(this::throttle);
        isVerified = true;
        awaitCaughtUp();
        shadow.beginCopy();
        // What has begun before does not go to the successor, and is in the shadow by now.
        awaitTold();
        // Else something is being copied to the shadow alone.
        if (!shadow.isCaughtUp()) throw new Refused("it does not have all of the table");
        check();
        // Nobody else opens the table's stores meanwhile: whoever asks for a memtable is given one
        // of Cassandra's.
        TableGenerations made =
                TableGenerations.adopt(
                        cfs.name,
                        cfs.metadata,
                        () -> Engines.get(engine),
                        shadow.tableDirectory(),
                        TableRegistry.directories(cfs),
                        configuration(),
                        shadow::copyTo);
        made.beforeFirstUse(store -> StoreIndexes.defineIn(cfs, store));
        stores = made;
        shadow.open(made.current().writable(), this::check);
        shadow.lookFirst();
    }

    private void trySwitches() {
        for (int attempt = 1; state != State.TAKEN; attempt++) {
            check();
            Set<SSTableReader> before = ShadowSource.sstables(cfs);
            // What is being copied would not be durable.
            boolean isCaughtUp = shadow.isCaughtUp();
            checkCounts(before);
            // Whatever is in these SSTables, or was purged with them, is in the store, and durable.
            awaitTold();
            made().current().writable().syncLog();
            check();
            expected = before;
            if (isCaughtUp && shadow.isCaughtUp() && ShadowSource.sstables(cfs).equals(before))
                switchMemtable();
            expected = null;
            shadow.endSwitch();
            State now = state;
            if (now == State.TAKEN) return;
            if (now == State.FAILED) throw new Refused("its store could not be made the table's");
            if (attempt == ATTEMPTS)
                throw new Refused("SSTables came, or were compacted, at each attempt");
            pause(1000);
        }
    }

    private static void checkCounts(Set<SSTableReader> sstables) {
        for (SSTableReader sstable : sstables)
            if (sstable.getSSTableMetadata().hasLegacyCounterShards)
                throw new Refused("SSTables have counts from before Cassandra 2.1");
    }

    /** A stream may just have come. */
    private void awaitCaughtUp() {
        long deadline = System.nanoTime() + catchUpPatience.toNanos();
        while (true) {
            check();
            if (shadow.isCaughtUp()) return;
            if (System.nanoTime() - deadline > 0)
                throw new Refused("it does not have all of the table");
            pause(1000);
        }
    }

    private void throttle(long bytes) {
        Throttle.asCompactions(
                bytes,
                () -> {
                    check();
                    return false;
                });
        verifiedBytes.addAndGet(bytes);
    }

    private String configuration() {
        return cfs.metadata().params.memtable.configurationKey();
    }

    private TableGenerations made() {
        TableGenerations present = stores;
        if (present == null) throw new IllegalStateException("It is not prepared");
        return present;
    }

    /** Until all writes that had begun by now are in the table, the shadow and its successor. */
    private void awaitTold() {
        if (!shadow.awaitTold(PATIENCE, this::check))
            throw new Refused("it does not keep up with the table's writes");
    }

    private static void pause(int millis) {
        try {
            TimeUnit.MILLISECONDS.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Refused("interrupted");
        }
    }

    /** Whether the table is to be in the engine, and is not. */
    private boolean isWanted() {
        return !Migrations.areStopped()
                && cfs.isValid()
                && !TableRegistry.isBeingDropped(cfs)
                && cfs.metadata().params.memtable.factory() instanceof EngineConfiguration wanted
                && wanted.engine().equals(engine)
                && !(cfs.getCurrentMemtable() instanceof EngineMemtable);
    }

    private void check() {
        String reason = reason(0);
        if (reason != null) throw new Refused(reason);
    }

    /**
     * @param begun as of {@link EngineMemtables#hasFailedFlush}
     */
    private @Nullable String reason(int begun) {
        if (!isWanted()) return "the table was altered or dropped, or the node shuts down";
        // Its files are not in the order of their windows.
        if (cfs.metadata().params.compaction.klass() == TimeWindowCompactionStrategy.class)
            return "the table has time windows";
        // The shadow has no entries.
        if (!cfs.indexManager.listIndexes().isEmpty()) return "the table has indexes";
        // Reads would need what is in that memtable until the node is restarted.
        if (EngineMemtables.hasFailedFlush(cfs, begun)) return "a flush of the table has failed";
        return shadow.doubt();
    }

    /** {@link TableLifecycle#next} asks for {@link #take}, if it is still to be. */
    private void switchMemtable() {
        Host.current()
                .betweenSchemaChanges(
                        () -> {
                            // Read before: a flush by another thread may switch it as well, and
                            // the engine's is not to be switched.
                            Memtable former = cfs.getCurrentMemtable();
                            if (!isWanted()) return;
                            TableLifecycle.letIn(cfs);
                            // Cassandra logs a flush that fails.
                            var unused =
                                    cfs.switchMemtableIfCurrent(former, FlushReason.SCHEMA_CHANGE);
                        });
    }

    /**
     * The table's stores, of which the next memtable is to be. The caller holds the table's
     * memtables and the lock of {@link TableRegistry}.
     *
     * @return null if it is not to be now; nothing has changed then
     * @throws org.apache.cassandra.io.FSWriteError if that cannot be made durable; they are garbage
     *     then
     */
    @Nullable TableGenerations take() {
        Set<SSTableReader> before = expected;
        TableGenerations present = stores;
        if (before == null || present == null || !state.goesOn() || Truncation.isRunning())
            return null;
        shadow.beginSwitch();
        // Cassandra asks when it has counted the flush of the present one.
        if (reason(1) != null || !shadow.handOver(before)) {
            shadow.endSwitch();
            return null;
        }
        present.writtenUntil(shadow::isQuiet);
        long migration;
        try {
            migration = present.migration().begin(configuration());
            present.makeAlive();
        } catch (RuntimeException | Error e) {
            if (state != State.TAKEN) state = State.FAILED;
            throw e;
        }
        state = State.TAKEN;
        Migrations.begin(new MigrateIn(cfs, present, migration));
        return present;
    }
}
