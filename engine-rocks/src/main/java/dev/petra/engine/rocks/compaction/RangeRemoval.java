// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.MalformedFragment;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.function.Predicate;
import org.apache.cassandra.db.RangeTombstone;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Removes single range tombstones of which it is known that nothing shows without them. */
final class RangeRemoval {
    private static final Logger logger = LoggerFactory.getLogger(RangeRemoval.class);

    /** Writers wait while so many are removed. */
    private static final int BATCH = 256;

    private final StoreContext store;

    RangeRemoval(StoreContext store) {
        this.store = store;
    }

    /** A range tombstone under its key. */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    record Entry(byte[] key, RangeTombstone range) {}

    /**
     * Removes those that are as they were found, and says how many.
     *
     * @param mayGo asked while no write runs
     */
    int remove(Database database, List<Entry> found, Predicate<RangeTombstone> mayGo)
            throws RocksDBException {
        int[] removed = new int[1];
        for (int from = 0; from < found.size(); from += BATCH) {
            List<Entry> some = found.subList(from, Math.min(found.size(), from + BATCH));
            try {
                // A newer one with the same bounds has the same key.
                store.room().writeAlone(() -> removed[0] += removeAlone(database, some, mayGo));
            } catch (RocksDBException e) {
                if (!RocksErrors.isStall(e)) throw e;
                logger.debug("Compaction of {} is behind; another time", store.name(), e);
                return removed[0];
            }
        }
        return removed[0];
    }

    private int removeAlone(Database database, List<Entry> some, Predicate<RangeTombstone> mayGo)
            throws RocksDBException {
        try (WriteBatch batch = new WriteBatch()) {
            for (Entry entry : some) {
                if (!mayGo.test(entry.range)) continue;
                byte[] value = database.db.get(database.data, database.readOptions, entry.key);
                if (value == null) continue;
                if (FragmentReader.range(ByteBuffer.wrap(value), entry.range.deletedSlice())
                        .deletion()
                        .equals(entry.range.deletionTime())) batch.delete(database.data, entry.key);
            }
            int count = batch.count();
            if (count > 0) database.db.write(database.writeOptions, batch);
            return count;
        } catch (MalformedFragment e) {
            throw store.malformed(e, ByteBuffer.wrap(some.get(0).key));
        }
    }
}
