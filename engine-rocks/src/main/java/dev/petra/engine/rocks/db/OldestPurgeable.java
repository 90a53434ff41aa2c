// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.atomic.AtomicLong;

/**
 * The lowest local time of anything in a store that can be purged one day, in seconds; {@link
 * Long#MAX_VALUE} if nothing can. Writers lower it, the purge begins it anew.
 */
public final class OldestPurgeable {
    private final AtomicLong oldest = new AtomicLong(Long.MAX_VALUE);

    /** Something was written that can be purged one day. */
    public void written(long localTime) {
        if (localTime < oldest.get()) oldest.accumulateAndGet(localTime, Math::min);
    }

    public long get() {
        return oldest.get();
    }

    /** Begins anew, and says what it was. */
    public long reset() {
        return oldest.getAndSet(Long.MAX_VALUE);
    }
}
