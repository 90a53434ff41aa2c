// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.reference.MemoryEngineProvider;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.TimeUUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.PerfContext;

/** Of a partition's range tombstones a read decodes and keeps those that meet what it asks for. */
class ManyRangeTombstonesTest {
    /** {@code -Dpetra.ranges=1000000} for the size that was reported; it prints times, too. */
    private static final int RANGES = Integer.getInteger("petra.ranges", 30_000);

    private static final int BATCH = 1_000;
    private static final long MOST_BYTES = 64 << 10;
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    @TempDir Path directory;
    private final StorageEngine engine = Tables.engine(Map.of("memory", "64MiB"));

    @AfterEach
    void close() {
        engine.close();
    }

    // How much a read costs

    /** Range tombstone i is of one kind or another and ends before row 10 i + 9. */
    private static Slice range(TestTable table, String type, int i) {
        int c = 10 * i;
        return switch (i % 3) {
            case 0 -> table.prefix(value(type, c));
            case 1 -> Slice.make(table.after(value(type, c)), table.to(value(type, c + 3)));
            default -> Slice.make(table.from(value(type, c)), table.before(value(type, c + 8)));
        };
    }

    private static Object value(String type, int number) {
        return switch (type) {
            case "text" -> "%09d".formatted(number);
            case "bigint" -> (long) number;
            default -> number;
        };
    }

