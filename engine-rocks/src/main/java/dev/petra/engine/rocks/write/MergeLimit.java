// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.write;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksSettings;
import dev.petra.engine.rocks.db.TableOptions;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;

/**
 * How often a key of a store may be merged in a write buffer before a write reconciles it. That
 * write puts the whole row into the buffer: a row that grows by one element at a time fills one
 * buffer after the other with copies of itself. Where buffers grow by much more than is written,
 * keys are reconciled more rarely, and reads meet more fragments of them.
 */
public final class MergeLimit {
    /**
     * In two steps, so that rows of 32 KiB, for which the first will do, do not have the fragments
     * of those of 256 KiB.
     */
    private static final int STEP = 8;

    /** Each write of a key passes over its fragments, too: with more, that costs what it saves. */
    private static final int MOST = STEP * STEP * TableOptions.LEAST_MERGE_LIMIT;

    /**
     * Then it is as at first: whether rows are still written so cannot be seen before. Where they
     * are, it costs a few write buffers to see it again.
     */
    private static final long RAISED_NANOS = TimeUnit.HOURS.toNanos(1);

    /** Less growth than this says nothing; nor does a buffer's filter, which is smaller. */
    private static final long LEAST_GROWTH = 1 << 20;

    private static final int BUFFER_PART = 16;

    /** What was written takes a few times its size where it is small, ... */
    private static final int TIMES = 4;

    /** ... and purges write rows' deletions, which are not counted among it. */
    private static final int ENTRY_BYTES = 512;

    private final LongSupplier bytesWritten;
    private final RocksSettings settings;
    private final LongSupplier nanoTime;

    /** Of which all below is; one that is opened anew has the least limit. */
    private @Nullable Database followed;

    private int limit;
    private long raisedAt;

    /** Bytes of the write buffer at the last look, and how many entries it had. */
    private long size;

    private long entries;

    /** By how much buffers grew since {@link #judged}: at least, as some may have come and gone. */
    private long grown;

    private long added;

    /** All bytes written until it was last judged what buffers grow by, and until the last look. */
    private long judged;

    private long seen;

    /** Whether it was too much then. Once may be a large write that is not counted yet. */
    private boolean isMuch;

    /**
     * @param bytesWritten of all writes
     */
    public MergeLimit(LongSupplier bytesWritten, RocksSettings settings, LongSupplier nanoTime) {
        this.bytesWritten = bytesWritten;
        this.settings = settings;
        this.nanoTime = nanoTime;
    }

    /**
     * Sets the limit anew if it is another by now: for the next write buffer. To be called every
     * second.
     *
     * @return whether the next buffer should begin now
     */
    @SuppressWarnings("ReferenceEquality") // whether it was opened anew
    public synchronized boolean follow(Database database) throws RocksDBException {
        if (settings.rocksdbOptions().containsKey(TableOptions.MERGE_LIMIT)) return false;
        if (followed != database) begin(database);
        if (limit > TableOptions.LEAST_MERGE_LIMIT
                && nanoTime.getAsLong() - raisedAt > RAISED_NANOS)
            set(database, TableOptions.LEAST_MERGE_LIMIT);
        // A look takes RocksDB's mutex, and most tables are idle.
        if (bytesWritten.getAsLong() == seen) return false;
        look(database);
        if (!isMuchAgain() || limit == MOST) return false;
        set(database, limit * STEP);
        raisedAt = nanoTime.getAsLong();
        return true;
    }

    private void begin(Database database) {
        followed = database;
        limit = TableOptions.LEAST_MERGE_LIMIT;
        size = entries = grown = added = 0;
        judged = seen = bytesWritten.getAsLong();
        isMuch = false;
    }

    private void set(Database database, int to) {
        database.setOptions(database.data, Map.of(TableOptions.MERGE_LIMIT, Integer.toString(to)));
        limit = to;
        isMuch = false;
    }

    private void look(Database database) throws RocksDBException {
        long size = active(database, "cur-size-active-mem-table");
        long entries = active(database, "num-entries-active-mem-table");
        boolean isSame = size >= this.size && entries >= this.entries;
        grown += isSame ? size - this.size : size;
        added += isSame ? entries - this.entries : entries;
        this.size = size;
        this.entries = entries;
        seen = bytesWritten.getAsLong();
    }

    private static long active(Database database, String property) throws RocksDBException {
        return database.db.getLongProperty(database.data, "rocksdb." + property);
    }

    /** Whether buffers grew by too much twice in a row, if they grew by enough to tell. */
    private boolean isMuchAgain() {
        if (grown < Math.max(LEAST_GROWTH, settings.writeBuffer() / BUFFER_PART)) return false;
        boolean was = isMuch;
        isMuch = grown > TIMES * (seen - judged) + ENTRY_BYTES * added;
        judged = seen;
        grown = added = 0;
        return was && isMuch;
    }
}
