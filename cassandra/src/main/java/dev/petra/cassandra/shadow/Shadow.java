// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.function.ToLongFunction;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.io.FSError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The shadow of one table: a {@link ShadowCopy}, and the next one when that has dropped out. {@link
 * Shadows} takes its steps, one at a time. Nothing that goes wrong here reaches whoever uses the
 * table. Thread-safe.
 */
public final class Shadow {
    private static final Logger logger = LoggerFactory.getLogger(Shadow.class);

    /** After the first fault; twice as long after the next. */
    private static final Duration FIRST_REST = Duration.ofSeconds(30);

    private static final String DROPPED_OUT = "dropped out";

    private static final Duration LONGEST_REST = Duration.ofHours(1);

    /** Operators clean up SSTables one by one: no copy is begun in the gaps between. */
    private static final Duration QUIET = Duration.ofSeconds(10);

    /** On a table that is compacted all the time. */
    private static final int MOST_WAITS = 3;

    private static final long ROOM_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** How long one that had caught up must have lasted for its end to count as the first fault. */
    private static final Duration LASTED = Duration.ofHours(1);

    final ColumnFamilyStore cfs;
    final String name;
    private volatile ShadowFactory factory;
    final ComparisonResults results;
    final PurgeTimes times;
    private final ShadowRestart restart;
    private final FormerCopies former;
    private final CountDownLatch gone = new CountDownLatch(1);

    private volatile @Nullable ShadowCopy copy;

    /** Where it is. */
    private volatile @Nullable ShadowFolder place;

    private volatile boolean ended;

    /** Whether it is to become its table. */
    private volatile boolean promoted;

    /** Whether whoever makes it the table's store is at it, and the table is to be in an engine. */
    private volatile BooleanSupplier prepared = () -> false;

    private volatile @Nullable ShadowCopy promotedCopy;

    /** Whether there may be a checkpoint in the folder. */
    private boolean isBeingCopied;

    private volatile String state = "waits for the node";
    private final AtomicLong begun = new AtomicLong();

    /** When {@link #shrunk} was called last. */
    private volatile long shrunkAt = System.nanoTime() - QUIET.toNanos();

    /** Only in a step. */
    private Duration rest = FIRST_REST;

    private long restUntil = System.nanoTime();
    private long roomFoundAt = System.nanoTime() - ROOM_NANOS;
    private long beganAt;

    /** Of the next copy, while it waits for compactions. Only in a step. */
    private @Nullable SeenByCompactions seen;

    /** How often it has waited for them. */
    private int waits;

    /** Another shadow of the table, whose files go first. */
    private @Nullable Shadow predecessor;

    Shadow(ColumnFamilyStore cfs, ShadowFactory factory, @Nullable Shadow predecessor) {
        this.predecessor = predecessor;
        this.cfs = cfs;
        this.factory = factory;
        this.name = cfs.metadata.toString();
        this.results = new ComparisonResults(cfs, () -> this.factory.answers());
        this.times = new PurgeTimes(cfs);
        this.restart = new ShadowRestart(cfs);
        this.former = new FormerCopies(cfs, factory.engine());
    }

    // What it is

    /** The copy that writes go to, or null. */
    @Nullable ShadowCopy copy() {
        ShadowCopy now = copy;
        return now == null || now.isOver() ? null : now;
    }

    /** Keyspace of the table. */
    public String keyspace() {
        return cfs.getKeyspaceName();
    }

    /** Name of the table. */
    public String table() {
        return cfs.getTableName();
    }

    /** What it does or waits for, and why the last copy has dropped out. */
    public String state() {
        ShadowCopy now = copy();
        if (now == null) return state;
        if (promoted) return "becomes the table, see petra.migrations";
        if (now.isCaughtUp()) return "caught up";
        if (Shadows.isShrinking(cfs))
            return "waits until cleanup, scrub or forcecompact of the table is over";
        return now.hasBegun() ? "copying" : "beginning";
    }

    /**
     * Why the table answers reads that the shadow was to answer, or "yes" if the shadow does: only
     * where it has no doubt about itself. A single read may be left to the table all the same.
     */
    public String answers() {
        if (!factory.answers()) return "no: mode is shadow";
        ShadowCopy now = copy();
        if (now == null || promoted || !now.isCaughtUp()) return "no: " + state();
        String doubt = doubt(now);
        if (doubt == null) doubt = leavesAllToTable();
        return doubt == null ? "yes" : "no: " + doubt;
    }

