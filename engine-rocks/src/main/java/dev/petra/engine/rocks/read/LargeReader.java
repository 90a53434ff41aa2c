// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.LargeCells;
import dev.petra.engine.rocks.format.LargeValues;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DeletionInfo;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.schema.ColumnMetadata;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * Fetches, for one read, the values that lie apart from their row; see {@link LargeCells}. A column
 * that is fetched only to tell whether the row lives, but not selected, costs no fetch: Cassandra
 * takes its value for empty.
 *
 * <h2>What a deletion hides</h2>
 *
 * A cell that the filter leaves out costs no fetch either. {@code Row.filter} leaves out what the
 * deletion of the partition hides, or of the range that covers the row, unless the row's own
 * deletion is newer. That one hides the cell as well then, and removed it when its fragment was
 * merged with the cell's, as did the deletion of a collection that keeps its cells from the row's.
 * Only where one fragment has both a cell and a deletion that hides it, Cassandra keeps both: such
 * a value is fetched all the same. What other cell of the column a skipped one is preferred to does
 * not matter: of the same timestamp, both are left out.
 */
final class LargeReader implements LargeValues {
    private static final byte[] SKIPPED = new byte[0];
    private static final ThreadLocal<ByteSink> KEY = ThreadLocal.withInitial(ByteSink::new);

    private final StoreContext store;
    private final ColumnFilter filter;
    private final boolean aside;
    private @Nullable Database database;
    private @Nullable RocksIterator values;
    private @Nullable ByteBuffer rowKey;
    private Clustering<?> clustering = Clustering.EMPTY;
    private DeletionInfo deletions = DeletionInfo.LIVE;
    private boolean missed;

    /**
     * @param aside whether what is read by a get leaves the block cache as it is
     */
    LargeReader(StoreContext store, ColumnFilter filter, boolean aside) {
        this.store = store;
        this.filter = filter;
        this.aside = aside;
    }

    /**
     * Says which row comes next, which was read by a get.
     *
     * @param rowKey from 0 to its limit; not changed before the row is read
     * @param deletions by which the row is filtered then: live where it is not
     */
    void at(
            Database database,
            ByteBuffer rowKey,
            Clustering<?> clustering,
            DeletionInfo deletions) {
        this.database = database;
        at(rowKey, clustering, deletions);
    }

    /**
     * The same of one that was read by a cursor.
     *
     * @param values all that lie apart, as of the same moment
     */
    void at(
            @Nullable RocksIterator values,
            ByteBuffer rowKey,
            Clustering<?> clustering,
            DeletionInfo deletions) {
        this.values = values;
        at(rowKey, clustering, deletions);
    }

    private void at(ByteBuffer rowKey, Clustering<?> clustering, DeletionInfo deletions) {
        this.rowKey = rowKey;
        this.clustering = clustering;
        this.deletions = deletions;
        this.missed = false;
    }

    /**
     * Whether a value of the current row was not there: it was replaced and removed since the row
     * was read, unless both are of one moment.
     */
    boolean missed() {
        return missed;
    }

    @Override
    public byte @Nullable [] value(
            int id,
            ColumnMetadata column,
            @Nullable CellPath path,
            long timestamp,
            long hash,
            boolean isDeleted) {
        boolean queried =
                path == null
                        ? filter.fetchedColumnIsQueried(column)
                        : filter.fetchedCellIsQueried(column, path);
        if (!queried || (!isDeleted && isHidden(timestamp))) return SKIPPED;
        ByteBuffer row = rowKey;
        if (row == null) throw new IllegalStateException("a large cell of no row");
        ByteSink key = KEY.get().clear();
        key.put(row.duplicate().position(0));
        LargeCells.putSuffix(key, id, timestamp, hash, path == null ? null : path.get(0));
        try {
            byte[] value = value(key.copy(0, key.position()));
            if (value == null) missed = true;
            return value;
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, store.name(), store.directory());
        }
    }

    private boolean isHidden(long timestamp) {
        if (deletions.getPartitionDeletion().deletes(timestamp)) return true;
        if (!deletions.hasRanges()) return false;
        RangeTombstone range = deletions.rangeCovering(clustering);
        return range != null && range.deletionTime().deletes(timestamp);
    }

    private byte @Nullable [] value(byte[] key) throws RocksDBException {
        RocksIterator it = values;
        if (it != null) {
            it.seek(key);
            if (it.isValid()) return Arrays.equals(it.key(), key) ? it.value() : null;
            it.status();
            return null;
        }
        Database db = database;
        if (db == null) throw new IllegalStateException("a large cell of no row");
        return db.db.get(db.large, aside ? db.asideOptions : db.readOptions, key);
    }
}