    @ParameterizedTest
    @ValueSource(strings = {"int", "text", "bigint"})
    void aReadAllocatesForTheRangesThatItMeets(String type) {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k int, c %s, d int, v text, PRIMARY KEY (k, c, d))"
                                .formatted(type));
        TableStore store = engine.openStore(table.spec(directory.resolve("1")));
        for (int from = 0; from < RANGES; from += BATCH) {
            UpdateBuilder update = table.update(1).at(5);
            for (int i = from; i < Math.min(RANGES, from + BATCH); i++)
                update.deleteRange(range(table, type, i));
            store.write(update.build());
        }
        int[] places = {0, RANGES / 2, RANGES - 1};
        for (int place : places)
            store.write(
                    table.update(1)
                            .at(9)
                            .row(value(type, 10 * place + 9), 1)
                            .set("v", "v" + place)
                            .build());
        store.flush();
        List<Slice> rows = new ArrayList<>();
        for (int place : places) rows.add(table.prefix(value(type, 10 * place + 9), 1));
        for (boolean reversed : new boolean[] {false, true}) {
            for (int i = 0; i < places.length; i++)
                assertThat(bytes(table, store, table.slices(rows.get(i)), reversed, 1))
                        .as("%s, row %d, reversed %s", type, places[i], reversed)
                        .isLessThan(MOST_BYTES);
            assertThat(bytes(table, store, table.slices(rows.toArray(Slice[]::new)), reversed, 3))
                    .as("%s, all three, reversed %s", type, reversed)
                    .isLessThan(MOST_BYTES);
            assertThat(bytes(table, store, Slices.NONE, reversed, 0)).isLessThan(MOST_BYTES);
        }
        PerfContext counts = Tables.context(store).database().db.getPerfContext();
        for (boolean reversed : new boolean[] {false, true})
            for (Slices behind : List.of(Slices.NONE, table.slices(rows.get(0)))) {
                long before = counts.getBlockCacheHitCount() + counts.getBlockReadCount();
                PartitionContent.of(store.read(table.key(1), behind, table.all(), reversed));
                long after = counts.getBlockCacheHitCount() + counts.getBlockReadCount();
                assertThat(after - before)
                        .as("blocks of %s, reversed %s", behind, reversed)
                        .isLessThan(20);
            }
    }

    private static long bytes(
            TestTable table, TableStore store, Slices slices, boolean reversed, int rows) {
        long least = Long.MAX_VALUE;
        long nanos = Long.MAX_VALUE;
        for (int time = 0; time < 3; time++) {
            long began = System.nanoTime();
            long before = THREADS.getCurrentThreadAllocatedBytes();
            PartitionContent content =
                    PartitionContent.of(store.read(table.key(1), slices, table.all(), reversed));
            least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - before);
            nanos = Math.min(nanos, System.nanoTime() - began);
            assertThat(content == null ? 0 : content.rows().size()).isEqualTo(rows);
        }
        System.out.printf(
                "%,d ranges, %d slices, reversed %s: %,d bytes, %,d µs%n",
                RANGES, slices.size(), reversed, least, nanos / 1_000);
        return least;
    }

    /** As of a queue whose readers know how far it is done; and of small ones under a large one. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void rangesBeforeASliceThatNewerOnesHideAreNoticed(boolean oneHidesAll) {
        TestTable table = TestTable.of("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
        TableStore store = engine.openStore(table.spec(directory.resolve("1")));
        int many = 2_000;
        for (int i = 1; i <= many; i++) {
            ClusteringBound<?> from = oneHidesAll ? table.from(i - 1) : ClusteringBound.BOTTOM;
            store.write(table.update(1).at(i).deleteRange(from, table.before(i)).build());
        }
        if (oneHidesAll)
            store.write(
                    table.update(1)
                            .at(many + 1)
                            .deleteRange(table.from(-1), table.to(many))
                            .build());
        store.write(table.update(1).at(many).row(many + 9).set("v", "v").build());
        Slices last = table.slices(table.from(many + 5), table.to());
        Tables.await(
                "one range tombstone",
                () -> {
                    assertThat(
                                    PartitionContent.of(
                                                    store.read(
                                                            table.key(1), last, table.all(), false))
                                            .rows())
                            .hasSize(1);
                    return stored(store, table.key(1)) == 1;
                });
    }

    private static int stored(TableStore store, DecoratedKey key) {
        ByteSink sink = new ByteSink();
        Tables.context(store).partitionKeys().put(sink, key);
        sink.put(KeyKind.RANGE);
        ByteBuffer prefix = sink.flipped();
        int count = 0;
        try (Cursor cursor = new Cursor(Tables.context(store))) {
            for (cursor.seek(prefix.duplicate());
                    cursor.isValid() && Keys.startsWith(cursor.key(), prefix);
                    cursor.next()) count++;
        }
        return count;
    }

    // What it gives

    private static final String[] TABLES = {
        "CREATE TABLE t (k int, a int, b int, s text static, v text, PRIMARY KEY (k, a, b))",
        "CREATE TABLE t (k int, a int, b int, s text static, v text, PRIMARY KEY (k, a, b))"
                + " WITH CLUSTERING ORDER BY (a DESC, b ASC)",
        "CREATE TABLE t (k int, a text, b bigint, s text static, v text, PRIMARY KEY (k, a, b))"
                + " WITH CLUSTERING ORDER BY (a ASC, b DESC)",
        "CREATE TABLE t (k int, a timeuuid, b decimal, s text static, v text,"
                + " PRIMARY KEY (k, a, b))",
        "CREATE TABLE t (k int, a decimal, b text, s text static, v text, PRIMARY KEY (k, a, b))"
                + " WITH CLUSTERING ORDER BY (a DESC, b DESC)",
    };

    private final long seed = Long.getLong("petra.seed", System.nanoTime());
    private final Random random = new Random(seed);

    /**
     * Whether equal decimals are written, and asked for, in several forms. Which of them is read
     * depends on the order of writes in the reference engine, and on that of keys here.
     */
    private boolean hasForms;

    /** Some answers with the reference engine's, and all ranges with those of a whole partition. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4})
    void answersAreThoseOfAllRanges(int number) {
        System.out.println("ManyRangeTombstonesTest, seed " + seed);
        TestTable table = TestTable.of(TABLES[number]);
        TableStore store = engine.openStore(table.spec(directory.resolve("1")));
        int markers = 0;
        int cut = 0;
        try (StorageEngine memory = new MemoryEngineProvider().open(new EngineSettings(Map.of()))) {
            TableStore reference = memory.openStore(table.twin().spec(directory.resolve("2")));
            for (int history = 0; history < 150; history++) {
                DecoratedKey key = table.key(history);
                hasForms = history % 3 == 0;
                for (int write = 1 + random.nextInt(25); write > 0; write--) {
                    PartitionUpdate update = update(table, key);
                    store.write(update);
                    reference.write(update);
                }
                if (random.nextInt(20) == 0) store.flush();
                if (random.nextInt(50) == 0) store.compact(List.of());
                for (int read = 0; read < 12; read++) {
                    boolean reversed = random.nextBoolean();
                    ClusteringIndexFilter filter = filter(table, reversed);
                    Slices slices = filter.getSlices(table.metadata());
                    String what =
                            "seed %d, table %d, history %d, %s, reversed %s"
                                    .formatted(seed, number, history, slices, reversed);
                    List<String> all = ranges(table, store, key, Slices.ALL, slices, reversed);
                    assertThat(ranges(table, store, key, slices, slices, reversed))
                            .as(what)
                            .isEqualTo(all);
                    cut += all.size();
                    if (hasForms) continue;
                    PartitionContent wanted =
                            PartitionContent.of(reference.read(key, slices, table.all(), reversed));
                    PartitionContent found =
                            PartitionContent.of(store.read(key, slices, table.all(), reversed));
                    assertThat(found).as(what).isEqualTo(wanted);
                    assertThat(
                                    PartitionContent.listOf(
                                            store.scan(
                                                    new DataRange(new Bounds<>(key, key), filter),
                                                    table.all())))
                            .as(what)
                            .isEqualTo(wanted == null ? List.of() : List.of(wanted));
                    if (wanted != null) markers += wanted.markers().size();
                }
            }
        }
        assertThat(markers).isGreaterThan(1_000);
        assertThat(cut).isGreaterThan(1_000);
    }

    /** The range tombstones that slices meet, of a header that was read for others or for these. */
    private static List<String> ranges(
            TestTable table,
            TableStore store,
            DecoratedKey key,
            Slices read,
            Slices slices,
            boolean reversed) {
        ReadContext context = new ReadContext(Tables.context(store), table.all());
        ByteSink position = new ByteSink();
        Tables.context(store).partitionKeys().put(position, key);
        ByteBuffer prefix = position.flipped();
        List<String> found = new ArrayList<>();
        try (Cursor cursor = context.open()) {
            cursor.seek(prefix.duplicate());
            PartitionHeader header = PartitionHeader.read(cursor, prefix, context, read, true);
            found.add(header.deletion() + " " + header.staticRow());
            for (Slice slice : slices)
                header.deletions()
                        .rangeIterator(slice, reversed)
                        .forEachRemaining(range -> found.add(text(range)));
        }
        return found;
    }

    private static String text(RangeTombstone range) {
        return text(range.deletedSlice().start())
                + " to "
                + text(range.deletedSlice().end())
                + " "
                + range.deletionTime();
    }

    private static String text(ClusteringBound<?> bound) {
        StringBuilder text = new StringBuilder(bound.kind().toString());
        for (ByteBuffer value : bound.getBufferArray())
            text.append(' ').append(ByteBufferUtil.bytesToHex(value));
        return text.toString();
    }

    private PartitionUpdate update(TestTable table, DecoratedKey key) {
        UpdateBuilder update = table.update(key).at(random.nextInt(20) - 10);
        switch (random.nextInt(10)) {
            case 0 ->
                    update.row(values(table, 2)).liveness().set("v", "v" + random.nextInt(9)).end();
            case 1 -> update.row(values(table, 2)).set("v", "v" + random.nextInt(9)).end();
            case 2 -> update.deleteRow(values(table, 2));
            case 3 -> {
                if (random.nextInt(4) == 0) update.at(random.nextInt(4) - 10).deletePartition();
                else update.staticRow().set("s", "s" + random.nextInt(9)).end();
            }
            default -> {
                for (int ranges = 1 + random.nextInt(3); ranges > 0; ranges--)
                    update.deleteRange(slice(table));
            }
        }
        return update.build();
    }

    private ClusteringIndexFilter filter(TestTable table, boolean reversed) {
        Slices slices =
                switch (random.nextInt(8)) {
                    case 0 -> Slices.ALL;
                    case 1 -> Slices.NONE;
                    case 2, 3 -> {
                        Slice[] rows = new Slice[1 + random.nextInt(5)];
                        for (int i = 0; i < rows.length; i++)
                            rows[i] = table.prefix(values(table, 2));
                        yield table.slices(rows);
                    }
                    case 4, 5 -> apart(table);
                    default -> table.slices(slice(table));
                };
        return new ClusteringIndexSliceFilter(slices, reversed);
    }

    /** Of slices that touch Cassandra's own partitions close and open at one place. */
    private Slices apart(TestTable table) {
        while (true) {
            Slices slices = table.slices(slice(table), slice(table), slice(table));
            boolean apart = true;
            for (int i = 1; i < slices.size(); i++)
                apart &=
                        table.metadata()
                                        .comparator
                                        .compare(slices.get(i - 1).end(), slices.get(i).start())
                                < 0;
            if (apart) return slices;
        }
    }

    private Slice slice(TestTable table) {
        while (true) {
            Slice slice = Slice.make(bound(table, true), bound(table, false));
            if (!slice.isEmpty(table.metadata().comparator)) return slice;
        }
    }

    private ClusteringBound<?> bound(TestTable table, boolean start) {
        int size = random.nextInt(12) == 0 ? 0 : 1 + random.nextInt(2);
        if (size == 0) return start ? ClusteringBound.BOTTOM : ClusteringBound.TOP;
        Object[] prefix = values(table, size);
        boolean inclusive = random.nextBoolean();
        if (start) return inclusive ? table.from(prefix) : table.after(prefix);
        return inclusive ? table.to(prefix) : table.before(prefix);
    }

    private BigDecimal decimal(int tenths) {
        BigDecimal decimal = BigDecimal.valueOf(tenths, 1);
        return hasForms && random.nextBoolean() ? decimal.setScale(3) : decimal;
    }

    /** So few that bounds meet. */
    private Object[] values(TestTable table, int size) {
        Object[] values = new Object[size];
        for (int i = 0; i < size; i++) {
            int number = random.nextInt(6);
            values[i] =
                    switch (table.metadata().comparator.subtype(i).asCQL3Type().toString()) {
                        case "int" -> number - 2;
                        case "bigint" -> (number - 2) * 1_000_000_007L;
                        case "decimal" -> decimal(number - 2);
                        case "timeuuid" ->
                                TimeUUID.fromUuid(new UUID(0x1000 | (long) number << 32, 1L << 63));
                        // Zeros are escaped.
                        default -> List.of("", "\0", "\0\0", "\0a", "a", "a\0").get(number);
                    };
        }
        return values;
    }
}