    /** Why the table is of a kind whose reads a shadow leaves to it, or null. */
    @Nullable String leavesAllToTable() {
        // Whoever reads through it finds what the table has said.
        if (cfs.isRowCacheEnabled()) return "the table has a row cache";
        // A read looks at SSTables to know what it may purge.
        if (cfs.getCompactionStrategyManager().onlyPurgeRepairedTombstones())
            return "the table has only_purge_repaired_tombstones";
        // A write reads first, and must not fail with the shadow.
        if (cfs.viewManager.hasViews()) return "the table has materialized views";
        return null;
    }

    /** Whether it answers reads. */
    boolean isAnswering() {
        return answers().equals("yes");
    }

    /** Why a copy that has caught up is not what reads should be answered from, or null. */
    @Nullable String doubt(ShadowCopy of) {
        if (results.statistics.different.sum() > 0) return "it had another answer than the table";
        // Asked behind that: a copy has ended before its differences are forgotten.
        if (of.isOver()) return "it has ended";
        String late = late(of);
        return late == null ? null : "it may lack a late write: " + late;
    }

    /** Whether it has all that the table has. */
    public boolean isCaughtUp() {
        ShadowCopy now = copy;
        return now != null && now.isCaughtUp();
    }

    /** Whether it waits after a fault, to begin another copy. */
    public boolean hasDroppedOut() {
        return copy() == null && state.startsWith(DROPPED_OUT);
    }

    /** How many copies were begun since the node started. */
    public long copies() {
        return begun.get();
    }

    /** About how many bytes are to be copied yet. */
    public long bytesLeft() {
        ShadowCopy now = copy();
        return now == null ? 0 : now.bytesLeft();
    }

    /** Writes that wait. */
    public long queuedWrites() {
        ShadowCopy now = copy();
        return now == null ? 0 : now.queued.get();
    }

    /** What it takes on disk; 0 if that is not known. */
    public long diskBytes() {
        return measure(StoreStatistics::diskBytes);
    }

    /** What it takes outside of the heap for writes that are in no file yet; 0 if not known. */
    public long writeBufferBytes() {
        return measure(StoreStatistics::memoryBytes);
    }

    private long measure(ToLongFunction<StoreStatistics> what) {
        ShadowCopy now = copy();
        try {
            return now == null ? 0 : what.applyAsLong(now.store.statistics());
        } catch (RuntimeException | FSError e) {
            // Closed, dropped, damaged, on a full disk: who asks wants to know of the others, too.
            logger.debug("The size of {} is not known", this, e);
            return 0;
        }
    }

    /** What the table takes on disk. */
    public long tableBytes() {
        return cfs.metric.liveDiskSpaceUsed.getCount();
    }

    /** What the table's memtables take, those that are being flushed included. */
    public Memtable.MemoryUsage memtableMemory() {
        Memtable.MemoryUsage usage = Memtable.newMemoryUsage();
        for (Memtable memtable : cfs.getTracker().getView().getAllMemtables())
            memtable.addMemoryUsageTo(usage);
        return usage;
    }

    /** What was compared. */
    public ShadowStatistics statistics() {
        return results.statistics;
    }

    /** The last differences, the newest first; behind them the last that are undecided. */
    public List<Differences.Difference> differences() {
        return results.differences();
    }

    /**
     * Counts the differences that were found before the node was started, or by the shadow that
     * this one takes the place of. Throws nothing.
     */
    void recall() {
        Shadow before = predecessor;
        results.recall(before == null ? null : before.results);
    }

    /** Forgets its differences, after {@link #end}: the table has no shadow. Throws nothing. */
    void forget() {
        results.forget();
    }

    /**
     * Has the copy made anew, and forgets what comparisons of the former ones have found: whoever
     * asks for that knows why they differed.
     *
     * @return what came of it, if anything is in the way, or null
     */
    @Nullable String anew() {
        if (promoted) return "is not made anew: it becomes the table, see petra.migrations";
        boolean isForgotten = results.anew(() -> dropOut(ComparisonResults.ANEW));
        return isForgotten
                ? null
                : "is made anew, but a restart of the node would remember the former differences:"
                        + " they cannot be deleted from its disks, see the log. Mend that, and have"
                        + " it made anew once more";
    }

    /** The comparison of the whole table that was begun last since {@link #anew}, or null. */
    public @Nullable TableComparison comparison() {
        return results.comparison();
    }

    // The table's life

    /** What it is for. */
    ShadowFactory factory() {
        return factory;
    }

