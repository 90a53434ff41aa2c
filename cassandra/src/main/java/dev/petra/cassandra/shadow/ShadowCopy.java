// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import com.google.common.collect.ImmutableList;
import com.google.common.collect.Iterables;
import dev.petra.cassandra.sstable.PartitionBatches;
import dev.petra.cassandra.table.CompactionInfos;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Throttle;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.SSTableSet;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.notifications.INotification;
import org.apache.cassandra.notifications.INotificationConsumer;
import org.apache.cassandra.notifications.InitialSSTableAddedNotification;
import org.apache.cassandra.notifications.MemtableSwitchedNotification;
import org.apache.cassandra.notifications.SSTableAddedNotification;
import org.apache.cassandra.notifications.SSTableListChangedNotification;
import org.apache.cassandra.notifications.TruncationNotification;
import org.apache.cassandra.utils.TimeUUID;
import org.apache.cassandra.utils.concurrent.Ref;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One copy of a table in an engine, from the moment when writes go to both until it has missed
 * something. It is not mended then: the next copy takes its place.
 *
 * <p>It gets all that is in the table by two ways. Writes that began after it did go to both.
 * Everything earlier is in SSTables once the memtables of that moment are flushed, and is copied
 * from there: from all SSTables of one moment, which are kept for that, since a compaction may
 * remove a row from one and its deletion from another. SSTables that come by streams or imports are
 * copied as they come. What is written to it twice is the same as once.
 *
 * <p>Removes no deletion: what is copied later may be older. Thread-safe.
 */
final class ShadowCopy extends ShadowStore implements INotificationConsumer {
    private static final Logger logger = LoggerFactory.getLogger(ShadowCopy.class);

    /** Compactions after which a table has the same content as before, but for purges. */
    private static final Set<OperationType> KEEPS_CONTENT =
            EnumSet.of(
                    OperationType.COMPACTION,
                    OperationType.MAJOR_COMPACTION,
                    OperationType.TOMBSTONE_COMPACTION,
                    OperationType.UPGRADE_SSTABLES,
                    OperationType.GARBAGE_COLLECT,
                    OperationType.ANTICOMPACTION,
                    OperationType.RELOCATE,
                    OperationType.INDEX_SUMMARY);

    /** Other shadows have their turn then. */
    private static final Duration STEP = Duration.ofSeconds(10);

    static final Duration SOON = Duration.ofSeconds(1);

    static final long NOT_CAUGHT_UP = -1;

    /** After {@code nodetool stop}. */
    static final Duration LATER = Duration.ofSeconds(10);

    /**
     * How long a late write waits for a switch of the memtable. Longer than its request: when it
     * has waited in vain, the shadow drops out, and hours of migration would follow one slow sync.
     */
    private static final Duration MOST_OF_A_SWITCH = Duration.ofSeconds(30);

    final ColumnFamilyStore cfs;
    final long number;

    /** SSTables of the table whose content is in the store, or in one of those to copy. */
    private final Set<Descriptor> accounted = ConcurrentHashMap.newKeySet();

    /**
     * The last of the table's sets of SSTables, which never change, that was found accounted for.
     */
    private volatile WeakReference<Set<SSTableReader>> verified = new WeakReference<>(null);

    private final Deque<CopySource> toCopy = new ArrayDeque<>();

    private final LateWrites late;
    private final Supplier<LateWrites.Moment> moment;
    private final AtomicBoolean isToldOfLate = new AtomicBoolean();
    private final AtomicLong copiedBytes = new AtomicLong();
    private boolean counted;
    private boolean watching;
    private volatile long arrivals;
    private volatile boolean caughtUp;
    private volatile boolean everCaughtUp;

    /** Whether a successor of it is the table's store, and nothing is copied any more. */
    private volatile boolean handedOver;

    /** Whether it has all that did not go to the table's store. */
    private volatile boolean complete;

    private volatile boolean looksFirst;

    private final MemtableSwitch memtableSwitch = new MemtableSwitch();

    /** The partition with which the first of those to copy goes on; null if it has not begun. */
    private volatile @Nullable DecoratedKey nextKey;

    /** Whether what is read is where an index leads, and not known to be right. */
    private boolean isLedByIndex;

