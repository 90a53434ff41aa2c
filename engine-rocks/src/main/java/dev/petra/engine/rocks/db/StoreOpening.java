// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.wal.LogCheck;
import dev.petra.engine.rocks.wal.LogDirectory;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.schema.TableMetadata;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/** Opens the database of one store, with the options that the table asks for. */
final class StoreOpening {
    private static final int FILES_OF_AN_OPENING_THREAD = 16;
    private static final int MOST_OPENING_THREADS = 16;

    /** These are 0 only where a column family is empty. */
    private static final List<String> PROPERTIES_OF_DATA =
            List.of(
                    "rocksdb.total-sst-files-size",
                    "rocksdb.num-entries-active-mem-table",
                    "rocksdb.num-entries-imm-mem-tables");

    private final SharedResources resources;
    private final StoreSpec spec;
    private final WriteStallRetry room;
    private final Reconciler reconciler;

    StoreOpening(
            SharedResources resources,
            StoreSpec spec,
            WriteStallRetry room,
            Reconciler reconciler) {
        this.resources = resources;
        this.spec = spec;
        this.room = room;
        this.reconciler = reconciler;
    }

    /**
     * Opens the database.
     *
     * @param create whether there must be none yet; otherwise there must be one
     * @param indexDamaged whether a file of indexes is damaged, so that none may be compacted
     */
    Opened open(boolean create, boolean indexDamaged) {
        TableMetadata table = table();
        RocksSettings settings = resources.settings();
        FileOptions files =
                FileOptions.of(
                        table,
                        spec.mayCompact().getAsBoolean(),
                        resources.indexes().isLarge(),
                        settings);
        boolean indexed = !create && new StoreDescriptor(spec).isIndexed();
        TableOptions options = options(files, indexed, create);
        // A compaction would fail at the damage, and all writes with it.
        if (indexed && indexDamaged) options.index().getOptions().setDisableAutoCompactions(true);
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try {
            if (!create) checkLogs();
            options.database.setMaxFileOpeningThreads(openingThreads());
            List<Path> blobs = create ? List.of() : files("*.blob");
            // Before there is a log: what fails from then on is reported to it.
            LogDirectory names = new LogDirectory(spec.directory());
            RocksDB db = open(options, handles, names);
            Database database =
                    new Database(
                            spec.displayName(),
                            options.log,
                            names,
                            spec.isDurable(),
                            db,
                            handles.get(0),
                            handles.get(1),
                            handles.get(2),
                            indexed ? handles.get(TableOptions.INDEX_AT) : null,
                            options.owned());
            try {
                UnfinishedBlobFiles.remove(blobs, db, name());
                Map<String, String> asked = settings.rocksdbOptions();
                if (!asked.isEmpty()) database.setOptions(database.data, asked);
                return new Opened(
                        database,
                        new Catalog(database, table, room),
                        files,
                        files.compaction().universal());
            } catch (Throwable t) {
                database.close();
                throw t;
            }
        } catch (RocksDBException e) {
            if (handles.isEmpty()) options.close();
            if (create || RocksErrors.isFull(e))
                throw RocksErrors.onWrite(e, name(), spec.directory());
            throw RocksErrors.onRead(e, name(), spec.directory());
        } catch (LogCheck.Damage e) {
            options.close();
            throw RocksErrors.corrupt(e, name(), spec.directory());
        } catch (IOException e) {
            // Too many open files: nothing is known of the data.
            options.close();
            throw new FSReadError(e, spec.directory());
        }
    }

    @SuppressWarnings("try") // the lock is held, not used
    private void checkLogs() throws IOException {
        try (DirectoryLock lock = DirectoryLock.take(spec.directory())) {
            LogCheck.run(spec.directory());
        }
    }

    private RocksDB open(TableOptions options, List<ColumnFamilyHandle> handles, LogDirectory names)
            throws RocksDBException, IOException {
        boolean complete = false;
        try {
            RocksDB db =
                    RocksDB.open(
                            options.database,
                            spec.directory().toString(),
                            options.columnFamilies,
                            handles);
            complete = true;
            return db;
        } finally {
            if (!complete) names.close();
        }
    }

    /**
     * RocksDB starts so many threads for each column family, and 16 by itself: half of the time
     * that a table with few files takes to open.
     */
    private int openingThreads() throws IOException {
        int files = files("*.sst").size();
        return Math.min(MOST_OPENING_THREADS, 1 + files / FILES_OF_AN_OPENING_THREAD);
    }

    /** The files of the database whose names match. */
    List<Path> files(String glob) throws IOException {
        List<Path> found = new ArrayList<>();
        try (var files = Files.newDirectoryStream(spec.directory(), glob)) {
            files.forEach(found::add);
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return found;
    }

    /** For a database with or without the column family of indexes. The caller closes it. */
    TableOptions options(FileOptions files, boolean indexed, boolean create) {
        return new TableOptions(
                name(),
                resources,
                reconciler,
                files,
                table().comparator.size() > 0,
                resources.directReads().in(spec.directory()),
                indexed,
                spec.isDurable(),
                create);
    }

    /**
     * Whether there is anything but the catalog, which is written also for what never comes: the
     * ids of columns of a stream that fails, a flag before a write that does. No block is read for
     * it, so that a damaged one does not keep the store from opening.
     */
    static boolean hasData(Database database) throws RocksDBException {
        for (ColumnFamilyHandle family : List.of(database.data, database.large))
            for (String property : PROPERTIES_OF_DATA)
                if (database.db.getLongProperty(family, property) > 0) return true;
        return false;
    }

    /**
     * How files outside of the database are written and read.
     *
     * @param database of which a use was counted, which ends when the caller closes the result
     */
    TableOptions.ForSst sstOptions(Database database, FileOptions files) {
        int use = Database.stripe();
        try {
            return TableOptions.ForSst.of(options(files, false, false), database, use);
        } catch (Throwable t) {
            database.release(use);
            throw t;
        }
    }

    private String name() {
        return spec.displayName();
    }

    private TableMetadata table() {
        return spec.metadata().get();
    }
}
