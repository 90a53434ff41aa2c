// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.netty;

import dev.petra.streaming.wire.Frame;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ReadableByteChannel;
import org.apache.cassandra.io.util.RebufferingInputStream;

/** The bytes that a frame announces, from a connection. Used by one thread. */
public final class FrameInput implements ReadableByteChannel, CloseShieldChannel {
    private final Frame frame;
    private final RebufferingInputStream input;
    private final Progress progress;
    private long position;

    /** Is told of bytes as they come. */
    @FunctionalInterface
    public interface Progress {
        /**
         * Called after each read.
         *
         * @param frame whose bytes came
         * @param bytes of the frame that came so far
         * @param delta of them that came now
         */
        void received(Frame frame, long bytes, long delta);
    }

    /** Of a frame that was read from the input. */
    public FrameInput(Frame frame, RebufferingInputStream input, Progress progress) {
        this.frame = frame;
        this.input = input;
        this.progress = progress;
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
        long left = frame.bytes() - position;
        if (left == 0) return -1;
        int count = (int) Math.min(to.remaining(), left);
        if (count == 0) return 0;
        ByteBuffer piece = to.slice(to.position(), count);
        try {
            input.readFully(piece);
        } catch (EOFException | ClosedChannelException e) {
            EOFException ended =
                    new EOFException(
                            "%s %d of %d ends in the %d bytes after byte %d, and should have %d"
                                    .formatted(
                                            frame.kind(),
                                            frame.number() + 1,
                                            frame.count(),
                                            count,
                                            position,
                                            frame.bytes()));
            ended.initCause(e);
            throw ended;
        }
        to.position(to.position() + count);
        position += count;
        progress.received(frame, position, count);
        return count;
    }
}
