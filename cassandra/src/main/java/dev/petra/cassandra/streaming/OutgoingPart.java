// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.engine.stream.OutgoingParts;
import dev.petra.streaming.staging.OutgoingFrame;
import dev.petra.streaming.wire.ManifestTooLargeException;
import java.io.IOException;
import java.util.List;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.StreamManager;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.apache.cassandra.utils.TimeUUID;

/** One part of what a store sends, as Cassandra sends its files. */
public record OutgoingPart(OutgoingFrame frame) implements OutgoingStream {
    /**
     * In the header of Cassandra's own, where it says when an SSTable was repaired: what follows is
     * a frame of ours. A time before all others.
     */
    static final long MARK = Long.MIN_VALUE | 0x5045545241L;

    /**
     * A stream for each part. Takes the parts over: they are closed when all are finished.
     *
     * @throws ManifestTooLargeException if no receiver would take so many parts; the parts are not
     *     taken over
     */
    public static List<OutgoingStream> of(OutgoingParts parts) throws ManifestTooLargeException {
        return OutgoingFrame.of(parts).stream().<OutgoingStream>map(OutgoingPart::new).toList();
    }

    @Override
    public void write(StreamSession session, StreamingDataOutputPlus output, int version)
            throws IOException {
        frame.write(output, StreamManager.getEntireSSTableRateLimiter(session.peer));
        long size = getEstimatedSize();
        session.progress(getName(), ProgressInfo.Direction.OUT, size, size, size);
    }

    @Override
    public void finish() {
        frame.finish();
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
        return IncomingPart.name(frame.manifest().columnFamily(), getTableId(), frame.frame());
    }

    @Override
    public long getEstimatedSize() {
        return frame.frame().bytes();
    }

    @Override
    public TableId getTableId() {
        return frame.manifest().table();
    }

    @Override
    public int getNumFiles() {
        return 1;
    }
}
