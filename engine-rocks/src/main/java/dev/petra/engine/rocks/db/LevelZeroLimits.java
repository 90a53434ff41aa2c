// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.Map;

/**
 * From how many files in level 0 on RocksDB slows writes down, and from how many on it stops them.
 * It counts them only while it compacts by itself, and its limits are fixed: where compaction was
 * off, or is to wait for many files, it would stop a table's writes until most of the table is
 * rewritten, or for good. Cassandra takes writes meanwhile.
 *
 * @param slowdown in files
 * @param stop in files
 * @param isLeast whether they are those of few files
 */
record LevelZeroLimits(int slowdown, int stop, boolean isLeast) {
    /** As RocksDB has it. */
    private static final int LEAST = 20;

    private static final int MORE = 16;

    /** With so many fewer files than the least limit, that will do. */
    private static final int CLOSE = 4;

    private static final int MOST_TRIGGER = 1 << 20;
    private static final int DEFAULT_TRIGGER = 4;

    /**
     * @param trigger how many files a compaction waits for
     * @param files how many there are
     */
    static LevelZeroLimits of(int trigger, int files) {
        int least = Math.max(LEAST, 2 * Math.min(trigger, MOST_TRIGGER));
        int slowdown = files > least - CLOSE ? files + MORE : least;
        return new LevelZeroLimits(slowdown, slowdown + MORE, slowdown == least);
    }

    /** How many files a compaction waits for, of a column family that gets these options. */
    static int trigger(Map<String, String> options) {
        String trigger = options.get("level0_file_num_compaction_trigger");
        if (trigger == null) return DEFAULT_TRIGGER;
        // RocksDB takes suffixes, as 1K.
        return trigger.matches("\\d{1,9}") ? Integer.parseInt(trigger) : MOST_TRIGGER;
    }

    /** Adds them to options that do not have them. */
    Map<String, String> addTo(Map<String, String> options) {
        options.putIfAbsent("level0_slowdown_writes_trigger", Integer.toString(slowdown));
        options.putIfAbsent("level0_stop_writes_trigger", Integer.toString(stop));
        return options;
    }

    /** Whether they should be told in place of others: each time costs a file. */
    boolean isMuchLessThan(LevelZeroLimits others) {
        return isLeast || 2 * slowdown <= others.slowdown;
    }
}
