// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.FragmentWriter;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.format.RowLayout;
import dev.petra.engine.rocks.format.SimpleCells;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DeletionPurger;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.TimeUUIDType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.serializers.MarshalException;
import org.apache.cassandra.utils.CounterId;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/**
 * Native merging and purging against Cassandra's own. {@code -Dpetra.fuzz.seconds=} for how long
 * each, {@code -Dpetra.seed=} to replay; a failure names the seed and the round.
 */
class ReconcilerPropertyTest {
    private static final long SECONDS = Long.getLong("petra.fuzz.seconds", 2);
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());
    private static final HexFormat HEX = HexFormat.of();

    static {
        // Loads the libraries.
        Tables.engine().close();
    }

    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, a text, b int, m map<text,text>, s set<int>, l"
                            + " list<text>, PRIMARY KEY (k, c))");

    /** Read on the short way: no complex columns, ids in the schema's order. */
    private static final TestTable SIMPLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, e text, f int, g text, PRIMARY KEY (k, c))");

    private static final TestTable COUNTERS =
            TestTable.of("CREATE TABLE t (k text, c int, n counter, PRIMARY KEY (k, c))");

    private static final TestTable DECIMALS =
            TestTable.of("CREATE TABLE t (k text, c int, d map<decimal,text>, PRIMARY KEY (k, c))");

    /** Ids that do not follow the schema's order. */
    private static final Map<String, Integer> IDS =
            Map.of(
                    "a", 3, "b", 0, "m", 1, "s", 7, "l", 200, "n", 0, "d", 5, "e", 10, "f", 11, "g",
                    12);

    private final Random random;
    private int round;

    ReconcilerPropertyTest() {
        System.out.println("ReconcilerPropertyTest: -Dpetra.seed=" + SEED);
        this.random = new Random(SEED);
    }

    private interface Case {
        void run();
    }

    /** Runs a case over and over, each round from a seed of its own. */
    private void repeat(Case property) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        for (round = 0; System.nanoTime() < end; round++) {
            random.setSeed(SEED + round);
            try {
                property.run();
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError("-Dpetra.seed=" + (SEED + round) + ": " + e, e);
            }
        }
        System.out.println(round + " rounds");
    }

    // Rows

    private Row row(TestTable table) {
        UpdateBuilder update = table.update("k").now(100 + random.nextInt(3)).at(timestamp());
        if (random.nextInt(3) == 0) update.ttl(1 + random.nextInt(3));
        UpdateBuilder.RowBuilder row = update.row(1);
        if (table == COUNTERS) {
            if (random.nextInt(8) == 0) row.unset("n");
            else {
                update.ttl(0);
                row.set("n", counter());
            }
            return only(row);
        }
        if (table == DECIMALS) {
            complex(row, "d");
            return only(row);
        }
        if (random.nextInt(6) == 0) return only(row.deletion());
        // A deletion that covers something of its own row has more than one right answer.
        if (random.nextInt(6) == 0) row.at(-2).deletion().at(timestamp());
        if (random.nextInt(3) == 0) row.liveness().at(timestamp());
        List<String> columns =
                table == SIMPLE ? List.of("e", "f", "g") : List.of("a", "b", "m", "s", "l");
        for (String column : columns) {
            if (random.nextInt(3) == 0) continue;
            row.at(timestamp());
            switch (column) {
                case "a", "e", "g" -> {
                    if (random.nextInt(4) == 0) row.unset(column);
                    else row.set(column, pick("", "x", "y", "yy"));
                }
                case "b", "f" -> {
                    if (random.nextInt(4) == 0) row.unset(column);
                    else row.set(column, random.nextInt(3) - 1);
                }
                default -> complex(row, column);
            }
        }
        return only(row);
    }

    private void complex(UpdateBuilder.RowBuilder row, String column) {
        switch (random.nextInt(5)) {
            case 0 -> {
                row.clear(column);
                return;
            }
            case 1 -> row.clearBefore(column);
            default -> {}
        }
        List<Integer> elements = new ArrayList<>(List.of(-1, 0, 1, 2));
        Collections.shuffle(elements, random);
        for (int element : elements.subList(0, 1 + random.nextInt(3))) {
            Object path =
                    switch (column) {
                        case "m" -> "p" + element;
                        case "s" -> element;
                        case "d" -> new BigDecimal(pick("1", "1.0", "1.00", "2", "2.0"));
                        default ->
                                TimeUUIDType.instance.fromString(
                                        "0000000" + (element + 1) + "-0000-1000-8080-808080808080");
                    };
            if (random.nextInt(4) == 0) row.remove(column, path);
            else if (column.equals("s")) row.add(column, path);
            else row.put(column, path, pick("", "v", "w"));
        }
    }

    private static Row only(UpdateBuilder.RowBuilder row) {
        for (Row only : row.build()) return only;
        return BTreeRow.emptyRow(Clustering.make(Int32Type.instance.decompose(1)));
    }

    private long timestamp() {
        return random.nextInt(30) == 0 ? Long.MAX_VALUE - 5 : random.nextInt(5) - 1L;
    }

    private String pick(String... values) {
        return values[random.nextInt(values.length)];
    }

    private ByteBuffer counter() {
        int shards = 1 + random.nextInt(3);
        CounterContext.ContextState state =
                random.nextInt(20) == 0
                        ? CounterContext.ContextState.allocate(0, 0, shards)
                        : CounterContext.ContextState.allocate(shards, 0, 0);
        boolean global = state.headerLength > 2;
        int id = 0;
        for (int i = 0; i < shards; i++) {
            id += 1 + random.nextInt(2);
            long clock = random.nextLong(1, 4);
            // Of one clock always the same: otherwise CounterContext asks for compaction threads.
            long count = clock * 10 + id;
            if (global) state.writeGlobal(CounterId.fromInt(id), clock, count);
            else state.writeRemote(CounterId.fromInt(id), clock, count);
        }
        return state.context;
    }

    // Fragments

    private static final FragmentWriter.LargeSink NONE_LARGE =
            new FragmentWriter.LargeSink() {
                @Override
                public <V> void put(
                        int column,
                        @Nullable CellPath path,
                        long timestamp,
                        long hash,
                        V value,
                        ValueAccessor<V> by) {}

                @Override
                public int threshold() {
                    return Integer.MAX_VALUE;
                }
            };

    private static byte[] fragment(Row row) {
        ByteSink sink = new ByteSink();
        new FragmentWriter(sink, NONE_LARGE)
                .row(row, (ColumnMetadata c) -> IDS.get(c.name.toString()), false);
        return sink.copy(0, sink.position());
    }

    private static Row read(TestTable table, byte[] value) {
        return FragmentReader.row(
                ByteBuffer.wrap(value),
                Clustering.make(Int32Type.instance.decompose(1)),
                new RowLayout(table.metadata(), IDS),
                null,
                null,
                new SimpleCells());
    }

    private List<Row> rows(TestTable table, int most) {
        List<Row> rows = new ArrayList<>();
        for (int i = 2 + random.nextInt(most - 1); i > 0; i--) rows.add(row(table));
        return rows;
    }

    /** Merges neighbours until one value is left, some on the way and some at once. */
    private byte[] merge(List<byte[]> values) {
        List<byte[]> left = new ArrayList<>(values);
        while (left.size() > 1) {
            int from = random.nextInt(left.size() - 1);
            int to = from + 2 + random.nextInt(left.size() - from - 1);
            byte[] merged = Reconciler.merge(left.subList(from, to).toArray(byte[][]::new));
            left.subList(from, to).clear();
            left.add(from, merged);
        }
        return left.get(0);
    }

    private static List<byte[]> fragments(List<Row> rows) {
        return rows.stream().map(ReconcilerPropertyTest::fragment).toList();
    }

    private static Row fold(List<Row> rows) {
        return rows.stream().reduce(Rows::merge).orElseThrow();
    }

    @Test
    void mergesAsRowsMergeInWhateverGrouping() {
        mergesAsRowsMerge(TABLE);
    }

    @Test
    void mergesRowsOfSimpleCellsAsRowsMerge() {
        mergesAsRowsMerge(SIMPLE);
    }

    private void mergesAsRowsMerge(TestTable table) {
        repeat(
                () -> {
                    List<Row> rows = rows(table, 7);
                    byte[] merged = merge(fragments(rows));
                    String bytes =
                            "%s of %s"
                                    .formatted(
                                            HEX.formatHex(merged),
                                            fragments(rows).stream().map(HEX::formatHex).toList());
                    Row expected = fold(rows);
                    Row read = read(table, merged);
                    assertThat(read).as(bytes).isEqualTo(expected);
                    // What a row knows of its cells' ends, which says whether it is looked through.
                    for (long at : new long[] {0, 98, 100, 103, 1_000_000})
                        assertThat(read.hasDeletion(at))
                                .as(bytes)
                                .isEqualTo(expected.hasDeletion(at));
                });
    }

    /** The native part merges the newer of many fragments with each other first. */
    @Test
    void mergesManyAtOnceAsRowsMerge() {
        repeat(
                () -> {
                    List<Row> rows = rows(TABLE, 300);
                    byte[] merged = Reconciler.merge(fragments(rows).toArray(byte[][]::new));
                    assertThat(read(TABLE, merged)).isEqualTo(fold(rows));
                });
    }

    /** The elements of a map one by one: each is in the result, wherever it stood. */
    @Test
    void ofManyFragmentsEachIsInTheResult() {
        for (int count : new int[] {2, 64, 65, 66, 129, 130, 1_000}) {
            List<Row> rows = new ArrayList<>();
            for (int i = 0; i < count; i++)
                rows.add(only(TABLE.update("k").at(i + 1).row(1).put("m", "p" + i, "v" + i)));
            byte[] merged = Reconciler.merge(fragments(rows).toArray(byte[][]::new));
            assertThat(read(TABLE, merged)).as("%d", count).isEqualTo(fold(rows));
        }
    }

    @Test
    void countersOfMoreShardsThanAreMergedAreKept() {
        List<Row> rows =
                List.of(
                        only(counter(1, 5_000, 1)),
                        only(counter(5_001, 10_000, 1)),
                        only(counter(1, 1, 2)));
        byte[] merged = Reconciler.merge(fragments(rows).toArray(byte[][]::new));
        assertThat(read(COUNTERS, merged)).isEqualTo(fold(rows));
    }

    /** With a shard of each of these ids. */
    private static UpdateBuilder.RowBuilder counter(int from, int to, long clock) {
        int shards = to - from + 1;
        CounterContext.ContextState state = CounterContext.ContextState.allocate(shards, 0, 0);
        for (int id = from; id <= to; id++) state.writeGlobal(CounterId.fromInt(id), clock, clock);
        return COUNTERS.update("k").row(1).set("n", state.context);
    }

    @Test
    void mergesCountersAsRowsMerge() {
        repeat(
                () -> {
                    List<Row> rows = rows(COUNTERS, 5);
                    byte[] merged = Reconciler.merge(fragments(rows).toArray(byte[][]::new));
                    assertThat(read(COUNTERS, merged)).isEqualTo(fold(rows));
                });
    }

    @Test
    void isOneFragmentAndTheSameInWhateverOrderAndHoweverOften() {
        repeat(
                () -> {
                    List<byte[]> values = new ArrayList<>(fragments(rows(TABLE, 5)));
                    byte[] merged = Reconciler.merge(values.toArray(byte[][]::new));
                    // Head, length, body, and nothing behind.
                    ByteBuffer buffer = ByteBuffer.wrap(merged);
                    buffer.get();
                    int length = 0;
                    for (int shift = 0; ; shift += 7) {
                        byte b = buffer.get();
                        length |= (b & 0x7F) << shift;
                        if (b >= 0) break;
                    }
                    assertThat(buffer.remaining()).isEqualTo(length);
                    values.addAll(values.subList(0, random.nextInt(values.size())));
                    values.add(merged);
                    Collections.shuffle(values, random);
                    assertThat(HEX.formatHex(merge(values))).isEqualTo(HEX.formatHex(merged));
                });
    }

    @Test
    void purgesAsRowPurge() {
        repeat(
                () -> {
                    List<Row> rows = rows(TABLE, 4);
                    byte[] value = merge(fragments(rows));
                    long now = 97L + random.nextInt(9);
                    long gcBefore = random.nextInt(4) == 0 ? 0 : 97L + random.nextInt(9);
                    long maxPurgeable = random.nextInt(6) - 1L;
                    DeletionPurger purger =
                            (timestamp, localTime) ->
                                    localTime < gcBefore && timestamp < maxPurgeable;
                    Row expected = fold(rows).purge(purger, now, false);
                    byte[] purged = Reconciler.purge(value, now, gcBefore, 0, maxPurgeable);
                    if (expected == null || expected.isEmpty()) assertThat(purged).isNull();
                    else {
                        assertThat(purged).isNotNull();
                        assertThat(read(TABLE, purged)).isEqualTo(expected);
                        assertThat(Reconciler.purge(purged, now, gcBefore, 0, maxPurgeable))
                                .isEqualTo(purged);
                    }
                });
    }

    /** The deletion of a partition, what is known of its range tombstones, and one of these. */
    @Test
    void purgesWhatCoversOtherKeysByTheSameRule() {
        for (long timestamp = 4; timestamp <= 6; timestamp++)
            for (long localTime = 99; localTime <= 101; localTime++) {
                DeletionTime deletion = DeletionTime.build(timestamp, localTime);
                ByteSink sink = new ByteSink();
                FragmentWriter writer = new FragmentWriter(sink, NONE_LARGE);
                List<byte[]> values = new ArrayList<>();
                for (DeletionTime[] of :
                        new DeletionTime[][] {
                            {deletion, DeletionTime.LIVE}, {DeletionTime.LIVE, deletion}
                        }) {
                    sink.clear();
                    writer.partition(of[0], of[1]);
                    values.add(sink.copy(0, sink.position()));
                }
                sink.clear();
                writer.range(deletion, Clustering.EMPTY, Clustering.EMPTY, false);
                values.add(sink.copy(0, sink.position()));
                boolean mayGo = localTime < 100 && timestamp < 5;
                for (byte[] value : values) {
                    byte[] left = Reconciler.purge(value, 200, 200, 100, 5);
                    if (mayGo) assertThat(left).isNull();
                    else assertThat(left).as("%d at %d", timestamp, localTime).isEqualTo(value);
                }
            }
    }

    /** Elements whose names have several byte forms: native code cannot tell which are one. */
    @Test
    void purgesNothingThatHidesAnElementUnderAnotherFormOfItsName() {
        int[] purged = new int[1];
        repeat(
                () -> {
                    List<Row> rows = rows(DECIMALS, 5);
                    byte[] value = merge(fragments(rows));
                    assertThat(live(read(DECIMALS, value), 0)).isEqualTo(live(fold(rows), 0));
                    long now = 97L + random.nextInt(9);
                    long gcBefore = random.nextInt(4) == 0 ? 0 : 97L + random.nextInt(9);
                    long maxPurgeable = random.nextInt(6) - 1L;
                    byte[] left = Reconciler.purgeLoosePaths(value, now, gcBefore, maxPurgeable);
                    if (left != value) purged[0]++;
                    for (long at = now; at < now + 5; at++)
                        assertThat(
                                        left == null
                                                ? Map.<BigDecimal, String>of()
                                                : live(read(DECIMALS, left), at))
                                .isEqualTo(live(fold(rows), at));
                });
        assertThat(purged[0]).isPositive();
    }

    /** What a reader sees at a time; 0: if nothing had expired. */
    private static Map<BigDecimal, String> live(Row row, long at) {
        Map<BigDecimal, String> live = new TreeMap<>();
        for (Cell<?> cell : row.cells())
            if (at == 0 ? !cell.isTombstone() : cell.isLive(at))
                live.put(
                        DecimalType.instance.compose(cell.path().get(0)),
                        UTF8Type.instance.compose(cell.buffer()));
        return live;
    }

    /** Earlier versions wrote it, and their own native part took it for malformed. */
    @Test
    void aCollectionWithoutDeletionAndElementsIsPassedOver() {
        // m, which has id 1, in a row with liveness, and in one without.
        byte[] inserted = HEX.parseHex("040b" + "0000000000000001" + "030000");
        byte[] updated = HEX.parseHex("000b" + "0000000000000001" + "030000");
        Row later = only(TABLE.update("k").at(2).row(1).set("b", 7).put("m", "p", "v"));
        for (byte[] written : List.of(inserted, updated))
            for (boolean first : new boolean[] {true, false}) {
                byte[] older = first ? written : fragment(later);
                byte[] newer = first ? fragment(later) : written;
                byte[] merged = Reconciler.merge(older, newer);
                assertThat(merged).isNotEqualTo(concatenated(older, newer));
                assertThat(read(TABLE, merged))
                        .isEqualTo(Rows.merge(read(TABLE, older), read(TABLE, newer)));
            }
        assertThat(Reconciler.purge(updated, 100, 100, 100, 3)).isNull();
        assertThat(Reconciler.purge(inserted, 100, 100, 100, 3)).isEqualTo(inserted);
    }

    @Test
    void malformedBytesAreKeptAsTheyAre() {
        repeat(
                () -> {
                    byte[] first = fragment(row(TABLE));
                    byte[] second = fragment(row(TABLE));
                    for (int i = 1 + random.nextInt(4); i > 0; i--) {
                        byte[] broken = random.nextBoolean() ? first : second;
                        broken[random.nextInt(broken.length)] ^= (byte) (1 << random.nextInt(8));
                    }
                    if (random.nextBoolean())
                        first = Arrays.copyOf(first, random.nextInt(first.length + 1));
                    Row expected;
                    byte[] both = concatenated(first, second);
                    byte[] merged = Reconciler.merge(first, second);
                    try {
                        expected = read(TABLE, both);
                    } catch (MalformedFragment e) {
                        // Native code knows no types, of paths or of counters; nor is there where
                        // to look for large cells.
                        if (e.getCause() instanceof MarshalException
                                || e.getCause() instanceof AssertionError
                                || String.valueOf(e.getMessage()).contains("cell")) return;
                        assertThat(merged).isEqualTo(both);
                        return;
                    }
                    // What Java reads, native code may refuse, but not read otherwise.
                    if (!Arrays.equals(merged, both) && !selfShadowed(first, second))
                        // Not printed: the bytes may be no text.
                        assertThat(read(TABLE, merged).equals(expected))
                                .describedAs(
                                        "%s + %s = %s",
                                        HEX.formatHex(first),
                                        HEX.formatHex(second),
                                        HEX.formatHex(merged))
                                .isTrue();
                    // Whatever it makes of it, it is no crash.
                    byte[] unused = Reconciler.purge(both, 100, 100, 100, 3);
                });
    }

    /**
     * A row whose deletion covers its own cells, as a flipped bit makes it: no merge rule holds.
     */
    private static boolean selfShadowed(byte[] first, byte[] second) {
        for (byte[] one : List.of(first, second)) {
            if (one.length == 0) continue;
            Row row = read(TABLE, one);
            Row again = read(TABLE, Reconciler.merge(one, one));
            if (!again.equals(row)) return true;
        }
        return false;
    }

    private static byte[] concatenated(byte[]... parts) {
        ByteBuffer all =
                ByteBuffer.allocate(Arrays.stream(parts).mapToInt(part -> part.length).sum());
        for (byte[] part : parts) all.put(part);
        return all.array();
    }

    @Test
    void stringsAreComparedAsUnsignedBytes() {
        assertThat(
                        UTF8Type.instance.compare(
                                ByteBuffer.wrap(new byte[] {-1}), ByteBuffer.wrap(new byte[] {1})))
                .isPositive();
        UpdateBuilder low = TABLE.update("k").at(1);
        UpdateBuilder high = TABLE.update("k").at(1);
        Row a = only(low.row(1).set("a", "\u007f"));
        Row b = only(high.row(1).set("a", "\u00ff"));
        assertThat(read(TABLE, Reconciler.merge(fragment(a), fragment(b)))).isEqualTo(b);
        assertThat(read(TABLE, Reconciler.merge(fragment(b), fragment(a)))).isEqualTo(b);
    }
}