    /** Shorter in tests. */
    Duration step = STEP;

    /**
     * Where a copy of a table that is not written goes on.
     *
     * @param sstables the table's
     * @param toCopy what is left of it
     * @param nextKey the partition with which the first of these goes on; null if it was not begun
     */
    record Position(
            Set<SSTableReader> sstables, List<CopySource> toCopy, @Nullable DecoratedKey nextKey) {}

    /**
     * @param late what came to it before
     * @param moment by what the table may purge now
     */
    ShadowCopy(
            ColumnFamilyStore cfs,
            TableStore store,
            long number,
            LateWrites late,
            Supplier<LateWrites.Moment> moment) {
        super(cfs.metadata.toString(), store);
        this.cfs = cfs;
        this.number = number;
        this.late = late;
        this.moment = moment;
    }

    // What it has

    /**
     * Whether it has all that the table has, and the reverse, but for what is being written. Not
     * while {@code cleanup} or {@code scrub} goes on: reads of the table lack what it leaves out
     * before {@link #handleNotification} is told of it.
     */
    boolean isCaughtUp() {
        return caughtUp && !isOver() && !Shadows.isShrinking(cfs);
    }

    /** Whether it was caught up at any time since it began, or went on after a restart. */
    boolean hasEverCaughtUp() {
        return everCaughtUp;
    }

    /** How often something came to the table that is no write. */
    long arrivals() {
        return arrivals;
    }

    /**
     * How often something came to the table that is no write, if all of that is here; else {@link
     * #NOT_CAUGHT_UP}. As of one moment: what came just before must not be counted and missing.
     */
    synchronized long arrivalsIfCaughtUp() {
        return isCaughtUp() && !handedOver ? arrivals : NOT_CAUGHT_UP;
    }

    /**
     * Whether all that a read of the table finds in SSTables is here. An SSTable is among the
     * table's before {@link #handleNotification} is told of it, and is not accounted for until
     * then.
     */
    boolean hasAllSSTables() {
        if (!isCaughtUp()) return false;
        View view = cfs.getTracker().getView();
        Set<SSTableReader> live = view.liveSSTables();
        if (verified.get() != live) {
            // What a compaction has written so far counts for all that it reads: of that, some may
            // be among the table's SSTables no more before the copy is told that it came.
            if (!hasAll(hasPartOfCompaction(live) ? view.select(SSTableSet.CANONICAL) : live))
                return false;
            verified = new WeakReference<>(live);
        }
        return isCaughtUp();
    }

    private static boolean hasPartOfCompaction(Set<SSTableReader> sstables) {
        for (SSTableReader sstable : sstables)
            if (sstable.openReason == SSTableReader.OpenReason.EARLY) return true;
        return false;
    }

    private boolean hasAll(Iterable<SSTableReader> sstables) {
        return areAccounted(sstables) && isCaughtUp();
    }

    private boolean areAccounted(Iterable<SSTableReader> sstables) {
        for (SSTableReader sstable : sstables)
            if (!accounted.contains(sstable.descriptor)) return false;
        return true;
    }

    /** Where it can go on after a restart; null if what the table has is not known to be here. */
    synchronized @Nullable Position position() {
        Set<SSTableReader> live = cfs.getLiveSSTables();
        if (!counted
                || isOver()
                || Shadows.isShrinking(cfs)
                || queued.get() != 0
                || hasPartOfCompaction(live)
                || !areAccounted(live)) return null;
        return new Position(live, List.copyOf(toCopy), nextKey);
    }

    /** What tells a table's SSTables from any others. */
    static SortedSet<String> names(Set<SSTableReader> sstables) {
        SortedSet<String> all = new TreeSet<>();
        for (SSTableReader sstable : sstables)
            all.add(
                    "sstable="
                            + sstable.descriptor.baseFile().name()
                            + " "
                            // A reader that a compaction has opened knows a shorter length.
                            + sstable.descriptor.fileFor(SSTableFormat.Components.DATA).length()
                            + " "
                            + sstable.getDataCreationTime());
        return all;
    }

    // Its end, if it becomes the table

