// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** A store with small files, and purges of single files that a test asks for. */
abstract class PurgeFixture {
    @TempDir Path directory;
    final AtomicBoolean mayPurge = new AtomicBoolean();
    final StorageEngine engine =
            Tables.engine(
                    Map.of(
                            "memory",
                            "32MiB",
                            "purge_interval",
                            "1d",
                            "rocksdb_options",
                            "target_file_size_base=16384"));

    /** The clock of {@link #rest}. */
    final AtomicLong nanoTime = new AtomicLong();

    /** How long that rested, each time. */
    final List<Long> rests = new ArrayList<>();

    TestTable table;
    TableStore store;
    PurgePermission permission;
    DataFiles held;
    PurgeRound round;

    /** Opens the store of {@link #table}. */
    void open() {
        open(1);
    }

    /** The same of another generation. */
    void open(int generation) {
        store =
                engine.openStore(
                        new StoreSpec(
                                directory.resolve("" + generation),
                                "t",
                                generation,
                                table.ref(),
                                this::mayPurge));
        StoreContext context = Tables.context(store);
        permission = new PurgePermission(context);
        held = new DataFiles(context);
        round = new PurgeRound(context, permission, new PurgeSchedule(context, permission), held);
    }

    /** By a clock that a test sets, and without waiting. */
    Rest rest() {
        return new Rest(
                nanoTime::get,
                nanos -> {
                    rests.add(nanos);
                    nanoTime.addAndGet(nanos);
                });
    }

    /** What the store asks. */
    boolean mayPurge() {
        return mayPurge.get();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    Database database() {
        return Tables.context(store).database();
    }

    static String noise(long seed) {
        byte[] noise = new byte[100];
        new Random(seed).nextBytes(noise);
        return HexFormat.of().formatHex(noise);
    }

    /** All to the bottom, without removing anything. */
    void settle() {
        mayPurge.set(false);
        store.flush();
        store.compact(List.of());
    }

    boolean purge() throws RocksDBException {
        mayPurge.set(true);
        permission.clock(database());
        return round.run(database(), part -> {});
    }

    Map<String, Long> files() {
        Map<String, Long> files = new HashMap<>();
        for (LiveFileMetaData file : database().dataFiles())
            files.put(file.fileName(), file.size());
        return files;
    }

    static long sum(Map<String, Long> files) {
        return files.values().stream().mapToLong(Long::longValue).sum();
    }

    int entries() {
        int entries = 0;
        try (RocksIterator it = database().db.newIterator(database().data)) {
            for (it.seekToFirst(); it.isValid(); it.next()) entries++;
        }
        return entries;
    }
}
