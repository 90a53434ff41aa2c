// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static java.util.stream.Collectors.toSet;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.StoreDirectory;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.Hex;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.EnvOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileWriter;

/** What a stream does to the store that receives it, beyond what the kit asks of any engine. */
class SstStreamTest {
    private static final List<Range<Token>> ALL =
            List.of(new Range<>(TestTable.token(Long.MIN_VALUE), TestTable.token(Long.MIN_VALUE)));

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

    private static List<byte[]> bytes(OutgoingParts out) throws IOException {
        List<byte[]> parts = new ArrayList<>();
        for (StreamPart part : out.manifest().parts()) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            out.transferTo(part.index(), Channels.newChannel(bytes));
            parts.add(bytes.toByteArray());
        }
        return parts;
    }

    private static void send(
            StreamManifest manifest, List<byte[]> parts, TableStore to, List<Range<Token>> owned)
            throws IOException {
        try (IncomingParts in = to.streamIn(manifest, owned)) {
            for (int i = 0; i < parts.size(); i++)
                in.receive(i, Channels.newChannel(new ByteArrayInputStream(parts.get(i))));
            while (in.ingest()) in.awaitRoom();
        }
    }

    /** The second time would have given other columns' ids to what the first had written anew. */
    @Test
    void theDictionaryOfAStream() {
        ColumnDictionary dictionary = ColumnDictionary.of(1, 4, Map.of("v", "0 REGULAR text"));
        ByteBuffer bytes = dictionary.encode();
        assertThat(ByteBufferUtil.bytesToHex(bytes))
                .isEqualTo("000000010000000400000001000176000c524547554c41522074657874");
        assertThat(ColumnDictionary.decode(bytes, 1)).isEqualTo(dictionary);
    }

    @Test
    void aVerificationThatIsTriedAgainWritesNoPartAnewTwice() throws IOException {
        TableStore other = engine.openStore(table.spec(directory.resolve("other")));
        // Its columns have the ids of one another.
        other.write(table.update(0).at(1).row(0).set("w", "before").build());
        other.write(table.update(0).at(1).row(0).set("v", "before").build());
        try (OutgoingParts out = from.streamOut(ALL);
                IncomingParts in = other.streamIn(out.manifest(), ALL)) {
            List<byte[]> parts = bytes(out);
            for (int i = 0; i < parts.size(); i++)
                in.receive(i, Channels.newChannel(new ByteArrayInputStream(parts.get(i))));
            Path staged;
            try (var found =
                    Files.list(
                            Tables.context(other).directory().resolve(StoreDescriptor.STREAMS))) {
                staged = found.findFirst().orElseThrow();
            }
            Path inTheWay = staged.resolve((parts.size() - 1) + ".renumbered");
            Files.createDirectory(inTheWay);
            assertThatThrownBy(in::verify).isInstanceOf(IOException.class);
            Files.delete(inTheWay);
            in.verify();
            // The table is held while parts become live: nothing is written anew then.
            for (int i = 0; i < parts.size(); i++)
                Files.createDirectory(staged.resolve(i + ".renumbered"));
            in.ingest();
        }
        assertThat(content(other)).isEqualTo(content(from));
    }

    /**
     * RocksDB gives an ingest a number that is in no log, and takes logs with a gap between them
     * for damaged.
     */
    @Test
    void whatWasWrittenBeforeAnIngestIsInNoLogAnyMore() throws Exception {
        try (OutgoingParts out = from.streamOut(ALL)) {
            send(out.manifest(), bytes(out), to, ALL);
        }
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
                if (Files.exists(file)) Files.copy(file, crashed.resolve(file.getFileName()));
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
        try (OutgoingParts out = from.streamOut(ALL)) {
            List<byte[]> parts = bytes(out);
            while (threads.stream().anyMatch(Thread::isAlive)) send(out.manifest(), parts, to, ALL);
        }
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

    /** As repair asks for them. */
    @Test
    void manySmallRangesGoInFewParts() throws Exception {
        List<Range<Token>> ranges = new ArrayList<>();
        long step = Long.MAX_VALUE / 500;
        for (long left = Long.MIN_VALUE + 1; left < Long.MAX_VALUE - 2 * step; left += 2 * step)
            ranges.add(new Range<>(TestTable.token(left), TestTable.token(left + step)));
        try (OutgoingParts out = from.streamOut(ranges)) {
            assertThat(out.manifest().parts()).hasSizeBetween(2, 4);
            TableStore half = engine.openStore(table.spec(directory.resolve("half")));
            send(out.manifest(), bytes(out), half, ranges);
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
        try (OutgoingParts out = from.streamOut(ALL)) {
            List<byte[]> parts = bytes(out);
            for (int round = 0; round < 2; round++) {
                to.retainRanges(List.of());
                assertThat(content(to)).isEmpty();
                send(out.manifest(), parts, to, ALL);
                assertThat(content(to)).isEqualTo(expected);
            }
            to.compact(List.of());
            assertThat(content(to)).isEqualTo(expected);
        }
    }

    /** Large cells come before the rows that refer to them: nothing may sweep them in between. */
    @Test
    void largeCellsThatComeAreNotSwept() throws Exception {
        from.write(table.update(1).at(3).deleteRow(5).build());
        List<String> expected;
        try (OutgoingParts out = from.streamOut(ALL)) {
            List<byte[]> parts = bytes(out);
            send(out.manifest(), parts, to, ALL);
            expected = content(to);
            AtomicBoolean done = new AtomicBoolean();
            List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
            Thread sweeper =
                    new Thread(
                            () -> {
                                while (!done.get()) to.compact(List.of());
                            });
            sweeper.setUncaughtExceptionHandler((t, e) -> failures.add(e));
            sweeper.start();
            for (int round = 0; round < 5; round++) {
                to.retainRanges(List.of());
                send(out.manifest(), parts, to, ALL);
                to.write(table.update(7).at(1).row(7).set("w", "there").set("v", "there").build());
                assertThat(content(to)).isEqualTo(expected);
            }
            done.set(true);
            sweeper.join();
            assertThat(failures).isEmpty();
        }
        assertThat(content(to)).isEqualTo(expected);
    }

    /** Steps let in what deletes before what it deletes, and large cells before their rows. */
    @Test
    void nothingIsPurgedOrSweptBetweenTheStepsOfAStream() throws Exception {
        for (int c = 0; c < 2_000; c++)
            from.write(
                    table.update(1_000)
                            .at(c % 2 == 0 ? 1 : 3)
                            .row(c)
                            .set("v", "v".repeat(300))
                            .set("w", "large".repeat(300))
                            .build());
        // Past its grace.
        from.write(table.update(1_000).at(2).now(1_000).deletePartition().build());
        List<String> expected = content(from);
        to.retainRanges(List.of());
        try (OutgoingParts out = from.streamOut(ALL);
                IncomingParts in = to.streamIn(out.manifest(), ALL)) {
            List<byte[]> parts = bytes(out);
            for (int i = 0; i < parts.size(); i++)
                in.receive(i, Channels.newChannel(new ByteArrayInputStream(parts.get(i))));
            int steps = 1;
            while (in.ingest()) {
                to.compact(List.of());
                in.awaitRoom();
                steps++;
            }
            assertThat(steps).isGreaterThan(4);
        }
        assertThat(content(to)).isEqualTo(expected);
        to.compact(List.of());
        assertThat(content(to)).isEqualTo(expected);
    }

    /**
     * A stream of many parts that fails, is killed, or is read meanwhile: what was written together
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
            // Some are as large as some parts, some have nothing but rows.
            int count = k % 7 == 3 ? 500 : 20;
            for (int c = 0; c < count; c++) {
                target.write(rows.update(k).at(1).row(c).set("v", "old".repeat(130)).build());
                // Hidden by what comes with it.
                if (k % 4 == 0)
                    source.write(rows.update(k).at(1).row(c + 9).set("v", "hidden").build());
            }
            // Past its grace.
            if (k % 2 == 0) source.write(rows.update(k).at(2).now(1_000).deletePartition().build());
            for (int c = 0; c < count; c += 1 + k % 2)
                source.write(rows.update(k).at(3).row(c).set("v", "new".repeat(130)).build());
            if (k % 3 > 0) {
                target.write(rows.update(k).at(1).staticRow().set("s", "old").build());
                source.write(rows.update(k).at(3).staticRow().set("s", "new").build());
            }
        }
        List<String> before = content(target, rows);
        TableStore whole = engine.openStore(rows.spec(directory.resolve("whole")));
        List<String> after;
        try (OutgoingParts out = target.streamOut(ALL)) {
            send(out.manifest(), bytes(out), whole, ALL);
        }
        try (OutgoingParts out = source.streamOut(ALL)) {
            List<byte[]> parts = bytes(out);
            send(out.manifest(), parts, whole, ALL);
            after = content(whole, rows);
            for (int steps = 1; steps <= 3; steps++) {
                try (IncomingParts in = target.streamIn(out.manifest(), ALL)) {
                    for (int i = 0; i < parts.size(); i++)
                        in.receive(i, Channels.newChannel(new ByteArrayInputStream(parts.get(i))));
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
            send(out.manifest(), parts, target, ALL);
        }
        assertThat(content(target, rows)).isEqualTo(after);
    }

    private static void expectEachOf(List<String> found, List<String> before, List<String> after) {
        assertThat(found).hasSameSizeAs(before);
        for (int i = 0; i < found.size(); i++)
            assertThat(found.get(i)).isIn(before.get(i), after.get(i));
    }

    /** What files are written and read by belongs to the store. */
    @Test
    void aStoreDoesNotEndWhileAPartIsWrittenOrRead() {
        Database database = Tables.context(to).database();
        try (TableOptions.ForSst used = Tables.context(to).reopenable().sstOptions()) {
            assertThat(used.data().isOwningHandle()).isTrue();
            assertThat(database.closeIfIdle(1)).isFalse();
        }
        assertThat(content(to)).isNotEmpty();
        to.drop();
        assertThatThrownBy(() -> Tables.context(to).reopenable().sstOptions())
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void whatIsSentOutlivesTheStore() throws Exception {
        List<String> expected = content(from);
        try (OutgoingParts out = from.streamOut(ALL)) {
            from.drop();
            TableStore next = engine.openStore(table.spec(directory.resolve("next")));
            send(out.manifest(), bytes(out), next, ALL);
            assertThat(content(next)).isEqualTo(expected);
        }
    }

    // A peer that lies

    private interface Entries {
        void add(SstFileWriter writer, byte[] key, byte[] value) throws RocksDBException;
    }

    /** A part with one entry. */
    private byte[] part(byte[] key, byte[] value, Entries entries) throws Exception {
        Path file = directory.resolve("made.sst");
        try (TableOptions.ForSst options = Tables.context(from).reopenable().sstOptions();
                EnvOptions environment = new EnvOptions();
                SstFileWriter writer = new SstFileWriter(environment, options.data())) {
            writer.open(file.toString());
            entries.add(writer, key, value);
            writer.finish();
        }
        return Files.readAllBytes(file);
    }

    private static StreamPart described(int index, byte[] part, byte[] first, byte[] last) {
        long checksum = XXHashFactory.fastestJavaInstance().hash64().hash(ByteBuffer.wrap(part), 0);
        return new StreamPart(
                index, part.length, checksum, ByteBuffer.wrap(first), ByteBuffer.wrap(last));
    }

    private static StreamManifest with(StreamManifest manifest, List<StreamPart> parts) {
        return with(manifest, parts, manifest.dictionary());
    }

    private static StreamManifest with(
            StreamManifest manifest, List<StreamPart> parts, ByteBuffer dictionary) {
        return new StreamManifest(
                manifest.engine(),
                manifest.formatVersion(),
                manifest.table(),
                manifest.columnFamily(),
                manifest.ranges(),
                dictionary,
                parts);
    }

    private void refuses(
            StreamManifest manifest, List<byte[]> parts, List<Range<Token>> owned, String why) {
        List<String> before = content(to);
        assertThatThrownBy(() -> send(manifest, parts, to, owned)).hasMessageContaining(why);
        assertThat(content(to)).isEqualTo(before);
        assertThat(directory.resolve("to").resolve(StoreDescriptor.STREAMS)).isEmptyDirectory();
    }

    @Test
    void aPeerThatLiesChangesNothing() throws Exception {
        Files.createDirectories(directory.resolve("to").resolve(StoreDescriptor.STREAMS));
        try (OutgoingParts out = from.streamOut(ALL)) {
            StreamManifest good = out.manifest();
            assertThat(good.parts()).hasSizeGreaterThan(2);
            byte[] key = ByteBufferUtil.getArray(good.parts().get(0).firstKey());
            byte[] value = {0x00, 0x08, 0, 0, 0, 0, 0, 0, 0, 5};
            ByteBuffer one = ColumnDictionary.of(1, 0, Map.of("v", "0 REGULAR text")).encode();

            byte[] taken = part(key, value, SstFileWriter::merge);
            send(with(good, List.of(described(0, taken, key, key)), one), List.of(taken), to, ALL);

            Entries delete = (writer, k, v) -> writer.delete(k);
            for (Entries kind : List.<Entries>of(delete, SstFileWriter::put)) {
                byte[] bad = part(key, value, kind);
                refuses(
                        with(good, List.of(described(0, bad, key, key)), one),
                        List.of(bad),
                        ALL,
                        "entries of another kind");
            }
            byte[] malformed = part(key, new byte[] {0x00, 0x7f, 1}, SstFileWriter::merge);
            refuses(
                    with(good, List.of(described(0, malformed, key, key)), one),
                    List.of(malformed),
                    ALL,
                    "malformed entry under key " + Hex.bytesToHex(key));
            byte[] unknown = {0x00, 0x0b, 0, 0, 0, 0, 0, 0, 0, 5, 0x04, 0x00, 0x00};
            byte[] column = part(key, unknown, SstFileWriter::merge);
            refuses(
                    with(good, List.of(described(0, column, key, key)), one),
                    List.of(column),
                    ALL,
                    "malformed entry");
            byte[] noSst =
                    "This is no sst file, and longer than a footer is. "
                            .repeat(9)
                            .getBytes(StandardCharsets.UTF_8);
            refuses(
                    with(good, List.of(described(0, noSst, key, key)), one),
                    List.of(noSst),
                    ALL,
                    "Part 0");
            byte[] other = key.clone();
            other[other.length - 2]++;
            refuses(
                    with(good, List.of(described(0, taken, key, other)), one),
                    List.of(taken),
                    ALL,
                    "first or last key");

            UnaryOperator<List<StreamPart>> turned =
                    parts ->
                            List.of(
                                    described(0, taken, parts.get(1)),
                                    described(1, taken, parts.get(0)));
            refuses(with(good, turned.apply(good.parts())), List.of(), ALL, "part 1");
            refuses(
                    with(good, good.parts(), ByteBuffer.allocate(5)),
                    List.of(),
                    ALL,
                    "malformed dictionary");
            refuses(
                    with(good, good.parts(), ByteBuffer.allocate(12).putInt(0, 1 << 30)),
                    List.of(),
                    ALL,
                    "dictionary of 1073741824 parts");
            StreamPart huge =
                    new StreamPart(
                            0, Long.MAX_VALUE / 2, 1, ByteBuffer.wrap(key), ByteBuffer.wrap(key));
            refuses(with(good, List.of(huge), one), List.of(), ALL, "has no room");
        }
    }

    private static StreamPart described(int index, byte[] part, StreamPart bounds) {
        return new StreamPart(index, part.length, 0, bounds.firstKey(), bounds.lastKey());
    }

    /** Between two owned ranges, where neither bound of the part shows it. */
    @Test
    void keysInAGapOfWhatIsOwnedAreRefused() throws Exception {
        Files.createDirectories(directory.resolve("to").resolve(StoreDescriptor.STREAMS));
        TableStore few = engine.openStore(table.spec(directory.resolve("few")));
        for (long token : new long[] {10, 20, 30})
            few.write(table.update(table.keyWithToken(token, 0)).at(1).row(1).liveness().build());
        try (OutgoingParts out = few.streamOut(ALL)) {
            List<Range<Token>> owned =
                    List.of(
                            new Range<>(TestTable.token(5), TestTable.token(15)),
                            new Range<>(TestTable.token(25), TestTable.token(35)));
            refuses(out.manifest(), bytes(out), owned, "keys that this node does not own");
        }
    }
}
