// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.StoreSync;
import dev.petra.engine.rocks.db.WriteBarrier;
import dev.petra.engine.rocks.wal.LostLinks;
import dev.petra.engine.rocks.wal.SyncMark;
import dev.petra.engine.rocks.write.WritePath;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.io.FSWriteError;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.FlushOptions;
import org.rocksdb.IngestExternalFileOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Has one store take files that lie beside its own: they become live, together with its data. */
public final class Ingester {
    private static final Logger logger = LoggerFactory.getLogger(Ingester.class);

    /** Files that become live together, while writers wait. */
    static final int AT_ONCE = 8;

    /** The most files in level 0, with those that are ingested. */
    private static final int MOST_IN_LEVEL_0 = 12;

    /**
     * In bytes to compact; a stream waits while there are more. RocksDB's own limits of them are
     * off, and no write waits for them; but the further compaction is behind, the more files reads
     * look at, and the more of the disk is taken twice.
     */
    private static final long MOST_BEHIND = 16L << 30;

    /** A flush of so much takes a few milliseconds. */
    private static final long MOST_FLUSHED_ALONE = 1 << 20;

    private static final int MOST_ATTEMPTS = 3;

    private final StoreContext store;
    private final StoreSync sync;
    private final WritePath writes;

    /** Files that the MANIFEST may name, and of which there may be no other link. */
    private final Set<Path> lastLinks = ConcurrentHashMap.newKeySet();

    public Ingester(StoreContext store, StoreSync sync, WritePath writes) {
        this.store = store;
        this.sync = sync;
        this.writes = writes;
    }

    /**
     * Whether as many files as {@link #ingest} takes have room in level 0, where they may come to
     * lie. Each of them counts there until it is merged, and RocksDB slows writes down from 20 on.
     */
    boolean hasRoom() {
        store.reopenable().healing.heal();
        return store.reopenable().write(database -> hasRoom(database));
    }

    private boolean hasRoom(Database database) throws RocksDBException {
        ReopenableDatabase reopenable = store.reopenable();
        // Without compaction no file would be merged, and writes are not slowed down.
        if (!reopenable.isCompacting()) return true;
        return (reopenable.hasWindows() || hasRoom(database, database.data))
                && hasRoom(database, database.large)
                && hasRoomForTerms(database);
    }

    /** Entries are written, and flushed with the rest at each ingest. */
    private boolean hasRoomForTerms(Database database) throws RocksDBException {
        ColumnFamilyHandle family = database.index();
        return family == null || hasRoom(database, family);
    }

    private boolean hasRoom(Database database, ColumnFamilyHandle family) throws RocksDBException {
        RocksDB db = database.db;
        int files =
                Integer.parseInt(
                        Objects.requireNonNull(
                                db.getProperty(family, "rocksdb.num-files-at-level0")));
        long behind = db.getLongProperty(family, "rocksdb.estimate-pending-compaction-bytes");
        if (files + AT_ONCE <= MOST_IN_LEVEL_0 && behind <= MOST_BEHIND) return true;
        // RocksDB does not take this for a backlog.
        return db.getLongProperty(family, "rocksdb.compaction-pending") == 0
                && db.getLongProperty(family, "rocksdb.num-running-compactions") == 0
                && db.getLongProperty(family, "rocksdb.num-running-flushes") == 0;
    }

    /**
     * Takes a few files that another store has written: merged with what is there.
     *
     * <p>RocksDB gives them a sequence number, which is in no log. If it came between the last of
     * one log and the first of the next, recovery would take the rest of the logs for lost. So the
     * log is one that has nothing in it yet: all that was written is flushed, while no write runs.
     * That flush is short, since most was flushed before; and the files are on the disk by then, so
     * that what writers wait for does not depend on how large they are.
     *
     * <p>The entries of indexes are there before the rows are.
     *
     * @param data of rows; where there is an index their large cells are live already. All files
     *     are synced
     * @param flags of the catalog that they come from
     * @param isPrepared whether every defined index has the entries of the rows; asked while none
     *     is being defined
     * @return false if there is no room for them, they are not prepared, or writes wait for
     *     compaction for longer than they may; nothing was taken
     * @throws UncheckedIOException if a file is damaged; nothing was taken
     */
    public boolean ingest(
            List<Path> data, List<Path> large, int flags, BooleanSupplier isPrepared) {
        ReopenableDatabase reopenable = store.reopenable();
        reopenable.healing.heal();
        return reopenable.write(
                database -> {
                    try {
                        return ingest(database, data, large, flags, isPrepared);
                    } catch (WriteStallException e) {
                        // Of what is written before; where files are taken, errors are RocksDB's.
                        if (!reopenable.isWritable()) throw e;
                        logger.debug("Files of a stream into {} wait", store.name(), e);
                        return false;
                    }
                });
    }

    private boolean ingest(
            Database database,
            List<Path> data,
            List<Path> large,
            int flags,
            BooleanSupplier isPrepared)
            throws RocksDBException {
        sync.refuseAfterFailure();
        store.catalog().set(flags);
        WriteBarrier arriving = store.indexing().arriving();
        int slot = arriving.begin();
        try {
            // An index may have been defined since. Its build waits for this slot, and then finds
            // the rows, or they come later with their entries.
            if (!isPrepared.getAsBoolean()) return false;
            synchronized (this) {
                if (!hasRoom(database)) return false;
                List<LostLinks.Ingested> rows = withKeys(data);
                List<LostLinks.Ingested> cells = withKeys(large);
                for (int attempt = 1;
                        !ingest(database, rows, cells, attempt == MOST_ATTEMPTS);
                        attempt++) {}
            }
        } finally {
            arriving.end(slot);
        }
        if (!data.isEmpty()) store.reopenable().dataWritten();
        return true;
    }

