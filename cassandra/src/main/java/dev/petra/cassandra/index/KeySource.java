// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.List;
import org.apache.cassandra.index.sai.utils.PrimaryKey;
import org.jspecify.annotations.Nullable;

/** The keys of the rows that a search finds, in order, some at a time. One thread at a time. */
interface KeySource {
    /**
     * Finds the next keys. Nothing stays open between two calls.
     *
     * @param after the last key before; null at the begin
     * @param target keys before it, as {@code compareTo(target, false)} says, are not wanted; null
     *     if all are. The first of a partition, of its static row, compares as equal to each row
     * @param limit at least 1
     * @return the first of them
     */
    Keys next(@Nullable PrimaryKey after, @Nullable PrimaryKey target, int limit);

    /**
     * Keys, each once, in the strict order of {@link PrimaryKey}.
     *
     * @param keys at most as many as was asked for, and fewer where they are large; none only if
     *     these are the last
     * @param areLast whether no others follow
     */
    record Keys(List<PrimaryKey> keys, boolean areLast) {}
}
