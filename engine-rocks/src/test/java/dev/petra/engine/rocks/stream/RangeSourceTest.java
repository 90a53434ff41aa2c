// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.stream.BlockMemory;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.StreamSource;
import dev.petra.streaming.staging.SlicePlan;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.marshal.TupleType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** The blocks of a store that is sent, beyond what the kit asks of any engine. */
class RangeSourceTest {
    private static final Pattern VERSION = Pattern.compile("@(\\d+)@");

    /** RocksDB's own, and what is written when a log was synced. */
    private static final Pattern OTHERS = Pattern.compile(".*\\d{6}.*|SYNCED");

    private final TestTable table =
            TestTable.of(
                    "CREATE TABLE t (k int, c int, s text STATIC, v text, w text, m map<int, text>,"
                            + " PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0 AND compression ="
                            + " {'enabled': 'false'}");
    private final Random random = new Random(1);

    @TempDir Path directory;
    private StorageEngine engine;
    private TableStore store;
    private StoreContext context;

    @BeforeEach
    void open() {
        engine =
                Tables.engine(
                        Map.of("memory", "32MiB", "large_cell", "8KiB", "stream_part", "64KiB"));
        store = engine.openStore(table.spec(directory.resolve("store")));
        context = Tables.context(store);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private record Entry(ByteBuffer key, ByteBuffer value) {
        static Entry of(byte[] key, byte[] value) {
            return new Entry(ByteBuffer.wrap(key), ByteBuffer.wrap(value));
        }

        /** The last number that was written in it; 0 for none. */
        long version() {
            Matcher matcher =
                    VERSION.matcher(
                            new String(ByteBufferUtil.getArray(value), StandardCharsets.US_ASCII));
            long version = 0;
            while (matcher.find()) version = Math.max(version, Long.parseLong(matcher.group(1)));
            return version;
        }
    }

    private record Block(byte kind, List<Entry> entries, ByteBuffer bytes) {
        static Block of(ByteBuffer block) {
            ByteBuffer copy = ByteBuffer.allocate(block.remaining()).put(block).flip();
            copy.order(ByteOrder.LITTLE_ENDIAN);
            byte kind = copy.get();
            List<Entry> entries = new ArrayList<>();
            while (kind != BlockKind.COLUMNS && copy.hasRemaining()) {
                byte[] key = new byte[copy.getInt()];
                byte[] value = new byte[copy.getInt()];
                copy.get(key).get(value);
                entries.add(Entry.of(key, value));
            }
            assertThat(entries.isEmpty()).isEqualTo(kind == BlockKind.COLUMNS);
            return new Block(kind, entries, copy.rewind());
        }
    }

    private static @Nullable Block next(SliceReader reader) throws IOException {
        ByteBuffer block = reader.next();
        return block == null ? null : Block.of(block);
    }

    private static Block first(SliceReader reader, byte kind) throws IOException {
        Block block = Objects.requireNonNull(next(reader));
        while (block.kind != kind) block = Objects.requireNonNull(next(reader));
        return block;
    }

    private static List<Block> rest(SliceReader reader) throws IOException {
        List<Block> blocks = new ArrayList<>();
        for (Block block = next(reader); block != null; block = next(reader)) blocks.add(block);
        return blocks;
    }

    private static List<Entry> entries(List<Block> blocks, byte kind) {
        return blocks.stream()
                .filter(block -> block.kind == kind)
                .flatMap(block -> block.entries.stream())
                .toList();
    }

    private static List<SliceRanges> slices(long... bounds) {
        List<SliceRanges> slices = new ArrayList<>();
        for (int i = 1; i < bounds.length; i++)
            slices.add(new SliceRanges(List.of(range(bounds[i - 1], bounds[i])), 10));
        return slices;
    }

    private static List<SliceRanges> whole() {
        return slices(Long.MIN_VALUE, Long.MIN_VALUE);
    }

    private static Range<Token> range(long left, long right) {
        return new Range<>(TestTable.token(left), TestTable.token(right));
    }

    private StreamSource source(List<SliceRanges> slices) {
        return new RangeSource(context, slices);
    }

    /** What a family of the store has of some ranges. */
    private List<Entry> stored(ColumnFamilyHandle family, List<Range<Token>> ranges)
            throws RocksDBException {
        List<Entry> entries = new ArrayList<>();
        Database database = context.database();
        try (RocksIterator it = database.db.newIterator(family, database.readOptions)) {
            for (TokenRanges.KeyRange range : TokenRanges.of(ranges, context.partitionKeys())) {
                it.seek(range.from());
                for (; it.isValid() && compare(it.key(), range.to()) < 0; it.next())
                    entries.add(Entry.of(it.key(), it.value()));
            }
            it.status();
        }
        return entries;
    }

    private static int compare(byte[] a, byte[] b) {
        return Arrays.compareUnsigned(a, b);
    }

    private String text(int length) {
        StringBuilder text = new StringBuilder(length);
        while (text.length() < length) text.append((char) ('a' + random.nextInt(26)));
        return text.toString();
    }

    /** Some megabytes, with what is larger than a block and partitions larger than a part. */
    private void fill() {
        for (int k = 0; k < 200; k++) {
            UpdateBuilder update = table.update(k).at(1);
            int rows = k % 50 == 7 ? 400 : 3;
            for (int c = 0; c < rows; c++) update.row(c).set("v", text(2_000)).end();
            if (k % 10 == 0) update.row(1).set("w", text(k == 20 ? 700_000 : 9_000)).end();
            if (k == 30) {
                UpdateBuilder.RowBuilder row = update.row(4);
                for (int i = 0; i < 100; i++) row.put("m", i, text(6_000));
                row.end();
            }
            store.write(update.build());
            if (k == 100) store.flush();
        }
    }

    @Test
    void blocksAreWhatTheStoreHasAndLargeCellsComeBehindTheirRows() throws Exception {
        fill();
        List<SliceRanges> slices = new ArrayList<>(slices(Long.MIN_VALUE, 0, 1L << 60));
        slices.add(
                new SliceRanges(
                        List.of(
                                range(1L << 61, 3L << 60),
                                range(3L << 60, (3L << 60) + 1),
                                range(7L << 60, Long.MIN_VALUE)),
                        10));
        Database database = context.database();
        int large = 0;
        try (StreamSource source = source(slices)) {
            assertThat(source.head().bytes()).isEqualTo(30);
            for (int i = 0; i < slices.size(); i++) {
                List<Block> blocks;
                try (SliceReader reader = source.open(i)) {
                    blocks = rest(reader);
                    assertThat(reader.next()).isNull();
                }
                List<Range<Token>> ranges = slices.get(i).ranges();
                assertThat(entries(blocks, BlockKind.ROWS))
                        .isNotEmpty()
                        .isEqualTo(stored(database.data, ranges));
                List<Entry> cells = entries(blocks, BlockKind.LARGE);
                assertThat(cells).isEqualTo(stored(database.large, ranges));
                large += cells.size();
                assertThat(blocks.get(0).kind).isEqualTo(BlockKind.COLUMNS);
                assertThat(blocks.get(0).bytes)
                        .isEqualTo(SliceColumns.of(context.catalog().columns()).block("t"));
                TreeSet<ByteBuffer> rows = new TreeSet<>(RangeSourceTest::unsigned);
                for (Block block : blocks.subList(1, blocks.size())) {
                    assertThat(block.kind).isNotEqualTo(BlockKind.COLUMNS);
                    if (block.entries.size() > 1)
                        assertThat(block.bytes.remaining()).isLessThanOrEqualTo(SliceCursor.BLOCK);
                    for (Entry entry : block.entries) {
                        if (block.kind == BlockKind.ROWS) {
                            rows.add(entry.key);
                        } else {
                            ByteBuffer row = Objects.requireNonNull(rows.floor(entry.key));
                            assertThat(entry.key.slice(0, row.remaining())).isEqualTo(row);
                        }
                    }
                }
            }
        }
        assertThat(large).isGreaterThan(5);
    }

    private static int unsigned(ByteBuffer a, ByteBuffer b) {
        return compare(ByteBufferUtil.getArray(a), ByteBufferUtil.getArray(b));
    }

    /** The one of docs/FORMAT.md. */
    @Test
    void theBlockOfColumns() throws Exception {
        assertThat(
                        ByteBufferUtil.bytesToHex(
                                SliceColumns.of(Map.of("v", "0 REGULAR text")).block("t")))
                .isEqualTo("4300000001000176000c524547554c41522074657874");
    }

    @Test
    void whatIsSmallOrNothingIsSentAsItIs() throws Exception {
        try (StreamSource source = source(whole())) {
            try (SliceReader reader = source.open(0)) {
                assertThat(rest(reader)).isEmpty();
            }
            store.write(table.update(1).at(1).deletePartition().build());
            try (SliceReader reader = source.open(0)) {
                List<Block> blocks = rest(reader);
                assertThat(blocks).extracting(Block::kind).containsExactly((byte) 'C', (byte) 'R');
                assertThat(blocks.get(0).bytes)
                        .isEqualTo(ByteBuffer.wrap(new byte[] {'C', 0, 0, 0, 0}));
            }
        }
    }

    @Test
    void nothingIsWrittenToSend() throws Exception {
        fill();
        store.flush();
        Set<String> before = names();
        assertThat(before).contains("CURRENT");
        try (StreamSource source = source(whole());
                SliceReader reader = source.open(0)) {
            while (reader.next() != null) assertThat(names()).isEqualTo(before);
        }
        assertThat(names()).isEqualTo(before);
    }

    /** What files and folders of the store are called that come for no reason but a stream. */
    private Set<String> names() throws IOException {
        Path root = context.directory();
        Set<String> names = new TreeSet<>();
        Files.walkFileTree(
                root,
                new SimpleFileVisitor<Path>() {
                    @Override
                    public FileVisitResult preVisitDirectory(
                            Path folder, BasicFileAttributes attributes) {
                        return visitFile(folder, attributes);
                    }

                    @Override
                    public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                        // Of the store's folder: where that lies has numbers in its name, too.
                        String name = root.relativize(file).toString();
                        if (!OTHERS.matcher(name).matches()) names.add(name);
                        return FileVisitResult.CONTINUE;
                    }

                    @Override
                    public FileVisitResult visitFileFailed(Path file, IOException e)
                            throws IOException {
                        // A log went while it was looked at.
                        if (!(e instanceof NoSuchFileException)) throw e;
                        return FileVisitResult.CONTINUE;
                    }
                });
        return names;
    }

