// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.FileStatistics;
import dev.petra.engine.PurgeProgress;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableParams;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.Hex;
import org.jspecify.annotations.Nullable;
import org.rocksdb.Checkpoint;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.FlushOptions;
import org.rocksdb.IngestExternalFileOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One table generation in one RocksDB database. */
final class RocksStore implements TableStore, LogSyncer.Log {
    private static final Logger logger = LoggerFactory.getLogger(RocksStore.class);
    private static final long HEAL_EVERY_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long LEAST_PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long MOST_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** So many times as long as reads waited they do not wait again. */
    private static final int READS_TO_PATIENCE = 50;

    /** How long a drop waits for reads before whoever asked for it does otherwise. */
    private static final long DROP_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    private static final long LEAST_ROOM = 4 << 20;
    private static final int LARGE_WRITE_STRIPES = 64;
    private static final int RECENT_SECONDS = 64;

    /** Parts of a stream that become live together, while writers wait. */
    static final int PARTS_AT_ONCE = 8;

    /** These included. */
    private static final int MOST_IN_LEVEL_0 = 12;

    /** RocksDB slows writes down from 64 GiB on. */
    private static final long MOST_BEHIND = 16L << 30;

    /** A flush of so much takes a few milliseconds. */
    private static final long MOST_FLUSHED_ALONE = 1 << 20;

    private static final int MOST_ATTEMPTS = 3;

    /** 0 only where nothing is. */
    private static final List<String> FIGURES_OF_DATA =
            List.of(
                    "rocksdb.total-sst-files-size",
                    "rocksdb.num-entries-active-mem-table",
                    "rocksdb.num-entries-imm-mem-tables");

    private final RocksEngine engine;
    private final StoreSpec spec;
    private final StoreFile file;
    private final PartitionKeys partitionKeys;
    private final PartitionReader reader = new PartitionReader(this);
    private final Reconciler reconciler;
    private final WriteRoom room;
    private final Purge purge;
    private final TimeWindows windows;
    private final SupersededRanges supersededRanges = new SupersededRanges(this);

    /** Held by writers of large cells, and by whoever removes those no row refers to. */
    private final Object[] largeWrites = new Object[LARGE_WRITE_STRIPES];

    private volatile Opened opened;
    private volatile boolean hasData;

    /** Why writes are refused until the database was opened anew; null while it is well. */
    private volatile @Nullable String full;

    private volatile long healAt;

    /** How long the next attempt waits for reads that are under way; guarded by this. */
    private long healPatience = LEAST_PATIENCE_NANOS;

    /** For good; not while the database is opened anew. */
    private volatile boolean closed;

    /** Guarded by this, which is held while the database is closed or opened. */
    private boolean dropped;

    private final AtomicLong recordWritesBegun = new AtomicLong();
    private final AtomicLong recordWritesEnded = new AtomicLong();

    /** Of the process: parts of a store that was closed must not share a name with later ones. */
    private static final AtomicLong STREAMS = new AtomicLong();

    /** Streams of which parts become live now; held by whoever takes some. */
    private final AtomicInteger arriving = new AtomicInteger();

    private final LongAdder writes = new LongAdder();
    private final LongAdder bytesWritten = new LongAdder();
    private final LongAdder reads = new LongAdder();
    private final ReadSamples samples = new ReadSamples();
    private final SyncState unsynced = new SyncState();
    private final SyncMark mark;

    // Of the ticking thread

    private long flushedAt = System.nanoTime();
    private long bytesTaken;

    /** About those of the last minute. */
    private long recentBytes;

    /** Whether write buffers are to have a filter; also set by who opens the database anew. */
    private volatile boolean busy;

    /**
     * The database while it is open, what was read from it, how its files are written, and whether
     * it was opened to be compacted by size.
     */
    private record Opened(
            Database database, Catalog catalog, FileOptions files, boolean universal) {}

    static RocksStore open(RocksEngine engine, StoreSpec spec) {
        StoreFile file = new StoreFile(spec);
        boolean create = file.prepare();
        RocksEngine.deleteTree(spec.directory().resolve(StoreFile.STREAMS));
        WriteRoom room =
                new WriteRoom(spec.displayName(), engine.settings().writeStallTimeoutMillis());
        Reconciler reconciler = new Reconciler();
        boolean complete = false;
        try {
            Opened opened = openDatabase(engine, spec, room, reconciler, create);
            try {
                if (create) file.ready();
                RocksStore store = new RocksStore(engine, spec, file, room, reconciler, opened);
                complete = true;
                return store;
            } finally {
                if (!complete) opened.database.close();
            }
        } finally {
            if (!complete) reconciler.close();
        }
    }

