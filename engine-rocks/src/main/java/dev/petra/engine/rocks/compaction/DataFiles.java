// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.FileExtent;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.format.MalformedFragment;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.utils.NoSpamLogger;
import org.jspecify.annotations.Nullable;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;
import org.rocksdb.Status;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the data files of one store hold. It is read from each file once, after it was written, by
 * whoever needs it first, and remembered in the catalog. It also merges single files.
 */
public final class DataFiles {
    private static final Logger logger = LoggerFactory.getLogger(DataFiles.class);

    /** Of what is free; Cassandra leaves as much. */
    private static final double USABLE_PART = 0.95;

    private static final byte[] NO_HEAD = {};

    /** Whether to go on is asked after so many steps. */
    private static final int PACED_STEPS = 1024;

    private final StoreContext store;
    private final Supplier<Rest> rests;

    /** By {@link #identity}. */
    private final Map<String, FileExtent> extents = new HashMap<>();

    private boolean recalled;

    /** The names of files with a block that cannot be read, as far as that is known. */
    private final Set<String> damaged = ConcurrentHashMap.newKeySet();

    public DataFiles(StoreContext store) {
        this(store, Rest::new);
    }

    /**
     * The same.
     *
     * @param rests of whoever looks through a file from now on
     */
    DataFiles(StoreContext store, Supplier<Rest> rests) {
        this.store = store;
        this.rests = rests;
    }

    /**
     * Reads what is not known yet, and forgets files that are gone.
     *
     * @param files all there are
     * @param garbage whether it must be known how much of each may go
     * @param stopped looked at now and then
     * @return what each holds, by its name; null if it was stopped, or a file went meanwhile: then
     *     all others are known, so the next time takes less
     * @throws dev.petra.engine.WriteStallException if the disk is full
     */
    synchronized @Nullable Map<String, FileExtent> learn(
            Database database,
            Collection<LiveFileMetaData> files,
            boolean garbage,
            BooleanSupplier stopped)
            throws RocksDBException {
        if (!recalled) {
            extents.putAll(store.catalog().extents());
            recalled = true;
        }
        Map<String, String> names = new HashMap<>();
        for (LiveFileMetaData file : files) names.put(identity(file), file.fileName());
        for (String gone :
                extents.keySet().stream().filter(known -> !names.containsKey(known)).toList()) {
            store.catalog().forgetExtent(gone);
            extents.remove(gone);
        }
        damaged.retainAll(names.values());
        // Extents by a version that did not count garbage are read again.
        if (garbage) extents.values().removeIf(extent -> !extent.knowsGarbage());
        boolean complete = true;
        Map<String, FileExtent> byName = new HashMap<>();
        for (Map.Entry<String, String> file : names.entrySet()) {
            String identity = file.getKey();
            FileExtent extent = extents.get(identity);
            if (extent != null) {
                byName.put(file.getValue(), extent);
                continue;
            }
            extent = read(database, file.getValue(), stopped);
            if (stopped.getAsBoolean()) return null;
            if (extent == null) {
                complete = false;
                continue;
            }
            // A file that is unreadable is read again after a restart.
            if (!extent.equals(FileExtent.UNKNOWN)) store.catalog().setExtent(identity, extent);
            extents.put(identity, extent);
            byName.put(file.getValue(), extent);
        }
        return complete ? Map.copyOf(byName) : null;
    }

    /**
     * Its name, its size and its highest sequence number. In a checkpoint the log may be newer than
     * the list of files: it has extents of files that are not there, and their numbers are given to
     * others.
     */
    private static String identity(LiveFileMetaData file) {
        return file.fileName() + " " + file.size() + " " + file.largestSeqno();
    }