    /**
     * Becomes what a table is to have, if only the mode or the share changes.
     *
     * @return whether it is that
     */
    boolean become(ShadowFactory wanted) {
        // One that became its table, or was to, has missed what came since.
        if (promoted || !factory.engine().equals(wanted.engine())) return false;
        factory = wanted;
        ShadowCopy now = copy;
        if (now != null) now.answers = wanted.answers();
        return true;
    }

    /** Its copy is one of something else than what the table will be. */
    void dropOut(String reason) {
        ShadowCopy now = copy;
        if (now != null) now.end(reason);
    }

    /** Something that is no write may have taken from the table, and may again soon. */
    void shrunk() {
        shrunkAt = System.nanoTime();
    }

    /**
     * When the table is altered into an engine. It stays, and gets writes and looks at them, until
     * it {@link #end}s; nothing is compared any more. Takes no lock that others hold for long: the
     * caller holds the table's memtables.
     */
    void promote() {
        if (promoted) {
            // What it was handed over to may lack what was written since.
            dropOut("the table was altered once more");
            return;
        }
        List<Differences.Difference> found = results.decided();
        if (!found.isEmpty())
            logger.warn(
                    "The shadow of {} on this node had other answers than the table, so the table"
                            + " is migrated from its SSTables; petra.shadow_differences loses"
                            + " these rows: {}",
                    name,
                    found);
        promotedCopy = copy();
        promoted = true;
    }

    /** The copy that was told by {@link #promote}; null if there was none. */
    @Nullable ShadowCopy promotedCopy() {
        return promotedCopy;
    }

    /** Whether {@link #promote} was called. */
    boolean isPromoted() {
        return promoted;
    }

    /** Whether the table's memtable is Cassandra's while this is made its store. */
    boolean isPrepared() {
        return prepared.getAsBoolean();
    }

    /** {@link ShadowSource#prepared}. */
    void prepared(BooleanSupplier isPrepared) {
        prepared = isPrepared;
    }

    /** {@link ShadowSource#copyTo}. */
    void copyTo(ShadowCopy of, StoreSpec target) {
        synchronized (this) {
            // Nobody would delete it.
            if (ended) throw new IllegalStateException(this + " has ended");
            isBeingCopied = true;
        }
        Path checkpoint = folder().copy(of.number + 1);
        try {
            engine().deleteStore(checkpoint);
            of.store.checkpoint(checkpoint);
            engine().copyStore(checkpoint, target);
        } finally {
            try {
                engine().deleteStore(checkpoint);
            } finally {
                synchronized (this) {
                    isBeingCopied = false;
                }
            }
        }
    }

    private synchronized boolean isBeingCopied() {
        return isBeingCopied;
    }

    /** The table's directory in which it is. */
    Path tableDirectory() {
        return folder().table();
    }

    /** The table has no shadow any more. */
    void end() {
        ended = true;
        dropOut("the table was dropped or altered");
        results.end();
    }

    /** Whether all of it is gone from disk, after {@link #end}. Waits as long. */
    boolean awaitGone(Duration patience) throws InterruptedException {
        return gone.await(patience.toMillis(), TimeUnit.MILLISECONDS);
    }

    /**
     * Why the table may show something that its shadow hides, as a deletion that the table has
     * purged; null if it does not, or there is no copy.
     */
    public @Nullable String lateWrite() {
        ShadowCopy now = copy();
        return now == null ? null : late(now);
    }

    private @Nullable String late(ShadowCopy of) {
        String late = of.late().reason();
        return late != null ? late : Shadows.purgeDoubt(cfs.metadata());
    }

    /** Whether nothing of it is on disk, after its end. */
    boolean isGone() {
        return gone.getCount() == 0;
    }

    // Copies

    /**
     * Goes on with the copy that a clean shutdown has left, before anything is written to the
     * table. Without one, {@link #step} begins one when the node is up. Throws nothing.
     */
    void resume() {
        try {
            ShadowRestart.Found found = restart.take();
            if (found != null) resume(found);
        } catch (IOException | RuntimeException | FSError e) {
            logger.error("The shadow of {} cannot go on and is made anew", name, e);
        }
    }

    private void resume(ShadowRestart.Found found) {
        ShadowFolder folder = found.folder();
        ShadowFolder.Closed closed = found.closed();
        boolean goesOn = false;
        try {
            beganAt = System.nanoTime();
            times.resume(closed);
            ShadowCopy now = open(folder, closed.copy(), new LateWrites(closed.memory()));
            place = folder;
            cfs.getTracker().subscribe(now);
            now.resume(found.toCopy(), found.nextKey(cfs));
            copy = now;
            goesOn = true;
            begun.incrementAndGet();
            logger.info(
                    "The shadow of {} goes on; SSTables to copy: {}", name, found.toCopy().size());
        } finally {
            if (!goesOn) found.release();
        }
    }

