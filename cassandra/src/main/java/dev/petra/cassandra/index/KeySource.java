// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.List;
import org.apache.cassandra.index.sai.utils.PrimaryKey;
import org.jspecify.annotations.Nullable;

/** Finds the keys of rows in their order, one batch per call. One thread at a time. */
interface KeySource {
    /**
     * Finds the next keys. Nothing stays open between two calls.
     *
     * @param after the last key that an earlier call returned; null for the first call
     * @param target keys that are less, by {@code compareTo(target, false)}, are skipped; null to
     *     skip none. In this order the key of a static row equals the key of each row of its
     *     partition
     * @param limit the most keys to return, at least 1
     * @return the next keys
     */
    Keys next(@Nullable PrimaryKey after, @Nullable PrimaryKey target, int limit);

    /**
     * A batch: keys in the strict order of {@link PrimaryKey}, without duplicates.
     *
     * @param keys at most as many as the limit, fewer if they are large; empty only if no key is
     *     left
     * @param areLast whether no key follows
     */
    record Keys(List<PrimaryKey> keys, boolean areLast) {}
}
