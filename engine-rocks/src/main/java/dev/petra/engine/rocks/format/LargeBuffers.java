// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import dev.petra.engine.host.DirectMemory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Iterator;

/**
 * A pool of direct buffers for values that are too large for the buffers of each thread. A buffer
 * is lent for one write or read and then kept for the next. The JVM frees direct memory only when
 * it collects the heap: if each large value allocated a buffer, full collections would be forced.
 * So this pool frees a buffer that it does not keep at once, and leaves none to the collector.
 *
 * <p>A process has one pool. The idle bytes are bounded; the lent bytes are not, because they are
 * what the writes and reads in progress need. Thread-safe. The lock is held only to search a short
 * list.
 */
public final class LargeBuffers {
    /** The smallest capacity that is allocated, in bytes; it bounds the number of idle buffers. */
    static final int SMALLEST = 256 << 10;

    /** The most idle bytes that are kept: room for a few of the largest values of Cassandra. */
    static final long MOST_IDLE = 64L << 20;

    public static final LargeBuffers OF_PROCESS = new LargeBuffers(MOST_IDLE);

    private final long mostIdle;

    /** The idle buffers, the most recently used first. */
    private final ArrayDeque<ByteBuffer> idle = new ArrayDeque<>();

    private long idleBytes;
    private long allocated;
    private long lent;

    LargeBuffers(long mostIdle) {
        this.mostIdle = mostIdle;
    }

    /**
     * Lends an empty, big-endian buffer.
     *
     * @param bytes the capacity that is needed at least
     * @return a buffer for the caller alone, to be returned by {@link #giveBack}
     */
    public ByteBuffer lend(int bytes) {
        int capacity = capacityFor(bytes);
        synchronized (this) {
            lent++;
            for (Iterator<ByteBuffer> it = idle.iterator(); it.hasNext(); ) {
                ByteBuffer buffer = it.next();
                // A much larger buffer is left for larger values.
                if (buffer.capacity() < bytes || buffer.capacity() / 2 > capacity) continue;
                it.remove();
                idleBytes -= buffer.capacity();
                return buffer.clear().order(ByteOrder.BIG_ENDIAN);
            }
            allocated++;
        }
        return ByteBuffer.allocateDirect(capacity);
    }

    /**
     * Rounds up to a multiple of a quarter of the highest power of two, so that values of about the
     * same size can share buffers.
     */
    private static int capacityFor(int bytes) {
        int step = Math.max(SMALLEST, Integer.highestOneBit(bytes) / 4);
        long rounded = ((long) bytes + step - 1) / step * step;
        return (int) Math.min(Integer.MAX_VALUE - 8, rounded);
    }

    /**
     * Takes back a buffer that was lent, and frees the least recently used ones above the bound.
     *
     * @param buffer neither it nor a duplicate or slice of it may be used any more: its memory may
     *     be freed
     */
    public void giveBack(ByteBuffer buffer) {
        ArrayDeque<ByteBuffer> tooMuch = new ArrayDeque<>(0);
        synchronized (this) {
            idle.addFirst(buffer);
            idleBytes += buffer.capacity();
            while (idleBytes > mostIdle) {
                ByteBuffer last = idle.removeLast();
                idleBytes -= last.capacity();
                tooMuch.add(last);
            }
        }
        tooMuch.forEach(DirectMemory::free);
    }

    /** How many buffers were ever allocated. */
    synchronized long allocated() {
        return allocated;
    }

    /** How many times a buffer was lent. */
    synchronized long lent() {
        return lent;
    }

    /** The capacity of all idle buffers, in bytes. */
    public synchronized long idleBytes() {
        return idleBytes;
    }
}
