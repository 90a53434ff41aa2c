// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.apache.cassandra.utils.TimeUUID;

/** A stream of which somebody is told, once, when it is finished. */
final class FollowedStream implements OutgoingStream {
    private final OutgoingStream stream;
    private final Runnable finished;
    private final AtomicBoolean isFinished = new AtomicBoolean();

    FollowedStream(OutgoingStream stream, Runnable finished) {
        this.stream = stream;
        this.finished = finished;
    }

    @Override
    public void write(StreamSession session, StreamingDataOutputPlus output, int version)
            throws IOException {
        stream.write(session, output, version);
    }

    @Override
    public void finish() {
        if (!isFinished.compareAndSet(false, true)) return;
        try {
            stream.finish();
        } finally {
            finished.run();
        }
    }

    @Override
    public long getRepairedAt() {
        return stream.getRepairedAt();
    }

    @Override
    public TimeUUID getPendingRepair() {
        return stream.getPendingRepair();
    }

    @Override
    public String getName() {
        return stream.getName();
    }

    @Override
    public long getEstimatedSize() {
        return stream.getEstimatedSize();
    }

    @Override
    public TableId getTableId() {
        return stream.getTableId();
    }

    @Override
    public int getNumFiles() {
        return stream.getNumFiles();
    }
}
