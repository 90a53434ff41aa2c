// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import dev.petra.engine.DirectoryTree;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * Tries the native part on a database of its own, before any table is opened: it calls into the
 * RocksDB that was loaded without knowing its C++ headers.
 */
public final class SelfTest {
    private static final byte[] KEY = "key".getBytes(StandardCharsets.US_ASCII);

    // From docs/FORMAT.md: an update, and a deletion that hides it.
    private static final byte[] OLDER = HexFormat.of().parseHex("000c000000000000000500010175");
    private static final byte[] NEWER = HexFormat.of().parseHex("000e0000000000000006000200000064");
    private static final long DELETED_AT = 100;

    private SelfTest() {}

    /**
     * Merges two entries, and has a compaction remove what is left.
     *
     * @param directory exists and is writable
     * @throws ConfigurationException if either does not work
     */
    static void run(Path directory) {
        inScratch(directory, SelfTest::merge);
    }

    /**
     * Sets options on a database of its own.
     *
     * @throws ConfigurationException if RocksDB does not take them
     */
    public static void options(Path directory, Map<String, String> options) {
        if (!options.isEmpty()) inScratch(directory, (db, reconciler) -> set(db, options));
    }

    private static void set(RocksDB db, Map<String, String> options) {
        // One by one, to name the one that is wrong.
        options.forEach(
                (name, value) -> {
                    String error =
                            MutableOptions.set(
                                    db, db.getDefaultColumnFamily(), Map.of(name, value));
                    if (error != null)
                        throw new ConfigurationException(
                                "Setting 'rocksdb_options' has "
                                        + name
                                        + "="
                                        + value
                                        + ", which RocksDB "
                                        + RocksDB.rocksdbVersion()
                                        + " does not take for an open table: "
                                        + error);
                });
    }

    private interface Trial {
        void run(RocksDB db, Reconciler reconciler) throws RocksDBException;
    }

    private static void inScratch(Path directory, Trial trial) {
        Path database = null;
        try {
            database = Files.createTempDirectory(directory, "petra-self-test-");
            inDatabase(database.toString(), trial);
        } catch (IOException | RocksDBException e) {
            throw new ConfigurationException(
                    "The engine's self-test could not be made in '"
                            + directory
                            + "': "
                            + e.getMessage()
                            + ". Set 'native_library_directory' to a directory that is writable and"
                            + " has 32 MiB free.",
                    e);
        } finally {
            if (database != null) DirectoryTree.delete(database);
        }
    }

    private static void inDatabase(String database, Trial trial) throws RocksDBException {
        try (Reconciler reconciler = new Reconciler();
                Options options = new Options().setCreateIfMissing(true)) {
            reconciler.install(options, false);
            try (RocksDB db = RocksDB.open(options, database)) {
                trial.run(db, reconciler);
            }
        }
    }

    private static void merge(RocksDB db, Reconciler reconciler) throws RocksDBException {
        db.merge(KEY, OLDER);
        db.merge(KEY, NEWER);
        require("merge", Arrays.equals(db.get(KEY), NEWER) && reconciler.merges() > 0);
        db.put(KEY, NEWER);
        try (FlushOptions flush = new FlushOptions()) {
            db.flush(flush);
        }
        reconciler.clock(2 * DELETED_AT, DELETED_AT + 1);
        reconciler.maxPurgeable(reconciler.activeMaxPurgeable(), Long.MAX_VALUE);
        db.compactRange();
        require("purge", db.get(KEY) == null && reconciler.removed() == 1);
    }

    private static void require(String what, boolean worked) {
        if (!worked)
            throw new ConfigurationException(
                    "The native part of the engine does not "
                            + what
                            + " with the RocksDB that was loaded, "
                            + RocksDB.rocksdbVersion()
                            + ". No table was opened. Use the plugin's jar as it was built, and"
                            + " remove any other rocksdbjni from the class path.");
    }
}
