// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.BlockMemory;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSource;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.HeadCodec;
import dev.petra.streaming.wire.HeadCodec.SliceHead;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.jspecify.annotations.Nullable;

/**
 * One slice of what a store sends: its head, its blocks as they are read, and its end. All slices
 * of a stream hold its store; the last that is finished lets it go. Thread-safe.
 */
public final class OutgoingSlice {
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    /** How many bytes of a large block are in a buffer of the connection at a time. */
    private static final int CHUNK = 1 << 16;

    /** How much of a buffer goes out is known when it is full; and a wait is for the peer alone. */
    private static final StreamingDataOutputPlus.RateLimiter NO_LIMIT =
            new StreamingDataOutputPlus.RateLimiter() {
                @Override
                public void acquire(int bytes) {}

                @Override
                public boolean isRateLimited() {
                    return false;
                }
            };

    /** What the slices of a stream have in common. */
    private record Outgoing(
            StreamSource source, StreamHead head, long id, AtomicInteger unfinished) {}

    private final Outgoing stream;
    private final int slice;
    private final long bytes;
    private final AtomicBoolean finished = new AtomicBoolean();

    /** Is told of what moves over a connection. */
    @FunctionalInterface
    public interface Progress {
        /** Called for each frame, with what follows it. */
        void moved(long bytes);
    }

    /** Knows whether what is read is still all that was asked for. */
    @FunctionalInterface
    public interface Check {
        /**
         * Called before each block goes out, and before the end.
         *
         * @throws IOException if something is missing: the receiver must not take it for whole
         */
        void check() throws IOException;
    }

    private OutgoingSlice(Outgoing stream, int slice, long bytes) {
        this.stream = stream;
        this.slice = slice;
        this.bytes = bytes;
    }

    /**
     * The slices of a stream.
     *
     * @param source taken over: it is closed when all are finished
     * @param slices those that it was opened for
     */
    public static List<OutgoingSlice> of(StreamSource source, List<SliceRanges> slices) {
        StreamHead head = source.head();
        if (head.slices() != slices.size())
            throw new IllegalArgumentException(
                    "%d slices of a stream of %d".formatted(slices.size(), head.slices()));
        Outgoing stream =
                new Outgoing(
                        source,
                        head,
                        ThreadLocalRandom.current().nextLong(),
                        new AtomicInteger(slices.size()));
        List<OutgoingSlice> all = new ArrayList<>(slices.size());
        for (SliceRanges slice : slices)
            all.add(new OutgoingSlice(stream, all.size(), slice.bytes()));
        return all;
    }

    /** The head of the stream. */
    public StreamHead head() {
        return stream.head;
    }

    /** Its place among the slices of the stream. */
    public int slice() {
        return slice;
    }

    /** What its blocks may have together: an estimate. */
    public long plannedBytes() {
        return bytes;
    }

    /**
     * Writes the slice. Blocks on the disk, the connection and the limiter.
     *
     * @param wait for the peer to take bytes; its end is to close the connection
     * @return how many bytes went out
     * @throws EOFException if the wait was ended
     * @throws IOException if the store cannot be read or the connection fails: the session cannot
     *     go on
     */
    public long write(
            StreamingDataOutputPlus output,
            StreamingDataOutputPlus.RateLimiter limiter,
            Check check,
            Progress progress,
            IdleLimit.Wait wait)
            throws IOException {
        try {
            return write(new Writing(output, limiter, progress, wait), check);
        } catch (IOException e) {
            if (!wait.isOver()) throw e;
            EOFException idle = new EOFException(wait.reason());
            idle.initCause(e);
            throw idle;
        }
    }

    private long write(Writing to, Check check) throws IOException {
        try (SliceReader reader = stream.source.open(slice)) {
            to.write(Frame.Kind.HEAD, HeadCodec.encode(new SliceHead(stream.head, bytes)));
            for (ByteBuffer block = next(reader, check); block != null; block = next(reader, check))
                to.write(Frame.Kind.BLOCK, block);
            to.write(Frame.Kind.END, NOTHING);
            to.flush();
            return to.written;
        }
    }

    private static @Nullable ByteBuffer next(SliceReader reader, Check check) throws IOException {
        ByteBuffer block = reader.next();
        check.check();
        return block;
    }

    /** The frames of one slice. */
    private final class Writing {
        private final StreamingDataOutputPlus output;
        private final StreamingDataOutputPlus.RateLimiter limiter;
        private final Progress progress;
        private final IdleLimit.Wait wait;
        private int number;
        private long written;

        Writing(
                StreamingDataOutputPlus output,
                StreamingDataOutputPlus.RateLimiter limiter,
                Progress progress,
                IdleLimit.Wait wait) {
            this.output = output;
            this.limiter = limiter;
            this.progress = progress;
            this.wait = wait;
        }

        /** Without it, a failure would show at a later write or not at all. */
        void flush() throws IOException {
            wait.begins();
            try {
                output.flush();
            } finally {
                wait.ends();
            }
        }

        /** Waits until the connection has a buffer of so many bytes, and takes it when filled. */
        private int send(int room, Consumer<ByteBuffer> filler) throws IOException {
            wait.begins();
            try {
                return output.writeToChannel(
                        buffers -> {
                            // Not from a pool where it is large.
                            ByteBuffer out = BlockMemory.allocate(room, buffers::get);
                            wait.ends();
                            filler.accept(out);
                        },
                        NO_LIMIT);
            } finally {
                wait.ends();
            }
        }

        void write(Frame.Kind kind, ByteBuffer content) throws IOException {
            long bytes =
                    content.remaining() > SliceWriter.BLOCK
                            ? writeLarge(kind, content)
                            : pack(kind, content);
            number++;
            written += bytes;
            progress.moved(bytes);
        }

        /** Packs a piece into a buffer of the connection, which takes it to the network. */
        private long pack(Frame.Kind kind, ByteBuffer content) throws IOException {
            int room = Frame.BYTES + Frame.scratch(content.remaining());
            return send(
                    room,
                    out -> {
                        ByteBuffer packed = out.slice(Frame.BYTES, room - Frame.BYTES);
                        Frame frame = Frame.pack(kind, stream.id, slice, number, content, packed);
                        frame.write(out);
                        out.position(0).limit(Frame.BYTES + frame.packed());
                        limiter.acquire(out.limit());
                    });
        }

        /** Writes a block as it is, in pieces, each copied to a buffer of the connection. */
        private long writeLarge(Frame.Kind kind, ByteBuffer content) throws IOException {
            Frame frame = Frame.asItIs(kind, stream.id, slice, number, content);
            frame.write(output);
            for (int at = content.position(); at < content.limit(); at += CHUNK) {
                ByteBuffer chunk = content.slice(at, Math.min(CHUNK, content.limit() - at));
                limiter.acquire(chunk.remaining());
                send(chunk.remaining(), out -> out.put(chunk).flip());
            }
            return Frame.BYTES + (long) frame.packed();
        }
    }

    /** Says that this slice will not be written any more. Idempotent. */
    public void finish() {
        if (finished.compareAndSet(false, true) && stream.unfinished.decrementAndGet() == 0)
            stream.source.close();
    }
}