    @Test
    void theFirstBlockComesBeforeTheRestIsRead() throws Exception {
        for (int k = 0; k < 100; k++) {
            UpdateBuilder update = table.update(k).at(1);
            for (int c = 0; c < 20; c++) update.row(c).set("v", text(4_000)).end();
            store.write(update.build());
        }
        store.flush();
        try (StreamSource source = source(whole())) {
            long before = bytesRead();
            try (SliceReader reader = source.open(0)) {
                first(reader, BlockKind.ROWS);
            }
            long first = bytesRead();
            assertThat(first - before).isBetween(100L << 10, 1L << 20);
            try (SliceReader reader = source.open(0)) {
                rest(reader);
            }
            // A lease reads a little of what the next one gives.
            assertThat(bytesRead() - first).isBetween(8_000_000L, 20_000_000L);
        }
    }

    /** By iterators that are closed. */
    private long bytesRead() throws RocksDBException {
        String all = context.database().db.getProperty("rocksdb.options-statistics");
        Matcher matcher = Pattern.compile("iter\\.bytes\\.read COUNT : (\\d+)").matcher(all);
        assertThat(matcher.find()).isTrue();
        return Long.parseLong(matcher.group(1));
    }

    /**
     * Until the first block is there, of a table and of one that is 64 times as large: nothing is
     * written, and no more is read than a block of each file that may begin with it and of indexes.
     * That includes the plan of the slices, which asks for the sizes of at most 512 ranges: where
     * indexes do not stay in the cache, for each of these the indexes of the files at its ends.
     */
    @Test
    void theFirstBlockCostsTheSameWhateverTheSizeOfTheTable() throws Exception {
        int most = Integer.getInteger("petra.stream.first.mib", 64);
        String values = text(1 << 20);
        int row = 4_000;
        int rows = 25;
        long written = 0;
        for (int mebibytes : new int[] {1, most / 8, most}) {
            for (; written < ((long) mebibytes) << 20; written += (long) row * rows) {
                UpdateBuilder update = table.update((int) (written / row)).at(1);
                for (int c = 0; c < rows; c++) {
                    int at = random.nextInt(values.length() - row);
                    update.row(c).set("v", values.substring(at, at + row)).end();
                }
                store.write(update.build());
            }
            store.flush();
            // Classes are files, too.
            if (mebibytes == 1) firstBlock(mebibytes, 1);
            firstBlock(mebibytes, 1);
            firstBlock(mebibytes, 64);
        }
        long before = ofThisThread("rchar");
        try (StreamSource source = store.send(whole());
                SliceReader reader = source.open(0)) {
            for (int block = 0; block < 100; block++)
                assertThat(first(reader, BlockKind.ROWS).bytes.remaining())
                        .isGreaterThan(SliceCursor.BLOCK / 2);
        }
        assertThat(ofThisThread("rchar") - before)
                .as("what is counted is what is read")
                .isGreaterThan(50L * SliceCursor.BLOCK);
    }

