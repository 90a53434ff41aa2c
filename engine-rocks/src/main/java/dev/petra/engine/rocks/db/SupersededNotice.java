// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * A partition of which a read has met many range tombstones that newer ones hide. The read notes it
 * here; maintenance takes it and removes them.
 */
public final class SupersededNotice {
    /** From how many range tombstones on a partition is looked at. */
    private static final int MANY = 500;

    private final AtomicReference<byte @Nullable []> noticed = new AtomicReference<>();

    /**
     * A read has met so many range tombstones of a partition, of which so many were left.
     *
     * @param position the partition's
     */
    public void met(int count, int left, ByteBuffer position) {
        if (count < MANY || left > count / 2 || noticed.get() != null) return;
        byte[] copy = new byte[position.remaining()];
        position.duplicate().get(copy);
        noticed.compareAndSet(null, copy);
    }

    public boolean isThere() {
        return noticed.get() != null;
    }

    /** The partition's position; null if there is none. */
    public byte @Nullable [] take() {
        return noticed.getAndSet(null);
    }
}
