// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.AbstractUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * One table generation: its data, whole.
 *
 * <p>Every method is thread-safe. After {@link #close()} or {@link #drop()} each throws {@link
 * IllegalStateException}; iterators already handed out stay valid until they are closed, and the
 * store waits for them. An iterator that was closed before its end throws {@link
 * IllegalStateException} when it is asked for more; to close it again is harmless. Token ranges are
 * (left, right], as everywhere in Cassandra.
 *
 * <p>There is no truncate: a truncated table is a new generation, with a store of its own, and the
 * old one is dropped. Ranges and bounds given to a scan do not wrap around the ring. An update may
 * carry an older version of the table than the store has.
 */
public interface TableStore extends AutoCloseable {
    /** Which store this is. */
    StoreSpec spec();

    // Data

    /**
     * Applies one update, whole or not at all: a reader sees none of it or all of it, and so does a
     * restart. Returns once it is as durable as {@link StorageEngine#walSync} says. May block for a
     * bounded time when compaction is behind.
     *
     * @throws org.apache.cassandra.io.FSWriteError if the log cannot be written; whether the update
     *     was applied is then unknown, as after any failed write
     * @throws WriteStallException if the store is too far behind to take it now; it was not applied
     */
    void write(PartitionUpdate update);

    /**
     * The same, and nobody waits until it is durable: {@link #syncLog} makes sure of that. For
     * whoever writes much from one thread.
     */
    default void writeUnsynced(PartitionUpdate update) {
        write(update);
    }

    /**
     * The same, and entries of indexes with it: both or neither, after a crash too. Nobody sees the
     * update without its entries. An update without rows may have entries.
     *
     * <p>Entries of an index that was dropped are ignored, since whoever writes may have found it
     * just before.
     *
     * @param entries of rows of the update's partition
     * @throws IllegalArgumentException if one is of an index that was never defined; nothing was
     *     applied
     * @throws UnsupportedOperationException if there are entries and this engine has no indexes
     */
    default void write(PartitionUpdate update, List<TermEntry> entries) {
        if (!entries.isEmpty()) throw noIndexes();
        write(update);
    }

