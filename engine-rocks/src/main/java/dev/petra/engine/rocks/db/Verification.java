// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.WriteStallException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads all files of a store and checks every block against its checksum. RocksDB's {@code
 * verifyChecksum} does the same in one call, which takes as long as it takes: a store that is
 * closed or dropped would wait for it.
 */
public final class Verification {
    private static final Logger logger = LoggerFactory.getLogger(Verification.class);

    private final StoreContext store;
    private final Database database;
    private final BooleanSupplier stopped;
    private final LongConsumer beforeFile;

    private Verification(StoreContext store, Database database, LongConsumer beforeFile) {
        this.store = store;
        this.database = database;
        this.beforeFile = beforeFile;
        this.stopped = database.compactions.stopped();
    }

    /**
     * Reads all files that there are now. Those that are made meanwhile are made of these.
     *
     * @param beforeFile called with the bytes of each before it is read
     * @throws CompactionStoppedException between two files, if it was stopped or the store is being
     *     closed
     * @throws WriteStallException between two files, if writes are refused because the disk was
     *     full: they go on only when nobody reads for long
     * @throws RocksDBException naming the first damaged file
     */
    public static void run(StoreContext store, Database database, LongConsumer beforeFile)
            throws RocksDBException, IOException {
        Verification verification = new Verification(store, database, beforeFile);
        try (TableOptions.ForSst how = store.reopenable().sstOptions()) {
            for (LiveFileMetaData file : database.db.getLiveFilesMetaData())
                verification.verify(how, file);
        }
        for (String file : database.db.getLiveFiles(false).files)
            if (file.endsWith(".blob"))
                verification.verifyBlobs(store.directory().resolve("." + file));
    }

    private void verify(TableOptions.ForSst how, LiveFileMetaData file) throws RocksDBException {
        beforeFile.accept(file.size());
        checkGoesOn();
        verifyIfLive(database, how, file);
    }

    /** Reads one file, unless compaction removes it meanwhile. */
    static void verifyIfLive(Database database, TableOptions.ForSst how, LiveFileMetaData file)
            throws RocksDBException {
        try (SstFileReader reader = new SstFileReader(how.data())) {
            reader.open(file.path() + file.fileName());
            reader.verifyChecksum();
        } catch (RocksDBException e) {
            for (LiveFileMetaData live : database.db.getLiveFilesMetaData())
                if (live.fileName().equals(file.fileName())) throw e;
            logger.debug("{} was removed since its name was read", file.fileName(), e);
        }
    }

    private void verifyBlobs(Path file) throws IOException {
        String damage;
        try {
            beforeFile.accept(Files.size(file));
            checkGoesOn();
            damage = BlobFiles.damage(file);
        } catch (NoSuchFileException e) {
            logger.debug("{} was removed since its name was read", file, e);
            return;
        }
        if (!damage.isEmpty())
            throw RocksErrors.corrupt(
                    new IOException(file.normalize() + ": " + damage),
                    store.name(),
                    store.directory());
    }

    private void checkGoesOn() {
        store.reopenable().healing.checkNotFull();
        if (stopped.getAsBoolean())
            throw new CompactionStoppedException(
                    "verification", store.name(), database.compactions.isClosing(), null);
    }
}
