// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.apache.cassandra.io.sstable.SSTableReadsListener.NOOP_LISTENER;

import dev.petra.cassandra.sstable.SnapshotFiles;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import java.util.function.Predicate;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.RandomAccessReader;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks for what a snapshot of SSTables has and the table's store lacks. A write is no difference,
 * whenever it comes: what the store has is added to what the snapshot has, and nothing more than
 * the store has must come of that.
 */
class SnapshotComparison extends TableComparison {
    private static final Logger logger = LoggerFactory.getLogger(SnapshotComparison.class);

    /** How far ahead of the clock is what counts as now, in seconds, until a piece took longer. */
    private static final int AHEAD_SECONDS = 5;

    private static final int SHOWN_DIFFERENCES = 10;

    private final String tag;
    private final SnapshotFiles snapshot;
    private final Store store;
    private final Predicate<Token> isOwned;

    /** By which both sides are read. */
    private final TableMetadata table;

    private final List<String> differences = new ArrayList<>();
    private List<SSTableReader> sstables = List.of();
    private long ahead = AHEAD_SECONDS;
    private long latest;
    private long gcBefore;
    private long notOwned;

    /** The store of a table. */
    interface Store {
        /** Null if nothing was written yet. */
        @Nullable TableStore existing();

        /** Why it is not the one any more that it was when the comparison was begun; or null. */
        @Nullable String end();
    }

    /**
     * What came of a piece.
     *
     * @param reached the last place that was compared, if that is behind where it began
     */
    private record Piece(
            Comparison.Outcome outcome,
            @Nullable ClusteringPrefix<?> reached,
            boolean isUndecided,
            long bytes) {}

    /**
     * @param isOwned whether this node is to have what is at a token
     * @param rangeText as the operator has given it
     * @param ranges that do not wrap
     */
    SnapshotComparison(
            ColumnFamilyStore cfs,
            Store store,
            String tag,
            SnapshotFiles snapshot,
            Predicate<Token> isOwned,
            String rangeText,
            List<Range<Token>> ranges) {
        super(cfs, "snapshot '" + tag + "'", rangeText, ranges);
        this.store = store;
        this.tag = tag;
        this.snapshot = snapshot;
        this.isOwned = isOwned;
        this.table = cfs.metadata();
    }

    @Override
    public String snapshot() {
        return tag;
    }

    @Override
    public String differences() {
        synchronized (differences) {
            return String.join("\n", differences);
        }
    }

    @Override
    @Nullable String reasonToEnd() {
        String end = store.end();
        return end == null ? null : "ended: " + end;
    }

    /** Not with each row, as {@link #reasonToEnd}. */
    private void checkAll() throws Ended {
        check();
        if (!Attempt.isAlike(table, cfs.metadata()))
            throw new Ended("ended: the table's columns were altered; begin it again");
    }

    @Override
    String failed(Comparison.SideFailure failure) {
        logger.error("The comparison of {} with snapshot '{}' cannot go on", name, tag, failure);
        return "ended: the "
                + (failure.isShadow ? "store" : "snapshot")
                + " cannot be read: "
                + failure.getMessage();
    }

    @Override
    void compareAll() throws Ended, InterruptedException {
        state("opens the snapshot");
        sstables = open();
        try {
            super.compareAll();
        } finally {
            SnapshotFiles.release(sstables);
            sstables = List.of();
        }
    }

    private List<SSTableReader> open() throws Ended {
        try {
            return snapshot.open(table, () -> Timed.check(() -> end() == null));
        } catch (Timed.TooLong e) {
            check();
            throw e;
        } catch (IOException | RuntimeException | FSError | AssertionError e) {
            throw new Comparison.SideFailure(false, e);
        }
    }

    @Override
    KeyWalk walk(Range<Token> range) {
        return new KeyWalk(
                TableMetadataRef.forOfflineTools(table),
                sstables,
                range,
                () -> Timed.check(() -> end() == null));
    }

    @Override
    void awaitReady() throws Ended {
        check();
        state("compares");
    }

    @Override
    String completed() {
        return notOwned == 0
                ? "complete"
                : "complete; left out: "
                        + notOwned
                        + " partitions that this node does not own any more and does not have";
    }

    @Override
    void compare(DecoratedKey key) throws Ended {
        ClusteringPrefix<?> after = null;
        boolean isUndecided = false;
        while (true) {
            checkAll();
            latest = Math.max(latest, FBUtilities.nowInSeconds());
            long now = latest + ahead;
            gcBefore = Math.max(gcBefore, now - Shadows.shortestGrace(cfs.metadata()));
            Piece piece = compare(key, after, now);
            throttle(PER_READ + piece.bytes());
            checkAll();
            Comparison.Outcome outcome = piece.outcome();
            isUndecided |= piece.isUndecided();
            switch (outcome.result()) {
                case DIFFERENT -> {
                    // The store may have purged by a later clock than what was taken for now, or by
                    // a shorter grace.
                    if (FBUtilities.nowInSeconds() > now) ahead *= 2;
                    else if (now - Shadows.shortestGrace(cfs.metadata()) <= gcBefore) {
                        countMissing(key, outcome);
                        return;
                    }
                }
                case EQUAL, UNDECIDED -> {
                    count(key, isUndecided);
                    return;
                }
                case TOO_LONG -> {
                    ClusteringPrefix<?> reached = piece.reached();
                    if (reached != null && isEnd(table, reached)) {
                        count(key, isUndecided);
                        return;
                    }
                    if (reached != null) after = reached;
                }
            }
        }
    }

