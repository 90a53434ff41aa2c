// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.RocksDBException;

/**
 * What was synced is there after a restart, or the store does not open and says which file is
 * damaged: never fewer rows, and never without the files that could tell more.
 */
class LogDamageTest {
    private static final TableMetadata TABLE =
            Tables.table(
                    "CREATE TABLE t (k int PRIMARY KEY, v text) WITH compaction = {'class':"
                            + " 'SizeTieredCompactionStrategy', 'enabled': 'false'}");

    /** Of RocksDB's logs. */
    private static final long BLOCK = 32 << 10;

    @TempDir Path directory;

    private StorageEngine engine;
    private TableStore store;
    private int written;
    private int copies;

    @BeforeEach
    void open() {
        engine = Tables.engine(Map.of("memory", "32MiB", "write_buffer", "256KiB"));
        // Only where a test says so.
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private void write(int count, int length) {
        for (int end = written + count; written < end; written++) {
            var update = Tables.update(TABLE, written);
            update.row().add("v", "x".repeat(length));
            store.write(update.build());
        }
    }

    /** What a process leaves that ends now. */
    private Path crashed() throws RocksDBException, IOException {
        Tables.awaitFlushes(store);
        return Tables.crashed(store, directory.resolve("crashed" + ++copies));
    }

    private Path copyOf(Path source) throws IOException {
        return Tables.copy(source, directory.resolve("copy" + ++copies));
    }

    private static Map<String, byte[]> content(Path directory) throws IOException {
        Map<String, byte[]> content = new TreeMap<>();
        try (var files = Files.newDirectoryStream(directory)) {
            for (Path file : files)
                if (Files.isRegularFile(file))
                    content.put(String.valueOf(file.getFileName()), Files.readAllBytes(file));
        }
        return content;
    }

    private static List<Path> files(Path directory, String glob) throws IOException {
        List<Path> found = new ArrayList<>();
        try (var files = Files.newDirectoryStream(directory, glob)) {
            files.forEach(found::add);
        }
        found.sort(null);
        return found;
    }

    private List<Integer> numbers(Path copy) {
        return Tables.numbers(engine, copy, TABLE);
    }

    private void assertPrefix(Path copy, int least) {
        List<Integer> numbers = numbers(copy);
        assertThat(numbers).hasSizeBetween(least, written);
        for (int i = 0; i < numbers.size(); i++) assertThat(numbers.get(i)).isEqualTo(i);
    }

    /**
     * @return whether it was refused; if not, it has all that was synced
     */
    private boolean isRefused(Path copy, int synced) throws IOException {
        Map<String, byte[]> before = content(copy);
        try {
            assertPrefix(copy, synced);
            return false;
        } catch (CorruptStoreException e) {
            assertThat(e).hasMessageContaining("Restore it from a snapshot");
            Map<String, byte[]> after = content(copy);
            // RocksDB locks a directory by a file.
            after.remove("LOCK");
            before.remove("LOCK");
            assertThat(after.keySet()).isEqualTo(before.keySet());
            before.forEach((name, bytes) -> assertThat(after.get(name)).isEqualTo(bytes));
            return true;
        }
    }

    private void assertRefused(Path copy, String... message) throws IOException {
        assertThatThrownBy(() -> numbers(copy))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContainingAll(message);
        assertThat(isRefused(copy, written)).isTrue();
    }

    /**
     * Several logs, all of them synced.
     *
     * @param opened the mode of the store when it was opened: in batch mode logs are written over
     */
    private Path severalLogs(WalSync opened) throws Exception {
        store.close();
        engine.walSync(opened, Duration.ofHours(1));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
        write(1_000, 2_000);
        store.flush();
        // Holds on to its log until there are too many.
        write(1, 100_000);
        write(250, 2_000);
        store.syncLog();
        Path copy = crashed();
        assertThat(files(copy, "*.log")).hasSizeGreaterThan(1);
        return copy;
    }

    @ParameterizedTest
    @EnumSource(
            value = WalSync.class,
            names = {"PERIODIC", "BATCH"})
    void aFlippedBitLosesNothingThatWasSynced(WalSync opened) throws Exception {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        Path crashed = severalLogs(opened);
        int refused = 0;
        for (int i = 0; i < 20 * Tables.LENGTH; i++) {
            Path copy = copyOf(crashed);
            List<Path> logs = files(copy, "*.log");
            Path log = logs.get(random.nextInt(logs.size()));
            // Headers are rare, and at a block's beginning for certain.
            long blocks = Files.size(log) >> 15;
            long at =
                    i % 3 == 0
                            ? (random.nextLong(blocks + 1) << 15) + random.nextInt(19)
                            : random.nextLong(Files.size(log));
            int bit = random.nextInt(8);
            Tables.flip(log, Math.min(at, Files.size(log) - 1), bit);
            try {
                if (isRefused(copy, written)) refused++;
            } catch (AssertionError e) {
                throw new AssertionError(
                        "seed " + seed + ", bit " + bit + " of byte " + at + " of " + log, e);
            }
        }
        assertThat(refused).as("seed " + seed).isPositive();
    }

    /** The test above finds the engine that does not note what is synced. */
    @Test
    void withoutTheMarkAFlippedBitLosesRows() throws Exception {
        write(100, 2_000);
        store.syncLog();
        Path copy = crashed();
        Tables.flip(files(copy, "*.log").get(0), 30 * 2_050L, 3);
        Path mutant = copyOf(copy);
        Files.delete(mutant.resolve(SyncMark.NAME));
        assertThatThrownBy(() -> isRefused(mutant, written)).isInstanceOf(AssertionError.class);
        assertThat(isRefused(copy, written)).isTrue();
    }

    @Test
    void whatWasNotSyncedMayBeTorn() throws Exception {
        write(50, 2_000);
        store.syncLog();
        int synced = written;
        write(60, 2_000);
        Path crashed = crashed();
        Path log = files(crashed, "*.log").get(0);
        for (int at : List.of(51, 70, 90, 109)) {
            Path copy = copyOf(crashed);
            Tables.flip(copy.resolve(log.getFileName()), at * 2_050L, 3);
            assertThat(isRefused(copy, synced)).isFalse();
        }
        Tables.flip(log, 30 * 2_050L, 3);
        assertRefused(crashed, log.toString(), "from byte ", "SYNCED");
        // The operator's word that the rest may go.
        Files.delete(crashed.resolve("SYNCED"));
        assertPrefix(crashed, 25);
    }

    @ParameterizedTest
    @EnumSource(WalSync.class)
    void theLastAcknowledgedWriteIsNotLost(WalSync mode) throws Exception {
        engine.walSync(mode, Duration.ofMillis(5));
        write(20, 100);
        if (mode == WalSync.PERIODIC) store.syncLog();
        Path crashed = crashed();
        Path log = files(crashed, "*.log").get(0);
        long end = Files.size(log);
        byte[] bytes = Files.readAllBytes(log);
        while (bytes[(int) end - 1] == 0) end--;
        Tables.flip(log, end - 20, 0);
        assertRefused(crashed, log.toString());
    }

    @ParameterizedTest
    @EnumSource(
            value = WalSync.class,
            names = {"PERIODIC", "BATCH"})
    void aLogThatIsMissingOrCutIsNoticed(WalSync opened) throws Exception {
        Path crashed = severalLogs(opened);
        for (Path log : files(crashed, "*.log")) {
            Path missing = copyOf(crashed);
            Files.delete(missing.resolve(log.getFileName()));
            isRefused(missing, written);
            for (long size : List.of(0L, 5L, 40_000L)) {
                Path cut = copyOf(crashed);
                try (RandomAccessFile file =
                        new RandomAccessFile(cut.resolve(log.getFileName()).toFile(), "rw")) {
                    if (file.length() > size) file.setLength(size);
                }
                isRefused(cut, written);
            }
        }
        List<Path> logs = files(crashed, "*.log");
        Path newest = logs.get(logs.size() - 1);
        Files.delete(newest);
        assertRefused(crashed, newest.toString(), "is missing");
    }

    @Test
    void aBlockOfZerosIsNoticed() throws Exception {
        write(100, 2_000);
        store.syncLog();
        Path crashed = crashed();
        Path log = files(crashed, "*.log").get(0);
        try (RandomAccessFile file = new RandomAccessFile(log.toFile(), "rw")) {
            file.seek(4 << 10);
            file.write(new byte[4 << 10]);
        }
        assertRefused(crashed, log.toString());
    }

    /**
     * A disk may keep a later page and not an earlier one. RocksDB passes over blocks that begin
     * with zeros, and replays what comes behind.
     *
     * @param isInterrupted the thread that opens the store: that passed for an error of the disk
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void zerosInWhatWasNotSyncedEndTheLog(boolean isInterrupted) throws Exception {
        write(10, 1_000);
        store.syncLog();
        Path live = files(directory.resolve("1"), "*.log").get(0);
        fillBlock(live);
        int before = written;
        long zeros = end(live);
        fillBlock(live);
        long behind = end(live);
        write(10, 1_000);
        Path crashed = crashed();
        try (RandomAccessFile file =
                new RandomAccessFile(crashed.resolve(live.getFileName()).toFile(), "rw")) {
            file.seek(zeros);
            file.write(new byte[(int) (behind - zeros)]);
        }
        if (isInterrupted) openInterrupted(crashed);
        assertFirst(before, crashed);
        // Nor does another start bring it back.
        assertFirst(before, crashed);
    }

    /** RocksDB takes a log that ends with a record for whole, and replays the next. */
    @Test
    void aLogThatLostItsEndIsTheLast() throws Exception {
        write(10, 1_000);
        store.syncLog();
        int before = written;
        Path live = files(directory.resolve("1"), "*.log").get(0);
        long end = end(live);
        Database database = Tables.context(store).database();
        database.db.pauseBackgroundWork();
        Path crashed;
        try {
            write(350, 1_000);
            crashed = Tables.crashed(store, directory.resolve("crashed"));
        } finally {
            database.db.continueBackgroundWork();
        }
        assertThat(files(crashed, "*.log")).hasSize(2);
        assertFirst(written, copyOf(crashed));
        try (RandomAccessFile file =
                new RandomAccessFile(crashed.resolve(live.getFileName()).toFile(), "rw")) {
            file.setLength(end);
        }
        assertFirst(before, crashed);
    }

    private void openInterrupted(Path copy) {
        Thread.currentThread().interrupt();
        TableStore opened;
        try {
            opened = Tables.open(engine, copy, TABLE);
        } finally {
            assertThat(Thread.interrupted()).as("it stays interrupted").isTrue();
        }
        opened.close();
    }

    private void assertFirst(int rows, Path copy) {
        assertThat(numbers(copy))
                .containsExactlyElementsOf(IntStream.range(0, rows).boxed().toList());
    }

    /** Writes until the next record begins with a block. */
    private void fillBlock(Path log) throws IOException {
        do {
            long beside = -end(log) - 1_000;
            write(1, 1_000);
            beside += end(log);
            long rest = BLOCK - end(log) % BLOCK - beside;
            if (rest > 200 && rest < 3_000) write(1, (int) rest);
        } while (end(log) % BLOCK != 0);
    }

    /** Where the next record of a log will begin. */
    private static long end(Path log) throws IOException {
        String name = String.valueOf(log.getFileName());
        long number = Long.parseLong(name.substring(0, name.indexOf('.')));
        try (LogRecords records = new LogRecords(log, number, 0)) {
            while (records.next()) {}
            return records.offset();
        }
    }

    @Test
    void aManifestThatLostItsEndIsNoticed() throws Exception {
        write(100, 2_000);
        store.flush();
        store.syncLog();
        Path before = crashed();
        write(100, 2_000);
        store.flush();
        write(1, 10);
        store.syncLog();
        Path crashed = crashed();
        Path manifest = files(before, "MANIFEST-*").get(0);
        Files.copy(
                manifest,
                crashed.resolve(manifest.getFileName()),
                StandardCopyOption.REPLACE_EXISTING);
        assertRefused(crashed, String.valueOf(manifest.getFileName()), "lost its end");
    }

    @Test
    void filesThatAreMissingAreNoticed() throws Exception {
        write(100, 2_000);
        store.flush();
        write(10, 10);
        store.syncLog();
        Path crashed = crashed();
        for (String glob : List.of("CURRENT", "MANIFEST-*", "*.sst")) {
            Path copy = copyOf(crashed);
            Files.delete(files(copy, glob).get(0));
            assertRefused(copy, "is damaged");
        }
        // Ours are set at each opening, whatever it says.
        Path copy = copyOf(crashed);
        for (Path options : files(copy, "OPTIONS-*")) Tables.flip(options, 40, 2);
        assertThat(isRefused(copy, written)).isFalse();
    }

    @ParameterizedTest
    @EnumSource(
            value = WalSync.class,
            names = {"PERIODIC", "BATCH"})
    void aFlippedBitInTheManifestLosesNothing(WalSync opened) throws Exception {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        Path crashed = severalLogs(opened);
        for (int i = 0; i < 15 * Tables.LENGTH; i++) {
            Path copy = copyOf(crashed);
            Path manifest = files(copy, "MANIFEST-*").get(0);
            long at = random.nextLong(Files.size(manifest));
            Tables.flip(manifest, at, random.nextInt(8));
            try {
                isRefused(copy, written);
            } catch (AssertionError e) {
                throw new AssertionError("seed " + seed + ", byte " + at + " of MANIFEST", e);
            }
        }
    }

    /** Nothing is refused that is well, whenever it is copied. */
    @Test
    void whatIsWellOpens() throws Exception {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 15; i++) {
            write(1 + random.nextInt(200), 10 + random.nextInt(9_000));
            int synced = 0;
            switch (random.nextInt(4)) {
                case 0 -> store.flush();
                case 1 -> {
                    store.syncLog();
                    synced = written;
                }
                case 2 -> {
                    store.close();
                    store = Tables.open(engine, directory.resolve("1"), TABLE);
                    synced = written;
                }
                default -> {}
            }
            assertThat(isRefused(crashed(), synced)).as("seed " + seed).isFalse();
        }
    }

