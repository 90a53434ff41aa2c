// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.CompactionOptions;
import org.rocksdb.CompactionStyle;
import org.rocksdb.FlushOptions;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.Options;
import org.rocksdb.RateLimiter;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Status;

/** What the purge of single files takes for granted of RocksDB. */
class CompactFilesTest {
    private static final int BOTTOM = 6;
    private static final int FILE_BYTES = 64 << 10;
    private static final int VALUE_BYTES = 1 << 10;

    static {
        Tables.engine().close();
    }

    @TempDir Path directory;

    private Options options() {
        return new Options()
                .setCreateIfMissing(true)
                .setTargetFileSizeBase(FILE_BYTES)
                .setDisableAutoCompactions(true);
    }

    private RocksDB open(Options options) throws RocksDBException {
        return RocksDB.open(options, directory.resolve("db").toString());
    }

    private static byte[] key(int number) {
        return ByteBuffer.allocate(4).putInt(number).array();
    }

    private static void write(RocksDB db, int from, int to, long seed) throws RocksDBException {
        byte[] noise = new byte[VALUE_BYTES];
        Random random = new Random(seed);
        for (int i = from; i < to; i++) {
            random.nextBytes(noise);
            db.put(key(i), noise);
        }
    }

    private static void flush(RocksDB db) throws RocksDBException {
        try (FlushOptions wait = new FlushOptions().setWaitForFlush(true)) {
            db.flush(wait);
        }
    }

    private static void toTheBottom(RocksDB db) throws RocksDBException {
        flush(db);
        try (CompactRangeOptions all =
                new CompactRangeOptions()
                        .setBottommostLevelCompaction(BottommostLevelCompaction.kForce)) {
            db.compactRange(db.getDefaultColumnFamily(), null, null, all);
        }
    }

    private static Map<String, Integer> files(RocksDB db) {
        Map<String, Integer> files = new HashMap<>();
        for (LiveFileMetaData file : db.getLiveFilesMetaData())
            files.put(file.fileName(), file.level());
        return files;
    }

    private static List<String> compact(RocksDB db, List<String> files) throws RocksDBException {
        try (CompactionOptions options =
                new CompactionOptions()
                        .setOutputFileSizeLimit(FILE_BYTES)
                        .setMaxSubcompactions(1)) {
            return db.compactFiles(options, files, BOTTOM, -1, null);
        }
    }

    private static String name(List<String> paths) {
        return String.valueOf(Path.of(paths.get(0)).getFileName());
    }

    private static Map<ByteBuffer, ByteBuffer> entries(RocksDB db) throws RocksDBException {
        Map<ByteBuffer, ByteBuffer> entries = new HashMap<>();
        try (RocksIterator it = db.newIterator()) {
            for (it.seekToFirst(); it.isValid(); it.next())
                entries.put(ByteBuffer.wrap(it.key()), ByteBuffer.wrap(it.value()));
            it.status();
        }
        return entries;
    }

    @ParameterizedTest
    @EnumSource(
            value = CompactionStyle.class,
            names = {"LEVEL", "UNIVERSAL"})
    void oneFileOfTheBottomIsRewrittenAndNoOther(CompactionStyle style) throws Exception {
        try (Options options = options().setCompactionStyle(style);
                RocksDB db = open(options)) {
            write(db, 0, 1000, 1);
            toTheBottom(db);
            Map<String, Integer> before = files(db);
            assertThat(before).hasSizeGreaterThan(10);
            assertThat(before.values()).containsOnly(BOTTOM);
            var entries = entries(db);
            List<LiveFileMetaData> all = db.getLiveFilesMetaData();
            String one = all.get(all.size() / 2).fileName();
            List<String> made = compact(db, List.of(one));
            assertThat(made).hasSize(1);
            Map<String, Integer> after = files(db);
            Set<String> gone = new HashSet<>(before.keySet());
            gone.removeAll(after.keySet());
            assertThat(gone).containsExactly(one);
            assertThat(after).hasSameSizeAs(before);
            assertThat(after.values()).containsOnly(BOTTOM);
            assertThat(entries(db)).isEqualTo(entries);
            // What lies above and does not overlap it stays where it is.
            write(db, 2000, 2003, 2);
            flush(db);
            assertThat(compact(db, List.of("/" + name(made)))).hasSize(1);
            assertThat(files(db)).containsValue(0).hasSize(before.size() + 1);
        }
    }

    /** A file above takes along what it overlaps on each level down to the bottom. */
    @Test
    void aFileAboveTakesAlongWhatItOverlapsBelow() throws Exception {
        try (Options options = options();
                RocksDB db = open(options)) {
            write(db, 0, 1000, 1);
            toTheBottom(db);
            Set<String> before = files(db).keySet();
            write(db, 500, 501, 2);
            flush(db);
            write(db, 990, 991, 3);
            flush(db);
            List<String> top =
                    db.getLiveFilesMetaData().stream()
                            .filter(file -> file.level() == 0)
                            .map(LiveFileMetaData::fileName)
                            .toList();
            assertThat(top).hasSize(2);
            // The newest first: with it goes the older one.
            compact(db, top.subList(0, 1));
            Set<String> gone = new HashSet<>(before);
            gone.removeAll(files(db).keySet());
            assertThat(files(db)).doesNotContainKeys(top.toArray(String[]::new));
            // Of everything between the two keys.
            assertThat(gone.size()).isBetween(before.size() / 3, before.size() * 2 / 3 + 1);
        }
    }

