// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDB;

/** Options of an open column family by their names; RocksDB's Java classes know only some. */
public final class MutableOptions {
    private MutableOptions() {}

    /**
     * Sets options, all or none.
     *
     * @return why RocksDB does not take them, or null
     */
    public static @Nullable String set(
            RocksDB db, ColumnFamilyHandle family, Map<String, String> options) {
        return set(
                db.getNativeHandle(),
                family.getNativeHandle(),
                options.keySet().toArray(String[]::new),
                options.values().toArray(String[]::new));
    }

    private static native @Nullable String set(
            long db, long family, String[] keys, String[] values);
}