    /** An interrupt closes a file that is being written, for all who write later as well. */
    @Test
    void anInterruptedWriterDoesNotEndTheMark() throws Exception {
        engine.walSync(WalSync.BATCH, Duration.ofHours(1));
        write(1, 10);
        Thread.currentThread().interrupt();
        try {
            write(1, 10);
        } finally {
            assertThat(Thread.interrupted()).isTrue();
        }
        write(1, 10);
        SyncMark.Known known = SyncMark.read(directory.resolve("1"));
        assertThat(known).isNotNull();
        assertThat(known.sequence())
                .isEqualTo(Tables.context(store).database().db.getLatestSequenceNumber());
    }

    /** In batch mode each write notes its sync. */
    @Test
    void theDirectoryIsListedForEachLogAndNotForEachSync() throws Exception {
        try (SyncMark mark = new SyncMark(directory.resolve("1"))) {
            for (int i = 0; i < 300; i++) {
                write(1, 10);
                note(mark);
            }
            assertThat(mark.listings()).isLessThan(5);
            long before = mark.listings();
            store.flush();
            write(1, 10);
            note(mark);
            assertThat(mark.listings()).isGreaterThan(before);
        }
    }

    private void note(SyncMark mark) {
        Database database = Tables.context(store).database();
        assertThat(
                        mark.set(
                                database.db,
                                database.families(),
                                database.db.getLatestSequenceNumber(),
                                false))
                .isTrue();
    }

