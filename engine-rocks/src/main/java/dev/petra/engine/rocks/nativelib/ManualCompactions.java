// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import org.rocksdb.RocksDB;

/** What RocksDB's Java classes cannot do with compactions of ranges of keys. */
public final class ManualCompactions {
    private ManualCompactions() {}

    /**
     * Ends them, those that wait for a thread too, and returns when they have ended. They fail, as
     * does one that begins meanwhile, with {@code Incomplete}.
     *
     * @param db stays open until this returns
     */
    public static void end(RocksDB db) {
        end(db.getNativeHandle());
    }

    private static native void end(long db);
}
