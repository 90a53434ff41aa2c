// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * By what rules tables of Cassandra's own storage may have purged deletions since the node was
 * started. A compaction that is under way goes by those that were in force when it began, so the
 * laxest counts for as long as the node runs. Thread-safe.
 */
final class PurgeRules {
    /** An option of compactions by time windows that drops SSTables whatever they hide. */
    private static final String DROPS_EXPIRED = "unsafe_aggressive_sstable_expiration";

    /**
     * @param doubt as {@link #doubt}
     */
    private record Former(int grace, @Nullable String doubt) {
        Former with(Former other) {
            return new Former(Math.min(grace, other.grace), doubt == null ? other.doubt : doubt);
        }
    }

    /** Of tables whose rules were other ones. */
    private final Map<TableId, Former> former = new ConcurrentHashMap<>();

    /** ALTER has changed a table. */
    void altered(TableMetadata before, TableMetadata after) {
        Former of = of(before).with(of(after));
        if (of.equals(of(before)) && of.equals(of(after))) return;
        note(before.id, of);
    }

    /** A table is gone. */
    void dropped(TableId table) {
        former.remove(table);
    }

    /** A table may purge by others than those of its schema. */
    void overridden(TableMetadata table, String how) {
        note(table.id, new Former(Integer.MAX_VALUE, how));
    }

    private void note(TableId table, Former rules) {
        former.merge(table, rules, Former::with);
    }

    private static Former of(TableMetadata table) {
        return new Former(table.params.gcGraceSeconds, doubtBySchema(table));
    }

    private static @Nullable String doubtBySchema(TableMetadata table) {
        return Boolean.parseBoolean(table.params.compaction.options().get(DROPS_EXPIRED))
                ? "compactions with " + DROPS_EXPIRED + " purge deletions too early"
                : null;
    }

    private Former laxest(TableMetadata now) {
        Former present = of(now);
        Former before = former.get(now.id);
        return before == null ? present : before.with(present);
    }

    /** The shortest {@code gc_grace_seconds}. */
    int grace(TableMetadata now) {
        return laxest(now).grace();
    }

    /**
     * Why a table may have purged a deletion that hides something in it, or whose grace has not
     * passed; null if it has not.
     */
    @Nullable String doubt(TableMetadata now) {
        // Asked with each read that a shadow answers: nothing is allocated.
        Former before = former.get(now.id);
        return before != null && before.doubt() != null ? before.doubt() : doubtBySchema(now);
    }
}
