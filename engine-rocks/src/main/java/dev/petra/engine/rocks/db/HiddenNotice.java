// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * A part of a partition whose rows a read has stepped over, because the partition's deletion or
 * range tombstones hide them. The read notes it here; maintenance takes it and removes them.
 */
public final class HiddenNotice {
    /**
     * From how many hidden rows on, which a read steps over in about a millisecond: it does not
     * fetch their values that lie apart.
     */
    public static final int MANY = 1_000;

    /**
     * What was stepped over.
     *
     * @param position the partition's
     * @param from a key, inclusive
     * @param to the same
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    public record Part(byte[] position, byte[] from, byte[] to) {}

    private final AtomicReference<@Nullable Part> noticed = new AtomicReference<>();

    public boolean isThere() {
        return noticed.get() != null;
    }

    /**
     * Notes a part, unless another is noted already.
     *
     * @param before the smaller part that the same read has noted; null for none
     * @return whether it was noted
     */
    public boolean met(@Nullable Part before, Part part) {
        return noticed.compareAndSet(before, part);
    }

    /** Null if there is none. */
    public @Nullable Part take() {
        return noticed.getAndSet(null);
    }
}