    /**
     * Has it look at writes before they go to the table as well. One that is late shows nowhere
     * then before it is found to be; while the table's memtable is {@link #beginSwitch switched} it
     * waits for that.
     */
    void lookFirst() {
        looksFirst = true;
    }

    /** Before somebody asks, for the last time, whether something was late. */
    void beginSwitch() {
        memtableSwitch.begin();
    }

    /** When what the table shows is what its next memtable shows as well. */
    void endSwitch() {
        memtableSwitch.end();
    }

    /**
     * Says that what it has becomes the table's store, if it has all that these have, which are the
     * table's SSTables.
     *
     * @return false if it has not
     */
    synchronized boolean handOver(Set<SSTableReader> live) {
        if (!hasAll(live)) return false;
        handedOver = true;
        return true;
    }

    boolean isHandedOver() {
        return handedOver;
    }

    /** No write goes past the table's store any more: it needs no others. */
    void complete() {
        complete = true;
    }

    boolean isComplete() {
        return complete;
    }

    /** Those of which it has all. */
    synchronized Set<SSTableReader> accounted(Set<SSTableReader> sstables) {
        Set<SSTableReader> all = new HashSet<>(sstables);
        all.removeIf(each -> !accounted.contains(each.descriptor));
        return all;
    }

    // Its beginning

    /**
     * Goes on with a table that was not written since it had a {@link #position}.
     *
     * @param left what is to be copied
     * @param firstNextKey the partition with which the first of these goes on; null if it was not
     *     begun
     */
    synchronized void resume(List<CopySource> left, @Nullable DecoratedKey firstNextKey) {
        watch();
        toCopy.addAll(left);
        nextKey = firstNextKey;
        counted = true;
        if (toCopy.isEmpty()) catchUp();
    }

    /**
     * Before writes go to both. From here on until {@link #begin} has found what is to be copied,
     * no compaction may take what is written meanwhile: it may purge that together with an older
     * deletion over it, of which the shadow would get the one and not the other.
     */
    synchronized void watch() {
        for (SSTableReader sstable : cfs.getLiveSSTables()) accounted.add(sstable.descriptor);
        watching = true;
    }

    /**
     * Finds what is to be copied. Called when writes go to both; blocks until those that began
     * before are over, and in SSTables.
     *
     * @param seen what all compactions know that go on then: if there are any, all else counts as
     *     {@linkplain LateWrites#copied new}
     * @throws IllegalStateException if some are in a memtable that Cassandra could not flush
     */
    void begin(SeenByCompactions seen) {
        Keyspace.writeOrder.awaitNewBarrier();
        List<Memtable> before = writtenMemtables();
        cfs.forceBlockingFlush(ColumnFamilyStore.FlushReason.INTERNALLY_FORCED);
        AtomicBoolean isCompacting = new AtomicBoolean();
        synchronized (this) {
            // Kept until they are copied. What changes later, this is told of when it is counted.
            try (ColumnFamilyStore.RefViewFragment now =
                    cfs.selectAndReference(view -> select(view, isCompacting))) {
                // Cassandra flushes none again whose flush has failed, and tells only whoever has
                // asked for that flush. Reads find it where it is until the node is restarted.
                for (Memtable memtable : now.memtables)
                    if (before.contains(memtable))
                        throw new IllegalStateException(
                                "Cassandra could not flush a memtable of the table, as the log of"
                                        + " the node says, and does not try again: restart the"
                                        + " node");
                accounted.clear();
                ToLongFunction<SSTableReader> newFrom =
                        isCompacting.get() ? seen::newFrom : each -> LateWrites.NOTHING_NEW;
                Map<Boolean, List<SSTableReader>> byNew =
                        now.sstables.stream()
                                .sorted(SSTableReader.maxTimestampAscending)
                                .collect(
                                        Collectors.partitioningBy(
                                                each ->
                                                        newFrom.applyAsLong(each)
                                                                < LateWrites.NOTHING_NEW));
                // First: at the end of a long copy more deletions count as purgeable, also such as
                // hide something in them that was not late at all.
                for (boolean hasNew : new boolean[] {true, false})
                    for (SSTableReader sstable : byNew.getOrDefault(hasNew, List.of())) {
                        accounted.add(sstable.descriptor);
                        toCopy.add(CopySource.of(sstable.ref(), newFrom.applyAsLong(sstable)));
                    }
            }
            counted = true;
        }
    }