    /**
     * Reads slices of one partition, as a memtable would: rows reconciled and filtered as {@code
     * Row.filter} does, range tombstones clipped to the slices, boundaries between adjacent ones,
     * nothing purged.
     *
     * @param slices in the order of the table's comparator, also when reversed
     * @param columns may fetch columns that were dropped: their cells that are newer than the drop
     * @return what is there, which the caller closes; null, or an iterator without anything, if
     *     nothing of the partition is selected
     */
    @Nullable UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed);

    /**
     * The same for whoever reads many rows once, as a sweep of an index does: caches get as little
     * of it as the engine can. Need not count as a read in {@link #statistics()}.
     */
    default @Nullable UnfilteredRowIterator readAside(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        return read(key, slices, columns, reversed);
    }

    /**
     * Reads a range of partitions in the order of their positions.
     *
     * @param range keys and, for each, the clusterings that are wanted
     * @return partitions, each closed before the next is asked for; the caller closes the whole.
     *     Partitions with nothing selected may appear, empty
     */
    UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns);

    /**
     * Whether all that a {@link #scan} of one range gives is as of one moment, which is before that
     * returns: an engine whose scans are not cannot answer reads of ranges for another.
     */
    default boolean scansAreOfOneMoment() {
        return false;
    }

    /** The same for whoever reads much once: what readers have in caches stays there. */
    default UnfilteredPartitionIterator scanAside(DataRange range, ColumnFilter columns) {
        return scan(range, columns);
    }

    /**
     * The same for whoever may have to end in the middle of a long read.
     *
     * @param checkpoint called with each partition, and where an engine reads much in a row that
     *     the caller does not get to see, such as deleted rows; what it throws ends the read
     * @throws WriteStallException also in the middle, if writes are refused because the disk was
     *     full: then they may go on only when nobody reads for long
     */
    default UnfilteredPartitionIterator scanAside(
            DataRange range, ColumnFilter columns, Runnable checkpoint) {
        return Transformation.apply(
                scanAside(range, columns),
                new Transformation<UnfilteredRowIterator>() {
                    @Override
                    protected UnfilteredRowIterator applyToPartition(
                            UnfilteredRowIterator partition) {
                        checkpoint.run();
                        return partition;
                    }
                });
    }

    /**
     * The same of several ranges, in the order of the ring, as one scan, which holds no more than
     * that of one of them. An engine whose scans are of one moment has this so over all ranges;
     * here each range is of its own.
     *
     * @param ranges may wrap and overlap
     */
    default UnfilteredPartitionIterator scanAside(
            Collection<Range<Token>> ranges, ColumnFilter columns, Runnable checkpoint) {
        Iterator<Range<Token>> further = Range.normalize(ranges).iterator();
        return new AbstractUnfilteredPartitionIterator() {
            private @Nullable UnfilteredPartitionIterator part;

            @Override
            public TableMetadata metadata() {
                return spec().metadata().get();
            }

            @Override
            public boolean hasNext() {
                while (true) {
                    UnfilteredPartitionIterator present = part;
                    if (present != null && present.hasNext()) return true;
                    close();
                    if (!further.hasNext()) return false;
                    part = scanAside(DataRange.forTokenRange(further.next()), columns, checkpoint);
                }
            }

            @Override
            public UnfilteredRowIterator next() {
                if (!hasNext()) throw new NoSuchElementException();
                return Objects.requireNonNull(part).next();
            }

            @Override
            public void close() {
                UnfilteredPartitionIterator present = part;
                part = null;
                if (present != null) present.close();
            }
        };
    }

    /**
     * Whether the store may hold anything of this partition. May say true wrongly, never false.
     * Holds nothing that would need closing.
     */
    boolean mayContain(DecoratedKey key);

    /**
     * True only if the store holds nothing, nothing from before a restart either; may be false
     * wrongly. Never blocks.
     */
    boolean isEmpty();

    // Indexes

    /** Whether this engine has indexes by term. Never changes. */
    default boolean hasIndexes() {
        return false;
    }

    /**
     * The indexes of this store.
     *
     * @throws UnsupportedOperationException if this engine has none
     */
    default TermIndexes indexes() {
        throw noIndexes();
    }

    private UnsupportedOperationException noIndexes() {
        return new UnsupportedOperationException(
                "The engine of " + spec().displayName() + " has no indexes.");
    }

    // Streams

    /**
     * Opens ranges of the store for sending. They are read while they are sent, so this returns at
     * once whatever their size, and writes nothing.
     *
     * <p>What is there now is sent, or what has replaced it by the time it is read; later writes
     * may be sent or not. Each partition is of one moment, one that is very large in pieces that
     * are. If {@link #retainRanges} takes some of the ranges meanwhile, what it takes is not sent,
     * and no error says so: the caller must not let the receiver think that it has all.
     *
     * @param slices as {@link SliceRanges#check} wants them
     * @return a source that the caller closes
     * @throws IllegalArgumentException if the slices are not those of one stream
     * @throws IllegalStateException if the store is closed, or what it has cannot be sent so
     * @throws UnsupportedOperationException if this engine cannot send
     */
    StreamSource send(List<SliceRanges> slices);

    /**
     * Begins to receive what another store of the same engine and table sends.
     *
     * @param head what will come
     * @param owned what this node may hold, unwrapped; blocks with other keys are refused
     * @return where the slices go, which the caller closes; nothing of them is visible before
     *     {@link StreamSink#ingest()}
     * @throws IllegalArgumentException if the store cannot take what the head says, with the reason
     * @throws UnsupportedOperationException if this engine cannot receive
     */
    StreamSink receive(StreamHead head, Collection<Range<Token>> owned);

    /**
     * Estimates what would be sent of some ranges, for whoever plans slices. Reads no data. A size
     * of 0 does not mean that nothing is there.
     *
     * @param ranges unwrapped
     * @return bytes of each, in their order
     * @throws UnsupportedOperationException if this engine cannot send
     */
    long[] sizes(List<Range<Token>> ranges);

    // Maintenance: each returns when its work is done, and throws if it is not

    /**
     * Makes everything written so far durable, whatever the sync mode. Idempotent. Takes as long as
     * {@link #flush()} where the store is without {@link StoreSpec#isDurable() durability}.
     */
    void syncLog();

    /** Moves everything written so far out of the log and memory into data files. Idempotent. */
    void flush();

    /**
     * Merges everything within the ranges into as few files as the engine keeps. Of the whole
     * table, it also removes deletions and expired values that {@code gc_grace_seconds} has passed
     * over, where {@link StoreSpec#mayPurge()} allows it and nothing older can come to light. Where
     * it forbids that, or comes to do so meanwhile, the table is merged all the same.
     *
     * @param ranges empty for the whole table
     */
    void compact(Collection<Range<Token>> ranges);

    /**
     * Compacts the whole table like {@link #compact}, and has entries removed from its indexes:
     * when what was deleted is purged, and before the files of the indexes are written anew.
     *
     * @param sweep removes them, by {@link TermIndexes#sweep}
     */
    default void collectGarbage(Runnable sweep) {
        compact(List.of());
        sweep.run();
    }

    /**
     * Writes every data file anew, as the table's options are now; compacts like {@link #compact}.
     */
    default void rewrite() {
        compact(List.of());
    }

    /**
     * Ends the compactions that were asked for and run now, or wait for others to end, a removal of
     * old deletions included: whoever asked is told. What they had done stays done.
     */
    default void stopCompactions() {}

    /**
     * Asks {@link StoreSpec#mayPurge()} now. If it says no, nothing that can be read when this has
     * returned goes until it says yes: what was being removed is there again, or its removal shows
     * already. The same for {@code gc_grace_seconds} that grew, and a clock that was set back.
     *
     * <p>The host calls it once {@code mayPurge} says no, before it does what needs that: what
     * comes later then finds the deletions that hide it. Blocks while what removes deletions is
     * stopped, mostly some milliseconds; where a whole file is being given up, for as long as that
     * takes. The host's locks that {@code mayPurge} needs must not be held by another thread that
     * waits for this one. Idempotent.
     */
    default void stopPurging() {}

    /** How far the removal of old deletions is, which the store also does by itself. */
    default PurgeProgress purgeProgress() {
        return PurgeProgress.NONE;
    }

    /**
     * Makes a copy by hard links of the store as it is now, usable as a store of its own.
     *
     * @param target does not exist, its parent does; on the same file system. After a failure
     *     nothing is left there
     */
    void checkpoint(Path target);

    /**
     * Removes what lies outside the ranges when this begins. What is written or received meanwhile
     * stays.
     *
     * @param owned empty removes everything
     */
    void retainRanges(Collection<Range<Token>> owned);

    /**
     * The same, which may have to wait before it begins, while writes are refused and ranges come
     * to the node.
     *
     * @param beforeRemoval run right before anything is removed, and before each attempt. It throws
     *     if the ranges do not hold any more: nothing is removed then, and its exception comes out
     */
    default void retainRanges(Collection<Range<Token>> owned, Runnable beforeRemoval) {
        beforeRemoval.run();
        retainRanges(owned);
    }

    /**
     * Reads every block and checks it against its checksum. {@link #stopCompactions} and {@link
     * #close} end it early, with an exception.
     *
     * @throws CorruptStoreException naming the first damaged file
     */
    default void verify() {
        verify(bytes -> {});
    }

    /**
     * The same, at the caller's speed.
     *
     * @param beforeFile called with the bytes of each file before it is read; may wait, and what it
     *     throws ends this
     */
    void verify(LongConsumer beforeFile);

    /**
     * Ends the store for good and deletes its files. Waits a moment for reads in flight.
     * Idempotent, also after {@link #close()}. A crash on the way leaves a directory that {@link
     * StorageEngine#deleteStore} removes.
     *
     * @throws IllegalStateException if reads do not end: there are no new ones, all is still there,
     *     and this may be called again
     */
    void drop();

    /**
     * Whether the store is being opened anew, as after a full disk, or is closed: what is asked of
     * it then waits, or fails. For whoever asks many stores in turn. Never blocks, never throws.
     */
    default boolean isShut() {
        return false;
    }

    /**
     * What the store holds and does now. Never blocks for long, unless {@link #isShut()}: it reads
     * counters.
     */
    StoreStatistics statistics();

    /** What the data files hold. Reads the properties of each, which are mostly in memory. */
    default FileStatistics fileStatistics() {
        return FileStatistics.NONE;
    }

    /**
     * Estimates what lies in a range, for whoever splits a table into pieces of work.
     *
     * @param range does not wrap around the ring
     */
    default RangeEstimate estimate(Range<Token> range) {
        StoreStatistics all = statistics();
        long partitions = all.estimatedPartitions();
        return new RangeEstimate(
                partitions, partitions == 0 ? 0 : all.liveDataBytes() / partitions);
    }

    /**
     * The engine's own metrics, for operators: by name, in an order that makes sense. The names
     * stay from release to release; {@code docs/operations.md} says what they mean. Never blocks
     * for long.
     */
    default Map<String, Long> metrics() {
        return Map.of();
    }

    /**
     * Waits for reads in flight, syncs the log and releases the store. Idempotent.
     *
     * @throws IllegalStateException if reads do not end within a minute; the log is synced, but the
     *     store is released only when the process ends
     */
    @Override
    void close();
}