    /** Limits that are set for a thread hold there, and for all that the call rewrites. */
    @Test
    void theFilterRunsOnTheCallersThread() throws Exception {
        byte[] deletion = HexFormat.of().parseHex("000e0000000000000006000200000064");
        try (Reconciler reconciler = new Reconciler();
                Options options = options().setMaxSubcompactions(4)) {
            reconciler.install(options, false);
            try (RocksDB db = open(options)) {
                for (int i = 0; i < 50_000; i++) db.put(key(i), deletion);
                toTheBottom(db);
                assertThat(files(db)).hasSizeGreaterThan(3);
                reconciler.clock(200, 200);
                // Not below the store's own max purgeable timestamp.
                assertThat(compact(db, new ArrayList<>(files(db).keySet()))).isNotEmpty();
                assertThat(entries(db)).hasSize(50_000);
                Reconciler.purgeHere(200, 1);
                try {
                    // Nor here, and it may be lowered and raised meanwhile.
                    reconciler.maxPurgeable(1, Long.MAX_VALUE);
                    reconciler.lowerMaxPurgeable(1, 6);
                    assertThat(compact(db, new ArrayList<>(files(db).keySet()))).isNotEmpty();
                    assertThat(entries(db)).hasSize(50_000);
                    reconciler.maxPurgeable(1, 7);
                    assertThat(compact(db, new ArrayList<>(files(db).keySet()))).isEmpty();
                } finally {
                    Reconciler.purgeNowhere();
                }
                assertThat(entries(db)).isEmpty();
            }
        }
    }

    /** A range of keys, a limit of its own, one of the store's, and the store's clock. */
    @Test
    void aRangeIsPurgedWithinAllLimits() throws Exception {
        byte[] deletion = HexFormat.of().parseHex("000e0000000000000006000200000064");
        try (Reconciler reconciler = new Reconciler();
                Options options = options()) {
            reconciler.install(options, false);
            try (RocksDB db = open(options)) {
                for (int i = 0; i < 100; i++) db.put(key(i), deletion);
                toTheBottom(db);
                reconciler.clock(200, 200);
                reconciler.maxPurgeable(0, Long.MIN_VALUE);
                reconciler.maxPurgeable(1, Long.MAX_VALUE);
                assertThat(purged(db, 100, Long.MAX_VALUE, 1)).isEmpty();
                assertThat(purged(db, 200, 6, 1)).isEmpty();
                assertThat(purged(db, 200, Long.MAX_VALUE, 0)).isEmpty();
                reconciler.clock(200, 100);
                assertThat(purged(db, 200, Long.MAX_VALUE, 1)).isEmpty();
                reconciler.clock(200, 101);
                reconciler.maxPurgeable(1, 6);
                assertThat(purged(db, 200, Long.MAX_VALUE, 1)).isEmpty();
                reconciler.maxPurgeable(1, 7);
                // The lowest there is, is a limit as any other.
                reconciler.maxPurgeable(0, Long.MAX_VALUE);
                assertThat(purged(db, 101, Long.MIN_VALUE, 1)).isEmpty();
                // No key outside of the range, and both ends of it.
                assertThat(purged(db, 101, 7, 1)).hasSize(31);
                assertThat(db.get(key(19))).isNotNull();
                assertThat(db.get(key(20))).isNull();
                assertThat(db.get(key(50))).isNull();
                assertThat(db.get(key(51))).isNotNull();
                // The same where values are merged on the way: what is left of them is empty.
                for (int i = 0; i < 100; i++) db.merge(key(i), deletion);
                flush(db);
                assertThat(purged(db, 101, 7, 1)).isEmpty();
                assertThat(db.get(key(20))).isNotEqualTo(deletion);
                assertThat(db.get(key(19))).isEqualTo(deletion);
                assertThat(purged(db, 101, 7, 1)).hasSize(31);
            }
        }
    }

