// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.host.DirectMemory;
import dev.petra.engine.stream.BlockMemory;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.HeadCodec;
import dev.petra.streaming.wire.HeadCodec.SliceHead;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.io.util.RebufferingInputStream;
import org.apache.cassandra.net.AsyncStreamingInputPlus;
import org.jspecify.annotations.Nullable;

/**
 * What a peer sends for one table in one session: slices of one or more streams, in any order, from
 * several threads. They are staged as they come; they go live when all have come and all are
 * checked. If the session ends before, nothing stays. Thread-safe.
 */
public final class IncomingSlices implements AutoCloseable {
    /** Bounds how many stores' worth of staging directories a peer can have made. */
    private static final int MOST_STREAMS = 256;

    private static final ByteBuffer NOTHING = ByteBuffer.allocateDirect(0);

    /** How much of a block is to come before a peer is idle for too long. */
    private static final int PIECE = 1 << 16;

    /** How long a session has failed at most before what waits for room or disk is told. */
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final String peer;
    private final String table;
    private final Target target;
    private final BlockMemory large;
    private final IdleLimit idle;
    private final Map<Long, Transfer> streams = new HashMap<>();

    /** The connections that are read from now. */
    private final Set<Reading> readings = new HashSet<>();

    private boolean over;

    /** Why a slice could not be received: all others may be whole, and do not go live. */
    private volatile @Nullable String failure;

    /** Where slices go. */
    @FunctionalInterface
    public interface Target {
        /**
         * Opens a store for one stream. Called without a lock.
         *
         * @throws IOException if the table cannot take it
         */
        StreamSink open(StreamHead head) throws IOException;
    }

    /** Is told what comes. */
    @FunctionalInterface
    public interface Listener {
        /**
         * Called when a slice begins.
         *
         * @return what is told of its frames, of the first as well
         */
        OutgoingSlice.Progress begins(int slice, SliceHead head);
    }

    /** One stream; under the session's lock but for its sink. */
    private static final class Transfer {
        final StreamHead head;
        final BitSet begun = new BitSet();
        final CompletableFuture<StreamSink> sink = new CompletableFuture<>();

        Transfer(StreamHead head) {
            this.head = head;
        }

        /** Waits for the thread that opens the store. */
        StreamSink sink() throws IOException {
            try {
                return sink.join();
            } catch (CompletionException e) {
                throw new IOException("A stream cannot be taken: " + e.getCause(), e);
            }
        }
    }

    /** For a table and a peer that no message needs to name. */
    public IncomingSlices(Target target) {
        this("the peer", "the table", IdleLimit.OF_PROCESS, target);
    }

    /**
     * For one table.
     *
     * @param peer that sends, for messages
     * @param table that receives, for messages
     * @param idle how long the peer may send nothing of a slice that it has begun
     */
    public IncomingSlices(String peer, String table, IdleLimit idle, Target target) {
        this(peer, table, idle, target, BlockMemory.INCOMING);
    }

    IncomingSlices(String peer, String table, IdleLimit idle, Target target, BlockMemory large) {
        this.peer = peer;
        this.table = table;
        this.idle = idle;
        this.target = target;
        this.large = large;
    }

    /**
     * Takes one slice, from its head to its end. Blocks on the connection and on disk. The
     * connection is of no use afterwards if this fails.
     *
     * @return how many bytes came
     * @throws IOException if the peer does not keep to the protocol or sends nothing for too long,
     *     the connection ends, or the table cannot take it: the session has failed and is to be
     *     closed
     * @throws IllegalStateException if the table ends meanwhile, or the session is closed
     */
    public long receive(RebufferingInputStream input, Listener listener) throws IOException {
        Reading from = new Reading(input);
        long bytes;
        try (from) {
            add(from);
            bytes = receive(from, listener);
        } catch (IOException | RuntimeException | Error e) {
            failure = String.valueOf(e.getMessage());
            checkIdle(from, e);
            throw e;
        }
        // Its last bytes came too late: nothing comes behind them.
        checkIdle(from, null);
        return bytes;
    }

    private void checkIdle(Reading from, @Nullable Throwable end) throws IOException {
        if (!from.wait.isOver()) return;
        String why = from.wait.reason();
        failure = why;
        throw new IOException(why, end);
    }

    private synchronized void add(Reading reading) throws IOException {
        checkOpen();
        readings.add(reading);
    }

    private synchronized void remove(Reading reading) {
        readings.remove(reading);
    }