    /** The SSTables of one moment, and whether any of them is being compacted then. */
    private static List<SSTableReader> select(View view, AtomicBoolean isCompacting) {
        List<SSTableReader> all = ImmutableList.copyOf(view.select(SSTableSet.CANONICAL));
        isCompacting.set(Iterables.size(view.getUncompacting(all)) < all.size());
        return all;
    }

    /**
     * The memtables that have something. One that has nothing by now has none of the writes that
     * are over, and may get later ones before it is flushed.
     */
    private List<Memtable> writtenMemtables() {
        List<Memtable> written = new ArrayList<>();
        for (Memtable memtable : cfs.getTracker().getView().getAllMemtables())
            // What a table has that has just left an engine is in SSTables.
            if (!(memtable instanceof EngineMemtable) && !memtable.isClean()) written.add(memtable);
        return written;
    }

    /** Lets SSTables go that are not copied any more, and deletes what was kept of them. */
    synchronized void release() {
        toCopy.forEach(CopySource::release);
        toCopy.clear();
    }

    @Override
    public void handleNotification(INotification notification, Object sender) {
        try {
            if (notification instanceof SSTableAddedNotification added) {
                if (added.memtable().isEmpty()) added.added.forEach(this::arrived);
                else added.added.forEach(this::flushed);
            } else if (notification instanceof InitialSSTableAddedNotification added)
                added.added.forEach(this::arrived);
            else if (notification instanceof SSTableListChangedNotification changed)
                changed(changed);
            else if (notification instanceof TruncationNotification) end("the table was truncated");
            else if (notification instanceof MemtableSwitchedNotification) switched();
        } catch (RuntimeException | Error e) {
            // Whoever changes the table has nothing to do with it.
            logger.error("The shadow of {} cannot follow a change of the table", name, e);
            fault("it cannot follow a change of the table: " + e.getMessage());
        }
    }

    /**
     * Whoever switched it: a flush by another thread may have, while the one that is to end the
     * switch waits for a change of the schema.
     */
    private void switched() {
        if (cfs.getCurrentMemtable() instanceof EngineMemtable) memtableSwitch.end();
    }

    /** All that is in it was written since writes go to both. */
    private synchronized void flushed(SSTableReader sstable) {
        if (counted) accounted.add(sstable.descriptor);
    }

    private synchronized void arrived(SSTableReader sstable) {
        // What comes after it was handed over is migrated.
        if (!counted || isOver() || handedOver || accounted.contains(sstable.descriptor)) return;
        // In this order: whoever finds it accounted for must not find that all is here.
        caughtUp = false;
        accounted.add(sstable.descriptor);
        arrivals++;
        Ref<SSTableReader> kept = sstable.tryRef();
        if (kept == null) fault("an SSTable that came was gone before it could be copied");
        else toCopy.add(CopySource.of(kept, LateWrites.ALL_NEW));
    }

    private synchronized void changed(SSTableListChangedNotification change) {
        if (!watching || isOver()) return;
        if (!KEEPS_CONTENT.contains(change.compactionType)) {
            String reason = "the table's SSTables were changed (" + change.compactionType + ")";
            // Such an operation changes one SSTable after the other: the next copy waits until it
            // is over, or for a while if nothing says when that is.
            if (Shadows.isShrinking(cfs)) end(reason);
            else fault(reason);
            return;
        }
        boolean isKnown = true;
        for (SSTableReader sstable : change.removed)
            // What was written so far by a compaction that ends without a result.
            isKnown &=
                    sstable.openReason == SSTableReader.OpenReason.EARLY
                            || accounted.contains(sstable.descriptor);
        if (!isKnown && handedOver) {
            for (SSTableReader sstable : change.removed) accounted.remove(sstable.descriptor);
            return;
        }
        if (!isKnown) {
            end(
                    counted
                            ? "an SSTable that came was compacted before it could be copied"
                            : "what was written while the copy began was compacted");
            return;
        }
        for (SSTableReader sstable : change.removed) accounted.remove(sstable.descriptor);
        for (SSTableReader sstable : change.added) accounted.add(sstable.descriptor);
    }

