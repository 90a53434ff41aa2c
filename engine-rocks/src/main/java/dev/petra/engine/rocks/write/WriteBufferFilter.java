// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.write;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksSettings;
import dev.petra.engine.rocks.db.TableOptions;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Gives the write buffers of a store a bloom filter while so much is written to it that they are
 * worth one. Used by the ticking thread only.
 */
public final class WriteBufferFilter {
    private static final int RECENT_SECONDS = 64;

    private final WritePath writes;
    private final RocksSettings settings;
    private long bytesTaken;

    /** About the bytes written in the last minute. */
    private long recentBytes;

    /**
     * The database whose write buffers have a filter; null if there is none. A database that is
     * opened anew has none.
     */
    private @Nullable Database filtered;

    public WriteBufferFilter(WritePath writes, RocksSettings settings) {
        this.writes = writes;
        this.settings = settings;
    }

    /** The bytes of all writes since the last call. To be called every second. */
    public long takeBytesWritten() {
        long all = writes.bytesWritten();
        long since = all - bytesTaken;
        bytesTaken = all;
        recentBytes += since - recentBytes / RECENT_SECONDS;
        return since;
    }

    /** Sets the filter's size anew if it is another by now: for the next buffer. */
    @SuppressWarnings("ReferenceEquality") // whether it was opened anew
    public void follow(Database database) {
        boolean had = filtered == database;
        long buffer = settings.writeBuffer();
        boolean has = recentBytes > (had ? buffer / 16 : buffer);
        if (has == had || settings.rocksdbOptions().containsKey(TableOptions.BUSY_FILTER)) return;
        database.setOptions(
                database.data,
                Map.of(
                        TableOptions.BUSY_FILTER,
                        Double.toString(has ? TableOptions.BUSY_FILTER_RATIO : 0)));
        filtered = has ? database : null;
    }
}
