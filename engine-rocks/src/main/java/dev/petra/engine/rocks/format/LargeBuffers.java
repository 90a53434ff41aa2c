// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Iterator;
import org.apache.cassandra.io.util.FileUtils;

/**
 * Direct buffers for what is too large for those that each thread has: lent for one write or read,
 * and kept for the next. The JVM frees direct memory only by collecting the heap; allocated anew
 * for each large value, it forces full collections. So no buffer is left to the collector here: one
 * that is not kept is freed at once.
 *
 * <p>One pool a process. What it keeps is bounded, what is lent is not: that is what writes and
 * reads need at a time. Thread-safe; its lock is held for no longer than a look at a short list.
 */
public final class LargeBuffers {
    /** The smallest that is lent, and so a bound on how many are kept. */
    static final int SMALLEST = 256 << 10;

    /** Bytes kept while nobody uses them: some of the largest values that Cassandra takes. */
    static final long MOST_IDLE = 64L << 20;

    public static final LargeBuffers OF_PROCESS = new LargeBuffers(MOST_IDLE);

    private final long mostIdle;

    /** Those that are kept, the last used first. */
    private final ArrayDeque<ByteBuffer> idle = new ArrayDeque<>();

    private long idleBytes;
    private long allocated;
    private long lent;

    LargeBuffers(long mostIdle) {
        this.mostIdle = mostIdle;
    }

    /** A buffer for so many bytes at least, empty, big-endian, which {@link #giveBack} takes. */
    public ByteBuffer lend(int bytes) {
        int capacity = capacityFor(bytes);
        synchronized (this) {
            lent++;
            for (Iterator<ByteBuffer> it = idle.iterator(); it.hasNext(); ) {
                ByteBuffer buffer = it.next();
                // One much larger is left to those that need it.
                if (buffer.capacity() < bytes || buffer.capacity() / 2 > capacity) continue;
                it.remove();
                idleBytes -= buffer.capacity();
                return buffer.clear().order(ByteOrder.BIG_ENDIAN);
            }
            allocated++;
        }
        return ByteBuffer.allocateDirect(capacity);
    }

    /** In steps of a quarter, so that values of about one size fit each other's buffers. */
    private static int capacityFor(int bytes) {
        int step = Math.max(SMALLEST, Integer.highestOneBit(bytes) / 4);
        long rounded = ((long) bytes + step - 1) / step * step;
        return (int) Math.min(Integer.MAX_VALUE - 8, rounded);
    }

    /**
     * Takes back what was lent.
     *
     * @param buffer the caller, and whatever it made of it, uses it no more
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
        tooMuch.forEach(FileUtils::clean);
    }

    /** How many were ever allocated. */
    synchronized long allocated() {
        return allocated;
    }

    /** How often one was lent. */
    synchronized long lent() {
        return lent;
    }

    /** How many bytes are kept for later. */
    public synchronized long idleBytes() {
        return idleBytes;
    }
}