    // Copying

    /**
     * Goes on for a while. Returns when to go on.
     *
     * @param hasRoom asked now and then
     */
    Duration step(BooleanSupplier hasRoom) {
        CopySource first;
        synchronized (this) {
            first = toCopy.peek();
            if (first == null) {
                if (counted && !caughtUp && !isOver()) {
                    catchUp();
                    logger.info("The shadow of {} has caught up", name);
                }
                return SOON;
            }
        }
        Progress progress = new Progress();
        CompactionManager.instance.active.beginCompaction(progress);
        try {
            if (!copy(first, progress, hasRoom)) {
                if (isHalted()) return SOON;
                return progress.isStopRequested() ? LATER : Duration.ZERO;
            }
        } finally {
            progress.ended = true;
            CompactionManager.instance.active.finishCompaction(progress);
        }
        synchronized (this) {
            nextKey = null;
            // Else it was released, and is not there any more.
            if (toCopy.remove(first)) first.release();
        }
        return Duration.ZERO;
    }

    private void catchUp() {
        everCaughtUp = true;
        caughtUp = true;
    }

    private boolean isHalted() {
        return isOver() || Shadows.areStopped();
    }

    /** False if it was stopped, or its step was over, before the end. */
    private boolean copy(CopySource source, Progress progress, BooleanSupplier hasRoom) {
        try {
            return copy(source.open(cfs.metadata), source.newFrom(), progress, hasRoom);
        } catch (IOException e) {
            return unreadable(source, e);
        } catch (RuntimeException | FSError | AssertionError e) {
            // An error of the disk, or what Cassandra asserts of a damaged index.
            if (source.isKept()) return unreadable(source, e);
            if (!isLedByIndex) throw e;
            logger.warn(
                    "{} cannot be read from where its index leads to. The shadow of {} copies it"
                            + " from its beginning",
                    source,
                    name,
                    e);
            nextKey = null;
            return false;
        }
    }

    /** Ends it, which is no fault: the next one has all of it from the table. */
    private boolean unreadable(CopySource source, Throwable e) {
        logger.warn("{} cannot be read", source, e);
        end(
                "an SSTable that it has to copy, and that was kept over the restart of the node,"
                        + " cannot be read: "
                        + source
                        + ": "
                        + e.getMessage());
        return false;
    }

    private boolean copy(
            SSTableReader sstable, long newFrom, Progress progress, BooleanSupplier hasRoom) {
        long end = System.nanoTime() + step.toNanos();
        DecoratedKey first = nextKey;
        boolean isBegun = false;
        boolean hasIndex = true;
        isLedByIndex = first != null;
        try (ISSTableScanner scanner = scannerFrom(first, sstable)) {
            if (first != null && !scanner.hasNext()) return beginAnew(sstable, first);
            while (scanner.hasNext()) {
                long position = scanner.getCurrentPosition();
                try (UnfilteredRowIterator partition = scanner.next()) {
                    DecoratedKey key = partition.partitionKey();
                    if (!isBegun && first != null && !key.equals(first))
                        return beginAnew(sstable, first);
                    isLedByIndex = false;
                    // What was taken of the scanner must be copied, or be where it goes on.
                    boolean isStopped = isBegun && isHalted(progress);
                    boolean isTimeUp = isBegun && System.nanoTime() - end >= 0;
                    if (isStopped || (isTimeUp && hasIndex)) {
                        // Else its index is damaged, and it is copied at a stretch.
                        hasIndex = leadsTo(sstable, key, position);
                        if (hasIndex) nextKey = key;
                        if (hasIndex || isStopped) return false;
                    }
                    isBegun = true;
                    if (!PartitionBatches.forEach(
                            cfs.metadata(),
                            sstable,
                            partition,
                            (update, isFirst) -> copied(update, newFrom, progress, hasRoom)))
                        return false;
                }
                throttle(scanner.getCurrentPosition() - position, progress);
            }
            return true;
        }
    }