    private ShadowFolder folder() {
        return Objects.requireNonNull(place, "a copy has a folder");
    }

    private ShadowCopy open(ShadowFolder folder, long number, LateWrites late) {
        ShadowCopy opened =
                new ShadowCopy(cfs, openStore(folder, number), number, late, times::moment);
        opened.answers = factory.answers();
        opened.writeLatencies = results.statistics.writes;
        return opened;
    }

    private TableStore openStore(ShadowFolder folder, long number) {
        // Its name is a part of its identity: no store of a table.
        String storeName = cfs.name + " (shadow)";
        StoreSpec spec = new StoreSpec(folder.copy(number), storeName, number, cfs.metadata);
        return engine().openStore(spec.withoutDurability());
    }

    private StorageEngine engine() {
        return Engines.get(factory.engine());
    }

    /**
     * Goes on for a while; one call at a time.
     *
     * @return when to go on; null if the shadow has ended and is gone
     */
    @Nullable Duration step() {
        times.note();
        results.catchUp();
        ShadowCopy now = copy;
        if (now != null && now.isOver()) {
            retire(now);
            now = null;
        }
        former.drop();
        if (ended || promoted || Shadows.isShrinking(cfs)) forgetSeen();
        if (ended) return isDeleted() ? null : ShadowCopy.SOON;
        if (now == null) {
            Shadow other = predecessor;
            if (other != null && !other.isGone()) {
                state = "waits until the former shadow is deleted";
                return ShadowCopy.SOON;
            }
            predecessor = null;
            // It would not become the table any more.
            if (promoted) return ShadowCopy.SOON;
            // In this order: what has just ended was noted before.
            if (Shadows.isShrinking(cfs)
                    || System.nanoTime() - shrunkAt < QUIET.toNanos()
                    || System.nanoTime() - restUntil < 0) return ShadowCopy.SOON;
            if (TableRegistry.find(cfs) != null) {
                forgetSeen();
                state = "waits: the table is leaving a storage engine, see petra.migrations";
                return ShadowCopy.SOON;
            }
            return beginSeen();
        }
        // Nothing is copied any more, and the SSTables go soon.
        if (now.isHandedOver()) return ShadowCopy.SOON;
        try {
            return hasRoom(now) ? step(now) : Duration.ZERO;
        } catch (RuntimeException | Error e) {
            if (!now.isOver()) logger.error("The shadow of {} cannot be copied", name, e);
            now.fault("it cannot be copied: " + e.getMessage());
            return ShadowCopy.SOON;
        }
    }

    private Duration step(ShadowCopy present) {
        return present.step(() -> hasRoom(present));
    }

    /** What Cassandra needs comes first. Looks once a second. */
    private boolean hasRoom(ShadowCopy present) {
        if (System.nanoTime() - roomFoundAt < ROOM_NANOS) return true;
        String lack = lackOfRoom(folder(), 0);
        if (lack != null) present.fault(lack);
        roomFoundAt = System.nanoTime();
        return lack == null;
    }

    private static @Nullable String lackOfRoom(ShadowFolder folder, long bytes) {
        String full = DiskUsage.lackOfRoom(bytes);
        return full != null
                ? full
                : folder.lackOfRoom(bytes + DatabaseDescriptor.getMinFreeSpacePerDriveInBytes());
    }

    /**
     * Begins a copy when those compactions are over that had begun before: they may purge deletions
     * over what has come since, which the copy would have. After a long wait it waits for those
     * that have begun meanwhile, which are mostly shorter: the less has come since, the less counts
     * as new.
     */
    private Duration beginSeen() {
        SeenByCompactions next = seen;
        if (next == null) {
            seen = next = SeenByCompactions.now(cfs);
            // Before it waits, which may be for hours, as well as behind that.
            Duration before = rest;
            if (!next.isSeenByAll() && nextPlace() == null) {
                // The compaction itself may take the room, and only until it is over.
                rest = before;
                waits = 0;
                forgetSeen();
                return Duration.ZERO;
            }
        }
        if (!next.isSeenByAll()) {
            state = "waits for compactions of the table that began before it";
            if (waits == 0) logger.info("The shadow of {} {}", name, state);
            waits = Math.max(1, waits);
            return ShadowCopy.SOON;
        }
        if (next.age().compareTo(QUIET) > 0 && waits < MOST_WAITS) {
            waits++;
            forgetSeen();
            return Duration.ZERO;
        }
        waits = 0;
        try {
            begin(next);
        } finally {
            forgetSeen();
        }
        return Duration.ZERO;
    }