    private static Opened openDatabase(
            RocksEngine engine,
            StoreSpec spec,
            WriteRoom room,
            Reconciler reconciler,
            boolean create) {
        TableParams table = spec.metadata().get().params;
        FileOptions files = FileOptions.of(table, table.compaction.isEnabled(), engine.settings());
        TableOptions options =
                new TableOptions(
                        spec.displayName(),
                        engine,
                        reconciler,
                        files,
                        isClustered(spec.metadata().get()),
                        create);
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try {
            if (!create) LogCheck.run(spec.directory());
            RocksDB db =
                    RocksDB.open(
                            options.database,
                            spec.directory().toString(),
                            options.columnFamilies,
                            handles);
            Database database =
                    new Database(
                            spec.displayName(),
                            db,
                            handles.get(0),
                            handles.get(1),
                            handles.get(2),
                            options.owned());
            try {
                if (!engine.settings().rocksdbOptions().isEmpty())
                    database.setOptions(database.data, engine.settings().rocksdbOptions());
                return new Opened(
                        database,
                        new Catalog(database, spec.metadata().get(), room),
                        files,
                        files.compaction().universal());
            } catch (Throwable t) {
                database.close();
                throw t;
            }
        } catch (RocksDBException e) {
            if (handles.isEmpty()) options.close();
            if (create || RocksErrors.isFull(e))
                throw RocksErrors.onWrite(e, spec.displayName(), spec.directory());
            throw RocksErrors.onRead(e, spec.displayName(), spec.directory());
        } catch (LogCheck.Damage e) {
            options.close();
            throw RocksErrors.corrupt(e, spec.displayName(), spec.directory());
        } catch (IOException e) {
            // Too many open files, an interrupt: nothing is known of the data.
            options.close();
            throw new FSReadError(e, spec.directory());
        }
    }

    private static boolean isClustered(TableMetadata table) {
        return table.comparator.size() > 0;
    }

