// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.index.DamagedIndexException;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
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

    /** In the texts of RocksDB's errors. */
    private static final Pattern NAMES_FILE =
            Pattern.compile("\\d\\.(sst|blob|log)\\b|MANIFEST-\\d");

    /** Held by whoever makes it. */
    private final Object making = new Object();

    /** Whether it is to be made anew when the database is opened next. */
    private volatile boolean damaged;

    private final Set<UUID> lost = ConcurrentHashMap.newKeySet();

    /** Whether its files were read, after an error, and are not damaged. */
    private volatile boolean sound;

    /** Whether they are being read for that. */
    private final AtomicBoolean seeking = new AtomicBoolean();

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

    /** Whether an error came of a file of indexes. */
    enum Damage {
        NONE,
        FOUND,
        /** The error names no file: those of indexes are being read. */
        SOUGHT
    }

    /**
     * After an error: whether it came of a file of indexes; {@link #isDamaged} then. Most errors
     * name the file. Of others all count while one is known to be damaged.
     *
     * @param present of which the caller has counted a use or a sync
     * @param found told what the error said if it is sought, and found
     */
    Damage findDamage(Opened present, RocksDBException error, Consumer<String> found) {
        Database database = present.database();
        if (database.index() == null) return Damage.NONE;
        String message = String.valueOf(error.getMessage());
        if (NAMES_FILE.matcher(message).find()) {
            if (database.indexFiles().stream()
                    .noneMatch(file -> message.contains(file.path() + file.fileName())))
                return Damage.NONE;
        } else if (!damaged) return seek(present, error, found);
        if (!damaged) setDamaged(error);
        return Damage.FOUND;
    }

    /** In a thread of its own, since it may take minutes, and writers wait for none. */
    private Damage seek(Opened present, RocksDBException error, Consumer<String> found) {
        if (sound) return Damage.NONE;
        if (seeking.compareAndSet(false, true)) {
            Thread thread =
                    new Thread(
                            () -> seekNow(present, error, found),
                            "petra-damage " + spec.displayName());
            thread.setDaemon(true);
            boolean begun = false;
            try {
                thread.start();
                begun = true;
            } finally {
                if (!begun) seeking.set(false);
            }
        }
        return Damage.SOUGHT;
    }

    private void seekNow(Opened present, RocksDBException error, Consumer<String> found) {
        Database database = present.database();
        try {
            if (!database.acquire()) return;
            int use = Database.stripe();
            // What is found is told while it is true: it is not opened anew before.
            try {
                if (!isAnyDamaged(present)) return;
                setDamaged(error);
                found.accept(String.valueOf(error.getMessage()));
            } finally {
                database.release(use);
            }
        } finally {
            seeking.set(false);
        }
    }

    /** Reads all of its files. False also if the store is closed meanwhile. */
    boolean isAnyDamaged(Opened present) {
        Database database = present.database();
        BooleanSupplier stopped = database.compactions.stopped();
        if (!database.acquire()) return false;
        try (TableOptions.ForSst how = opening.sstOptions(database, present.files())) {
            for (LiveFileMetaData file : database.indexFiles()) {
                if (stopped.getAsBoolean()) return false;
                Verification.verifyIfLive(database, how, file);
            }
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
