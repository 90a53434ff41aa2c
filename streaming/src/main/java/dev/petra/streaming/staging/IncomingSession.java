// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.streaming.netty.FrameInput;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.ManifestAssembly;
import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.io.util.RebufferingInputStream;
import org.jspecify.annotations.Nullable;

/**
 * What a peer sends for one table in one session: frames of one or more streams, in any order, from
 * several threads. Parts are staged as they come; they go live when all have come and all are
 * checked. If the session ends before, nothing stays. Thread-safe.
 */
public final class IncomingSession implements AutoCloseable {
    /**
     * Bounds what the manifests of all sessions of this process take of the heap; one of the
     * longest, with its pieces, has 192 MiB.
     */
    private static final long MOST_MANIFEST_BYTES =
            Math.max(192L << 20, Runtime.getRuntime().maxMemory() / 8);

    private static final AtomicLong MANIFEST_BYTES = new AtomicLong();

    /** Bounds how many stores' worth of staging directories a peer can have made. */
    private static final int MOST_STREAMS = 256;

    /** The manifest is on its way when the first part is: ahead of it, by the same connection. */
    static final Duration PATIENCE = Duration.ofMinutes(5);

    private final Target target;
    private final Duration patience;
    private final Map<Long, Arriving> streams = new HashMap<>();
    private long charged;
    private boolean over;

    /** Where parts go. */
    @FunctionalInterface
    public interface Target {
        /**
         * Opens a store for the parts of one manifest. Called without a lock.
         *
         * @throws IOException if the table cannot take them
         */
        IncomingParts open(StreamManifest manifest) throws IOException;
    }

    /** One stream; under the session's lock but for its parts. */
    private static final class Arriving {
        final ManifestAssembly assembly;
        @Nullable StreamManifest manifest;
        @Nullable IncomingParts parts;

        Arriving(ManifestAssembly assembly) {
            this.assembly = assembly;
        }

        IncomingParts parts() throws IOException {
            IncomingParts opened = parts;
            if (opened == null)
                throw new IOException("The manifest of a stream did not come as a whole.");
            return opened;
        }
    }

    /** For one table. */
    public IncomingSession(Target target) {
        this(target, PATIENCE);
    }

    IncomingSession(Target target, Duration patience) {
        this.target = target;
        this.patience = patience;
    }

    /**
     * Takes what a peer sends in one go: a part, and the pieces of a manifest that come before it.
     *
     * @param progress of the part
     * @return the part's frame
     * @throws IOException as {@link #receive}, or if a frame is malformed
     */
    public Frame receivePart(RebufferingInputStream input, FrameInput.Progress progress)
            throws IOException {
        while (true) {
            Frame frame = Frame.read(input);
            boolean isPart = frame.kind() == Frame.Kind.PART;
            FrameInput.Progress told = isPart ? progress : (of, bytes, delta) -> {};
            receive(frame, new FrameInput(frame, input, told));
            if (isPart) return frame;
        }
    }

    /**
     * Takes the bytes that a frame announces, all of them. A part waits until its manifest is
     * there.
     *
     * @param bytes ends where the frame's bytes do
     * @throws IOException if the peer does not keep to the protocol, the connection ends, or the
     *     table cannot take it: the session has failed and is to be closed
     */
    void receive(Frame frame, ReadableByteChannel bytes) throws IOException {
        switch (frame.kind()) {
            case MANIFEST -> receivePiece(frame, bytes);
            case PART -> awaitParts(frame).receive(frame.number(), bytes);
        }
    }