    private @Nullable FileExtent read(Database database, String name, BooleanSupplier stopped)
            throws RocksDBException {
        try (TableOptions.ForSst options = store.reopenable().sstOptions();
                SstFileReader reader = new SstFileReader(options.data());
                ReadOptions how = Database.newReadOptions().setFillCache(false)) {
            reader.open(store.directory().resolve(name.substring(1)).toString());
            try (SstFileReaderIterator it = reader.newIterator(how)) {
                it.seekToFirst();
                return FileExtent.of(
                        it, Purge.hasLoosePaths(store.table()), head(it), pacing(stopped));
            }
        } catch (MalformedFragment e) {
            logger.error(
                    "File {} of {} in {} has a malformed entry. While that file is there, no"
                            + " expired file of the table is dropped, and deletions of what the"
                            + " file may hold are not purged in the background. Restore the table"
                            + " from a snapshot, or rebuild the node from the others.",
                    name,
                    store.name(),
                    store.directory(),
                    e);
            return FileExtent.UNKNOWN;
        } catch (RocksDBException e) {
            if (!areThere(database, List.of(name), Integer.MAX_VALUE)) return null;
            if (!RocksErrors.isDamage(e)) throw e;
            damaged(name, e);
            return FileExtent.UNKNOWN;
        }
    }

    private void damaged(String name, RocksDBException e) {
        if (damaged.add(name))
            logger.error(
                    "File {} of {} in {} is damaged. It stays as it is, and deletions of what it"
                            + " may hold are not purged in the background. Restore the table from"
                            + " a snapshot, or rebuild the node from the others.",
                    name,
                    store.name(),
                    store.directory(),
                    e);
    }

    /**
     * Reads all blocks of files, before they are rewritten in the background: RocksDB refuses all
     * writes once a compaction has met a damaged one. Logs which is damaged, once; from then on
     * nothing is known of what it holds. Not on a thread to which the filter gives limits of its
     * own: what is read is merged.
     *
     * @param stopped looked at now and then
     * @return false if one is damaged, or this was stopped, also because the disk was full: writes
     *     go on only when nobody reads for long. Those that are gone are not looked for
     */
    boolean areWhole(Database database, Collection<String> names, BooleanSupplier stopped)
            throws RocksDBException {
        if (isDamaged(names)) return false;
        for (String name : names)
            try (TableOptions.ForSst options = store.reopenable().sstOptions();
                    SstFileReader reader = new SstFileReader(options.data());
                    ReadOptions how = Database.newReadOptions().setFillCache(false)) {
                reader.open(store.directory().resolve(name.substring(1)).toString());
                try (SstFileReaderIterator it = reader.newIterator(how)) {
                    int steps = 0;
                    for (it.seekToFirst(); it.isValid(); it.next())
                        if (++steps % PACED_STEPS == 0
                                && (stopped.getAsBoolean() || !store.reopenable().isWritable()))
                            return false;
                    it.status();
                }
            } catch (RocksDBException e) {
                if (!areThere(database, List.of(name), Integer.MAX_VALUE)) continue;
                if (!RocksErrors.isDamage(e)) throw e;
                damaged(name, e);
                forget(database, name);
                return false;
            }
        return true;
    }

    /** Whether one of some files is known to be damaged. */
    boolean isDamaged(Collection<String> names) {
        return !Collections.disjoint(damaged, names);
    }

    private synchronized void forget(Database database, String name) throws RocksDBException {
        for (LiveFileMetaData file : database.dataFiles()) {
            if (!file.fileName().equals(name)) continue;
            String identity = identity(file);
            // It is read again after a restart.
            store.catalog().forgetExtent(identity);
            extents.put(identity, FileExtent.UNKNOWN);
        }
    }

    /** Told of partitions, in the order of a file. */
    interface Partitions {
        /** Takes the position of a partition; it may keep the array. */
        void at(byte[] position) throws RocksDBException;
    }