    private RocksStore(
            RocksEngine engine,
            StoreSpec spec,
            StoreFile file,
            WriteRoom room,
            Reconciler reconciler,
            Opened opened) {
        this.engine = engine;
        this.spec = spec;
        this.file = file;
        this.room = room;
        this.reconciler = reconciler;
        this.opened = opened;
        this.mark = new SyncMark(spec.directory());
        this.partitionKeys = new PartitionKeys(spec.metadata().get().partitioner);
        try {
            this.hasData = hasData(opened.database);
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, name(), directory());
        }
        Arrays.setAll(largeWrites, i -> new Object());
        this.purge = new Purge(this);
        this.windows = new TimeWindows(this, purge);
    }

    /**
     * Whether there is anything but the catalog, which is written also for what never comes: the
     * ids of columns of a stream that fails, a flag before a write that does. No block is read for
     * it, so that a damaged one does not keep the store from opening.
     */
    private static boolean hasData(Database database) throws RocksDBException {
        for (ColumnFamilyHandle family : List.of(database.data, database.large))
            for (String figure : FIGURES_OF_DATA)
                if (database.db.getLongProperty(family, figure) > 0) return true;
        return false;
    }

    // For the readers and writers of this package

    /**
     * The database to use now, of which no use is counted: for whoever has counted one, and for
     * tests. Blocks only while it is opened anew, after a full disk.
     *
     * @throws IllegalStateException if the store is closed
     */
    Database database() {
        Database database = opened.database;
        if (!database.isClosed()) return database;
        if (closed) throw closed();
        return reopened();
    }

    /** The same, with one use counted: {@link Database#release} of this thread's stripe ends it. */
    Database acquire() {
        while (true) {
            Database database = database();
            if (database.acquire()) return database;
        }
    }

    private synchronized Database reopened() {
        String reason = full;
        if (!opened.database.isClosed()) return opened.database;
        if (reason == null) throw closed();
        // An attempt to open it anew failed; reads must not wait for a write to try again.
        if (System.nanoTime() - healAt >= 0 && hasRoom()) {
            heal();
            return opened.database;
        }
        throw RocksErrors.full(name(), directory(), reason);
    }

    IllegalStateException closed() {
        return new IllegalStateException("The store of " + name() + " is closed.");
    }

    Catalog catalog() {
        return opened.catalog;
    }

    Reconciler reconciler() {
        return reconciler;
    }

    WriterPhases writers() {
        return room.writers;
    }

    WriteRoom room() {
        return room;
    }

    /** From how many bytes on a value lies apart from its row. */
    int largeCellThreshold() {
        return engine.settings().largeCell();
    }

    /** How long at least between two purges. */
    long purgeIntervalSeconds() {
        return TimeUnit.MILLISECONDS.toSeconds(engine.settings().purgeIntervalMillis());
    }

    /** What writers of large cells of this partition hold. */
    Object largeWrites(DecoratedKey key) {
        return largeWrites[Math.floorMod(key.getToken().hashCode(), LARGE_WRITE_STRIPES)];
    }

    boolean isClosed() {
        return closed;
    }

    void checkOpen() {
        if (closed) throw closed();
    }

    PartitionKeys partitionKeys() {
        return partitionKeys;
    }

    TableMetadata table() {
        return spec.metadata().get();
    }

    @Override
    public String name() {
        return spec.displayName();
    }

    Path directory() {
        return spec.directory();
    }

    /** Writes of partition records that began. */
    long recordWritesBegun() {
        return recordWritesBegun.get();
    }

    /** Writes of partition records that ended, whether they succeeded or not. */
    long recordWritesEnded() {
        return recordWritesEnded.get();
    }

    CorruptStoreException malformed(RuntimeException e, ByteBuffer key) {
        return new CorruptStoreException(
                "The store of "
                        + name()
                        + " in "
                        + directory()
                        + " has a malformed entry ("
                        + e.getMessage()
                        + ") under key "
                        + ByteBufferUtil.bytesToHex(key)
                        + ". Restore it from a snapshot, or repair that partition's replicas.",
                e);
    }

    @Override
    public StoreSpec spec() {
        return spec;
    }

    // Data

    @Override
    public void write(PartitionUpdate update) {
        if (full != null) heal();
        Database database = acquire();
        int use = Database.stripe();
        try {
            write(update, database);
        } catch (RocksDBException e) {
            throw failed(e);
        } catch (Catalog.CatalogWriteFailure e) {
            throw failed(e.error);
        } finally {
            database.release(use);
        }
    }

    private void write(PartitionUpdate update, Database database) throws RocksDBException {
        unsynced.refuseAfterFailure();
        UpdateWriter writer = UpdateWriter.get();
        try {
            write(update, database, writer);
        } finally {
            writer.release();
        }
    }

    private void write(PartitionUpdate update, Database database, UpdateWriter writer)
            throws RocksDBException {
        int entries = writer.encode(update, this, database.large.getID());
        if (entries == 0) return;
        int bytes = writer.bytes();
        boolean record = UpdateWriter.hasPartitionRecord(update);
        if (record) {
            catalog().set(Catalog.Flag.PARTITION_RECORDS);
            recordWritesBegun.incrementAndGet();
        }
        WalSync mode = engine.walSync();
        try {
            if (writer.minLocalTime() != Long.MAX_VALUE) catalog().set(Catalog.Flag.TOMBSTONES);
            if (writer.hasLargeCells()) {
                catalog().set(Catalog.Flag.LARGE_CELLS);
                synchronized (largeWrites(update.partitionKey())) {
                    write(writer, database, mode == WalSync.BATCH);
                }
            } else write(writer, database, mode == WalSync.BATCH);
        } finally {
            if (record) recordWritesEnded.incrementAndGet();
        }
        if (!hasData) hasData = true;
        writes.increment();
        bytesWritten.add(bytes);
        if (mode != WalSync.BATCH) unsynced.written(mode == WalSync.GROUP);
        else if (!isMarked(database)) unsynced.written(false);
    }

    /** Whether it is noted that a write which synced itself is durable. */
    private boolean isMarked(Database database) {
        long sequence = database.db.getLatestSequenceNumber();
        if (mark.covers(sequence)) return true;
        // Only then is nothing before it that was not synced.
        if (!room.isAsideSynced()) return false;
        return mark.set(database, sequence, false);
    }

    private void write(UpdateWriter writer, Database database, boolean synced)
            throws RocksDBException {
        WriteOptions options = synced ? database.syncedWriteOptions : database.writeOptions;
        int phase = room.writers.begin();
        try {
            // Before it can be seen: what is purged from now on must not uncover this write.
            reconciler.lowerFloors(writer.minTimestamp());
            purge.written(writer.minLocalTime());
            if (writer.isBatched()) {
                try (WriteBatch batch = new WriteBatch(writer.batch())) {
                    room.await(() -> database.db.write(options, batch));
                }
            } else {
                ByteBuffer key = writer.key();
                ByteBuffer value = writer.value();
                // Every attempt from the start: one may have left the positions anywhere.
                room.await(
                        () ->
                                database.db.merge(
                                        database.data,
                                        options,
                                        key.position(0),
                                        value.position(0)));
            }
        } finally {
            room.writers.end(phase);
        }
    }

    private RuntimeException failed(RocksDBException e) {
        if (RocksErrors.isFull(e) && full == null) {
            healAt = System.nanoTime() + HEAL_EVERY_NANOS;
            full = String.valueOf(e.getMessage());
            logger.error(
                    "The disk of {} is full ({}); writes to it fail until there is room",
                    name(),
                    directory());
        }
        return RocksErrors.onWrite(e, name(), directory());
    }

    /**
     * Opens the database anew if there is room again, now and then; see {@link RocksErrors#isFull}.
     * Acknowledged writes are in its log, which is replayed then.
     *
     * @throws WriteStallException if the disk is still full
     */
    private void heal() {
        String reason = full;
        if (reason == null) return;
        if (System.nanoTime() - healAt < 0 || !hasRoom())
            throw RocksErrors.full(name(), directory(), reason);
        synchronized (this) {
            if (full == null || closed) return;
            // Somebody else has just tried.
            if (System.nanoTime() - healAt < 0) throw RocksErrors.full(name(), directory(), reason);
            healAt = System.nanoTime() + HEAL_EVERY_NANOS;
            // Closing waits for writers, and these for a sync that cannot be.
            unsynced.abandon();
            // Bounded: a reader, even this thread, may hold an iterator and want another.
            if (!opened.database.closeIfIdle(healPatience)) {
                // Others wait meanwhile: a long scan must not keep them from reading.
                healAt =
                        System.nanoTime()
                                + Math.max(HEAL_EVERY_NANOS, READS_TO_PATIENCE * healPatience);
                healPatience = Math.min(2 * healPatience, MOST_PATIENCE_NANOS);
                throw RocksErrors.full(name(), directory(), reason);
            }
            healPatience = LEAST_PATIENCE_NANOS;
            Opened fresh = openDatabase(engine, spec, room, reconciler, false);
            // Before anyone can write to it and wait for its sync.
            unsynced.renewed();
            opened = fresh;
            // A first write that failed may be in the log.
            hasData = true;
            busy = false;
            full = null;
            logger.info("The disk of {} has room again; writes go on", name());
        }
    }

    /** Replay writes what is in the log once more, as a data file. */
    private boolean hasRoom() {
        try {
            long log = 0;
            try (var files = Files.newDirectoryStream(directory(), "*.log")) {
                for (Path file : files) log += Files.size(file);
            }
            return Files.getFileStore(directory()).getUsableSpace() > log + LEAST_ROOM;
        } catch (IOException e) {
            throw new FSWriteError(e, directory());
        }
    }

    @Override
    public @Nullable UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        reads.increment();
        return reader.read(key, slices, columns, reversed);
    }

    @Override
    public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
        return new RangeScan(this, range, columns);
    }

    @Override
    public boolean mayContain(DecoratedKey key) {
        if (!hasData) return false;
        PartitionBounds bounds = PartitionBounds.of(partitionKeys, key);
        try (Cursor cursor = new Cursor(this, bounds)) {
            cursor.seek(bounds.position().duplicate());
            // Where there are large cells the cursor is not kept within the bounds.
            return cursor.isValid() && Keys.startsWith(cursor.key(), bounds.position());
        }
    }

    @Override
    public boolean isEmpty() {
        checkOpen();
        return !hasData;
    }

    // Streams

    @Override
    public OutgoingParts streamOut(Collection<Range<Token>> ranges) {
        return use(
                database -> {
                    Path parts = Files.createDirectories(newStreamDirectory());
                    return new SentParts(this, database, parts, ranges);
                },
                e -> RocksErrors.onWrite(e, name(), directory()));
    }

    @Override
    public IncomingParts streamIn(StreamManifest manifest, Collection<Range<Token>> owned) {
        return measure(database -> new ReceivedParts(this, manifest, owned, newStreamDirectory()));
    }

    private Path newStreamDirectory() {
        return directory()
                .resolve(StoreFile.STREAMS)
                .resolve(Long.toString(STREAMS.incrementAndGet()));
    }

    /** What the ids of another store's columns are here; those that have none are given one. */
    int[] adopt(PartsDictionary dictionary) {
        return use(
                database -> catalog().adopt(dictionary.names(), dictionary.kindsAndTypes()),
                this::failed);
    }

    /**
     * How files outside of the database are written and read. The store does not end before the
     * caller has closed it.
     *
     * @throws IllegalStateException if the store is closed
     */
    TableOptions.ForParts partOptions() {
        Database database = acquire();
        int use = Database.stripe();
        try {
            return TableOptions.ForParts.of(
                    new TableOptions(
                            name(), engine, reconciler, opened.files, isClustered(table()), false),
                    database,
                    use);
        } catch (Throwable t) {
            database.release(use);
            throw t;
        }
    }

    /** Of how many bytes about the files of a stream are. */
    long partBytes() {
        return engine.settings().streamPart();
    }

    /** How many bytes of a key are its partition's position. */
    int positionBytes(byte[] key) {
        ByteBuffer in = ByteBuffer.wrap(key);
        try {
            partitionKeys.get(in);
            return in.position();
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | java.nio.BufferUnderflowException e) {
            throw malformed(e, in.rewind());
        }
    }

    /**
     * How many bytes of a large cell's key are its row's.
     *
     * @throws RuntimeException of several kinds if it is malformed
     */
    int rowBytes(ByteBuffer largeKey) {
        partitionKeys.get(largeKey);
        if ((largeKey.get() & 0xFF) == KeyKind.ROW)
            catalog().form(table()).clusterings.getClustering(largeKey);
        return largeKey.position();
    }

    /** Parts are about to become live: nothing is purged until {@link #partsEnd}. */
    void partsBegin() {
        arriving.incrementAndGet();
    }

    /** All have, or no more will. */
    void partsEnd() {
        arriving.decrementAndGet();
    }

    /**
     * Whether some parts of a stream may be live and others not yet: what deletes and what is
     * deleted, or large cells and the rows that refer to them.
     */
    boolean isArriving() {
        return arriving.get() > 0;
    }

    /**
     * Whether as many files as {@link #ingest} takes have room in level 0, where they may come to
     * lie. Each of them counts there until it is merged, and RocksDB slows writes down from 20 on.
     */
    boolean hasRoomForParts() {
        if (full != null) heal();
        return use(this::hasRoomForParts, this::failed);
    }

    private boolean hasRoomForParts(Database database) throws RocksDBException {
        Opened present = opened;
        // Nothing would be merged, nor are writes slowed down.
        if (!present.files.automatic()) return true;
        return (hasWindows() || hasRoom(database, database.data))
                && hasRoom(database, database.large);
    }

    private boolean hasRoom(Database database, ColumnFamilyHandle family) throws RocksDBException {
        RocksDB db = database.db;
        int files =
                Integer.parseInt(
                        Objects.requireNonNull(
                                db.getProperty(family, "rocksdb.num-files-at-level0")));
        long behind = db.getLongProperty(family, "rocksdb.estimate-pending-compaction-bytes");
        if (files + PARTS_AT_ONCE <= MOST_IN_LEVEL_0 && behind <= MOST_BEHIND) return true;
        // RocksDB thinks that so much is well.
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
     * Of that there is little, since most was flushed before; and the files are on the disk by
     * then, so that what writers wait for does not depend on how large they are.
     *
     * @param flags of the catalog that they come from
     * @return false if there is no room for them; nothing was taken
     */
    boolean ingest(List<String> data, List<String> large, int flags) {
        if (full != null) heal();
        return use(
                database -> {
                    for (String file : data) force(file);
                    for (String file : large) force(file);
                    unsynced.refuseAfterFailure();
                    for (Catalog.Flag flag : Catalog.Flag.values())
                        if ((flags & flag.bit) != 0) catalog().set(flag);
                    synchronized (arriving) {
                        if (!hasRoomForParts(database)) return false;
                        for (int attempt = 1;
                                !ingest(database, data, large, attempt == MOST_ATTEMPTS);
                                attempt++) {}
                    }
                    if (!data.isEmpty()) hasData = true;
                    return true;
                },
                this::failed);
    }

    private static void force(String file) throws IOException {
        try (FileChannel channel = FileChannel.open(Path.of(file), StandardOpenOption.WRITE)) {
            channel.force(true);
        }
    }

    /**
     * @param anyway however much was written since the flush
     * @return false if that was too much to be flushed while writers wait
     */
    private boolean ingest(Database database, List<String> data, List<String> large, boolean anyway)
            throws RocksDBException {
        long before = bytesWritten();
        // Most of it while writes go on.
        flush(database);
        boolean[] taken = new boolean[1];
        recordWritesBegun.incrementAndGet();
        try (IngestExternalFileOptions options =
                new IngestExternalFileOptions().setMoveFiles(true)) {
            room.writers.<RocksDBException>alone(
                    () -> {
                        if (!anyway && bytesWritten() - before > MOST_FLUSHED_ALONE) return;
                        long started = System.nanoTime();
                        flush(database);
                        if (!isLogAlone(database)) beginLog(database);
                        // As each write does. Their timestamps are not known.
                        reconciler.lowerFloors(Long.MIN_VALUE);
                        if (catalog().has(Catalog.Flag.TOMBSTONES)) purge.written(0);
                        // What rows refer to comes before them.
                        if (!large.isEmpty())
                            database.db.ingestExternalFile(database.large, large, options);
                        if (!data.isEmpty())
                            database.db.ingestExternalFile(database.data, data, options);
                        taken[0] = true;
                        logger.debug(
                                "Writes of {} waited {} us for {} files",
                                name(),
                                TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - started),
                                data.size() + large.size());
                    });
        } finally {
            recordWritesEnded.incrementAndGet();
        }
        return taken[0];
    }

    /** Whether all logs but the last are done with. */
    private boolean isLogAlone(Database database) throws RocksDBException {
        long needed = database.db.getLongProperty(database.data, "rocksdb.min-log-number-to-keep");
        try {
            return SyncMark.logsFrom(directory(), needed) <= 1;
        } catch (IOException e) {
            throw new FSWriteError(e, directory());
        }
    }

    /**
     * Has RocksDB begin a log, and with it let go those before. A column family that was being
     * flushed when the last log began asks for the one before although nothing of it is needed;
     * that changes only with the next log, and none begins as long as there is nothing in the last.
     */
    private void beginLog(Database database) throws RocksDBException {
        room.await(() -> Catalog.touch(database));
        try (FlushOptions options =
                new FlushOptions().setWaitForFlush(true).setAllowWriteStall(true)) {
            database.db.flush(options, database.catalog);
        }
    }

    // Maintenance

    private interface Work<T> {
        T run(Database database) throws RocksDBException, IOException;
    }

    private interface Chore {
        void run(Database database) throws RocksDBException, IOException;
    }

    private <T> T use(Work<T> work, Function<RocksDBException, RuntimeException> failed) {
        Database database = acquire();
        int use = Database.stripe();
        try {
            return work.run(database);
        } catch (RocksDBException e) {
            throw failed.apply(e);
        } catch (Catalog.CatalogWriteFailure e) {
            throw failed.apply(e.error);
        } catch (IOException e) {
            throw new FSWriteError(e, directory());
        } finally {
            database.release(use);
        }
    }

    private void maintain(Chore chore) {
        use(
                database -> {
                    chore.run(database);
                    return true;
                },
                this::failed);
    }

    private <T> T measure(Work<T> work) {
        return use(work, e -> RocksErrors.onRead(e, name(), directory()));
    }

    @Override
    public void syncLog() {
        maintain(
                database -> {
                    long aside = room.asideEnded();
                    long sequence = database.db.getLatestSequenceNumber();
                    database.db.syncWal();
                    room.asideSynced(aside);
                    mark.set(database, sequence, true);
                });
    }

    /** Whether there is something to sync. */
    @Override
    public boolean isPending() {
        return !closed && unsynced.isPending();
    }

    @Override
    public boolean isUnsettled() {
        return !closed && unsynced.isUnsettled();
    }

    /** Syncs, and wakes the writers that wait for it. */
    @Override
    public void sync() {
        if (full != null) {
            unsynced.abandon();
            return;
        }
        try {
            unsynced.sync(this::syncLog);
        } catch (IllegalStateException e) {
            // Closing has synced it, dropping has no need to.
            if (!closed) throw e;
            logger.debug("The store of {} was closed before it was synced", name(), e);
        }
    }

    @Override
    public void flush() {
        followTable();
        maintain(RocksStore::flush);
    }

    /**
     * Files that are written from now on are as the table's options ask, which may have changed.
     */
    private void followTable() {
        FileOptions wanted =
                FileOptions.of(table().params, spec.mayCompact().getAsBoolean(), engine.settings());
        if (wanted.equals(opened.files)) return;
        synchronized (this) {
            Opened present = opened;
            Database database = present.database;
            if (closed || full != null || wanted.equals(present.files) || !database.acquire())
                return;
            try {
                Map<String, String> options = wanted.asMap(false);
                if (present.universal && wanted.compaction().window() != null)
                    options.put("disable_auto_compactions", "true");
                options.putAll(engine.settings().rocksdbOptions());
                database.setOptions(database.data, options);
                database.setOptions(database.large, wanted.asMap(true));
                logger.info("The files of {} are written with {} from now on", name(), wanted);
                if (wanted.compaction().universal() != present.universal)
                    logger.warn(
                            "{} is compacted {} only when it is opened next, as by a restart",
                            name(),
                            present.universal ? "by levels" : "by size");
            } catch (IllegalStateException e) {
                logger.error("{} writes its files as before until it is opened anew", name(), e);
            } finally {
                database.release(Database.stripe());
            }
            opened = new Opened(database, present.catalog, wanted, present.universal);
        }
    }

    static void flush(Database database) throws RocksDBException {
        try (FlushOptions options =
                new FlushOptions().setWaitForFlush(true).setAllowWriteStall(true)) {
            database.db.flush(options, List.of(database.data, database.large, database.catalog));
        }
    }

    @Override
    public void rewrite() {
        followTable();
        maintain(
                database -> {
                    purge.run(database, false);
                    // Compaction rewrites keys, and of the values those in the oldest files.
                    collectBlobs(database, 1);
                    try {
                        database.compact(
                                database.large, null, null, BottommostLevelCompaction.kForce);
                    } finally {
                        collectBlobs(database, TableOptions.BLOB_AGE_CUTOFF);
                    }
                });
    }

    /** Which part of the blob files, the oldest, compaction rewrites: 0 to 1. */
    private static void collectBlobs(Database database, double part) {
        database.setOptions(
                database.large,
                Map.of("blob_garbage_collection_age_cutoff", Double.toString(part)));
    }

    @Override
    public void compact(Collection<Range<Token>> ranges) {
        followTable();
        maintain(
                database -> {
                    if (ranges.isEmpty()) purge.run(database, false);
                    else
                        for (TokenRanges.KeyRange range : TokenRanges.of(ranges, partitionKeys))
                            database.compact(
                                    database.data,
                                    range.from(),
                                    range.to(),
                                    BottommostLevelCompaction.kForceOptimized);
                });
    }

    @Override
    public void stopCompactions() {
        measure(
                database -> {
                    database.stopCompactions();
                    return true;
                });
    }

    @Override
    public void stopPurging() {
        // Closed by itself it does not matter, and while it is opened anew nothing is purged.
        measure(
                database -> {
                    purge.stop(database);
                    return true;
                });
    }

    @Override
    public PurgeProgress purgeProgress() {
        return measure(database -> purge.progress());
    }

    /** The bytes of all writes since the store was opened. */
    long bytesWritten() {
        return bytesWritten.sum();
    }

    /** The bytes of all writes since this was asked last; by one thread. */
    long takeBytesWritten() {
        long all = bytesWritten();
        long since = all - bytesTaken;
        bytesTaken = all;
        recentBytes += since - recentBytes / RECENT_SECONDS;
        return since;
    }

    /** Whether it is written to so much that its write buffers are worth a filter. */
    private void followWrites(Database database) {
        long buffer = engine.settings().writeBuffer();
        boolean is = recentBytes > (busy ? buffer / 16 : buffer);
        if (is == busy || engine.settings().rocksdbOptions().containsKey(TableOptions.BUSY_FILTER))
            return;
        // For the next buffer.
        database.setOptions(
                database.data,
                Map.of(
                        TableOptions.BUSY_FILTER,
                        Double.toString(is ? TableOptions.BUSY_FILTER_RATIO : 0)));
        busy = is;
    }

    /**
     * Bytes of write buffers.
     *
     * @param active of those that take writes
     * @param all of these and of those being flushed
     * @param isEmpty whether nothing is in the former
     */
    record Buffers(long active, long all, boolean isEmpty) {
        static final Buffers NONE = new Buffers(0, 0, true);
    }

    /** Nothing when closed, or when nothing can be flushed. */
    Buffers buffers() {
        Database database = opened.database;
        if (closed || full != null || !database.acquire()) return Buffers.NONE;
        try {
            return new Buffers(
                    property(database, "rocksdb.cur-size-active-mem-table")
                            + largeProperty(database, "rocksdb.cur-size-active-mem-table"),
                    writeBufferBytes(database),
                    property(database, "rocksdb.num-entries-active-mem-table")
                                    + largeProperty(
                                            database, "rocksdb.num-entries-active-mem-table")
                            == 0);
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, name(), directory());
        } finally {
            database.release(Database.stripe());
        }
    }

    /**
     * Every second or so: tells the native part the time and what may go, reports what it met, and
     * says whether a purge is due.
     */
    boolean tick() {
        if (closed || full != null) return false;
        followTable();
        Database database = opened.database;
        if (!database.acquire()) return false;
        try {
            flushPeriodically(database);
            followWrites(database);
            purge.clock(database);
            for (byte[] key = reconciler.takeMalformed();
                    key != null;
                    key = reconciler.takeMalformed())
                logger.error(
                        "The store of {} in {} has a malformed entry under key {}, met while it"
                                + " was merged or compacted; it was left as it is. Restore it from"
                                + " a snapshot, or repair that partition's replicas.",
                        name(),
                        directory(),
                        Hex.bytesToHex(key));
            return purge.isDue(database);
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, name(), directory());
        } finally {
            database.release(Database.stripe());
        }
    }

    /** Whether files are merged by {@link TimeWindows}, as they are where RocksDB has one level. */
    boolean hasWindows() {
        Opened present = opened;
        return present.universal && present.files.compaction().window() != null;
    }

    /** Whether {@link #compactWindows} may have something to do. */
    boolean isWindowsDue() {
        if (closed || full != null || !hasWindows() || !opened.files.automatic()) return false;
        Database database = opened.database;
        if (!database.acquire()) return false;
        try {
            return windows.isDue(database);
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, name(), directory());
        } finally {
            database.release(Database.stripe());
        }
    }

    /** The bytes that {@link #compactWindows} merges now; 0 if it does not. */
    long windowBytes() {
        return windows.compacting();
    }

    /** Merges the files of windows, and lets go those that have expired. */
    void compactWindows() {
        if (closed || full != null) return;
        try {
            maintain(database -> windows.run(database, opened.files.compaction()));
        } catch (RuntimeException | Error e) {
            if (!closed) throw e;
            logger.debug("The store of {} was closed while it was compacted", name(), e);
        }
    }

    /** As {@code memtable_flush_period_in_ms} asks; 0 is never. */
    private void flushPeriodically(Database database) {
        int period = table().params.memtableFlushPeriodInMs;
        long now = System.nanoTime();
        if (period <= 0 || now - flushedAt < TimeUnit.MILLISECONDS.toNanos(period)) return;
        flushedAt = now;
        try (FlushOptions options = new FlushOptions().setWaitForFlush(false)) {
            database.db.flush(options, List.of(database.data, database.large, database.catalog));
        } catch (RocksDBException e) {
            logger.error("The periodic flush of {} failed", name(), e);
        }
    }

    SupersededRanges supersededRanges() {
        return supersededRanges;
    }

    /** Whether RocksDB merges whole sorted runs only, or nothing by itself. */
    boolean isCompactedBySize() {
        return opened.universal;
    }

    /** Whether {@link #removeSupersededRanges} has something to do. */
    boolean isSupersededDue() {
        return !closed && full == null && !hasWindows() && supersededRanges.isDue();
    }

    /** Removes range tombstones that others hide. */
    void removeSupersededRanges() {
        if (closed || full != null) return;
        try {
            maintain(purge::removeSuperseded);
        } catch (RuntimeException | Error e) {
            if (!closed) throw e;
            logger.debug("The store of {} was closed meanwhile", name(), e);
        }
    }

    /** Purges in the background: throttled, and given up quietly when the store closes. */
    void purgeInBackground() {
        if (closed || full != null) return;
        try {
            maintain(database -> purge.run(database, true));
        } catch (CompactionStoppedException e) {
            purge.rest();
            logger.info("The purge of {} ended early: {}", name(), e.getMessage());
        } catch (RuntimeException | Error e) {
            purge.rest();
            if (!closed) throw e;
            logger.debug("The store of {} was closed while it was purged", name(), e);
        }
    }

    @Override
    public void checkpoint(Path target) {
        if (Files.exists(target))
            throw new IllegalArgumentException("The checkpoint's target " + target + " exists.");
        Path staged = target.resolveSibling(target.getFileName() + ".partial");
        boolean complete = false;
        try {
            maintain(
                    database -> {
                        RocksEngine.deleteTree(staged);
                        try (Checkpoint checkpoint = Checkpoint.create(database.db)) {
                            checkpoint.createCheckpoint(staged.toString());
                        }
                        file.copyTo(staged);
                        Files.move(staged, target, StandardCopyOption.ATOMIC_MOVE);
                        StoreFile.sync(Objects.requireNonNull(target.toAbsolutePath().getParent()));
                    });
            complete = true;
        } finally {
            if (!complete) RocksEngine.deleteTree(staged);
        }
    }

    @Override
    public void retainRanges(Collection<Range<Token>> owned) {
        maintain(
                database -> {
                    for (TokenRanges.KeyRange gap : TokenRanges.gaps(owned, partitionKeys)) {
                        for (ColumnFamilyHandle family : List.of(database.data, database.large)) {
                            room.write(
                                    () ->
                                            database.db.deleteRange(
                                                    family,
                                                    database.writeOptions,
                                                    gap.from(),
                                                    gap.to()));
                            database.compact(
                                    family,
                                    gap.from(),
                                    gap.to(),
                                    BottommostLevelCompaction.kForceOptimized);
                        }
                    }
                    database.db.syncWal();
                });
    }

    @Override
    public void verify() {
        maintain(
                database -> {
                    database.db.verifyChecksum();
                    for (String file : database.db.getLiveFiles(false).files)
                        if (file.endsWith(".blob")) verifyBlobFile(directory().resolve("." + file));
                });
    }

    private void verifyBlobFile(Path file) throws IOException {
        String damage;
        try {
            damage = BlobFiles.damage(file);
        } catch (NoSuchFileException e) {
            logger.debug("{} was removed since its name was read", file, e);
            return;
        }
        if (!damage.isEmpty())
            throw RocksErrors.corrupt(
                    new IOException(file.normalize() + ": " + damage), name(), directory());
    }

    @Override
    public synchronized void drop() {
        if (dropped) return;
        closed = true;
        // Closing waits for writers, and these for a sync.
        unsynced.close();
        // Until it is closed it is in the way of another store in its directory.
        closeDatabase(DROP_PATIENCE_NANOS);
        engine.forget(this);
        RocksEngine.deleteTree(directory());
        dropped = true;
    }

    @Override
    public StoreStatistics statistics() {
        return measure(
                database -> {
                    long keys = property(database, "rocksdb.estimate-num-keys");
                    return new StoreStatistics(
                            keys,
                            keys,
                            property(database, "rocksdb.estimate-live-data-size")
                                    + largeProperty(database, "rocksdb.live-blob-file-size"),
                            property(database, "rocksdb.total-sst-files-size")
                                    + largeProperty(database, "rocksdb.total-sst-files-size")
                                    + largeProperty(database, "rocksdb.total-blob-file-size"),
                            writeBufferBytes(database),
                            property(database, "rocksdb.estimate-pending-compaction-bytes"),
                            writes.sum(),
                            reads.sum());
                });
    }

    @Override
    public FileStatistics fileStatistics() {
        return measure(Figures::files);
    }

    @Override
    public RangeEstimate estimate(Range<Token> range) {
        return RangeSample.estimate(this, TokenRanges.of(List.of(range), partitionKeys).get(0));
    }

    @Override
    public Map<String, Long> figures() {
        return measure(database -> Figures.of(database, reconciler, samples));
    }

    ReadSamples samples() {
        return samples;
    }

    private static long property(Database database, String name) throws RocksDBException {
        return database.db.getLongProperty(database.data, name);
    }

    private static long largeProperty(Database database, String name) throws RocksDBException {
        return database.db.getLongProperty(database.large, name);
    }

    private static long writeBufferBytes(Database database) throws RocksDBException {
        return property(database, "rocksdb.cur-size-all-mem-tables")
                + largeProperty(database, "rocksdb.cur-size-all-mem-tables");
    }

    /** Bytes of write buffers; 0 when closed. */
    long memoryBytes() {
        if (opened.database.isClosed()) return 0;
        try {
            return measure(RocksStore::writeBufferBytes);
        } catch (IllegalStateException e) {
            logger.debug("Store closed while it was measured", e);
            return 0;
        }
    }

    @Override
    public void close() {
        close(Database.CLOSE_PATIENCE_NANOS);
    }

    /** {@link #close()}, with how long it waits for reads. */
    void close(long patienceNanos) {
        if (closed) return;
        try {
            // Not while this is held: a sync under way may wait for it, where the database is
            // opened anew after a full disk.
            sync();
        } finally {
            closeSynced(patienceNanos);
        }
    }

    private synchronized void closeSynced(long patienceNanos) {
        if (closed) return;
        closed = true;
        unsynced.close();
        try {
            closeDatabase(patienceNanos);
        } finally {
            engine.forget(this);
        }
    }

    private void closeDatabase(long patienceNanos) {
        opened.database.endCompactions();
        // RocksDB can end such a compaction only together with all that it does.
        if (windows.compacting() > 0) opened.database.db.cancelAllBackgroundWork(false);
        try {
            opened.database.close(patienceNanos);
        } finally {
            mark.close();
        }
        reconciler.close();
    }
}
