// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static java.util.stream.Collectors.toSet;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.DirectoryTree;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.CompactionStoppedException;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.StoreDirectory;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.stream.PledgedRoom;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.slf4j.LoggerFactory;

/** What a stream does to the store that receives it, beyond what the kit asks of any engine. */
class StreamIngestTest {
    private final TestTable table =
            TestTable.of(
                    "CREATE TABLE t (k int, c int, v text, w text, PRIMARY KEY (k, c)) WITH"
                            + " compression = {'enabled': 'false'}");

    @TempDir Path directory;
    private StorageEngine engine;
    private TableStore from;
    private TableStore to;

    @BeforeEach
    void open() {
        engine =
                Tables.engine(
                        Map.of("memory", "32MiB", "large_cell", "1KiB", "stream_part", "64KiB"));
        from = engine.openStore(table.spec(directory.resolve("from")));
        to = engine.openStore(table.spec(directory.resolve("to")));
        for (int k = 0; k < 300; k++) {
            from.write(table.update(k).at(2).row(k).set("v", "from".repeat(100)).build());
            if (k % 10 == 0)
                from.write(table.update(k).at(2).row(k).set("w", "large".repeat(300)).build());
        }
        to.write(table.update(7).at(1).row(7).set("w", "there").set("v", "there").build());
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private List<String> content(TableStore store) {
        return content(store, table);
    }

    private static List<String> content(TableStore store, TestTable table) {
        List<String> partitions = new ArrayList<>();
        try (UnfilteredPartitionIterator all =
                store.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            while (all.hasNext())
                try (UnfilteredRowIterator partition = all.next()) {
                    StringBuilder text = new StringBuilder(partition.partitionKey().toString());
                    text.append(partition.staticRow().toString(table.metadata(), true));
                    while (partition.hasNext())
                        text.append(partition.next().toString(table.metadata(), true));
                    partitions.add(text.toString());
                }
        }
        return partitions;
    }

    @Test
    void aVerificationThatIsTriedAgainWritesNoFileAnewTwice() throws IOException {
        TableStore other = engine.openStore(table.spec(directory.resolve("other")));
        // Its columns have the ids of one another.
        other.write(table.update(0).at(1).row(0).set("w", "before").build());
        other.write(table.update(0).at(1).row(0).set("v", "before").build());
        SentStream sent = SentStream.of(from);
        try (StreamSink in = other.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            Path staged;
            try (var found =
                    Files.list(
                            Tables.context(other).directory().resolve(StoreDescriptor.STREAMS))) {
                staged = found.findFirst().orElseThrow();
            }
            List<Path> files = files(staged);
            assertThat(files).hasSizeGreaterThan(2);
            Path inTheWay = renumbered(files.get(files.size() - 1));
            Files.createDirectory(inTheWay);
            assertThatThrownBy(in::verify).isInstanceOf(IOException.class);
            Files.delete(inTheWay);
            in.verify();
            // The table is held while files become live: nothing is written anew then.
            for (Path file : files) Files.createDirectory(renumbered(file));
            while (in.ingest()) in.prepare();
        }
        assertThat(content(other)).isEqualTo(content(from));
    }

    /** What other streams set aside does not let a file that is written anew be written again. */
    @Test
    void aFileThatIsWrittenAnewAsTheDiskFillsIsNotWrittenAnewAgain() throws IOException {
        Path disk = Path.of("/dev/shm");
        assumeTrue(Files.isWritable(disk), "no disk in memory");
        for (int attempt = 1; ; attempt++) {
            try {
                fillWhileItIsWrittenAnew(disk);
                return;
            } catch (AssertionError e) {
                // Other tests have their stores there, and what they delete is room.
                if (attempt == 10) throw e;
            }
        }
    }

    @SuppressWarnings("try") // the room is held, not used
    private void fillWhileItIsWrittenAnew(Path disk) throws IOException {
        Path place = Files.createTempDirectory(disk, "petra");
        try {
            TableStore other = engine.openStore(table.spec(place.resolve("other")));
            // Its columns have the ids of one another.
            other.write(table.update(0).at(1).row(0).set("w", "before").build());
            other.write(table.update(0).at(1).row(0).set("v", "before").build());
            SentStream sent = SentStream.of(from);
            try (StreamSink in = other.receive(sent.head(), RangeTests.everything())) {
                sent.stagedBy(in);
                Path staged;
                try (var found =
                        Files.list(
                                Tables.context(other)
                                        .directory()
                                        .resolve(StoreDescriptor.STREAMS))) {
                    staged = found.findFirst().orElseThrow();
                }
                // Large cells come first. The old file is kept, so the new one takes room for good.
                Path first = staged.resolve("0-0.large.sst");
                Files.createLink(place.resolve("kept"), first);
                long free = Files.getFileStore(place).getUsableSpace();
                long room = Files.size(first) + (16 << 10);
                assertThat(room).isLessThan(2 * Files.size(first));
                try (PledgedRoom others = PledgedRoom.of(place, free - room)) {
                    assertThatThrownBy(in::verify)
                            .isInstanceOf(IOException.class)
                            .hasMessageContaining("no room");
                }
                in.verify();
                while (in.ingest()) in.prepare();
            }
            assertThat(content(other)).isEqualTo(content(from));
            other.close();
        } finally {
            DirectoryTree.delete(place);
        }
    }

    private static Path renumbered(Path file) {
        return file.resolveSibling(file.getFileName() + ".renumbered");
    }

    /**
     * RocksDB gives an ingest a number that is in no log, and takes logs with a gap between them
     * for damaged.
     */
    @Test
    void whatWasWrittenBeforeAnIngestIsInNoLogAnyMore() throws Exception {
        SentStream.of(from).ingestedBy(to);
        List<String> expected = content(to);
        assertThat(expected).hasSize(300).anyMatch(partition -> partition.contains("there"));
        Path crashed = crashed(directory.resolve("to"));
        try (TableStore opened = engine.openStore(table.spec(crashed))) {
            assertThat(content(opened)).isEqualTo(expected);
        }
    }

    /** What a crash would leave of a store but for its logs, which have nothing in them. */
    private Path crashed(Path store) throws IOException {
        Path crashed = directory.resolve("crashed");
        // Again, if a file came or went meanwhile.
        Set<String> before;
        do {
            if (Files.exists(crashed)) StoreDirectory.delete(crashed);
            Files.createDirectory(crashed);
            before = names(files(store));
            for (Path file : files(store))
                try {
                    Files.copy(file, crashed.resolve(file.getFileName()));
                } catch (NoSuchFileException e) {
                    // It went meanwhile: all is copied again.
                }
        } while (!before.equals(names(files(store))) || !before.equals(names(files(crashed))));
        return crashed;
    }

    /** All but the logs. */
    private static List<Path> files(Path of) throws IOException {
        try (var files = Files.list(of)) {
            return files.filter(Files::isRegularFile)
                    .filter(file -> !file.toString().endsWith(".log"))
                    .toList();
        }
    }

    private static Set<String> names(List<Path> files) {
        return files.stream().map(file -> file.getFileName().toString()).collect(toSet());
    }

    @Test
    void writesGoOnWhileFilesAreIngested() throws Exception {
        int writers = 4;
        List<Thread> threads = new ArrayList<>();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        TreeSet<Integer> written = new TreeSet<>();
        for (int w = 0; w < writers; w++) {
            int first = 1_000 + w * 10_000;
            for (int i = 0; i < 2_000; i++) written.add(first + i);
            Thread thread =
                    new Thread(
                            () -> {
                                for (int i = 0; i < 2_000; i++)
                                    to.write(
                                            table.update(first + i)
                                                    .at(1)
                                                    .row(1)
                                                    .set("v", "x")
                                                    .build());
                            });
            thread.setUncaughtExceptionHandler((t, e) -> failures.add(e));
            threads.add(thread);
        }
        threads.forEach(Thread::start);
        SentStream sent = SentStream.of(from);
        while (threads.stream().anyMatch(Thread::isAlive)) sent.ingestedBy(to);
        for (Thread thread : threads) thread.join();
        assertThat(failures).isEmpty();
        assertThat(content(to)).hasSize(300 + written.size());
        to.close();
        to = engine.openStore(table.spec(directory.resolve("to")));
        assertThat(content(to)).hasSize(300 + written.size());
    }

    @Test
    void whatAProcessLeftThatEndedInAStreamIsRemoved() throws Exception {
        Path staged = directory.resolve("to").resolve(StoreDescriptor.STREAMS).resolve("1");
        to.close();
        Files.createDirectories(staged);
        Files.writeString(staged.resolve("0.sst"), "half of it");
        to = engine.openStore(table.spec(directory.resolve("to")));
        assertThat(staged.getParent()).doesNotExist();
        assertThat(content(to)).hasSize(1);
    }

    /** It is not known whether the MANIFEST names it until that can be read. */
    @Test
    void whatIsStagedStaysWhileTheManifestCannotBeRead() throws Exception {
        Path store = directory.resolve("to");
        Path staged = store.resolve(StoreDescriptor.STREAMS).resolve("1").resolve("0.sst");
        to.syncLog();
        to.close();
        Files.createDirectories(staged.getParent());
        Files.writeString(staged, "half of it");
        Path aside = Files.move(store.resolve("CURRENT"), directory.resolve("CURRENT"));
        assertThatThrownBy(() -> engine.openStore(table.spec(store)))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("CURRENT is missing");
        assertThat(staged).exists();
        Files.move(aside, store.resolve("CURRENT"));
        to = engine.openStore(table.spec(store));
        assertThat(store.resolve(StoreDescriptor.STREAMS)).doesNotExist();
        assertThat(content(to)).hasSize(1);
    }

    /** As repair asks for them. */
    @Test
    void manySmallRangesGoInFewFiles() throws Exception {
        List<Range<Token>> ranges = new ArrayList<>();
        long step = Long.MAX_VALUE / 500;
        for (long left = Long.MIN_VALUE + 1; left < Long.MAX_VALUE - 2 * step; left += 2 * step)
            ranges.add(new Range<>(TestTable.token(left), TestTable.token(left + step)));
        SentStream sent = SentStream.of(from, ranges);
        TableStore half = engine.openStore(table.spec(directory.resolve("half")));
        try (StreamSink in = half.receive(sent.head(), ranges)) {
            sent.stagedBy(in);
            try (var staged =
                    Files.walk(Tables.context(half).directory().resolve(StoreDescriptor.STREAMS))) {
                assertThat(staged.filter(file -> file.toString().matches(".*/streams/.*sst")))
                        .hasSizeBetween(2, 6);
            }
            while (in.ingest()) in.prepare();
            assertThat(content(half))
                    .isNotEmpty()
                    .isEqualTo(
                            content(from).stream()
                                    .filter(
                                            partition ->
                                                    ranges.stream()
                                                            .anyMatch(
                                                                    range ->
                                                                            range.contains(
                                                                                    token(
                                                                                            partition))))
                                    .toList());
        }
    }

    private static Token token(String partition) {
        Matcher token = Pattern.compile("DecoratedKey\\((-?\\d+),").matcher(partition);
        assertThat(token.find()).isTrue();
        return TestTable.token(Long.parseLong(token.group(1)));
    }

    @Test
    void whatWasGivenUpCanComeBack() throws Exception {
        List<String> expected = content(from);
        SentStream sent = SentStream.of(from);
        for (int round = 0; round < 2; round++) {
            to.retainRanges(List.of());
            assertThat(content(to)).isEmpty();
            sent.ingestedBy(to);
            assertThat(content(to)).isEqualTo(expected);
        }
        to.compact(List.of());
        assertThat(content(to)).isEqualTo(expected);
    }

    /** Large cells come before the rows that refer to them: nothing may sweep them in between. */
    @Test
    void largeCellsThatComeAreNotSwept() throws Exception {
        from.write(table.update(1).at(3).deleteRow(5).build());
        SentStream sent = SentStream.of(from);
        sent.ingestedBy(to);
        List<String> expected = content(to);
        AtomicBoolean done = new AtomicBoolean();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        Thread sweeper =
                new Thread(
                        () -> {
                            while (!done.get())
                                try {
                                    to.compact(List.of());
                                } catch (CompactionStoppedException e) {
                                    // Streams met all of its attempts.
                                    assertThat(e).hasMessageContaining("kept from its end");
                                }
                        });
        sweeper.setUncaughtExceptionHandler((t, e) -> failures.add(e));
        sweeper.start();
        for (int round = 0; round < 5; round++) {
            to.retainRanges(List.of());
            sent.ingestedBy(to);
            to.write(table.update(7).at(1).row(7).set("w", "there").set("v", "there").build());
            assertThat(content(to)).isEqualTo(expected);
        }
        done.set(true);
        sweeper.join();
        assertThat(failures).isEmpty();
        assertThat(content(to)).isEqualTo(expected);
    }

    /** Steps let in what deletes before what it deletes, and large cells before their rows. */
    @Test
    void nothingIsPurgedOrSweptBetweenTheStepsOfAStream() throws Exception {
        for (int c = 0; c < 2_500; c++)
            from.write(
                    table.update(1_000)
                            .at(c % 2 == 0 ? 1 : 3)
                            .row(c)
                            .set("v", "v".repeat(900))
                            .set("w", "large".repeat(500))
                            .build());
        // Past its grace.
        from.write(table.update(1_000).at(2).now(1_000).deletePartition().build());
        List<String> expected = content(from);
        to.retainRanges(List.of());
        SentStream sent = SentStream.of(from);
        try (StreamSink in = to.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            int steps = 1;
            while (in.ingest()) {
                to.compact(List.of());
                in.prepare();
                steps++;
            }
            assertThat(steps).isGreaterThan(4);
        }
        assertThat(content(to)).isEqualTo(expected);
        to.compact(List.of());
        assertThat(content(to)).isEqualTo(expected);
    }

    /**
     * A stream of many files that fails, is killed, or is read meanwhile: what was written together
     * to a partition (static row, deletion, rows) is seen together. A purge in between brings
     * nothing back, neither then nor when the stream comes again.
     */
    @Test
    void eachPartitionIsAsItWasOrAsItWillBeBetweenTheStepsAndAfterAFailure() throws Exception {
        TestTable rows =
                TestTable.of(
                        "CREATE TABLE p (k int, c int, s text static, v text, PRIMARY KEY (k, c))"
                                + " WITH compression = {'enabled': 'false'}");
        TableStore source = engine.openStore(rows.spec(directory.resolve("source")));
        TableStore target = engine.openStore(rows.spec(directory.resolve("target")));
        for (int k = 0; k < 140; k++) {
            // Some are as large as some files, some have nothing but rows.
            int count = k % 7 == 3 ? 500 : 20;
            for (int c = 0; c < count; c++) {
                target.write(rows.update(k).at(1).row(c).set("v", "old".repeat(300)).build());
                // Hidden by what comes with it.
                if (k % 4 == 0)
                    source.write(rows.update(k).at(1).row(c + 9).set("v", "hidden").build());
            }
            // Past its grace.
            if (k % 2 == 0) source.write(rows.update(k).at(2).now(1_000).deletePartition().build());
            for (int c = 0; c < count; c += 1 + k % 2)
                source.write(rows.update(k).at(3).row(c).set("v", "new".repeat(300)).build());
            if (k % 3 > 0) {
                target.write(rows.update(k).at(1).staticRow().set("s", "old").build());
                source.write(rows.update(k).at(3).staticRow().set("s", "new").build());
            }
        }
        List<String> before = content(target, rows);
        TableStore whole = engine.openStore(rows.spec(directory.resolve("whole")));
        SentStream.of(target).ingestedBy(whole);
        SentStream sent = SentStream.of(source);
        sent.ingestedBy(whole);
        List<String> after = content(whole, rows);
        for (int steps = 1; steps <= 3; steps++) {
            try (StreamSink in = target.receive(sent.head(), RangeTests.everything())) {
                sent.stagedBy(in);
                for (int i = 0; i < steps; i++) {
                    assertThat(in.ingest()).isTrue();
                    expectEachOf(content(target, rows), before, after);
                    if (steps == 3) target.compact(List.of());
                }
                Path crashed = crashed(Tables.context(target).directory());
                try (TableStore opened = engine.openStore(rows.spec(crashed))) {
                    expectEachOf(content(opened, rows), before, after);
                }
            }
            expectEachOf(content(target, rows), before, after);
            target.compact(List.of());
            expectEachOf(content(target, rows), before, after);
        }
        sent.ingestedBy(target);
        assertThat(content(target, rows)).isEqualTo(after);
    }

    private static void expectEachOf(List<String> found, List<String> before, List<String> after) {
        assertThat(found).hasSameSizeAs(before);
        for (int i = 0; i < found.size(); i++)
            assertThat(found.get(i)).isIn(before.get(i), after.get(i));
    }

    /** What files are written and read by belongs to the store. */
    @Test
    void aStoreDoesNotEndWhileAFileIsWrittenOrRead() {
        Database database = Tables.context(to).database();
        try (TableOptions.ForSst used = Tables.context(to).reopenable().sstOptions()) {
            assertThat(used.data().isOwningHandle()).isTrue();
            assertThat(database.closeIfIdle(1, () -> {})).isFalse();
        }
        assertThat(content(to)).isNotEmpty();
        to.drop();
        assertThatThrownBy(() -> Tables.context(to).reopenable().sstOptions())
                .isInstanceOf(IllegalStateException.class);
    }

    /**
     * They are in files with their keys, which were not counted. Or they are fewer than what there
     * is, so that by the estimate they could stay.
     */
    @ParameterizedTest
    @ValueSource(ints = {0, 1_000})
    void largeCellsOfAStreamThatFailedGoByThemselves(int there) throws Exception {
        TestTable rows =
                TestTable.of(
                        "CREATE TABLE l (k int PRIMARY KEY, v text) WITH compression ="
                                + " {'enabled': 'false'}");
        TableStore source = engine.openStore(rows.spec(directory.resolve("source")));
        TableStore target = engine.openStore(rows.spec(directory.resolve("target")));
        for (int k = 0; k < 700; k++)
            source.write(rows.update(k).at(1).row().set("v", "lost ".repeat(4_000)).build());
        for (int k = 1_000; k < 1_000 + there; k++)
            target.write(rows.update(k).at(1).row().set("v", "live ".repeat(4_000)).build());
        target.compact(List.of());
        assertThat(Tables.tick(target)).isFalse();
        SentStream sent = SentStream.of(source);
        try (StreamSink in = target.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            in.verify();
            while (largeCells(target) < there + 600) {
                in.prepare();
                assertThat(in.ingest()).isTrue();
            }
            assertThat(Tables.tick(target)).isFalse();
        }
        Tables.await("a sweep", () -> largeCells(target) == there);
        assertThat(content(target, rows)).hasSize(there);
        Database database = Tables.context(target).database();
        Tables.await(
                "the end of their files",
                () ->
                        database.db.getLongProperty(database.large, "rocksdb.live-sst-files-size")
                                < 1 << 20);
    }

    private static int largeCells(TableStore store) {
        Database database = Tables.context(store).database();
        int cells = 0;
        try (RocksIterator it = database.db.newIterator(database.large)) {
            for (it.seekToFirst(); it.isValid(); it.next()) cells++;
        }
        return cells;
    }

    /** More files in level 0 than a stream may add to, and compaction that does not begin. */
    private Database behind() throws RocksDBException {
        Database database = Tables.context(to).database();
        database.setOptions(database.data, Map.of("disable_auto_compactions", "true"));
        for (int file = 0; file < 8; file++) {
            for (int k = 0; k < 50; k++)
                to.write(table.update(k).at(1).row(7).set("v", "there".repeat(100)).build());
            to.flush();
        }
        return database;
    }

    /** Writes to a store stop at its one file in level 0, and wait for next to no time. */
    private TableStore stopped(String... columns) throws RocksDBException {
        engine.close();
        engine =
                Tables.engine(
                        Map.of(
                                "memory", "32MiB",
                                "large_cell", "1KiB",
                                "stream_part", "64KiB",
                                "write_stall_timeout", "100ms"));
        from = engine.openStore(table.spec(directory.resolve("from")));
        TableStore stopped = engine.openStore(table.spec(directory.resolve("stopped")));
        for (String column : columns)
            stopped.write(table.update(0).at(1).row(0).set(column, "there").build());
        stopped.flush();
        Database database = Tables.context(stopped).database();
        database.db.pauseBackgroundWork();
        Tables.levelZero(database, 1, 1, 1);
        return stopped;
    }

    private static void goOn(TableStore stopped) throws RocksDBException {
        Database database = Tables.context(stopped).database();
        Tables.levelZero(database, 4, 20, 36);
        database.db.continueBackgroundWork();
    }

    private interface Step {
        void run() throws IOException;
    }

    private static CompletableFuture<Void> beside(Step step) {
        return CompletableFuture.runAsync(
                () -> {
                    try {
                        step.run();
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                });
    }

    /** For longer than ten writes may wait. */
    private static void assertWaits(CompletableFuture<Void> step) {
        assertThatThrownBy(() -> step.get(1, TimeUnit.SECONDS))
                .isInstanceOf(TimeoutException.class);
    }

    /** One write to the catalog that had to wait lost what had come over hours. */
    @Test
    void aStreamWaitsWithTheIdsOfItsColumnsUntilWritesGoOn() throws Exception {
        TableStore other = stopped("v");
        SentStream sent = SentStream.of(from);
        try (StreamSink in = other.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            CompletableFuture<Void> verified = beside(in::verify);
            try {
                assertWaits(verified);
                // Nor does it keep readers from the catalog meanwhile.
                table.addColumn("more", Int32Type.instance);
                assertThat(content(other)).hasSize(1);
            } finally {
                goOn(other);
            }
            verified.get(2, TimeUnit.MINUTES);
            while (in.ingest()) in.prepare();
        }
        assertThat(content(other)).hasSize(300);
    }

    @Test
    @SuppressWarnings("try") // closed while it waits
    void aStreamThatWaitsWithTheIdsOfItsColumnsEndsWhenItIsClosed() throws Exception {
        TableStore other = stopped("v");
        SentStream sent = SentStream.of(from);
        try (StreamSink in = other.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            CompletableFuture<Void> verified = beside(in::verify);
            assertWaits(verified);
            in.close();
            assertThatThrownBy(() -> verified.get(2, TimeUnit.MINUTES))
                    .hasCauseInstanceOf(IllegalStateException.class);
        } finally {
            goOn(other);
        }
    }

    /** The first large cells are noted in the catalog. */
    @Test
    void aStepThatMeetsAStallComesAgain() throws Exception {
        TableStore other = stopped("v", "w");
        SentStream sent = SentStream.of(from);
        try (StreamSink in = other.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            in.verify();
            CompletableFuture<Void> prepared;
            try {
                assertThat(in.ingest()).as("more").isTrue();
                // Not the step, which holds the table.
                prepared = beside(in::prepare);
                assertWaits(prepared);
            } finally {
                goOn(other);
            }
            prepared.get(2, TimeUnit.MINUTES);
            while (in.ingest()) in.prepare();
        }
        assertThat(content(other)).hasSize(300);
    }

    /** Level 0 had room, and only where that is waited for anything was said. */
    @Test
    @SuppressWarnings("try") // closed while it waits
    void aStreamThatMeetsAStallSaysWhatItWaitsFor() throws Exception {
        TableStore other = stopped("v", "w");
        SentStream sent = SentStream.of(from);
        Logger logger = (Logger) LoggerFactory.getLogger(StagedStream.class);
        ListAppender<ILoggingEvent> seen = new ListAppender<>();
        seen.start();
        logger.addAppender(seen);
        try (StagedStream in = (StagedStream) other.receive(sent.head(), RangeTests.everything())) {
            in.tellEveryNanos = TimeUnit.MILLISECONDS.toNanos(300);
            sent.stagedBy(in);
            in.verify();
            assertThat(in.ingest()).as("more").isTrue();
            CompletableFuture<Void> prepared = beside(in::prepare);
            assertWaits(prepared);
            in.close();
            assertThatThrownBy(() -> prepared.get(2, TimeUnit.MINUTES))
                    .hasCauseInstanceOf(IllegalStateException.class);
        } finally {
            goOn(other);
            logger.detachAppender(seen);
        }
        assertThat(seen.list.stream().map(ILoggingEvent::getFormattedMessage))
                .anyMatch(
                        message ->
                                message.contains("waits, and goes on by itself")
                                        && message.contains("100 ms (write_stall_timeout)")
                                        && message.contains("compaction_throughput is too slow"));
    }

    private CompletableFuture<Void> receiving() throws IOException {
        SentStream sent = SentStream.of(from);
        CompletableFuture<Void> receiving =
                CompletableFuture.runAsync(
                        () -> {
                            try {
                                try (StreamSink in =
                                        to.receive(sent.head(), RangeTests.everything())) {
                                    sent.stagedBy(in);
                                    in.verify();
                                    in.prepare();
                                    while (in.ingest()) in.prepare();
                                }
                            } catch (IOException e) {
                                throw new UncheckedIOException(e);
                            }
                        });
        // One that fails may have ended before it is looked at.
        Tables.await("the stream", () -> Tables.context(to).isArriving() || receiving.isDone());
        return receiving;
    }

    @Test
    void aStreamThatWaitsForRoomGoesOnWhenCompactionHasEnded() throws Exception {
        Database database = behind();
        CompletableFuture<Void> receiving = receiving();
        assertThat(receiving).isNotDone();
        database.setOptions(database.data, Map.of("disable_auto_compactions", "false"));
        receiving.get();
        assertThat(content(to)).hasSize(300);
    }

    /** It went on, without a pause. */
    @Test
    void aStreamThatIsInterruptedWhileItWaitsEnds() throws Exception {
        behind();
        SentStream sent = SentStream.of(from);
        try (StreamSink in = to.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            FutureTask<Boolean> prepared =
                    new FutureTask<>(
                            () -> {
                                in.prepare();
                                return true;
                            });
            Thread thread = new Thread(prepared);
            thread.start();
            assertThatThrownBy(() -> prepared.get(1, TimeUnit.SECONDS))
                    .isInstanceOf(TimeoutException.class);
            thread.interrupt();
            assertThatThrownBy(() -> prepared.get(2, TimeUnit.MINUTES))
                    .hasCauseInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("was interrupted. Repeat");
        }
        assertThat(Tables.context(to).isArriving()).isFalse();
    }

    /** Its file was closed under it, which passed for an error of the disk. */
    @Test
    void anInterruptIsNoErrorOfTheDisk() throws IOException {
        SentStream sent = SentStream.of(from);
        try (StreamSink in = to.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            in.verify();
            Thread.currentThread().interrupt();
            try {
                assertThatThrownBy(in::prepare)
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining("was interrupted. Repeat");
            } finally {
                assertThat(Thread.interrupted()).as("it stays interrupted").isTrue();
            }
            while (in.ingest()) in.prepare();
        }
        assertThat(content(to)).hasSize(300);
    }

    /** It waited for good: RocksDB says that a compaction is pending, and begins none. */
    @Test
    void aStreamThatWaitsForACompactionThatHasFailedFails() throws Exception {
        Database database = behind();
        Tables.damage(to, database.dataFiles().get(0).fileName());
        Map<String, String> on = Map.of("disable_auto_compactions", "false");
        database.setOptions(database.data, on);
        Tables.await(
                "the failure", () -> database.db.getLongProperty("rocksdb.background-errors") > 0);
        // As for an ALTER; after the failure alone, none is pending.
        database.setOptions(database.data, on);
        assertThat(database.db.getLongProperty("rocksdb.compaction-pending")).isOne();
        CompletableFuture<Void> receiving = receiving();
        Tables.await("the end of the stream", receiving::isDone);
        assertThatThrownBy(receiving::get).hasCauseInstanceOf(CorruptStoreException.class);
    }

    /**
     * RocksDB opens iterators of two column families while others ingest into them: first large
     * cells, which overlap some, then rows, which overlap none.
     */
    @Test
    void noIteratorSeesRowsWithoutTheirLargeCells() throws Exception {
        TestTable rows = TestTable.of("CREATE TABLE l (k int PRIMARY KEY, v text)");
        TableStore source = engine.openStore(rows.spec(directory.resolve("source")));
        TableStore target = engine.openStore(rows.spec(directory.resolve("target")));
        int rounds = 150 * Tables.LENGTH;
        List<Long> tokens = new ArrayList<>();
        for (int k = 0; k < rounds; k++) {
            source.write(rows.update(k).at(1).row().set("v", "x".repeat(1_100)).build());
            tokens.add((Long) rows.key(k).getToken().getTokenValue());
        }
        long least = Collections.min(tokens);
        long most = Collections.max(tokens);
        AtomicBoolean done = new AtomicBoolean();
        AtomicInteger missing = new AtomicInteger();
        List<CompletableFuture<Void>> readers = new ArrayList<>();
        // As many as have a processor on a small machine: more would only keep the stream waiting.
        for (int i = 0; i < 2; i++)
            readers.add(
                    CompletableFuture.runAsync(
                            () ->
                                    Tables.context(target)
                                            .reopenable()
                                            .maintain(
                                                    database -> {
                                                        while (!done.get())
                                                            missing.addAndGet(missing(database));
                                                    }),
                            task -> new Thread(task).start()));
        // Fewer rounds on a slow machine, but not next to none.
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
        try {
            for (int round = 0;
                    round < rounds
                            && missing.get() == 0
                            && (round < 50 || System.nanoTime() - end < 0);
                    round++) {
                List<Range<Token>> ranges = new ArrayList<>();
                for (long token : new TreeSet<>(List.of(least, tokens.get(round), most)))
                    ranges.add(new Range<>(TestTable.token(token - 1), TestTable.token(token)));
                SentStream.of(source, ranges).ingestedBy(target);
                // Rows go; large cells stay.
                Database database = Tables.context(target).database();
                byte[] last = new byte[16];
                Arrays.fill(last, (byte) 0xFF);
                database.db.deleteRange(database.data, new byte[0], last);
                database.flush();
                // A reader's iterators may keep what they see from going at once.
                Tables.await(
                        "all rows to go",
                        () -> {
                            database.compactions.compact(
                                    database.data,
                                    null,
                                    null,
                                    BottommostLevelCompaction.kForceOptimized);
                            return database.dataFiles().isEmpty();
                        });
            }
        } finally {
            done.set(true);
        }
        for (CompletableFuture<Void> reader : readers) reader.get();
        assertThat(missing.get()).isZero();
    }

    /** How many rows there are without a large cell. */
    private static int missing(Database database) throws RocksDBException {
        List<RocksIterator> both = database.newIterators(database.readOptions);
        int missing = 0;
        try {
            RocksIterator data = both.get(0);
            RocksIterator large = both.get(1);
            for (data.seekToFirst(); data.isValid(); data.next()) {
                byte[] row = data.key();
                large.seek(row);
                if (!large.isValid() || !Arrays.equals(row, Arrays.copyOf(large.key(), row.length)))
                    missing++;
            }
        } finally {
            both.forEach(RocksIterator::close);
        }
        return missing;
    }
}