    private void receivePiece(Frame frame, ReadableByteChannel bytes) throws IOException {
        synchronized (this) {
            begin(frame).assembly.check(frame);
        }
        ByteBuffer piece = ByteBuffer.allocate((int) frame.bytes());
        while (piece.hasRemaining())
            if (bytes.read(piece) < 0)
                throw new EOFException("A piece of a stream's manifest ends early: " + frame);
        Arriving to;
        synchronized (this) {
            to = begin(frame);
            charge(frame.bytes());
            if (!to.assembly.add(frame, piece.array())) return;
            charge(to.assembly.heapBytes());
        }
        StreamManifest manifest = to.assembly.manifest();
        IncomingParts parts = target.open(manifest);
        boolean late;
        synchronized (this) {
            late = over;
            if (!late) {
                to.parts = parts;
                to.manifest = manifest;
                notifyAll();
            }
        }
        if (late) {
            parts.close();
            throw ended();
        }
    }

    private Arriving begin(Frame frame) throws IOException {
        refuseIfOver();
        Arriving known = streams.get(frame.digest());
        if (known == null) {
            if (streams.size() == MOST_STREAMS)
                throw new IOException("A session has more than " + MOST_STREAMS + " streams.");
            known = new Arriving(ManifestAssembly.begin(frame));
            streams.put(frame.digest(), known);
        }
        return known;
    }

    /** Until the session is closed. */
    private void charge(long bytes) throws IOException {
        charged += bytes;
        if (MANIFEST_BYTES.addAndGet(bytes) > MOST_MANIFEST_BYTES)
            throw new IOException(
                    "The manifests of streams that come take more than %d MiB of the heap."
                            .formatted(MOST_MANIFEST_BYTES >> 20));
    }

    private void refuseIfOver() throws IOException {
        if (over) throw ended();
    }

    private static IOException ended() {
        return new IOException("The session of a stream was over before all of it had come.");
    }

    private synchronized IncomingParts awaitParts(Frame frame) throws IOException {
        long end = System.nanoTime() + patience.toNanos();
        while (true) {
            refuseIfOver();
            Arriving known = streams.get(frame.digest());
            if (known != null && known.manifest != null) {
                check(frame, known.manifest);
                return known.parts();
            }
            long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            if (left <= 0)
                throw new IOException(
                        "The manifest of a part did not come within %s: %s"
                                .formatted(patience, frame));
            try {
                wait(left);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted while waiting for a manifest");
            }
        }
    }

    private static void check(Frame frame, StreamManifest manifest) throws IOException {
        int count = manifest.parts().size();
        if (frame.count() != count || frame.bytes() != manifest.parts().get(frame.number()).bytes())
            throw new IOException(
                    "A part is not what its manifest, of %d parts, says: %s"
                            .formatted(count, frame));
    }

    /**
     * Makes all live that came: checks every part of every stream first. Blocks on disk, without a
     * lock: {@link #close} by another thread ends it. Closes the session.
     *
     * @throws IOException if something is missing or is not what its manifest says; nothing is live
     *     then, unless a store failed in the middle
     */
    public void ingest() throws IOException {
        List<Arriving> all;
        synchronized (this) {
            refuseIfOver();
            all = List.copyOf(streams.values());
        }
        try {
            for (Arriving each : all) each.parts().verify();
            for (Arriving each : all) {
                IncomingParts parts = each.parts();
                // Before the first as well: others fill the store, too.
                do parts.awaitRoom();
                while (parts.ingest());
            }
        } finally {
            close();
        }
    }

    /** Whether a stream has begun that is not live. */
    public synchronized boolean isEmpty() {
        return streams.isEmpty();
    }

    /** Deletes what did not go live. Idempotent; wakes who waits. */
    @Override
    public void close() {
        List<Arriving> all;
        synchronized (this) {
            over = true;
            notifyAll();
            all = List.copyOf(streams.values());
            streams.clear();
            MANIFEST_BYTES.addAndGet(-charged);
            charged = 0;
        }
        RuntimeException failure = null;
        for (Arriving each : all)
            try {
                if (each.parts != null) each.parts.close();
            } catch (RuntimeException e) {
                if (failure == null) failure = e;
                else failure.addSuppressed(e);
            }
        if (failure != null) throw failure;
    }
}
