// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;

/**
 * A direct buffer that grows with what is put in: up to a size its own, kept from one use to the
 * next, beyond it lent by {@link LargeBuffers} until {@link #release}. One thread at a time.
 */
public class GrowingBuffer {
    /** Each thread has several of these for as long as it lives. */
    private static final int KEEP = LargeBuffers.SMALLEST;

    private ByteBuffer own;

    /** The one in use. */
    protected ByteBuffer buffer;

    public GrowingBuffer(int initial) {
        this.own = ByteBuffer.allocateDirect(initial);
        this.buffer = own;
    }

    /** The one in use, until it is too small or released. */
    public final ByteBuffer get() {
        return buffer;
    }

    /**
     * Takes a larger one; what is before the position of the present one is in it.
     *
     * @param bytes of its capacity at least
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

    /** Gives back what was lent. What was in the buffer is lost then. */
    public final void release() {
        ByteBuffer lent = buffer;
        if (lent.capacity() <= KEEP) return;
        buffer = own;
        LargeBuffers.OF_PROCESS.giveBack(lent);
    }
}