    private void forgetSeen() {
        SeenByCompactions last = seen;
        seen = null;
        if (last != null) last.stop();
    }

    private void begin(SeenByCompactions all) {
        state = "beginning";
        beganAt = System.nanoTime();
        FormerCopies.Place free = nextPlace();
        if (free == null) return;
        ShadowCopy next = null;
        try {
            ShadowFolder folder = free.folder();
            folder.create();
            next = open(folder, free.number(), new LateWrites());
            place = folder;
            cfs.getTracker().subscribe(next);
            next.watch();
            begun.incrementAndGet();
            logger.info("The shadow of {} is being made", name);
            // From here on writes go to both.
            copy = next;
            if (ended || Shadows.isShrinking(cfs))
                next.end("the table was altered, truncated, cleaned up or scrubbed");
            else next.begin(all);
        } catch (RuntimeException | Error e) {
            String reason = cannotBeMade(e);
            if (next == null) rest(reason);
            else {
                next.fault(reason);
                copy = next;
            }
        }
    }

    /** Where there is room for a copy; null if there is none, for which it rests. */
    private FormerCopies.@Nullable Place nextPlace() {
        try {
            FormerCopies.Place free = former.nextPlace();
            String lack = lackOfRoom(free.folder(), tableBytes());
            if (lack == null) return free;
            rest(lack);
        } catch (RuntimeException | Error e) {
            rest(cannotBeMade(e));
        }
        return null;
    }

    private String cannotBeMade(Throwable e) {
        logger.error("The shadow of {} cannot be made", name, e);
        return "it cannot be made: " + e.getMessage();
    }

    private void rest(String reason) {
        state = DROPPED_OUT + ", again in " + rest.toSeconds() + " s: " + reason;
        restUntil = System.nanoTime() + rest.toNanos();
        rest = rest.multipliedBy(2);
        if (rest.compareTo(LONGEST_REST) > 0) rest = LONGEST_REST;
    }

    private void retire(ShadowCopy over) {
        copy = null;
        ShadowStore.End end = over.end();
        // One that never caught up would read all of the table again, each half a minute.
        if (over.hasEverCaughtUp() && System.nanoTime() - beganAt > LASTED.toNanos())
            rest = FIRST_REST;
        if (end != null && end.isFault()) rest(end.reason());
        else state = DROPPED_OUT + ": " + (end == null ? "" : end.reason());
        cfs.getTracker().unsubscribe(over);
        over.release();
        former.add(over);
    }

    private boolean isDeleted() {
        // Its end has just begun.
        if (!former.areDropped() || isBeingCopied() || Shadows.of(cfs.metadata.id) == this)
            return false;
        // Whoever waits for this one waits for that one too.
        Shadow other = predecessor;
        if (other != null && !other.isGone()) return false;
        predecessor = null;
        try {
            // Else it is for the table's next shadow to delete.
            if (!Shadows.isKnown(cfs.metadata.id)) former.deleteLeft();
        } catch (RuntimeException | FSError e) {
            logger.warn("What is left of the shadow of {} is deleted at the next start", name, e);
        }
        gone.countDown();
        return true;
    }

    /**
     * When the node has drained: what {@link #close} makes durable, and notes. Throws nothing.
     *
     * @param deadline until when it waits for writes that are under way, as {@link System#nanoTime}
     * @return null if there is no copy, or it is made anew
     */
    ShadowRestart.@Nullable Ending ending(long deadline) {
        results.catchUp();
        ShadowCopy now = copy;
        // A table that is in an engine has no shadow when the node starts.
        if (now == null || now.isOver() || promoted) return null;
        times.note();
        return restart.ending(now, deadline);
    }

    /** Makes what it has durable, and notes it. Takes as long as a flush. Throws nothing. */
    void close(ShadowRestart.Ending ending) {
        ShadowCopy now = ending.copy();
        try {
            // What this flushes is not to be throttled: nobody else writes any more.
            engine().compactionThroughput(Long.MAX_VALUE);
            // It has no log. After the position was taken: what is in its files by then is more
            // than that says.
            now.store.syncLog();
            results.catchUp();
            // It may have dropped out meanwhile, and who would delete it is stopped.
            if (now.isOver() || promoted) return;
            folder().write(ending.closed(times));
        } catch (RuntimeException | Error e) {
            logger.error("The next start makes the shadow of {} anew", name, e);
        }
    }

    @Override
    public String toString() {
        return "The shadow of " + name;
    }
}
