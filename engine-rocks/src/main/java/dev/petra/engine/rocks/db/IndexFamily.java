// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.index.DamagedIndexException;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The column family of a store's indexes: made when the first index is defined, and made anew when
 * a file of it is damaged, which loses no row. Any thread.
 */
final class IndexFamily {
    private static final Logger logger = LoggerFactory.getLogger(IndexFamily.class);

    private final StoreOpening opening;
    private final StoreSpec spec;
    private final WriteStallRetry room;

    /** Of a table or of a blob file, in the texts of RocksDB's errors. */
    private static final Pattern NAMES_FILE = Pattern.compile("\\d\\.(sst|blob)\\b");

    /** Held by whoever makes it. */
    private final Object making = new Object();

    /** Whether it is to be made anew when the database is opened next. */
    private volatile boolean damaged;

    private final Set<UUID> lost = ConcurrentHashMap.newKeySet();

    /** Whether its files were read, after an error, and are not damaged. */
    private volatile boolean sound;

    IndexFamily(StoreOpening opening, StoreSpec spec, WriteStallRetry room) {
        this.opening = opening;
        this.spec = spec;
        this.room = room;
    }

    /** Those that were undefined because of damage. Who defines one again removes it first. */
    Set<UUID> lost() {
        return lost;
    }

    boolean isDamaged() {
        return damaged;
    }

    /** The database was opened, and it made anew if it was damaged. */
    void opened() {
        damaged = false;
        sound = false;
    }

    // Damage

    /**
     * After an error: whether it came of a file of indexes. Most errors name the file; after the
     * first one that does not, all files of indexes are read.
     *
     * @return whether one is damaged; {@link #isDamaged} then
     */
    boolean findDamage(Opened present, RocksDBException error) {
        if (damaged) return true;
        Database database = present.database();
        if (database.index() == null || !database.acquire()) return false;
        int use = Database.stripe();
        try {
            if (!isOfIndexes(present, error)) return false;
        } finally {
            database.release(use);
        }
        setDamaged(error);
        return true;
    }

    private boolean isOfIndexes(Opened present, RocksDBException error) {
        String message = String.valueOf(error.getMessage());
        if (NAMES_FILE.matcher(message).find())
            return present.database().indexFiles().stream()
                    .anyMatch(file -> message.contains(file.path() + file.fileName()));
        return isAnyDamaged(present);
    }

    private synchronized boolean isAnyDamaged(Opened present) {
        Database database = present.database();
        if (sound || !database.acquire()) return false;
        try (TableOptions.ForSst how = opening.sstOptions(database, present.files())) {
            for (LiveFileMetaData file : database.indexFiles())
                Verification.verifyIfLive(database, how, file);
            sound = true;
            return false;
        } catch (RocksDBException e) {
            return RocksErrors.isDamage(e);
        }
    }

    /**
     * Undefines all indexes, durably, because a file of them cannot be read; what is left of them
     * goes before one is defined again.
     *
     * @return for whoever read them
     */
    DamagedIndexException undefine(Catalog catalog, Exception error) {
        synchronized (making) {
            setDamaged(error);
            dropAll(catalog.indexes());
        }
        return new DamagedIndexException(
                "The indexes of " + spec.displayName() + " are damaged: " + error.getMessage(),
                error);
    }

    private void setDamaged(Exception error) {
        damaged = true;
        logger.error(
                "A file of the indexes of {} is damaged. The store drops its indexes; no row is"
                        + " damaged. Run nodetool rebuild_index for each index of the table, or"
                        + " restart the node",
                spec.displayName(),
                error);
    }

    /** Undefines all indexes of a database that was just opened, and makes it anew. */
    void replaceDamaged(Opened fresh) throws RocksDBException {
        IndexCatalog indexes = fresh.catalog().indexes();
        dropAll(indexes);
        synchronized (making) {
            if (fresh.database().index() != null) make(fresh.files(), fresh.database()::renewIndex);
        }
        for (int number : indexes.leftovers()) indexes.removed(number);
    }

    private void dropAll(IndexCatalog indexes) {
        for (UUID index : indexes.states().keySet()) {
            // Before: nobody is to take it for one that was never defined.
            lost.add(index);
            indexes.drop(index);
        }
    }

    // Making it

    /** Makes it, unless there is one. */
    void add(Database database, FileOptions files) throws RocksDBException {
        synchronized (making) {
            if (database.index() != null) return;
            new StoreDescriptor(spec).indexed();
            make(files, database::addIndex);
        }
    }

    /** Makes it anew, and removes the one that is there. */
    void renew(Database database, FileOptions files) throws RocksDBException {
        synchronized (making) {
            make(files, database::renewIndex);
        }
    }

    private interface Maker {
        void make(TableOptions options) throws RocksDBException;
    }

    private void make(FileOptions files, Maker maker) throws RocksDBException {
        TableOptions options = opening.options(files, true, false);
        boolean complete = false;
        try {
            room.writers.<RocksDBException>alone(() -> maker.make(options));
            complete = true;
        } finally {
            if (!complete) options.close();
        }
    }
}