    /**
     * Finds the partitions of which a file has range tombstones that are past their grace. It reads
     * no rows.
     *
     * @param gcBefore local times before it are past their grace
     * @param stopped looked at now and then
     * @param partitions whose errors are thrown, and not taken for damage of the file
     * @return the lowest local time of the file's other range tombstones, {@link Long#MAX_VALUE} if
     *     it has none; {@link Long#MIN_VALUE} if it was stopped, or the file is gone
     */
    long eachOldRange(
            Database database,
            String name,
            long gcBefore,
            BooleanSupplier stopped,
            Partitions partitions)
            throws RocksDBException {
        boolean isTelling = false;
        try (TableOptions.ForSst options = store.reopenable().sstOptions();
                SstFileReader reader = new SstFileReader(options.data());
                ReadOptions how = Database.newReadOptions().setFillCache(false)) {
            reader.open(store.directory().resolve(name.substring(1)).toString());
            try (SstFileReaderIterator it = reader.newIterator(how)) {
                BooleanSupplier pacing = pacing(stopped);
                long next = Long.MAX_VALUE;
                int steps = 0;
                it.seekToFirst();
                while (it.isValid()) {
                    if (++steps % PACED_STEPS == 0 && pacing.getAsBoolean()) return Long.MIN_VALUE;
                    byte[] key = it.key();
                    byte[] record = recordKey(store, key);
                    if (record == null) {
                        it.next();
                        continue;
                    }
                    int at = record.length - 1;
                    int kind = key[at] & 0xFF;
                    if (kind < KeyKind.RANGE) {
                        record[at] = (byte) KeyKind.RANGE;
                        it.seek(record);
                        continue;
                    }
                    boolean isOld = false;
                    record[at] = (byte) KeyKind.RANGE;
                    for (;
                            it.isValid()
                                    && Keys.startsWith(
                                            ByteBuffer.wrap(it.key()), ByteBuffer.wrap(record));
                            it.next()) {
                        long time =
                                FragmentReader.range(ByteBuffer.wrap(it.value()), Slice.ALL)
                                        .deletion()
                                        .localDeletionTime();
                        if (time < gcBefore) isOld = true;
                        else next = Math.min(next, time);
                    }
                    // The next seek forgets an error.
                    if (!it.isValid()) it.status();
                    if (isOld) {
                        isTelling = true;
                        partitions.at(Arrays.copyOf(record, at));
                        isTelling = false;
                    }
                    record[at] = (byte) KeyKind.END;
                    it.seek(record);
                }
                it.status();
                return next;
            }
        } catch (RocksDBException e) {
            if (isTelling) throw e;
            if (!areThere(database, List.of(name), Integer.MAX_VALUE)) {
                logger.debug("{} of {} is gone", name, store.name(), e);
                return Long.MIN_VALUE;
            }
            if (!RocksErrors.isDamage(e)) throw e;
            logger.error(
                    "File {} of {} in {} is damaged, so its range tombstones stay on disk. Restore"
                            + " the table from a snapshot, or rebuild the node from the others.",
                    name,
                    store.name(),
                    store.directory(),
                    e);
            return Long.MAX_VALUE;
        }
    }

    /** The position of the partition that the first key is in the middle of. */
    private byte[] head(SstFileReaderIterator it) {
        if (!it.isValid()) return NO_HEAD;
        byte[] key = it.key();
        byte[] record = recordKey(store, key);
        if (record == null || Arrays.equals(record, key)) return NO_HEAD;
        return Arrays.copyOf(record, record.length - 1);
    }

    /** The key of the record of a key's partition; null if it is a bound between partitions. */
    static byte @Nullable [] recordKey(StoreContext store, byte[] key) {
        int size;
        try {
            size = store.positionBytes(key);
        } catch (CorruptStoreException e) {
            // A malformed key too: those who read it report it.
            logger.debug("A file of {} begins with no key", store.name(), e);
            return null;
        }
        byte[] record = Arrays.copyOf(key, size + 1);
        record[size] = (byte) KeyKind.PARTITION;
        return record;
    }

