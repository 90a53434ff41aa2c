// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.HiddenNotice;
import java.util.Arrays;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/**
 * Counts the rows that a read of one partition steps over, one after the other, because deletions
 * hide them, and tells of many. A row that is returned ends the streak, so what is told has hardly
 * any other rows in it. One thread.
 */
final class HiddenStreak {
    /** From which row on keys are copied. */
    private static final int SOME = 64;

    private final HiddenNotice notice;
    private final boolean reversed;
    private final int prefix;
    private int rows;
    private byte @Nullable [] first;
    private HiddenNotice.@Nullable Part told;

    /**
     * @param prefix how long the partition's position is, with which keys begin
     */
    HiddenStreak(HiddenNotice notice, boolean reversed, int prefix) {
        this.notice = notice;
        this.reversed = reversed;
        this.prefix = prefix;
    }

    /** A row was read; its key is the cursor's. */
    void read(Cursor cursor) {
        rows++;
        if (rows == SOME) first = ByteBufferUtil.getArray(cursor.key());
        else if (rows % HiddenNotice.MANY == 0) tell(ByteBufferUtil.getArray(cursor.key()));
    }

    /** The row was returned. */
    void returned() {
        rows = 0;
        told = null;
    }

    private void tell(byte[] key) {
        byte[] begun = first;
        if (begun == null || (told == null && notice.isThere())) return;
        HiddenNotice.Part part =
                new HiddenNotice.Part(
                        Arrays.copyOf(key, prefix), reversed ? key : begun, reversed ? begun : key);
        if (notice.met(told, part)) told = part;
        else {
            // Taken: what comes is another part.
            told = null;
            first = key;
        }
    }
}
