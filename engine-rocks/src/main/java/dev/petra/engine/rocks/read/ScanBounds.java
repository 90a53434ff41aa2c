// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import org.rocksdb.ReadOptions;
import org.rocksdb.SizeApproximationFlag;
import org.rocksdb.Slice;

/**
 * Keeps a cursor before the end of a range of partitions: what lies behind, deleted or not, is not
 * read. Values that lie apart have keys that begin with those of their partitions.
 */
final class ScanBounds implements CursorBounds {
    /**
     * A range whose files have more bytes than this part of the block cache is read without filling
     * it.
     */
    private static final int PART_OF_CACHE = 32;

    private final Slice end;
    private final ReadOptions options;

    /**
     * @param end exclusive; the end of a partition
     * @param aside whether the scan leaves the block cache as it is
     */
    ScanBounds(byte[] end, boolean aside) {
        this.end = new Slice(end);
        this.options =
                Database.newReadOptions().setIterateUpperBound(this.end).setFillCache(!aside);
    }

    /**
     * Whether a scan of a range would drive out of the block cache what others read again: a client
     * that reads a whole table does it a page and a range of tokens at a time, so a small part of
     * the cache counts as much already. Blocks that are in the cache are used by any scan.
     */
    static boolean wouldFloodCache(StoreContext store, byte[] from, byte[] to) {
        Database database = store.acquire();
        int use = Database.stripe();
        try {
            long bytes =
                    database.approximateBytes(
                            database.data, from, to, SizeApproximationFlag.INCLUDE_FILES);
            // Only then the cache has large cells.
            if (store.settings().directReads())
                bytes += RangeSample.largeBytes(store, database, from, to);
            return bytes > store.settings().memory() / PART_OF_CACHE;
        } finally {
            database.release(use);
        }
    }

    @Override
    public ReadOptions options() {
        return options;
    }

    @Override
    public void close() {
        options.close();
        end.close();
    }
}