    /**
     * Asked now and then whether to stop, it lets the caller {@link Rest}. Throws if the disk is
     * full: the database is not opened anew as long as it is used, and writes are refused.
     */
    BooleanSupplier pacing(BooleanSupplier stopped) {
        Rest rest = rests.get();
        return () -> {
            rest.afterWork();
            if (stopped.getAsBoolean()) return true;
            store.reopenable().healing.checkNotFull();
            return false;
        };
    }

    /**
     * Takes room on the disk for what comes of merging files, beside what is being merged, as
     * Cassandra does for its own compactions. A full disk would fail the writes of all tables, and
     * the merge with them.
     *
     * @return what has the room, from before the files are looked through until they are merged;
     *     null if there is none
     */
    UnfinishedMerges.@Nullable Taken reserve(Database database, List<String> files)
            throws RocksDBException {
        long bytes = bytes(database, files);
        try {
            FileStore disk = Files.getFileStore(store.directory());
            long others;
            long room;
            // Two that look at the same time would find the same room.
            synchronized (UnfinishedMerges.ROOM) {
                // First: what is written in between counts twice rather than not at all.
                others = UnfinishedMerges.on(disk);
                room = disk.getUsableSpace();
                if (bytes + others <= room * USABLE_PART)
                    return UnfinishedMerges.reserve(store.directory(), bytes);
            }
            boolean fitsLater = bytes <= room * USABLE_PART;
            NoSpamLogger.log(
                    logger,
                    fitsLater ? NoSpamLogger.Level.INFO : NoSpamLogger.Level.WARN,
                    store.directory() + (fitsLater ? " later" : ""),
                    1,
                    TimeUnit.HOURS,
                    "{} files of {} with {} bytes are not merged now: {} has {} bytes free, of"
                            + " which compactions that run, or are about to, may take {}. "
                            + (fitsLater ? "" : "Free space. ")
                            + "This is tried again",
                    files.size(),
                    store.name(),
                    bytes,
                    store.directory(),
                    room,
                    others);
            return null;
        } catch (IOException e) {
            throw new FSReadError(e, store.directory());
        }
    }

    /**
     * Merges files.
     *
     * @param fileBytes of each file that comes of them, about; 0 for one file
     * @return the names of what came of them; null if one is gone, is below that level by now, or
     *     is being merged already
     */
    @SuppressWarnings("try") // the merge is counted, not used
    @Nullable List<String> compact(Database database, List<String> files, int level, long fileBytes)
            throws RocksDBException {
        long bytes = bytes(database, files);
        try (UnfinishedMerges.Taken merge = UnfinishedMerges.begin(store.directory(), bytes)) {
            List<String> made = database.compactions.compactFiles(files, level, fileBytes, bytes);
            if (made == null) return null;
            return made.stream().map(name -> name.substring(name.lastIndexOf('/'))).toList();
        } catch (RocksDBException e) {
            if (!database.compactions.isClosing() && !isBusy(e) && areThere(database, files, level))
                throw e;
            logger.debug("{} of {} are merged another time", files, store.name(), e);
            return null;
        }
    }

    /** Whether another compaction was writing where this one would, or others were being ended. */
    private static boolean isBusy(RocksDBException e) {
        Status status = e.getStatus();
        return RocksErrors.isIncomplete(e)
                || RocksErrors.isShutdown(e)
                || (status != null && status.getCode() == Status.Code.Aborted);
    }

    private static long bytes(Database database, Collection<String> names) {
        long bytes = 0;
        for (LiveFileMetaData file : database.dataFiles())
            if (names.contains(file.fileName())) bytes += file.size();
        return bytes;
    }

    /**
     * Whether all files are there, on this level or above it, and nobody merges one of them.
     * RocksDB moves a file to a level below by itself, under the same name.
     */
    private static boolean areThere(Database database, Collection<String> names, int level) {
        Set<String> missing = new HashSet<>(names);
        for (LiveFileMetaData file : database.dataFiles())
            if (!file.beingCompacted() && file.level() <= level) missing.remove(file.fileName());
        return missing.isEmpty();
    }
}
