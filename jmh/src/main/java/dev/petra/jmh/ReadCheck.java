// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

/**
 * Whether a read brings what was asked for: all rows that were acknowledged before it began and no
 * other than were being written meanwhile, in their order, each with the first bytes of the newest
 * version of its values and their length. Of one read; to be made before the read begins.
 */
final class ReadCheck {
    private final Workload workload;
    private final Written written;
    private final long number;

    /** Rows below were there when the read began. */
    private final long there;

    /** Of the row, when the read began. */
    private final int version;

    private long rows;
    private long bytes;
    private long last = Long.MAX_VALUE;

    /**
     * @param number of the row that is asked for
     */
    ReadCheck(Workload workload, long number) {
        this.workload = workload;
        this.written = workload.written();
        this.number = number;
        this.there = written.there();
        this.version = written.acknowledged(number);
    }

    /** How many more rows the read may bring. */
    boolean takesMore() {
        return rows < workload.limit();
    }

    /**
     * Takes a row.
     *
     * @param clustering of the row; 0 without clusterings
     * @param head the first 8 bytes of the first value
     * @param length of all values, in bytes
     * @throws IllegalStateException if it is not as it was written, or not the next
     */
    void row(long clustering, long head, long length) {
        long found = workload.numberOf(number, clustering);
        if (found >= last)
            throw wrong("row %d comes after row %d".formatted(found, last), clustering);
        requireNext(found);
        last = found;
        if (found < 0 || found >= written.begun())
            throw wrong("row %d was never written".formatted(found), clustering);
        if (!isNewest(found, head, length))
            throw wrong(
                    "values that are not the newest of row %d: %d bytes that begin with %016x"
                            .formatted(found, length, head),
                    clustering);
        rows++;
        bytes += length;
    }

    /** Fails if a row is missing before one that was found, or before the end. */
    private void requireNext(long found) {
        long step = workload.step();
        long missing = found + step;
        if (step > 0 && missing < last && missing < there)
            throw new IllegalStateException(
                    "row %d is missing in the partition of row %d".formatted(missing, number));
    }

    private boolean isNewest(long found, long head, long length) {
        int newest = written.newest(found);
        for (int one = version; ; one = (one + 1) % Written.Over.MOST) {
            if (workload.isRow(found, one, head, length)) return true;
            if (one == newest) return false;
        }
    }

    private IllegalStateException wrong(String what, long clustering) {
        return new IllegalStateException(
                "%s (clustering %d of the partition of row %d)"
                        .formatted(what, clustering, number));
    }

    /**
     * Ends the read.
     *
     * @return the bytes of all values
     * @throws IllegalStateException if there were too few rows, or too many
     */
    long end() {
        if (rows > workload.limit())
            throw new IllegalStateException(
                    "the partition of row %d has %d rows, which are more than %d"
                            .formatted(number, rows, workload.limit()));
        if (rows == 0)
            throw new IllegalStateException("the partition of row %d has no row".formatted(number));
        if (rows < workload.limit() && last >= workload.step())
            throw new IllegalStateException(
                    "the partition of row %d ends at row %d after %d rows"
                            .formatted(number, last, rows));
        return bytes;
    }
}
