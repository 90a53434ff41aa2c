// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import org.rocksdb.ReadOptions;

/**
 * The keys that a cursor stays within, and how it reads them. Values that lie apart from a row
 * within the bounds must be within them too. Closed behind the cursor.
 */
interface CursorBounds extends AutoCloseable {
    /** The options of iterators that are closed before these bounds are. */
    ReadOptions options();

    @Override
    void close();
}
