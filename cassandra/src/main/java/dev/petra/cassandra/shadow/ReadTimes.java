// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import com.codahale.metrics.Histogram;
import org.apache.cassandra.metrics.DecayingEstimatedHistogramReservoir;

/** How long reads of both sides took, in microseconds; those of the last minutes count most. */
public final class ReadTimes {
    /** Of the table, as it is read for a comparison. */
    public final Histogram tableMicros = new Histogram(new DecayingEstimatedHistogramReservoir());

    /** Of its shadow. */
    public final Histogram shadowMicros = new Histogram(new DecayingEstimatedHistogramReservoir());

    ReadTimes() {}

    /** Counts a read of both sides. */
    void update(long table, long shadow) {
        tableMicros.update(table);
        shadowMicros.update(shadow);
    }
}
