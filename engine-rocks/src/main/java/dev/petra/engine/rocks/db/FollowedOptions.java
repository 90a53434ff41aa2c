// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.StoreSpec;
import java.util.Map;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableParams;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** How a store's files are written follows its table's options, which change while it is open. */
final class FollowedOptions {
    private static final Logger logger = LoggerFactory.getLogger(FollowedOptions.class);

    private final ReopenableDatabase database;
    private final SharedResources resources;
    private final StoreSpec spec;

    /** What the files were asked to be when that was looked at last. */
    private volatile @Nullable Asked followed;

    /** Which has refused some since it took all that it was told; it may have taken the others. */
    private volatile @Nullable Database refusing;

    FollowedOptions(ReopenableDatabase database, SharedResources resources, StoreSpec spec) {
        this.database = database;
        this.resources = resources;
        this.spec = spec;
    }

    /** What a table's files depend on. */
    private record Asked(
            Database database, TableParams table, boolean automatic, boolean partitioned) {
        @SuppressWarnings("ReferenceEquality")
        boolean isSame(@Nullable Asked other) {
            return other != null
                    && database == other.database
                    && table == other.table
                    && automatic == other.automatic
                    && partitioned == other.partitioned;
        }
    }

    /** Looks at the table's options, and tells RocksDB of those that changed. */
    void follow() {
        TableMetadata table = spec.metadata().get();
        Asked asked =
                new Asked(
                        database.present(),
                        table.params,
                        spec.mayCompact().getAsBoolean(),
                        resources.indexes().isLarge());
        // Once a second, of each table; an ALTER makes new ones.
        if (asked.isSame(followed)) return;
        FileOptions wanted =
                FileOptions.of(table, asked.automatic, asked.partitioned, resources.settings());
        // If it cannot be now, it is tried again; what is refused, when the table is altered.
        if (database.writeFiles(wanted)) followed = asked;
    }

    /** Whether RocksDB writes files so already. */
    @SuppressWarnings("ReferenceEquality")
    boolean isTold(Opened present, FileOptions wanted) {
        return wanted.equals(present.files()) && refusing != present.database();
    }

    /**
     * Tells RocksDB. Options that it refuses are logged; then it writes as before.
     *
     * @param present of which the caller has counted a use
     * @return false if it refuses some
     */
    boolean tell(Opened present, FileOptions wanted) {
        String name = spec.displayName();
        try {
            tell(present, wanted, limits(present, wanted));
        } catch (IllegalStateException | RocksDBException e) {
            logger.error(
                    "RocksDB refuses the new options of {}: its files are written as before. ALTER"
                            + " them",
                    name,
                    e);
            refusing = present.database();
            return false;
        }
        refusing = null;
        logger.info("The files of {} are written with {} from now on", name, wanted);
        if (wanted.compaction().universal() != present.universal())
            logger.warn(
                    "{} switches to {} compaction when the node is restarted",
                    name,
                    present.universal() ? "leveled" : "size-tiered");
        return true;
    }

    private void tell(Opened present, FileOptions wanted, LevelZeroLimits limits) {
        Database to = present.database();
        to.setOptions(to.data, limits.addTo(options(present, wanted)));
        to.setOptions(to.large, limits.addTo(wanted.asMap(true)));
        ColumnFamilyHandle index = to.index();
        if (index != null) to.setOptions(index, limits.addTo(wanted.asIndexMap()));
        to.limits = limits;
    }

    /** Whether RocksDB compacts rows by itself; with time windows, only what lies beside them. */
    private static boolean isCompactingRows(Opened present) {
        FileOptions files = present.files();
        return files.automatic() && !(present.universal() && files.compaction().window() != null);
    }

    /** Of the rows. */
    private Map<String, String> options(Opened present, FileOptions wanted) {
        Map<String, String> options = wanted.asMap(false);
        if (!isCompactingRows(present.writing(wanted)))
            options.put("disable_auto_compactions", "true");
        options.putAll(resources.settings().rocksdbOptions());
        return options;
    }

    private LevelZeroLimits limits(Opened present, FileOptions wanted) throws RocksDBException {
        return LevelZeroLimits.of(
                LevelZeroLimits.trigger(options(present, wanted)),
                present.database().levelZeroFiles(isCompactingRows(present.writing(wanted))));
    }

    /**
     * Raises the limits of level 0 after the database was opened with many files there, and lowers
     * them as these go. To be called every second.
     */
    void followBacklog() {
        LevelZeroLimits before = database.present().limits;
        if (before != null && before.isLeast()) return;
        database.ifOpen(
                present -> {
                    LevelZeroLimits told = present.database().limits;
                    // RocksDB looks at no limits then, and is told them when it is to compact.
                    if (!present.files().automatic()) return;
                    try {
                        LevelZeroLimits now = limits(present, present.files());
                        if (told == null && now.isLeast()) present.database().limits = now;
                        else if (told == null || now.isMuchLessThan(told))
                            tell(present, present.files(), now);
                    } catch (IllegalStateException | RocksDBException e) {
                        logger.error(
                                "RocksDB refuses limits for level 0 of {}", spec.displayName(), e);
                    }
                });
    }
}
