// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.engine.stream.OutgoingParts;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.StreamManager;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.apache.cassandra.utils.TimeUUID;

/** One part of what a store sends. What the parts pin is released with the last of them. */
final class OutgoingPart implements OutgoingStream {
    private final OutgoingParts parts;
    private final PartHeader header;
    private final AtomicInteger unfinished;
    private final AtomicBoolean finished = new AtomicBoolean();

    private OutgoingPart(OutgoingParts parts, PartHeader header, AtomicInteger unfinished) {
        this.parts = parts;
        this.header = header;
        this.unfinished = unfinished;
    }

    /** A stream for each part. Takes the parts over: they are closed when all are finished. */
    static List<OutgoingStream> of(OutgoingParts parts) throws IOException {
        List<OutgoingStream> streams = new ArrayList<>();
        List<PartHeader> headers = PartHeader.of(parts.manifest());
        AtomicInteger unfinished = new AtomicInteger(headers.size());
        for (PartHeader header : headers) streams.add(new OutgoingPart(parts, header, unfinished));
        if (streams.isEmpty()) parts.close();
        return streams;
    }

    @Override
    public void write(StreamSession session, StreamingDataOutputPlus output, int version)
            throws IOException {
        header.write(output);
        output.flush();
        StreamingDataOutputPlus.RateLimiter limiter =
                StreamManager.getEntireSSTableRateLimiter(session.peer);
        Path file = parts.file(header.index());
        long size = getEstimatedSize();
        if (file != null && Files.exists(file))
            // Which owns the channel.
            output.writeFileToChannel(FileChannel.open(file, StandardOpenOption.READ), limiter);
        else parts.transferTo(header.index(), new Copying(output, limiter));
        output.flush();
        session.progress(getName(), ProgressInfo.Direction.OUT, size, size, size);
    }

    /** For engines whose parts are no files. */
    private record Copying(
            StreamingDataOutputPlus output, StreamingDataOutputPlus.RateLimiter limiter)
            implements WritableByteChannel, BorrowedChannel {
        private static final int CHUNK = 1 << 16;

        @Override
        public int write(ByteBuffer bytes) throws IOException {
            int size = Math.min(CHUNK, bytes.remaining());
            ByteBuffer chunk = bytes.slice(bytes.position(), size);
            output.writeToChannel(buffers -> buffers.get(size).put(chunk).flip(), limiter);
            bytes.position(bytes.position() + size);
            return size;
        }
    }

    @Override
    public void finish() {
        if (finished.compareAndSet(false, true) && unfinished.decrementAndGet() == 0) parts.close();
    }

    @Override
    public long getRepairedAt() {
        return PartHeader.MARK;
    }

    @Override
    public TimeUUID getPendingRepair() {
        return ActiveRepairService.NO_PENDING_REPAIR;
    }

    @Override
    public String getName() {
        return header.name();
    }

    @Override
    public long getEstimatedSize() {
        return header.part().bytes();
    }

    @Override
    public TableId getTableId() {
        return header.manifest().table();
    }

    @Override
    public int getNumFiles() {
        return 1;
    }
}
