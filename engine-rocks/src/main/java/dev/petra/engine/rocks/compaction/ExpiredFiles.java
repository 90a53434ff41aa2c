// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Drops files in which everything has expired or was deleted longer ago than {@code
 * gc_grace_seconds}, if nothing elsewhere is as old as anything in them. What is written meanwhile
 * counts until an entry has been removed; older data that arrives later comes too late, as it does
 * for any purge.
 */
final class ExpiredFiles {
    private static final Logger logger = LoggerFactory.getLogger(ExpiredFiles.class);

    private final StoreContext store;
    private final PurgePermission permission;

    ExpiredFiles(StoreContext store, PurgePermission permission) {
        this.store = store;
        this.permission = permission;
    }

    /**
     * To be called while no purge runs.
     *
     * @return false if it is not known what the files hold: the store is being closed, or a file
     *     went meanwhile
     */
    boolean drop(Database database, TimeWindows windows) throws RocksDBException {
        permission.clock(database);
        long restrictions = permission.restrictions();
        long gcBefore = permission.gcBefore();
        List<LiveFileMetaData> files = database.dataFiles();
        if (!windows.learn(database, files)) return false;
        if (gcBefore == 0) return true;
        // Before it is known what else is as old, and before the purge begins: it takes a while.
        Set<String> whole = new HashSet<>();
        for (LiveFileMetaData file :
                windows.expired(files, file -> true, gcBefore, Long.MAX_VALUE, new long[1]))
            if (windows.isWhole(database, file)) whole.add(file.fileName());
        if (whole.isEmpty()) return true;
        Reconciler reconciler = store.reconciler();
        // What is in no file yet counts too: it is written to one, or lowers the max purgeable
        // timestamp.
        int next = 1 - reconciler.activeMaxPurgeable();
        reconciler.maxPurgeable(next, Long.MAX_VALUE);
        if (store.isArriving()) return true;
        store.room().writers.awaitThoseBegun();
        database.flush();
        files = database.dataFiles();
        if (!windows.learn(database, files)) return false;
        long[] lowest = new long[1];
        List<LiveFileMetaData> expired =
                windows.expired(
                        files,
                        file -> whole.contains(file.fileName()),
                        gcBefore,
                        reconciler.maxPurgeable(next),
                        lowest);
        // Of what stays. Writes lower it further, as long as this takes.
        reconciler.lowerMaxPurgeable(next, lowest[0]);
        long before = reconciler.purged();
        int gone = 0;
        boolean stays = false;
        for (LiveFileMetaData file : expired) {
            // Nothing in level 0 goes above a file that stays.
            if (stays && file.level() == 0) break;
            if (drop(database, windows, file, gcBefore, next, restrictions)) gone++;
            else {
                stays = true;
                reconciler.lowerMaxPurgeable(next, windows.lowest(file));
            }
        }
        if (gone > 0)
            logger.info(
                    "Dropped {} files of {} in which everything had expired: {} deletions and"
                            + " expired values",
                    gone,
                    store.name(),
                    reconciler.purged() - before);
        return true;
    }

    /** Drops a file, unless less may be purged now than when it was found. */
    private boolean drop(
            Database database,
            TimeWindows windows,
            LiveFileMetaData file,
            long gcBefore,
            int mark,
            long restrictionsBefore)
            throws RocksDBException {
        if (!permission.begin(database, file, restrictionsBefore)) return false;
        try {
            return windows.drop(database, file, gcBefore, store.reconciler(), mark);
        } finally {
            database.compactions.purgeEnded(file);
        }
    }
}
