// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.rocks.compaction.PurgeChoice.Candidate;
import dev.petra.engine.rocks.compaction.RangeRemoval.Entry;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.ReadContext;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.RangeTombstoneList;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes range tombstones that are past their grace, one by one, without rewriting a file: each is
 * pushed down, as a deletion of the row, to every row that has anything it hides, and then deleted
 * under its key. What it costs follows from the range tombstones and what they hide.
 *
 * <p>Both happen after a max purgeable timestamp began and the writes that had begun were waited
 * for. So whatever an older range tombstone hides was there when it was pushed down, or lowered the
 * max purgeable timestamp, and then the range tombstone stays. The log has the deletions of the
 * rows before that of the range tombstone. Only while no other purge runs, and not in counter
 * tables, where a row's deletion wins over newer counts.
 */
final class OldRanges {
    private static final Logger logger = LoggerFactory.getLogger(OldRanges.class);

    /** So many are kept in memory. */
    private static final int CHUNK = 4096;

    private final StoreContext store;
    private final PurgePermission permission;
    private final DataFiles held;
    private final CoveringDeletions covering;
    private final RangeRemoval removal;

    /**
     * When the next range tombstone of a file is old enough; for each file that was looked through.
     */
    private final Map<String, Long> next = new HashMap<>();

    OldRanges(StoreContext store, PurgePermission permission, DataFiles held) {
        this.store = store;
        this.permission = permission;
        this.held = held;
        this.covering = new CoveringDeletions(store);
        this.removal = new RangeRemoval(store);
    }

    /**
     * Removes those that are in the files, wherever what they hide is.
     *
     * @param mark of the max purgeable timestamp, which has begun
     * @param restrictions of the permission, before that
     * @param stopped looked at now and then
     * @return how many; -1 if it ended early, because less may go than when the purge began or
     *     because it was stopped
     */
    long remove(
            Database database,
            List<Candidate> files,
            long gcBefore,
            int mark,
            long restrictions,
            BooleanSupplier stopped)
            throws RocksDBException {
        if (store.table().isCounter()) return 0;
        next.keySet().retainAll(files.stream().map(Candidate::name).collect(Collectors.toSet()));
        Run run = new Run(database, gcBefore, mark, restrictions);
        BooleanSupplier ended = () -> run.ended || stopped.getAsBoolean();
        for (Candidate file : files) {
            long from = next.getOrDefault(file.name(), file.held().covers().rangesFrom());
            if (from >= gcBefore) continue;
            if (ended.getAsBoolean()) return -1;
            run.left = false;
            long then = held.eachOldRange(database, file.name(), gcBefore, ended, run::remove);
            if (ended.getAsBoolean()) return -1;
            // What had to stay, as under an older timestamp that was written meanwhile, goes later.
            if (then != Long.MIN_VALUE && !run.left) next.put(file.name(), then);
        }
        if (run.removed > 0)
            logger.info(
                    "Removed {} range tombstones of {} that are past gc_grace_seconds",
                    run.removed,
                    store.name());
        return run.removed;
    }

    /**
     * Some range tombstones of a partition.
     *
     * @param from the key of the one behind them; null for none
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    record Chunk(List<Entry> old, byte @Nullable [] from) {}

    /** One purge, and what it may remove. */
    final class Run {
        private final Database database;
        private final long gcBefore;
        private final int mark;
        private final long restrictions;
        private final ReadContext context = new ReadContext(store, ColumnFilter.all(store.table()));
        private final Pacer pace;
        private final ByteSink key = new ByteSink();
        private long removed;
        private boolean ended;

        /** Whether some that are past their grace stayed. */
        private boolean left;

        Run(Database database, long gcBefore, int mark, long restrictions) {
            this.database = database;
            this.gcBefore = gcBefore;
            this.mark = mark;
            this.restrictions = restrictions;
            this.pace = new Pacer(store, database, true);
        }

        /** Removes those of a partition. */
        void remove(byte[] position) throws RocksDBException {
            try {
                for (byte[] from = Keys.withKind(position, KeyKind.RANGE);
                        from != null && !ended; ) {
                    Chunk chunk = handDown(position, from);
                    remove(chunk.old);
                    from = chunk.from;
                }
            } catch (CorruptStoreException e) {
                logger.error(
                        "A partition of {} cannot be read, so its range tombstones stay on disk",
                        store.name(),
                        e);
            }
        }

        /** Finds those of a partition that may go, from a key on, and pushes them down. */
        Chunk handDown(byte[] position, byte[] from) throws RocksDBException {
            ByteBuffer prefix = Keys.direct(Keys.withKind(position, KeyKind.RANGE));
            List<Entry> old = new ArrayList<>();
            // Where they meet, the newest: each row is looked at once.
            RangeTombstoneList ranges = new RangeTombstoneList(store.table().comparator, 16);
            try (Cursor cursor = context.openAside()) {
                byte[] behind = null;
                int met = 0;
                for (cursor.seek(Keys.direct(from));
                        cursor.isValid() && Keys.startsWith(cursor.key(), prefix);
                        cursor.next()) {
                    pace.step();
                    ByteBuffer bounds = cursor.key();
                    byte[] copy = new byte[bounds.remaining()];
                    bounds.get(copy);
                    if (++met > CHUNK) {
                        behind = copy;
                        break;
                    }
                    RangeTombstone range =
                            context.range(cursor, bounds.position(prefix.remaining()));
                    if (!CoveringDeletions.mayGo(range.deletionTime(), gcBefore)) continue;
                    if (!mayGo(range)) {
                        left = true;
                        continue;
                    }
                    old.add(new Entry(copy, range));
                    ranges.add(range);
                }
                key.clear();
                key.put(ByteBuffer.wrap(position));
                covering.cover(database, cursor, key, ranges.iterator(), gcBefore, context, pace);
                return new Chunk(old, behind);
            }
        }

        /** Removes what was pushed down and may still go. */
        void remove(List<Entry> old) throws RocksDBException {
            if (old.isEmpty()) return;
            ended = !permission.begin(database, old, restrictions);
            if (ended) return;
            try {
                int gone = removal.remove(database, old, this::mayGo);
                if (gone < old.size()) left = true;
                removed += gone;
            } finally {
                ended = database.compactions.purgeEnded(old);
            }
        }

        long removed() {
            return removed;
        }

        private boolean mayGo(RangeTombstone range) {
            return CoveringDeletions.mayGo(range.deletionTime(), gcBefore)
                    && range.deletionTime().markedForDeleteAt()
                            < store.reconciler().maxPurgeable(mark);
        }
    }
}
