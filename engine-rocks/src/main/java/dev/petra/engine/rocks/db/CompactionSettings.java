// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import com.google.common.collect.Sets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.compaction.LeveledCompactionStrategy;
import org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy;
import org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy;
import org.apache.cassandra.db.compaction.UnifiedCompactionStrategy;
import org.apache.cassandra.schema.CompactionParams;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompactionOptionsUniversal;
import org.rocksdb.CompactionStyle;

/**
 * What a table's {@code compaction} asks of RocksDB: leveled, or by size as {@code
 * SizeTieredCompactionStrategy} does, which RocksDB calls universal. A database changes from one to
 * the other only when it is opened, and both read what the other left.
 *
 * @param universal by size
 * @param fanout leveled: how much larger each level is than the one above
 * @param fileBytes leveled: the size of a file, in bytes
 * @param fewest universal: how many files of like size are merged at least
 * @param most universal: and at most
 * @param tolerance universal: by how many percent sizes that are alike may differ
 * @param window where files are merged only within their window: {@code TimeWindows} does it,
 *     RocksDB nothing by itself
 */
public record CompactionSettings(
        boolean universal,
        int fanout,
        long fileBytes,
        int fewest,
        int most,
        int tolerance,
        @Nullable TimeWindow window) {
    private static final int FANOUT = 10;
    private static final int FILE_MIB = 64;
    private static final long FILE_BYTES = (long) FILE_MIB << 20;
    private static final int FEWEST = CompactionParams.DEFAULT_MIN_THRESHOLD;
    private static final int MOST = CompactionParams.DEFAULT_MAX_THRESHOLD;
    private static final int TOLERANCE = 50;

    /**
     * Leveled: after how long, in seconds, a file moves down by itself, with what it overlaps.
     * Files at the bottom are never merged for their age, nor does age merge all of a universal
     * table: what may go is found by the purge. RocksDB would do both after 30 days.
     */
    static final long MOVES_DOWN_AFTER = TimeUnit.DAYS.toSeconds(30);

    /** The least that {@code UnifiedCompactionStrategy} takes, also for its "N". */
    private static final int LEAST_FANOUT = 2;

    /** Options of all strategies that are honoured, here or by those who ask the table. */
    private static final Set<String> EVERYWHERE =
            Set.of("class", "enabled", "only_purge_repaired_tombstones");

    private static final Set<String> LEVELED = Set.of("fanout_size", "sstable_size_in_mb");
    private static final Set<String> SIZE_TIERED =
            Set.of("min_threshold", "max_threshold", "bucket_high");
    private static final Set<String> TIME_WINDOW = Sets.union(TimeWindow.OPTIONS, SIZE_TIERED);
    private static final Set<String> UNIFIED = Set.of("scaling_parameters", "target_sstable_size");
    private static final Set<String> THRESHOLDS = Set.of("min_threshold", "max_threshold");

    /**
     * The settings of a table as it is now.
     *
     * @param byDefault universal where the table has the node's default compaction
     */
    static CompactionSettings of(CompactionParams table, boolean byDefault) {
        if (isDefault(table))
            return new CompactionSettings(
                    byDefault, FANOUT, FILE_BYTES, FEWEST, MOST, TOLERANCE, null);
        Map<String, String> options = table.options();
        Class<?> strategy = table.klass();
        if (strategy == SizeTieredCompactionStrategy.class
                || strategy == TimeWindowCompactionStrategy.class)
            return new CompactionSettings(
                    true,
                    FANOUT,
                    FILE_BYTES,
                    Math.max(2, number(options, "min_threshold", FEWEST)),
                    Math.max(2, number(options, "max_threshold", MOST)),
                    tolerance(options.get("bucket_high")),
                    strategy == TimeWindowCompactionStrategy.class ? TimeWindow.of(options) : null);
        if (strategy == UnifiedCompactionStrategy.class) return unified(options);
        return new CompactionSettings(
                false,
                number(options, "fanout_size", FANOUT),
                (long) number(options, "sstable_size_in_mb", FILE_MIB) << 20,
                FEWEST,
                MOST,
                TOLERANCE,
                null);
    }

    /**
     * By the first of its scaling parameters, which are one for each level: "T4", "L10", "N", or a
     * number.
     */
    private static CompactionSettings unified(Map<String, String> options) {
        String scaling = options.getOrDefault("scaling_parameters", "T4").split(",", 2)[0].trim();
        char kind = scaling.charAt(0);
        boolean leveled;
        int fanout;
        if (kind == 'T' || kind == 'L' || kind == 'N') {
            leveled = kind == 'L';
            fanout = kind == 'N' ? LEAST_FANOUT : Integer.parseInt(scaling.substring(1));
        } else {
            int w = Integer.parseInt(scaling);
            leveled = w < 0;
            fanout = LEAST_FANOUT + Math.abs(w);
        }
        String size = options.get("target_sstable_size");
        return new CompactionSettings(
                !leveled,
                leveled ? fanout : FANOUT,
                size == null ? FILE_BYTES : FBUtilities.parseHumanReadableBytes(size),
                leveled ? FEWEST : fanout,
                // RocksDB never merges where the least is above the most.
                leveled ? MOST : Math.max(MOST, fanout),
                TOLERANCE,
                null);
    }

    /** Whether nobody chose a strategy; whether it compacts, and when it purges, is no matter. */
    private static boolean isDefault(CompactionParams table) {
        CompactionParams byDefault = CompactionParams.DEFAULT;
        return table.klass() == byDefault.klass()
                && chosen(table.options()).equals(chosen(byDefault.options()));
    }

    private static Map<String, String> chosen(Map<String, String> options) {
        Map<String, String> chosen = new HashMap<>(options);
        chosen.keySet().removeAll(EVERYWHERE);
        return chosen;
    }

    private static int number(Map<String, String> options, String name, int otherwise) {
        String value = options.get(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    /** In percent, from the factor by which a file may be larger than the others of its bucket. */
    private static int tolerance(@Nullable String bucketHigh) {
        if (bucketHigh == null) return TOLERANCE;
        // RocksDB takes no less, and reads a negative number as a huge one.
        return Math.max(0, (int) Math.round((Double.parseDouble(bucketHigh) - 1) * 100));
    }

    /** What of a table's compaction is not honoured, a sentence each. */
    static List<String> reservations(CompactionParams table) {
        if (isDefault(table)) return List.of();
        Class<?> strategy = table.klass();
        Set<String> ignored = new TreeSet<>(table.options().keySet());
        ignored.removeAll(EVERYWHERE);
        if (strategy == LeveledCompactionStrategy.class) ignored.removeAll(LEVELED);
        else if (strategy == SizeTieredCompactionStrategy.class) ignored.removeAll(SIZE_TIERED);
        else if (strategy == TimeWindowCompactionStrategy.class) ignored.removeAll(TIME_WINDOW);
        else if (strategy == UnifiedCompactionStrategy.class) ignored.removeAll(UNIFIED);
        else
            return List.of(
                    "compaction class " + strategy.getName() + " is not known, and is leveled");
        // Cassandra adds these itself, with their defaults.
        if (table.options().entrySet().stream()
                .filter(option -> THRESHOLDS.contains(option.getKey()))
                .allMatch(CompactionParams.DEFAULT_THRESHOLDS.entrySet()::contains))
            ignored.removeAll(THRESHOLDS);
        return ignored.isEmpty() ? List.of() : List.of("of compaction, " + ignored + " is ignored");
    }

    // To RocksDB

    /** Sets it on options of a column family that is to be opened. */
    void applyTo(ColumnFamilyOptions family, CompactionOptionsUniversal universalOptions) {
        family.setMaxBytesForLevelMultiplier(fanout)
                .setTargetFileSizeBase(fileBytes)
                .setLevel0FileNumCompactionTrigger(fewest)
                .setTtl(movesDownAfter())
                .setPeriodicCompactionSeconds(0);
        if (window != null) family.setDisableAutoCompactions(true);
        if (universal)
            family.setCompactionStyle(CompactionStyle.UNIVERSAL)
                    .setCompactionOptionsUniversal(
                            universalOptions
                                    .setMinMergeWidth(fewest)
                                    .setMaxMergeWidth(most)
                                    .setSizeRatio(tolerance));
    }

    private long movesDownAfter() {
        return universal ? 0 : MOVES_DOWN_AFTER;
    }

    /** The same for an open column family, as names and values; not whether it is universal. */
    Map<String, String> asMap() {
        Map<String, String> options = new LinkedHashMap<>();
        options.put("max_bytes_for_level_multiplier", Integer.toString(fanout));
        options.put("target_file_size_base", Long.toString(fileBytes));
        options.put("level0_file_num_compaction_trigger", Integer.toString(fewest));
        options.put("ttl", Long.toString(movesDownAfter()));
        options.put("periodic_compaction_seconds", "0");
        options.put(
                "compaction_options_universal",
                "{min_merge_width="
                        + fewest
                        + ";max_merge_width="
                        + most
                        + ";size_ratio="
                        + tolerance
                        + "}");
        return options;
    }
}
