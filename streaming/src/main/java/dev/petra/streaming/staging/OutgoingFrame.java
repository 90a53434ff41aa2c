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
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;

/**
 * One frame of what a store sends, with its bytes. All frames of a stream hold its parts; the last
 * that is finished closes them.
 */
public final class OutgoingFrame {
    private final OutgoingParts parts;
    private final ManifestPieces manifest;
    private final Frame frame;
    private final AtomicInteger unfinished;
    private final AtomicBoolean finished = new AtomicBoolean();

    private OutgoingFrame(
            OutgoingParts parts, ManifestPieces manifest, Frame frame, AtomicInteger unfinished) {
        this.parts = parts;
        this.manifest = manifest;
        this.frame = frame;
        this.unfinished = unfinished;
    }

    /**
     * The frames of a stream, in the order in which they are to be sent: the manifest's first. None
     * if there are no parts, which are closed then.
     *
     * @param parts taken over: they are closed when all frames are finished
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
        AtomicInteger unfinished = new AtomicInteger(manifest.count() + sent.size());
        List<OutgoingFrame> frames = new ArrayList<>(unfinished.get());
        for (int piece = 0; piece < manifest.count(); piece++)
            frames.add(new OutgoingFrame(parts, manifest, manifest.frame(piece), unfinished));
        for (StreamPart part : sent) {
            Frame frame =
                    new Frame(
                            Frame.Kind.PART,
                            manifest.digest(),
                            part.index(),
                            sent.size(),
                            part.bytes());
            frames.add(new OutgoingFrame(parts, manifest, frame, unfinished));
        }
        return frames;
    }

    /** What the frame says. */
    public Frame frame() {
        return frame;
    }

    /** Of the stream. */
    public StreamManifest manifest() {
        return parts.manifest();
    }

    /**
     * Writes the frame and its bytes. Blocks on the connection and on the limiter. May be called
     * again.
     *
     * @throws IOException if the connection or the part's file fails
     */
    public void write(StreamingDataOutputPlus output, StreamingDataOutputPlus.RateLimiter limiter)
            throws IOException {
        frame.write(output);
        output.flush();
        if (frame.kind() == Frame.Kind.MANIFEST) {
            FrameOutput channel = new FrameOutput(output, limiter);
            ByteBuffer piece = manifest.piece(frame.number());
            while (piece.hasRemaining()) channel.write(piece);
        } else {
            Path file = parts.file(frame.number());
            if (file != null && Files.exists(file))
                // Which owns the channel.
                output.writeFileToChannel(FileChannel.open(file, StandardOpenOption.READ), limiter);
            else parts.transferTo(frame.number(), new FrameOutput(output, limiter));
        }
        output.flush();
    }

    /** Says that this frame will not be written again. Idempotent. */
    public void finish() {
        if (finished.compareAndSet(false, true) && unfinished.decrementAndGet() == 0) parts.close();
    }
}
