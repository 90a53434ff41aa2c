// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

/**
 * Whether a read brings what was asked for: as many rows as there are, in their order, each with
 * the first bytes of its values and their length as they were written. Of one read.
 */
final class ReadCheck {
    private final Workload workload;
    private final long number;
    private long rows;
    private long bytes;
    private long last = Long.MAX_VALUE;

    /**
     * @param number of the row that is asked for
     */
    ReadCheck(Workload workload, long number) {
        this.workload = workload;
        this.number = number;
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
        if (clustering >= last)
            throw new IllegalStateException(
                    "clustering %d comes after %d in the partition of row %d"
                            .formatted(clustering, last, number));
        last = clustering;
        if (!workload.isRow(workload.numberOf(number, clustering), head, length))
            throw new IllegalStateException(
                    "clustering %d of the partition of row %d has values that were not written: %d bytes that begin with %016x"
                            .formatted(clustering, number, length, head));
        rows++;
        bytes += length;
    }

    /**
     * Ends the read.
     *
     * @return the bytes of all values
     * @throws IllegalStateException if there were too few rows, or too many
     */
    long end() {
        if (rows < workload.leastRows(number) || rows > workload.limit())
            throw new IllegalStateException(
                    "the partition of row %d has %d rows, not %d to %d"
                            .formatted(number, rows, workload.leastRows(number), workload.limit()));
        return bytes;
    }
}
