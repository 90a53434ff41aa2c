// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.netty;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;

/**
 * A connection as a channel, for what is in no file: files go by {@link
 * StreamingDataOutputPlus#writeFileToChannel}. Used by one thread.
 *
 * @param limiter bounds the bytes a second
 */
public record FrameOutput(
        StreamingDataOutputPlus output, StreamingDataOutputPlus.RateLimiter limiter)
        implements WritableByteChannel, CloseShieldChannel {
    /** No limit. */
    public static final StreamingDataOutputPlus.RateLimiter UNLIMITED =
            new StreamingDataOutputPlus.RateLimiter() {
                @Override
                public void acquire(int bytes) {}

                @Override
                public boolean isRateLimited() {
                    return false;
                }
            };

    private static final int CHUNK = 1 << 16;

    @Override
    public int write(ByteBuffer bytes) throws IOException {
        int size = Math.min(CHUNK, bytes.remaining());
        if (size == 0) return 0;
        ByteBuffer chunk = bytes.slice(bytes.position(), size);
        output.writeToChannel(buffers -> buffers.get(size).put(chunk).flip(), limiter);
        bytes.position(bytes.position() + size);
        return size;
    }
}