    private long receive(Reading from, Listener listener) throws IOException {
        Frame first = from.frame();
        if (first.kind() != Frame.Kind.HEAD) throw new IOException("A slice begins with " + first);
        SliceHead head = HeadCodec.decode(from.content(first));
        try (SliceWriter writer = begin(first, head.stream()).begin(first.slice())) {
            from.tell(listener.begins(first.slice(), head));
            for (int number = 1; ; number++) {
                Frame frame = from.frame();
                if (frame.stream() != first.stream()
                        || frame.slice() != first.slice()
                        || frame.number() != number)
                    throw new IOException(
                            "A slice has %s where frame %d of %s should be"
                                    .formatted(frame, number, first));
                from.take(frame, writer);
                if (frame.kind() == Frame.Kind.END) break;
            }
        }
        return from.read;
    }

    /**
     * What follows the frames of one slice. It is gathered off the heap, unpacked off the heap, and
     * read there by the engine: a block lies in several of the connection's buffers.
     */
    private final class Reading implements AutoCloseable {
        private final RebufferingInputStream input;
        private final IdleLimit.Wait wait;
        private OutgoingSlice.Progress progress = bytes -> {};
        private ByteBuffer packed = NOTHING;
        private ByteBuffer plain = NOTHING;
        private long read;

        Reading(RebufferingInputStream input) {
            this.input = input;
            this.wait = idle.watch("%s sent no bytes of %s".formatted(peer, table), why -> end());
        }

        /**
         * Ends the wait for bytes, from any thread: the reader finds the input closed. Cassandra
         * does not when a session fails, for a connection whose first slice is under way.
         */
        void end() {
            if (input instanceof AsyncStreamingInputPlus connection) connection.requestClosure();
        }

        Frame frame() throws IOException {
            wait.begins();
            try {
                return Frame.read(input);
            } finally {
                wait.ends();
            }
        }

        /** Tells a listener of what was read already, and of all that follows. */
        void tell(OutgoingSlice.Progress listener) {
            progress = listener;
            progress.moved(read);
        }

        void take(Frame frame, SliceWriter to) throws IOException {
            switch (frame.kind()) {
                case HEAD -> throw new IOException("A slice has a second head: " + frame);
                case BLOCK -> {
                    if (frame.plain() <= SliceWriter.BLOCK) to.take(content(frame));
                    else takeLarge(frame, to);
                }
                case END -> {
                    content(frame);
                    to.end();
                }
            }
        }

        /** Takes a large block, which is not packed. */
        private void takeLarge(Frame frame, SliceWriter to) throws IOException {
            large.acquire(frame.plain(), IncomingSlices.this::checkOpen);
            ByteBuffer block = NOTHING;
            try {
                block = allocate(frame.packed());
                fill(frame, block);
                to.take(frame.unpack(block, NOTHING));
            } finally {
                free(block);
                large.release(frame.plain());
            }
        }

        /** The content of a frame, valid until the next call. */
        ByteBuffer content(Frame frame) throws IOException {
            packed = withRoom(packed, frame.packed());
            plain = withRoom(plain, frame.plain());
            fill(frame, packed);
            return frame.unpack(packed, plain);
        }

        /** Frees the buffers: nothing that was read is used any more. */
        @Override
        public void close() {
            wait.close();
            remove(this);
            free(packed);
            free(plain);
            packed = NOTHING;
            plain = NOTHING;
        }

        private void fill(Frame frame, ByteBuffer bytes) throws IOException {
            try {
                for (int at = bytes.position(); at < bytes.limit(); at += PIECE) {
                    wait.begins();
                    input.readFully(bytes.slice(at, Math.min(PIECE, bytes.limit() - at)));
                }
            } catch (EOFException | ClosedChannelException e) {
                EOFException ended =
                        new EOFException("A stream ends in the bytes that follow " + frame);
                ended.initCause(e);
                throw ended;
            } finally {
                wait.ends();
            }
            long bytesOfFrame = Frame.BYTES + (long) frame.packed();
            read += bytesOfFrame;
            progress.moved(bytesOfFrame);
        }
    }

    private static ByteBuffer allocate(int bytes) throws IOException {
        return BlockMemory.allocate(bytes, ByteBuffer::allocateDirect);
    }

    private static ByteBuffer withRoom(ByteBuffer buffer, int bytes) throws IOException {
        if (buffer.capacity() >= bytes) return buffer.clear().limit(bytes);
        // Not first: if there is no other, its owner frees it.
        ByteBuffer larger = allocate(bytes);
        free(buffer);
        return larger;
    }

    /** Frees a buffer at once: the JVM frees direct memory only by collecting the heap. */
    private static void free(ByteBuffer buffer) {
        if (buffer.capacity() > 0) DirectMemory.free(buffer);
    }

