// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * How {@code TimeWindowCompactionStrategy} divides a table's time, and how often it looks for files
 * that have expired.
 *
 * @param length of a window, in the unit of the table's timestamps
 * @param checkSeconds how long between two looks, seconds
 */
public record TimeWindow(long length, int checkSeconds) {
    private static final String UNIT = "compaction_window_unit";
    private static final String SIZE = "compaction_window_size";
    private static final String RESOLUTION = "timestamp_resolution";
    private static final String CHECK = "expired_sstable_check_frequency_seconds";

    /** Options of the strategy that are honoured. */
    static final Set<String> OPTIONS = Set.of(UNIT, SIZE, RESOLUTION, CHECK);

    /** The window by the strategy's options, which Cassandra has checked. */
    static TimeWindow of(Map<String, String> options) {
        TimeUnit unit = TimeUnit.valueOf(options.getOrDefault(UNIT, "DAYS"));
        TimeUnit resolution = TimeUnit.valueOf(options.getOrDefault(RESOLUTION, "MICROSECONDS"));
        long size = Long.parseLong(options.getOrDefault(SIZE, "1"));
        return new TimeWindow(
                resolution.convert(size, unit),
                Integer.parseInt(options.getOrDefault(CHECK, "600")));
    }

    /** The number of the window that a timestamp is in. */
    public long number(long timestamp) {
        return Math.floorDiv(timestamp, length);
    }
}
