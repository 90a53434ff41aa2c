// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamSource;
import dev.petra.streaming.staging.IdleLimit;
import dev.petra.streaming.staging.OutgoingSlice;
import dev.petra.streaming.staging.SlicePlan;
import java.io.EOFException;
import java.io.IOException;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.concurrent.ExecutorFactory;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.StreamManager;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.apache.cassandra.utils.TimeUUID;

/** One slice of what a store sends, as Cassandra sends its files; it is read while it is sent. */
public final class SliceStream implements OutgoingStream {
    /**
     * Marks a slice in Cassandra's stream header, in the place of the time when an SSTable was
     * repaired: a time before all others. Frames of {@code dev.petra.streaming} follow.
     */
    static final long MARK = Long.MIN_VALUE | 0x5045545241L;

    /**
     * The most slices of one table to one peer. Cassandra sends as many at a time as there are
     * cores.
     */
    private static final int MOST_SLICES = 64;

    private final OutgoingSlice slice;
    private final OutgoingSlice.Check check;
    private final IdleLimit idle;

    /** How many bytes went out; 0 before all have. */
    private volatile long written;

    private SliceStream(OutgoingSlice slice, OutgoingSlice.Check check, IdleLimit idle) {
        this.slice = slice;
        this.check = check;
        this.idle = idle;
    }

    /**
     * Plans what of a store goes to one peer.
     *
     * @return none if the store has nothing in the ranges
     */
    public static List<SliceRanges> plan(
            StorageEngine engine, TableStore store, Collection<Range<Token>> ranges) {
        return SlicePlan.of(store, ranges, engine.sliceBytes(), MOST_SLICES);
    }

    /**
     * A stream for each slice.
     *
     * @param source taken over: it is closed when all are finished
     * @param slices those that it was opened for
     * @param check of what is read
     */
    public static List<SliceStream> of(
            StreamSource source, List<SliceRanges> slices, OutgoingSlice.Check check) {
        return of(source, slices, check, IdleLimit.OF_PROCESS);
    }

    /**
     * @param idle how long a peer may take nothing
     */
    static List<SliceStream> of(
            StreamSource source,
            List<SliceRanges> slices,
            OutgoingSlice.Check check,
            IdleLimit idle) {
        return OutgoingSlice.of(source, slices).stream()
                .map(slice -> new SliceStream(slice, check, idle))
                .toList();
    }

    @Override
    public void write(StreamSession session, StreamingDataOutputPlus output, int version)
            throws IOException {
        SliceProgress progress =
                new SliceProgress(
                        session, getName(), ProgressInfo.Direction.OUT, slice.plannedBytes());
        try (IdleLimit.Wait wait =
                idle.watch(
                        "%s took no bytes of %s".formatted(session.peer, getName()),
                        why -> end(session, why))) {
            written =
                    slice.write(
                            output,
                            StreamManager.getEntireSSTableRateLimiter(session.peer),
                            () -> check(session),
                            progress,
                            wait);
        }
        progress.end();
    }

    /** Closes its connections; by a thread of its own, since it tells the peer before. */
    private static void end(StreamSession session, String why) {
        ExecutorFactory.Global.executorFactory()
                .startThread(
                        "PetraStreamEnd",
                        () -> {
                            if (session.state().isFinalState()) return;
                            var unused = session.onError(new IOException(why));
                        });
    }

    /** A node has one thread that ends sessions, and it waits for what writes for them. */
    private void check(StreamSession session) throws IOException {
        check.check();
        if (session.state().isFinalState())
            throw new EOFException("The session of a stream ended while it was sent.");
    }

    @Override
    public void finish() {
        slice.finish();
    }

    @Override
    public long getRepairedAt() {
        return MARK;
    }

    @Override
    public TimeUUID getPendingRepair() {
        return ActiveRepairService.NO_PENDING_REPAIR;
    }

    @Override
    public String getName() {
        return SliceProgress.name(slice.head().columnFamily(), slice.slice(), slice.head());
    }

    /** Once it is sent, its size. */
    @Override
    public long getEstimatedSize() {
        long sent = written;
        // Something that comes: Cassandra shows shares of it.
        return sent > 0 ? sent : Math.max(1, slice.plannedBytes());
    }

    @Override
    public TableId getTableId() {
        return slice.head().table();
    }

    @Override
    public int getNumFiles() {
        return 1;
    }

    @Override
    public String toString() {
        return getName();
    }
}