    /** Read before they are taken: whoever closes the store meanwhile lets nobody read any more. */
    private List<LostLinks.Ingested> withKeys(List<Path> files) throws RocksDBException {
        List<LostLinks.Ingested> all = new ArrayList<>();
        for (Path file : files)
            try {
                all.add(LostLinks.Ingested.ofReadable(file));
            } catch (RocksDBException e) {
                throw unreadable(file, store.name(), e);
            }
        return all;
    }

    /**
     * Damage of a file that is not the store's yet, which is none of the store.
     *
     * @throws RocksDBException the error, if it is no damage
     */
    static UncheckedIOException unreadable(Path staged, String table, RocksDBException e)
            throws RocksDBException {
        if (!RocksErrors.isDamage(e)) throw e;
        return new UncheckedIOException(
                new IOException(
                        ("A file of a stream into %s is damaged (%s): %s. The table itself is not."
                                        + " Check the disk, and repeat the operation that streams")
                                .formatted(table, staged, e.getMessage()),
                        e));
    }

    /**
     * @param anyway however much was written since the flush
     * @return false if that was too much to be flushed while writers wait
     */
    private boolean ingest(
            Database database,
            List<LostLinks.Ingested> data,
            List<LostLinks.Ingested> large,
            boolean anyway)
            throws RocksDBException {
        long before = writes.bytesWritten();
        // Most of it while writes go on.
        database.flush();
        long[] taken = {-1};
        store.recordWriteBegins();
        try (IngestExternalFileOptions options =
                new IngestExternalFileOptions().setMoveFiles(true)) {
            store.room()
                    .writers
                    .<RocksDBException>alone(
                            () -> {
                                if (!anyway && writes.bytesWritten() - before > MOST_FLUSHED_ALONE)
                                    return;
                                long started = System.nanoTime();
                                database.flush();
                                if (!isLogAlone(database)) beginLog(database);
                                // Each write lowers this by its timestamp; those of the files are
                                // not known.
                                store.reconciler().lowerMaxPurgeable(Long.MIN_VALUE);
                                if (store.catalog().has(Catalog.Flag.TOMBSTONES))
                                    store.purgeable().written(0);
                                // Large cells come before the rows that refer to them.
                                take(database, false, large, options);
                                take(database, true, data, options);
                                // No write has run since all was flushed.
                                taken[0] = database.db.getLatestSequenceNumber();
                                logger.debug(
                                        "Writes of {} waited {} us for {} files",
                                        store.name(),
                                        TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - started),
                                        data.size() + large.size());
                            });
        } finally {
            store.recordWriteEnds();
        }
        if (taken[0] < 0) return false;
        sync.ingested(database, taken[0]);
        return true;
    }

    private void take(
            Database database,
            boolean isData,
            List<LostLinks.Ingested> files,
            IngestExternalFileOptions options)
            throws RocksDBException {
        if (files.isEmpty()) return;
        if (isData) database.rowsArrive();
        List<String> names = files.stream().map(file -> file.path().toString()).toList();
        try {
            database.db.ingestExternalFile(isData ? database.data : database.large, names, options);
        } catch (RocksDBException e) {
            restore(files);
            throw e;
        }
    }

    /** The store must open again, also if the MANIFEST names the files in spite of the error. */
    private void restore(List<LostLinks.Ingested> files) {
        List<Path> paths = files.stream().map(LostLinks.Ingested::path).toList();
        lastLinks.addAll(paths);
        try {
            int linked = LostLinks.restore(store.directory(), files);
            if (linked > 0)
                logger.warn(
                        "The MANIFEST of {} may name {} files of a stream that failed. They stay,"
                                + " and are live if it does once the store is opened again",
                        store.name(),
                        linked);
            paths.forEach(lastLinks::remove);
        } catch (IOException | RuntimeException e) {
            logger.error(
                    "The MANIFEST of {} may name files of a stream that failed, which could not be"
                            + " linked again. They stay in {}: the table may not open without"
                            + " them. Check the disk and restart the node, which links or deletes"
                            + " them",
                    store.name(),
                    store.directory().resolve(StoreDescriptor.STREAMS),
                    e);
        }
    }

    /** Whether the store may not open without that file, whose ingest has failed. */
    boolean mayNeed(Path file) {
        return lastLinks.contains(file);
    }

    /** Whether all logs but the last are done with. */
    private boolean isLogAlone(Database database) throws RocksDBException {
        long needed = database.db.getLongProperty(database.data, "rocksdb.min-log-number-to-keep");
        try {
            return SyncMark.logsFrom(store.directory(), needed) <= 1;
        } catch (IOException e) {
            throw new FSWriteError(e, store.directory());
        }
    }

    /**
     * Has RocksDB begin a log, and with it let go those before. A column family that was being
     * flushed when the last log began asks for the one before although nothing of it is needed;
     * that changes only with the next log, and none begins as long as there is nothing in the last.
     */
    private void beginLog(Database database) throws RocksDBException {
        store.room().await(() -> Catalog.touch(database));
        try (FlushOptions options =
                new FlushOptions().setWaitForFlush(true).setAllowWriteStall(true)) {
            database.db.flush(options, database.catalog);
        }
    }
}
