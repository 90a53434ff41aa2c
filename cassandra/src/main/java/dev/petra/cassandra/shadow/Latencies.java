// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import com.codahale.metrics.Histogram;
import org.apache.cassandra.metrics.DecayingEstimatedHistogramReservoir;
import org.jspecify.annotations.Nullable;

/**
 * How long a table and its shadow took for requests of one kind, in microseconds, rounded up; those
 * of the last minutes count most. Thread-safe.
 */
public final class Latencies {
    public final Histogram tableMicros = new Histogram(new DecayingEstimatedHistogramReservoir());
    public final Histogram shadowMicros = new Histogram(new DecayingEstimatedHistogramReservoir());

    /** Those of all shadows together; null if these are. */
    private final @Nullable Latencies ofAll;

    Latencies(@Nullable Latencies ofAll) {
        this.ofAll = ofAll;
    }

    /** Counts a request to both sides. */
    void update(long tableNanos, long shadowNanos) {
        updateTable(tableNanos);
        updateShadow(shadowNanos);
    }

    /** Counts one to the table. */
    void updateTable(long nanos) {
        tableMicros.update(micros(nanos));
        if (ofAll != null) ofAll.updateTable(nanos);
    }

    /** Counts one to its shadow. */
    void updateShadow(long nanos) {
        shadowMicros.update(micros(nanos));
        if (ofAll != null) ofAll.updateShadow(nanos);
    }

    private static long micros(long nanos) {
        return (nanos + 999) / 1_000;
    }
}
