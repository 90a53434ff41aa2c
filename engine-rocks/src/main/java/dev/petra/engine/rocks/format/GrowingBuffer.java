// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;

/**
 * A direct buffer that grows when it is too small. Up to 256 KiB it has a buffer of its own, which
 * it keeps for the next use. A larger one is lent by {@link LargeBuffers} until {@link #release}.
 * Not thread-safe.
 */
public class GrowingBuffer {
    /** The largest buffer to keep, in bytes: each thread keeps several as long as it lives. */
    private static final int KEEP = LargeBuffers.SMALLEST;

    private ByteBuffer own;

    /** The buffer in use: its own, or a lent one. */
    protected ByteBuffer buffer;

    public GrowingBuffer(int initial) {
        this.own = ByteBuffer.allocateDirect(initial);
        this.buffer = own;
    }

    /** The buffer in use; valid until the next {@link #grow} or {@link #release}. */
    public final ByteBuffer get() {
        return buffer;
    }

    /**
     * Replaces the buffer by a larger one, and copies the bytes before the position to it.
     *
     * @param bytes the capacity that is needed at least
     */
    public final void grow(int bytes) {
        ByteBuffer present = buffer;
        int wanted =
                (int) Math.min(Integer.MAX_VALUE - 8L, Math.max(bytes, 2L * present.capacity()));
        ByteBuffer larger;
        if (wanted <= KEEP) larger = own = ByteBuffer.allocateDirect(wanted);
        else larger = LargeBuffers.OF_PROCESS.lend(wanted);
        larger.put(present.flip());
        buffer = larger;
        if (present.capacity() > KEEP) LargeBuffers.OF_PROCESS.giveBack(present);
    }

    /** Gives back a lent buffer; its content is lost. Does nothing if none is lent. */
    public final void release() {
        ByteBuffer lent = buffer;
        if (lent.capacity() <= KEEP) return;
        buffer = own;
        LargeBuffers.OF_PROCESS.giveBack(lent);
    }
}