    /** A write may outlive a store that waited for it in vain. */
    @Test
    void aMarkThatIsClosedStaysClosed() throws Exception {
        Path synced = directory.resolve("1").resolve(SyncMark.NAME);
        Database database = Tables.context(store).database();
        SyncMark mark = new SyncMark(directory.resolve("1"));
        write(1, 10);
        note(mark);
        mark.close();
        Files.delete(synced);
        write(1, 10);
        assertThat(
                        mark.set(
                                database.db,
                                database.families(),
                                database.db.getLatestSequenceNumber(),
                                true))
                .isFalse();
        assertThat(synced).doesNotExist();
    }

    @Test
    void aFileOfSomebodyElsesIsInNobodysWay() throws Exception {
        Files.writeString(directory.resolve("1").resolve("cassandra.log"), "what was done here");
        write(10, 10);
        store.syncLog();
        assertThat(isRefused(crashed(), written)).isFalse();
    }

    /** Whoever cannot look must not say that data is damaged, and have it removed. */
    @Test
    void whatCannotBeLookedAtIsNotCalledDamage() throws Exception {
        write(10, 10);
        store.syncLog();
        Path crashed = crashed();
        Path synced = crashed.resolve(SyncMark.NAME);
        Files.delete(synced);
        Files.createDirectory(synced);
        assertThatThrownBy(() -> numbers(crashed)).isInstanceOf(FSReadError.class);
    }
}