    private void count(DecoratedKey key, boolean isUndecided) {
        if (isUndecided) count(key, Reason.UNDECIDED);
        else count(true);
    }

    private void countMissing(DecoratedKey key, Comparison.Outcome outcome) {
        if (!isOwned.test(key.getToken())) {
            notOwned++;
            return;
        }
        String text =
                "partition %s, %s: the snapshot has, and the store lacks: %s"
                        .formatted(Comparison.shown(table, key), outcome.where(), outcome.table());
        synchronized (differences) {
            if (differences.size() < SHOWN_DIFFERENCES) {
                differences.add(text);
                logger.warn("In snapshot '{}' of {}, {}", tag, name, text);
            }
        }
        if (mayBePurged()) count(key, Reason.MISSING_OR_PURGED);
        else count(false);
    }

    /**
     * Whether something that was written since the snapshot, and hid or replaced what is in it, may
     * have been purged. That was not before its grace had passed.
     */
    private boolean mayBePurged() {
        Instant takenAt = snapshot.takenAt();
        return takenAt == null
                || takenAt.getEpochSecond() < gcBefore
                || Shadows.purgeDoubt(cfs.metadata()) != null;
    }

    /**
     * Compares what is behind a place, at least up to the next one. As long as it takes to get
     * there: nothing but the store's files is kept meanwhile.
     */
    private Piece compare(DecoratedKey key, @Nullable ClusteringPrefix<?> after, long now) {
        SinglePartitionReadCommand command = command(table, now, key, after);
        Comparison comparison = new Comparison(table, command.columnFilter(), now, gcBefore, false);
        long[] bytes = {0};
        long deadline =
                System.nanoTime() + DatabaseDescriptor.getReadRpcTimeout(TimeUnit.NANOSECONDS);
        BooleanSupplier isRunning = () -> end() == null;
        BooleanSupplier mayGoOn =
                () ->
                        isRunning.getAsBoolean()
                                && ((bytes[0] < MAX_BYTES && System.nanoTime() - deadline < 0)
                                        || !Attempt.isProgress(table, comparison.reached(), after));
        LongConsumer count = read -> bytes[0] += read;
        try (Timed ofSnapshot =
                        Timed.open(
                                () -> {
                                    if (after == null) checkPlace(key);
                                    return ofSnapshot(command, isRunning, count);
                                },
                                false,
                                mayGoOn,
                                // Each source has counted it.
                                any -> {});
                Timed ofStore =
                        Timed.open(() -> ofStore(command, isRunning), true, mayGoOn, count)) {
            Comparison.Outcome outcome;
            try {
                outcome = comparison.missing(ofSnapshot, ofStore);
            } catch (Timed.TooLong e) {
                outcome = Comparison.Outcome.TOO_LONG;
            }
            ClusteringPrefix<?> last = comparison.reached();
            return new Piece(
                    outcome,
                    last != null && Attempt.isProgress(table, last, after)
                            ? last.retainable()
                            : null,
                    comparison.undecided() != null,
                    bytes[0]);
        } catch (Timed.TooLong e) {
            return new Piece(Comparison.Outcome.TOO_LONG, null, false, bytes[0]);
        }
    }

    /**
     * Looks whether a partition is where the indexes of SSTables say: they have no checksum, and of
     * one that leads elsewhere nothing, or something else, would be read.
     */
    private void checkPlace(DecoratedKey key) {
        boolean isFound = false;
        for (SSTableReader each : sstables) {
            if (each.getFirst().compareTo(key) > 0 || each.getLast().compareTo(key) < 0) continue;
            long position = each.getPosition(key, SSTableReader.Operator.EQ);
            if (position < 0) continue;
            isFound = true;
            try (RandomAccessReader data = each.openDataReader()) {
                data.seek(position);
                if (!ByteBufferUtil.readWithShortLength(data).equals(key.getKey()))
                    throw new IllegalStateException(
                            "the index of " + each + " is damaged: it leads to another partition");
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        if (!isFound)
            throw new IllegalStateException(
                    "an index is damaged: no SSTable has partition "
                            + Comparison.shown(table, key)
                            + " now");
    }

    private UnfilteredRowIterator ofSnapshot(
            SinglePartitionReadCommand command, BooleanSupplier isRunning, LongConsumer count) {
        DecoratedKey key = command.partitionKey();
        ClusteringIndexFilter filter = command.clusteringIndexFilter();
        List<UnfilteredRowIterator> sources = new ArrayList<>();
        try {
            for (SSTableReader each : sstables)
                if (each.getFirst().compareTo(key) <= 0 && each.getLast().compareTo(key) >= 0)
                    sources.add(
                            Transformation.apply(
                                    each.rowIterator(
                                            key,
                                            filter.getSlices(table),
                                            command.columnFilter(),
                                            false,
                                            NOOP_LISTENER),
                                    Timed.ofEach(isRunning, count)));
            return sources.isEmpty()
                    ? Attempt.none(command)
                    : UnfilteredRowIterators.merge(sources);
        } catch (RuntimeException | Error e) {
            sources.forEach(UnfilteredRowIterator::close);
            throw e;
        }
    }

    private UnfilteredRowIterator ofStore(
            SinglePartitionReadCommand command, BooleanSupplier isRunning) {
        TableStore present = store.existing();
        return present == null
                ? Attempt.none(command)
                : Attempt.readAside(present, command, () -> Timed.check(isRunning));
    }
}
