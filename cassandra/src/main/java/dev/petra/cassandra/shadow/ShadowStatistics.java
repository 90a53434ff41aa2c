// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.List;
import java.util.concurrent.atomic.LongAdder;

/**
 * What the comparisons of one table, or of all, have found since the node started, or an operator
 * had the shadow made anew. Thread-safe.
 */
public final class ShadowStatistics {
    /** Comparisons that came to an end: the sum of the next four. */
    public final LongAdder compared = new LongAdder();

    public final LongAdder equal = new LongAdder();
    public final LongAdder different = new LongAdder();

    /** They differ only as Cassandra's own replicas may. */
    public final LongAdder undecided = new LongAdder();

    /**
     * The partition was always being written, or took longer than {@code read_request_timeout} to
     * read twice.
     */
    public final LongAdder notComparable = new LongAdder();

    /**
     * Reads that were chosen and not compared: too many waited, the shadow had dropped out, or the
     * table was altered into its engine.
     */
    public final LongAdder passedOver = new LongAdder();

    /** Reads of clients that the shadow has answered, in mode fallback. */
    public final LongAdder answered = new LongAdder();

    /** Reads of single partitions that the table has answered in mode fallback. */
    public final LongAdder leftToTable = new LongAdder();

    /** Of reads of single partitions that were compared. */
    public final Latencies reads = new Latencies(ShadowMetrics.READS);

    /** Of reads of ranges that were compared. */
    public final Latencies ranges = new Latencies(ShadowMetrics.RANGES);

    /** Of some of the writes that went to both: {@link DoubledWrites#TIMED_ONE_IN}. */
    public final Latencies writes = new Latencies(ShadowMetrics.WRITES);

    /** Forgets what comparisons have found. */
    void forgetResults() {
        for (LongAdder each : List.of(compared, equal, different, undecided, notComparable))
            each.reset();
    }
}
