// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * Tries the native part on a database of its own, before any table is opened: it calls into the
 * RocksDB that was loaded without knowing its C++ headers.
 */
final class SelfTest {
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
        Path database = null;
        try {
            database = Files.createTempDirectory(directory, "petra-self-test-");
            run(database.toString());
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
            if (database != null) RocksEngine.deleteTree(database);
        }
    }

    private static void run(String database) throws RocksDBException {
        try (Reconciler reconciler = new Reconciler();
                Options options = new Options().setCreateIfMissing(true)) {
            reconciler.install(options, false);
            try (RocksDB db = RocksDB.open(options, database);
                    FlushOptions flush = new FlushOptions()) {
                db.merge(KEY, OLDER);
                db.merge(KEY, NEWER);
                require("merge", Arrays.equals(db.get(KEY), NEWER) && reconciler.merges() > 0);
                db.put(KEY, NEWER);
                db.flush(flush);
                reconciler.clock(2 * DELETED_AT, DELETED_AT + 1);
                reconciler.floor(reconciler.activeFloor(), Long.MAX_VALUE);
                db.compactRange();
                require("purge", db.get(KEY) == null && reconciler.removed() == 1);
            }
        }
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
