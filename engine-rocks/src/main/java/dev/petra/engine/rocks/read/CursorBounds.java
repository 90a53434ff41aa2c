// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import org.rocksdb.ReadOptions;

/** The keys that a cursor stays within, and how it reads them. Closed behind the cursor. */
interface CursorBounds extends AutoCloseable {
    /** The options of iterators that are closed before these bounds are. */
    ReadOptions options();

    /** Whether the cursor leaves the block cache as it is. */
    boolean isAside();

    /** Whether values that lie apart from a row within the bounds are within them too. */
    boolean holdLargeCells();

    @Override
    void close();
}