    /** Whether the copy finds a partition again by the index. */
    private boolean leadsTo(SSTableReader sstable, DecoratedKey key, long position) {
        try {
            return sstable.getPosition(key, SSTableReader.Operator.GE) == position;
        } catch (RuntimeException | FSError | AssertionError e) {
            logger.warn(
                    "The index of {} is damaged. The shadow of {} copies it at a stretch",
                    sstable,
                    name,
                    e);
            return false;
        }
    }

    private boolean beginAnew(SSTableReader sstable, DecoratedKey next) {
        logger.warn(
                "The index of {} is damaged: it does not lead to partition {}, with which the copy"
                        + " for the shadow of {} is to go on. It is copied from its beginning",
                sstable,
                Comparison.shown(cfs.metadata(), next),
                name);
        nextKey = null;
        return false;
    }

    /**
     * Finds by the index where to begin, and reads on without it.
     *
     * @param first null for the first of all; else what it gives first must be compared with it
     */
    private ISSTableScanner scannerFrom(@Nullable DecoratedKey first, SSTableReader sstable) {
        if (first == null) return sstable.getScanner();
        PartitionPosition end = cfs.getPartitioner().getMinimumToken().minKeyBound();
        return sstable.getScanner(
                List.<AbstractBounds<PartitionPosition>>of(new Bounds<>(first, end)).iterator());
    }

    private boolean copied(
            PartitionUpdate update, long newFrom, Progress progress, BooleanSupplier hasRoom) {
        if (update.isEmpty()) return true;
        late.copied(update, newFrom, moment.get());
        noteLate(update);
        return hasRoom.getAsBoolean() && write(update) && !isHalted(progress);
    }

    @Override
    void begins(PartitionUpdate update) {
        if (!looksFirst || isOver()) return;
        try {
            late.begins(update, moment.get());
            noteLate(update);
            if (late.reason() != null && !memtableSwitch.await(MOST_OF_A_SWITCH))
                fault("the switch of the memtable took too long for a late write");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            fault("a late write was interrupted that waited for the switch of the memtable");
        } catch (RuntimeException | Error e) {
            fault("a write cannot be looked at: " + e);
        }
    }

    @Override
    void looked(PartitionUpdate update) {
        if (isOver()) return;
        try {
            late.written(update, moment.get());
            noteLate(update);
        } catch (RuntimeException | Error e) {
            fault("a write cannot be looked at: " + e);
        }
    }

    private void noteLate(PartitionUpdate update) {
        String reason = late.reason();
        if (reason == null || isToldOfLate.getAndSet(true)) return;
        logger.info(
                "The shadow of {} may lack what the table has in partition {}: {}",
                name,
                Comparison.shown(cfs.metadata(), update.partitionKey()),
                reason);
    }

    /** What came to it, and whether something came too late. */
    LateWrites late() {
        return late;
    }

    private boolean isHalted(Progress progress) {
        return isHalted() || progress.isStopRequested();
    }

    /** As {@code compaction_throughput} wants it. */
    void throttle(long bytes, Progress progress) {
        Throttle.asCompactions(bytes, () -> isHalted(progress));
        if (bytes > 0) copiedBytes.addAndGet(bytes);
    }

    /** About how many bytes are to be copied yet. */
    synchronized long bytesLeft() {
        long left = 0;
        for (CopySource each : toCopy) left += each.bytes();
        return left;
    }

    /** Whether what is to be copied is known. */
    synchronized boolean hasBegun() {
        return counted;
    }

    final class Progress extends CompactionInfo.Holder {
        private final TimeUUID id = TimeUUID.Generator.nextTimeUUID();
        private final long before = copiedBytes.get();
        private volatile boolean ended;

        @Override
        public CompactionInfo getCompactionInfo() {
            long done = ended ? copiedBytes.get() - before : copiedBytes.get();
            return CompactionInfos.withoutSSTables(
                    cfs.metadata(),
                    // Of a priority that operators' verbs may cancel; it goes on by itself.
                    OperationType.UNKNOWN,
                    done,
                    ended ? done : done + bytesLeft(),
                    CompactionInfo.Unit.BYTES,
                    id);
        }

        @Override
        public boolean isGlobal() {
            return false;
        }
    }
}