    private StreamSink begin(Frame frame, StreamHead head) throws IOException {
        if (frame.slice() >= head.slices())
            throw new IOException("%s of a stream of %d slices".formatted(frame, head.slices()));
        Transfer to;
        boolean isFirst;
        synchronized (this) {
            if (over) throw ended();
            Transfer known = streams.get(frame.stream());
            isFirst = known == null;
            if (isFirst && streams.size() == MOST_STREAMS)
                throw new IOException("A session has more than " + MOST_STREAMS + " streams.");
            to = known == null ? new Transfer(head) : known;
            if (!to.head.equals(head))
                throw new IOException(
                        "Slices of one stream say %s and %s".formatted(to.head, head));
            if (to.begun.get(frame.slice()))
                throw new IOException("Slice " + frame.slice() + " of a stream comes again.");
            to.begun.set(frame.slice());
            streams.put(frame.stream(), to);
        }
        if (isFirst) open(to);
        return to.sink();
    }

    private void open(Transfer stream) throws IOException {
        StreamSink sink;
        try {
            sink = target.open(stream.head);
        } catch (IOException | RuntimeException | Error e) {
            stream.sink.completeExceptionally(e);
            throw e;
        }
        boolean late;
        synchronized (this) {
            late = over;
            if (!late) stream.sink.complete(sink);
        }
        if (late) {
            sink.close();
            throw ended();
        }
    }

    private synchronized void checkOpen() throws IOException {
        if (over) throw ended();
    }

    private static IOException ended() {
        return new IOException("The session of a stream was over before all of it had come.");
    }

    /**
     * The same as {@link #ingest(BooleanSupplier)} of a session that fails only by {@link #close}.
     */
    public void ingest() throws IOException {
        try {
            ingestAll(() -> false);
        } finally {
            close();
        }
    }

    /**
     * Makes all live that came: checks every slice of every stream first. Blocks on disk, maybe for
     * hours, without a lock: {@link #close} by another thread ends it. Closes the session.
     *
     * @param hasFailed whether the session has failed, of which nobody tells a receiver that has
     *     all: asked before each step, and by a thread of its own while one waits
     * @throws IOException if something is missing or does not fit together; nothing is live then,
     *     unless a store or the session failed in the middle
     */
    public void ingest(BooleanSupplier hasFailed) throws IOException {
        Thread looking = new Thread(() -> closeIf(hasFailed), "PetraStreamIngest");
        looking.setDaemon(true);
        try {
            looking.start();
            ingestAll(hasFailed);
        } catch (RuntimeException e) {
            // Of a sink that was closed under it.
            requireNot(hasFailed, e);
            throw e;
        } finally {
            close();
            LockSupport.unpark(looking);
        }
    }

    private void ingestAll(BooleanSupplier hasFailed) throws IOException {
        List<Transfer> all;
        synchronized (this) {
            if (over) throw ended();
            all = List.copyOf(streams.values());
        }
        if (failure != null) throw new IOException("A slice could not be received: " + failure);
        for (Transfer each : all) {
            requireNot(hasFailed, null);
            each.sink().verify();
        }
        for (Transfer each : all) {
            StreamSink sink = each.sink();
            do {
                requireNot(hasFailed, null);
                // Before the first as well: others fill the store, too.
                sink.prepare();
                requireNot(hasFailed, null);
            } while (sink.ingest());
        }
    }

    /** Looks until the session is over, in a thread of its own that an interrupt tells nothing. */
    private void closeIf(BooleanSupplier hasFailed) {
        while (!isOver() && !hasFailed.getAsBoolean()) {
            LockSupport.parkNanos(LOOK_NANOS);
            // It would not park any more.
            var unused = Thread.interrupted();
        }
        close();
    }

    private void requireNot(BooleanSupplier hasFailed, @Nullable Throwable cause)
            throws IOException {
        if (hasFailed.getAsBoolean())
            throw new IOException(
                    ("The session in which %s sent %s failed before all of it was live: repeat the"
                                    + " operation that streams")
                            .formatted(peer, table),
                    cause);
    }

    private synchronized boolean isOver() {
        return over;
    }

    /** Whether no stream has begun that is not live. */
    public synchronized boolean isEmpty() {
        return streams.isEmpty();
    }

    /** Deletes what did not go live. Idempotent; wakes who waits, for the peer as well. */
    @Override
    public void close() {
        List<Transfer> all;
        synchronized (this) {
            over = true;
            all = List.copyOf(streams.values());
            streams.clear();
            // Those that are opened now are closed by who opens them.
            for (Transfer each : all) each.sink.completeExceptionally(ended());
            // What they hold of memory would be held until the peer ends its connections.
            readings.forEach(Reading::end);
        }
        RuntimeException failure = null;
        for (Transfer each : all)
            try {
                if (!each.sink.isCompletedExceptionally()) each.sink.join().close();
            } catch (RuntimeException e) {
                if (failure == null) failure = e;
                else failure.addSuppressed(e);
            }
        if (failure != null) throw failure;
    }
}