    private void firstBlock(int mebibytes, int slices) throws Exception {
        List<Range<Token>> all = whole().get(0).ranges();
        long read = ofThisThread("rchar");
        long written = ofThisThread("wchar");
        long began = System.nanoTime();
        List<SliceRanges> plan = SlicePlan.of(store, all, engine.sliceBytes(), slices);
        try (StreamSource source = store.send(plan);
                SliceReader reader = source.open(0)) {
            Block first = first(reader, BlockKind.ROWS);
            long micros = (System.nanoTime() - began) / 1_000;
            read = ofThisThread("rchar") - read;
            written = ofThisThread("wchar") - written;
            System.out.printf(
                    "RangeSourceTest: of %d MiB in %d slices the first %d bytes are there after"
                            + " %d us, %d bytes were read%n",
                    mebibytes, plan.size(), first.bytes.remaining(), micros, read);
            assertThat(first.bytes.remaining()).isGreaterThan(SliceCursor.BLOCK / 2);
            assertThat(read).isLessThan(mebibytes <= 64 ? 4L << 20 : 128L << 20);
            assertThat(written).isZero();
        }
    }

    /** From or to files, by the calls of this thread. */
    private static long ofThisThread(String count) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/thread-self/io")))
            if (line.startsWith(count + ": ")) return Long.parseLong(line.substring(7));
        throw new IOException("no " + count);
    }

    @Test
    void aColumnAddedMeanwhileIsInADictionaryBeforeItIsReferredTo() throws Exception {
        fill();
        int added = 0;
        try (StreamSource source = source(whole());
                SliceReader reader = source.open(0)) {
            first(reader, BlockKind.ROWS);
            table.addColumn("a", UTF8Type.instance);
            for (int k = 0; k < 200; k++)
                store.write(table.update(k).at(2).row(0).set("a", "@7@").build());
            boolean isKnown = false;
            for (Block block : rest(reader)) {
                if (block.kind == BlockKind.COLUMNS) {
                    assertThat(isKnown).isFalse();
                    isKnown = true;
                    assertThat(block.bytes)
                            .isEqualTo(SliceColumns.of(context.catalog().columns()).block("t"));
                }
                for (Entry entry : block.entries) {
                    if (entry.version() == 0) continue;
                    assertThat(isKnown).isTrue();
                    added++;
                }
            }
        }
        assertThat(added).isGreaterThan(50);
    }

    @Test
    void aTypeThatNoReceiverTakesIsNamedBeforeAnythingIsSent() {
        fill();
        table.addColumn("wide", new TupleType(Collections.nCopies(2_000, UTF8Type.instance)));
        store.write(table.update(1).at(2).row(0).unset("wide").build());
        assertThatThrownBy(() -> source(whole()))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContainingAll(store.spec().displayName(), "column wide");
        // It does not hold the store.
        assertThatCode(() -> store.drop()).doesNotThrowAnyException();
    }

    /** What all streams take of direct memory for large blocks is bounded. */
    @Test
    @SuppressWarnings("try") // closed twice, on purpose
    void largeBlocksWaitForEachOther() throws Exception {
        store.write(table.update(1).at(1).row(0).set("v", text(3 << 20)).build());
        int all = BlockMemory.OUTGOING.freeMebibytes();
        try (StreamSource source = source(whole());
                SliceReader waits = source.open(0);
                SliceReader fails = source.open(0)) {
            BlockMemory.OUTGOING.acquire(all << 20, () -> {});
            CompletableFuture<List<Block>> first = reading(waits);
            assertThatThrownBy(() -> first.get(1, TimeUnit.SECONDS))
                    .isInstanceOf(TimeoutException.class);
            BlockMemory.OUTGOING.release(all << 20);
            assertThat(first.get(1, TimeUnit.MINUTES))
                    .anyMatch(block -> block.bytes.capacity() > 3 << 20);

            waits.close();
            assertThat(BlockMemory.OUTGOING.freeMebibytes()).isEqualTo(all);
            BlockMemory.OUTGOING.acquire(all << 20, () -> {});
            CompletableFuture<List<Block>> second = reading(fails);
            assertThatThrownBy(() -> second.get(1, TimeUnit.SECONDS))
                    .isInstanceOf(TimeoutException.class);
            source.close();
            assertThatThrownBy(() -> second.get(1, TimeUnit.MINUTES))
                    .hasRootCauseInstanceOf(IllegalStateException.class);
            BlockMemory.OUTGOING.release(all << 20);
        }
        assertThat(BlockMemory.OUTGOING.freeMebibytes()).isEqualTo(all);
    }

    private CompletableFuture<List<Block>> reading(SliceReader reader) {
        return CompletableFuture.supplyAsync(
                () -> {
                    try {
                        return rest(reader);
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                },
                task -> new Thread(task).start());
    }

    /** The rows of a version in place of those before it. */
    private PartitionUpdate version(int key, long version) {
        String marker = "@" + version + "@";
        UpdateBuilder update = table.update(key).at(version);
        update.staticRow().set("s", marker).end();
        for (int c = 0; c < 40; c++) update.row(c).set("v", marker + text(3_000)).end();
        return update.row(key).set("w", marker + text(9_000)).build();
    }

    @Test
    void aPartitionIsOfOneMomentWithItsLargeCells() throws Exception {
        int partitions = 20;
        for (int k = 0; k < partitions; k++) store.write(version(k, 1));
        long version = 1;
        Map<ByteBuffer, Set<Long>> rows = new HashMap<>();
        Map<ByteBuffer, Set<Long>> large = new HashMap<>();
        Set<Long> all = new TreeSet<>();
        try (StreamSource source = source(whole());
                SliceReader reader = source.open(0)) {
            for (Block block = next(reader); block != null; block = next(reader)) {
                for (Entry entry : block.entries) {
                    var to = block.kind == BlockKind.ROWS ? rows : large;
                    ByteBuffer partition =
                            entry.key.slice(
                                    0, context.positionBytes(ByteBufferUtil.getArray(entry.key)));
                    to.computeIfAbsent(partition, any -> new TreeSet<>()).add(entry.version());
                }
                version++;
                for (int k = 0; k < partitions; k++) store.write(version(k, version));
                // And takes the large cells that no row refers to any more.
                store.compact(List.of());
            }
        }
        assertThat(rows).hasSize(partitions);
        rows.forEach(
                (partition, versions) -> {
                    assertThat(versions).hasSize(1);
                    all.addAll(versions);
                    // Besides those that no row refers to any more.
                    assertThat(large.get(partition)).isNotNull().containsAll(versions);
                });
        // It is not all of one moment: nothing is kept from going for so long.
        assertThat(all).hasSizeGreaterThan(3);
    }

    @Test
    void aPartitionThatIsVeryLargeIsOfSeveralMoments() throws Exception {
        int rows = 1_000;
        UpdateBuilder update = table.update(0).at(1);
        for (int c = 0; c < rows; c++) {
            update.row(c).set("v", "@1@" + text(3_000)).end();
            if (c % 50 == 0) update.row(c).set("w", "@1@" + text(9_000)).end();
        }
        store.write(update.build());
        try (StreamSource source = source(whole());
                SliceReader reader = source.open(0)) {
            List<Entry> before = first(reader, BlockKind.ROWS).entries;
            store.write(table.update(0).at(2).row(rows - 1).set("w", "@2@" + text(9_000)).build());
            List<Block> blocks = rest(reader);
            List<Entry> after = entries(blocks, BlockKind.ROWS);
            assertThat(before.size() + after.size()).isEqualTo(rows);
            List<Entry> large = entries(blocks, BlockKind.LARGE);
            assertThat(large).hasSize(rows / 50 + 1);
            assertThat(large.get(rows / 50).version()).isEqualTo(2);
        }
    }

    @Test
    void aStoreThatIsDroppedIsSentToItsEnd() throws Exception {
        fill();
        List<Entry> rows = stored(context.database().data, whole().get(0).ranges());
        List<Entry> large = stored(context.database().large, whole().get(0).ranges());
        try (StreamSource source = source(whole());
                SliceReader reader = source.open(0);
                SliceReader other = source.open(0)) {
            List<Block> blocks = new ArrayList<>(List.of(first(reader, BlockKind.ROWS)));
            assertThatThrownBy(store::drop).hasMessageContaining("1 hold it");
            assertThatThrownBy(() -> source(whole())).hasMessageContaining("closed");
            blocks.addAll(rest(reader));
            for (List<Block> each : List.of(blocks, rest(other))) {
                assertThat(entries(each, BlockKind.ROWS)).isEqualTo(rows);
                assertThat(entries(each, BlockKind.LARGE)).isEqualTo(large);
            }
        }
        store.drop();
        assertThat(context.directory()).doesNotExist();
    }

    @Test
    void aSourceThatIsClosedGivesNothingMoreAndLetsTheStoreGo() throws Exception {
        fill();
        StreamSource source = source(whole());
        try (SliceReader reader = source.open(0);
                SliceReader unread = source.open(0)) {
            ByteBuffer block = Objects.requireNonNull(reader.next());
            Block read = Block.of(block.duplicate());
            source.close();
            source.close();
            for (SliceReader each : List.of(reader, unread))
                assertThatThrownBy(each::next).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> source.open(0)).isInstanceOf(IllegalStateException.class);
            store.drop();
            // Its user may be writing it.
            assertThat(Block.of(block)).isEqualTo(read);
        }
    }

    private void openAnew() throws InterruptedException {
        assertThat(context.reopenable().healing.failed(Tables.noSpace())).isNotNull();
        Tables.heal(context.reopenable());
    }

    @Test
    void aStreamGoesOnBehindTheLastRowWhenTheDatabaseIsOpenedAnew() throws Exception {
        for (int k = 0; k < 50; k++) {
            UpdateBuilder update = table.update(k).at(1);
            for (int c = 0; c < 40; c++) update.row(c).set("v", text(3_000)).end();
            store.write(update.build());
        }
        List<Entry> expected = stored(context.database().data, whole().get(0).ranges());
        try (StreamSource source = source(whole());
                SliceReader reader = source.open(0)) {
            List<Block> blocks = new ArrayList<>();
            for (Block block = next(reader); block != null; block = next(reader)) {
                blocks.add(block);
                if (blocks.size() % 5 == 0) openAnew();
            }
            assertThat(blocks).hasSizeGreaterThan(20);
            assertThat(entries(blocks, BlockKind.ROWS)).isEqualTo(expected);
            assertThat(blocks.stream().filter(block -> block.kind == BlockKind.COLUMNS)).hasSize(1);
        }
    }

    @Test
    void aSliceFailsIfItsRowsWereSentAndTheirLargeCellsWereNot() throws Exception {
        for (int k = 0; k < 300; k++)
            store.write(table.update(k).at(1).row(1).set("v", "v").set("w", text(9_000)).build());
        List<Entry> large = stored(context.database().large, whole().get(0).ranges());
        try (StreamSource source = source(whole())) {
            for (byte kind : new byte[] {BlockKind.ROWS, BlockKind.LARGE})
                try (SliceReader reader = source.open(0)) {
                    first(reader, kind);
                    openAnew();
                    for (int time = 0; time < 2; time++)
                        assertThatThrownBy(reader::next)
                                .isInstanceOf(IOException.class)
                                .hasMessageContaining("must begin anew");
                }
            try (SliceReader reader = source.open(0)) {
                assertThat(entries(rest(reader), BlockKind.LARGE)).isEqualTo(large);
            }
        }
    }

    @Test
    void whatIsThereWhenItBeginsIsSentOrReplaced() throws Exception {
        long seed = System.nanoTime();
        random.setSeed(seed);
        TableStore to =
                engine.openStore(
                        new StoreSpec(directory.resolve("to"), "t", 1, table.ref(), () -> false));
        TableStore all =
                engine.openStore(
                        new StoreSpec(directory.resolve("all"), "t", 1, table.ref(), () -> false));
        long timestamp = 1;
        for (int k = 0; k < 40; k++) {
            UpdateBuilder update = table.update(k).at(timestamp++);
            for (int c = 0; c < 20; c++)
                update.row(c).set("v", text(2_000)).set(c % 7 == 0 ? "w" : "v", text(9_000)).end();
            PartitionUpdate built = update.build();
            store.write(built);
            all.write(built);
            if (k % 15 == 14) store.flush();
        }
        SliceColumns columns = SliceColumns.of(context.catalog().columns());
        assertThat(Tables.context(to).catalog().adopt(columns.names(), table.metadata()))
                .isEqualTo(IntStream.range(0, columns.names().size()).toArray());
        int blocks = 0;
        Map<Byte, List<Entry>> sent = new TreeMap<>();
        try (StreamSource source = source(slices(Long.MIN_VALUE, 0, Long.MIN_VALUE))) {
            for (int i = 0; i < 2; i++)
                try (SliceReader reader = source.open(i)) {
                    for (Block block = next(reader); block != null; block = next(reader)) {
                        sent.computeIfAbsent(block.kind, any -> new ArrayList<>())
                                .addAll(block.entries);
                        blocks++;
                        for (int n = 0; n < 20; n++) {
                            PartitionUpdate change = change(timestamp++);
                            for (TableStore each : List.of(store, to, all)) each.write(change);
                        }
                        if (random.nextInt(3) == 0) store.flush();
                        if (random.nextInt(3) == 0) store.compact(List.of());
                    }
                }
        }
        assertThat(blocks).isGreaterThan(4);
        take(to, sent);
        assertThat(Tables.context(to).catalog().columns()).isEqualTo(context.catalog().columns());
        assertThat(live(to)).as("seed %d", seed).isEqualTo(live(all));
    }

    /** As if a stream had brought it. */
    private void take(TableStore to, Map<Byte, List<Entry>> sent) throws RocksDBException {
        for (Catalog.Flag flag : Catalog.Flag.values()) Tables.context(to).catalog().set(flag.bit);
        Database database = Tables.context(to).database();
        for (Entry entry : sent.get(BlockKind.LARGE))
            database.db.put(
                    database.large,
                    ByteBufferUtil.getArray(entry.key),
                    ByteBufferUtil.getArray(entry.value));
        for (Entry entry : sent.get(BlockKind.ROWS))
            database.db.merge(
                    database.data,
                    ByteBufferUtil.getArray(entry.key),
                    ByteBufferUtil.getArray(entry.value));
    }

    private PartitionUpdate change(long timestamp) {
        UpdateBuilder update =
                table.update(random.nextInt(40)).at(timestamp).now(UpdateBuilder.LONG_AGO);
        int row = random.nextInt(20);
        return switch (random.nextInt(8)) {
            case 0 -> update.deletePartition().build();
            case 1 -> update.deleteRange(table.from(row), table.to()).build();
            case 2, 3 -> update.deleteRow(row).build();
            case 4 -> update.staticRow().set("s", "s" + timestamp).end().build();
            case 5 -> update.row(row).set("w", text(9_000)).build();
            default -> update.row(row).set("v", text(500)).build();
        };
    }

    private List<String> live(TableStore of) {
        long now = System.currentTimeMillis() / 1000;
        List<String> live = new ArrayList<>();
        try (UnfilteredPartitionIterator scan =
                of.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            while (scan.hasNext())
                try (UnfilteredRowIterator partition = scan.next();
                        RowIterator rows = UnfilteredRowIterators.filter(partition, now)) {
                    String key = rows.partitionKey().toString();
                    if (!rows.staticRow().isEmpty())
                        live.add(key + rows.staticRow().toString(table.metadata(), true));
                    while (rows.hasNext())
                        live.add(key + rows.next().toString(table.metadata(), true));
                }
        }
        return live;
    }

    @Test
    void sizesAreOfEachRangeAndOfWhatLiesApart() throws Exception {
        fill();
        store.flush();
        List<Range<Token>> ranges =
                List.of(
                        range(5, 6),
                        range(Long.MIN_VALUE, Long.MIN_VALUE),
                        range(0, Long.MIN_VALUE));
        Database database = context.database();
        long[] sizes = RangeSource.sizes(context, database, ranges);
        long all = 0;
        for (ColumnFamilyHandle family : List.of(database.data, database.large))
            for (Entry entry : stored(family, ranges.subList(1, 2)))
                all += entry.key.remaining() + entry.value.remaining();
        assertThat(sizes).hasSize(3);
        assertThat(sizes[0]).isBetween(0L, all / 10);
        assertThat(sizes[1]).isBetween(all / 2, all * 2);
        assertThat(sizes[2]).isBetween(all / 8, all);
        assertThat(RangeSource.sizes(context, database, List.of())).isEmpty();
    }
}
