// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.engine.TableStore;
import java.util.HashMap;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.UUID;

/**
 * Which builds of one index run at the same time. The one that began last goes on; the others yield
 * to it, because each build that begins takes away the effect of those before. Thread-safe.
 */
final class RunningBuilds {
    private record Built(TableStore store, UUID index) {}

    /**
     * Of each build, by the number of its first round, the number of its latest round; guarded by
     * this.
     */
    private final Map<Built, NavigableMap<Long, Long>> running = new HashMap<>();

    /**
     * Says that a round of a build begins.
     *
     * @param first round's number, by which builds are told apart and compared
     * @param round as {@link dev.petra.engine.index.TermIndexes#setBuilding} numbers it
     */
    synchronized void begins(TableStore store, UUID index, long first, long round) {
        running.computeIfAbsent(new Built(store, index), none -> new TreeMap<>()).put(first, round);
    }

    /** Says that a build is over: complete, failed, or because it yields. Idempotent. */
    synchronized void ends(TableStore store, UUID index, long first) {
        running.computeIfPresent(
                new Built(store, index),
                (built, all) -> {
                    all.remove(first);
                    return all.isEmpty() ? null : all;
                });
    }

    /**
     * The latest round of the build to which another yields.
     *
     * @param first round's number of the other
     * @return 0 if it does not yield
     */
    synchronized long yieldsTo(TableStore store, UUID index, long first) {
        NavigableMap<Long, Long> all = running.get(new Built(store, index));
        Map.Entry<Long, Long> last = all == null ? null : all.lastEntry();
        return last == null || last.getKey() <= first ? 0 : last.getValue();
    }
}
