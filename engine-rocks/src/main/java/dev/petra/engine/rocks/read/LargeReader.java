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
     */
    void at(Database database, ByteBuffer rowKey) {
        this.database = database;
        this.rowKey = rowKey;
        this.missed = false;
    }

    /**
     * The same of one that was read by a cursor.
     *
     * @param values all that lie apart, as of the same moment
     */
    void at(@Nullable RocksIterator values, ByteBuffer rowKey) {
        this.values = values;
        this.rowKey = rowKey;
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
            int id, ColumnMetadata column, @Nullable CellPath path, long timestamp, long hash) {
        boolean queried =
                path == null
                        ? filter.fetchedColumnIsQueried(column)
                        : filter.fetchedCellIsQueried(column, path);
        if (!queried) return SKIPPED;
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