    /** What it hides may lie below, in a file that is not rewritten. */
    @Test
    void whatIsMergedWithoutAWholeValueIsNotPurged() throws Exception {
        byte[] older = HexFormat.of().parseHex("000e0000000000000005000200000064");
        byte[] deletion = HexFormat.of().parseHex("000e0000000000000006000200000064");
        try (Reconciler reconciler = new Reconciler();
                Options options = options();
                CompactionOptions how = new CompactionOptions()) {
            reconciler.install(options, false);
            try (RocksDB db = open(options)) {
                db.put(key(30), older);
                toTheBottom(db);
                reconciler.clock(200, 200);
                for (int mark = 0; mark < 2; mark++) reconciler.maxPurgeable(mark, Long.MAX_VALUE);
                for (boolean range : new boolean[] {false, true}) {
                    for (int file = 0; file < 2; file++) {
                        db.merge(key(30), deletion);
                        flush(db);
                    }
                    if (range) Reconciler.purgeRangeHere(200, Long.MAX_VALUE, 0, key(20), key(50));
                    else Reconciler.purgeHere(200, 0);
                    try {
                        List<String> above = new ArrayList<>();
                        for (Map.Entry<String, Integer> file : files(db).entrySet())
                            if (file.getValue() == 0) above.add(file.getKey());
                        assertThat(db.compactFiles(how, above, 1, -1, null)).hasSize(1);
                    } finally {
                        Reconciler.purgeNowhere();
                    }
                    assertThat(files(db).values()).containsExactlyInAnyOrder(1, BOTTOM);
                    assertThat(db.get(key(30))).isEqualTo(deletion);
                }
            }
        }
    }

    /** Which keys go of those from 20 to 50. */
    private static Set<ByteBuffer> purged(RocksDB db, long gcBefore, long limit, int mark)
            throws RocksDBException {
        Set<ByteBuffer> gone = new HashSet<>(entries(db).keySet());
        Reconciler.purgeRangeHere(gcBefore, limit, mark, key(20), key(50));
        try {
            compact(db, new ArrayList<>(files(db).keySet()));
        } finally {
            Reconciler.purgeNowhere();
        }
        gone.removeAll(entries(db).keySet());
        return gone;
    }

    private interface Work {
        void run() throws Exception;
    }

    private static CompletableFuture<Void> start(Work work) {
        return CompletableFuture.runAsync(
                () -> {
                    try {
                        work.run();
                    } catch (Exception e) {
                        throw new CompletionException(e);
                    }
                });
    }

    private static boolean isRunning(RocksDB db) {
        return db.getLiveFilesMetaData().stream().anyMatch(LiveFileMetaData::beingCompacted);
    }

    /** All that run end, install nothing, and run as before when they may. */
    @ParameterizedTest
    @EnumSource(
            value = CompactionStyle.class,
            names = {"LEVEL", "UNIVERSAL"})
    void compactionsCanBeAborted(CompactionStyle style) throws Exception {
        try (Options options = options().setCompactionStyle(style);
                RocksDB filled = open(options)) {
            write(filled, 0, 3000, 1);
            toTheBottom(filled);
            write(filled, 0, 3000, 2);
            flush(filled);
        }
        try (RateLimiter slow = new RateLimiter(2 << 20);
                Options options = options().setCompactionStyle(style).setRateLimiter(slow);
                RocksDB db = open(options)) {
            var entries = entries(db);
            Map<String, Integer> before = files(db);
            List<Work> kinds =
                    List.of(
                            () -> compact(db, new ArrayList<>(before.keySet())),
                            () -> {
                                try (CompactRangeOptions all =
                                        new CompactRangeOptions()
                                                .setExclusiveManualCompaction(false)
                                                .setBottommostLevelCompaction(
                                                        BottommostLevelCompaction.kForce)) {
                                    db.compactRange(db.getDefaultColumnFamily(), null, null, all);
                                }
                            });
            for (Work kind : kinds) {
                CompletableFuture<Void> work = start(kind);
                Tables.await("the compaction", () -> isRunning(db));
                db.abortAllCompactions();
                assertThat(isRunning(db)).isFalse();
                assertThat(files(db)).isEqualTo(before);
                // Writes go on meanwhile.
                db.resumeAllCompactions();
                ExecutionException failed =
                        catchThrowableOfType(ExecutionException.class, work::get);
                assertThat(failed).isNotNull();
                Status status =
                        Objects.requireNonNull(
                                ((RocksDBException) Objects.requireNonNull(failed.getCause()))
                                        .getStatus());
                assertThat(status.getCode()).isEqualTo(Status.Code.Incomplete);
                assertThat(files(db)).isEqualTo(before);
                assertThat(entries(db)).isEqualTo(entries);
            }
            // Again and again, beside a writer.
            AtomicBoolean stop = new AtomicBoolean();
            CompletableFuture<Void> writer =
                    start(
                            () -> {
                                for (int i = 0; !stop.get(); i++) db.put(key(100_000 + i), key(i));
                            });
            for (int i = 0; i < 6; i++) {
                CompletableFuture<Void> work = start(kinds.get(i % 2));
                Tables.await("a compaction", () -> isRunning(db) || work.isDone());
                db.abortAllCompactions();
                db.resumeAllCompactions();
                assertThat(catchThrowableOfType(ExecutionException.class, work::get)).isNotNull();
            }
            stop.set(true);
            writer.get();
            assertThat(files(db)).containsAllEntriesOf(before);
            slow.setBytesPerSecond(1L << 30);
            kinds.get(0).run();
            assertThat(files(db).keySet()).doesNotContainAnyElementsOf(before.keySet());
        }
    }
}
