// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import dev.petra.streaming.netty.FrameOutput;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.ManifestPieces;
import dev.petra.streaming.wire.ManifestTooLargeException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.jspecify.annotations.Nullable;

/**
 * One part of what a store sends, with the frame before it. The part of a stream that is written
 * first takes the manifest along, ahead of itself: Cassandra sends by few connections, and one that
 * had the manifest to send could wait for those whose parts wait for it. All parts of a stream hold
 * its store; the last that is finished lets it go. Thread-safe.
 */
public final class OutgoingFrame {
    /** What the parts of a stream have in common. */
    private record Outgoing(
            OutgoingParts parts,
            ManifestPieces manifest,
            AtomicBoolean announced,
            AtomicInteger unfinished) {}

    private final Outgoing stream;
    private final Frame frame;
    private final AtomicBoolean finished = new AtomicBoolean();

    private OutgoingFrame(Outgoing stream, Frame frame) {
        this.stream = stream;
        this.frame = frame;
    }

    /**
     * The parts of a stream. None if it has none: what was pinned is released then.
     *
     * @param parts taken over: they are closed when all are finished
     * @throws ManifestTooLargeException if no receiver would take the manifest; the parts are not
     *     taken over
     */
    public static List<OutgoingFrame> of(OutgoingParts parts) throws ManifestTooLargeException {
        List<StreamPart> sent = parts.manifest().parts();
        if (sent.isEmpty()) {
            parts.close();
            return List.of();
        }
        ManifestPieces manifest = ManifestPieces.of(parts.manifest());
        Outgoing stream =
                new Outgoing(parts, manifest, new AtomicBoolean(), new AtomicInteger(sent.size()));
        List<OutgoingFrame> frames = new ArrayList<>(sent.size());
        for (StreamPart part : sent)
            frames.add(
                    new OutgoingFrame(
                            stream,
                            new Frame(
                                    Frame.Kind.PART,
                                    manifest.digest(),
                                    part.index(),
                                    sent.size(),
                                    part.bytes())));
        return frames;
    }

    /** What the part's frame says. */
    public Frame frame() {
        return frame;
    }

    /** Of the stream. */
    public StreamManifest manifest() {
        return stream.parts.manifest();
    }

    /**
     * Writes the part, once. Blocks on the connection and on the limiter.
     *
     * @throws IOException if the connection or the part's file fails: the session cannot go on
     */
    public void write(StreamingDataOutputPlus output, StreamingDataOutputPlus.RateLimiter limiter)
            throws IOException {
        if (stream.announced.compareAndSet(false, true)) writeManifest(output);
        frame.write(output);
        output.flush();
        FileChannel file = open(stream.parts.file(frame.number()));
        // Which owns the channel.
        if (file != null) output.writeFileToChannel(file, limiter);
        else stream.parts.transferTo(frame.number(), new FrameOutput(output, limiter));
        output.flush();
    }

    private void writeManifest(StreamingDataOutputPlus output) throws IOException {
        for (int number = 0; number < stream.manifest.count(); number++) {
            stream.manifest.frame(number).write(output);
            output.flush();
            // It is small, and all parts wait for it.
            FrameOutput channel = new FrameOutput(output, FrameOutput.UNLIMITED);
            ByteBuffer piece = stream.manifest.piece(number);
            while (piece.hasRemaining()) channel.write(piece);
        }
    }

    /** Null if there is none, or none any more. */
    private static @Nullable FileChannel open(@Nullable Path file) throws IOException {
        try {
            return file == null ? null : FileChannel.open(file, StandardOpenOption.READ);
        } catch (NoSuchFileException e) {
            return null;
        }
    }

    /** Says that this part will not be written any more. Idempotent. */
    public void finish() {
        if (finished.compareAndSet(false, true) && stream.unfinished.decrementAndGet() == 0)
            stream.parts.close();
    }
}
