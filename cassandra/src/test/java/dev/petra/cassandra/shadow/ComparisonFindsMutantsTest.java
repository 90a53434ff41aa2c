// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.CounterTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.mutants.NamedMutations;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.LongPredicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.IntegerType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.PurgeFunction;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A table whose content lies in several layers, as memtables and SSTables are, and a shadow that
 * has all of it in one: of random histories with ties, expiry and deletions of every kind, none is
 * taken for a difference, and every mutant of the engine that an answer shows is found.
 */
@Tag("slow")
class ComparisonFindsMutantsTest {
    private static final int HISTORIES = 200;
    private static final int WRITES = 40;
    private static final int READS = 30;

    /** Until a mutant is found; the histories are the same in each run. */
    private static final int MOST_READS = 2_000;

    private static final long NOW = UpdateBuilder.NOW + 4;

    /** Those that no read of a partition shows as a difference. */
    private static final Set<String> NOT_OF_READS =
            Set.of(
                    // In reads of ranges: RangeAttemptTest.
                    "scans-left-inclusively",
                    "skips-partitions-in-scans",
                    // In a compaction that nobody asks a shadow for.
                    "loses-tombstones-in-compaction",
                    // In an answer that only a compaction of the table asks for.
                    "may-contain-denies",
                    // In what was not asked for, which is not compared: no client gets it.
                    "reads-all-columns",
                    "keeps-values-that-are-not-queried",
                    // In what Cassandra's replicas may differ by: that is undecided.
                    "rewrites-clusterings");

    /** Those that show only if the table is altered, or the shadow is opened again. */
    private static final Set<String> OF_CHANGES =
            Set.of(
                    "ignores-dropped-columns",
                    "names-columns-by-position",
                    "loses-markers-on-reopening");

    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k varint, c int, d int, s text STATIC, v text, w int, m"
                            + " map<text, text>, PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY"
                            + " (c ASC, d DESC)");

    private static final String COUNTERS =
            "CREATE TABLE t (k text, c int, n counter, PRIMARY KEY (k, c))";

    private static final int COLUMNS = 200;

    private static final String WIDE =
            IntStream.range(0, COLUMNS)
                    .mapToObj(i -> "v" + i + " text, ")
                    .collect(
                            Collectors.joining(
                                    "", "CREATE TABLE t (k text, c int, ", "PRIMARY KEY (k, c))"));

    /** Of one token, and in more bytes than their type would take. */
    private static final List<DecoratedKey> KEYS =
            IntStream.iterate(0, salt -> salt + 1)
                    .mapToObj(salt -> TABLE.keyWithToken(1, salt))
                    .filter(key -> isLonger(key.getKey()))
                    .limit(2)
                    .toList();

    @TempDir Path directory;

    private final List<StorageEngine> engines = new ArrayList<>();

    /** As it is by now. */
    private TestTable table = TABLE;

    private int opened;
    private int undecided;
    private int compared;

    @AfterEach
    void close() {
        engines.forEach(StorageEngine::close);
    }

    private StorageEngine memory() {
        return add(new MemoryEngineProvider().open(new EngineSettings(Map.of())));
    }

    private StorageEngine add(StorageEngine engine) {
        engines.add(engine);
        return engine;
    }

    private static boolean isLonger(ByteBuffer varint) {
        IntegerType type = IntegerType.instance;
        return type.decompose(type.compose(varint)).remaining() < varint.remaining();
    }

    private StoreSpec spec() {
        return table.spec(directory.resolve(Integer.toString(++opened)));
    }

    private TableStore store(StorageEngine engine) {
        return engine.openStore(spec());
    }

    static Stream<String> mutants() {
        return NamedMutations.ofRows().stream().filter(name -> !NOT_OF_READS.contains(name));
    }

    @ParameterizedTest
    @MethodSource("mutants")
    void everyMutantIsFound(String name) {
        StorageEngine engine = memory();
        StorageEngine mutant = NamedMutations.of(name).apply(engine);
        boolean isAltered = OF_CHANGES.contains(name);
        boolean isFound = false;
        for (int seed = 0; seed < HISTORIES && !isFound; seed++)
            isFound = differs(seed, engine, mutant, 0, isAltered);
        System.out.printf("%s: found %s, compared reads: %,d%n", name, isFound, compared);
        assertThat(isFound).as(name).isTrue();
        assertThat(compared).as(name).isLessThanOrEqualTo(MOST_READS);
    }

    static Set<String> notOfReads() {
        return NOT_OF_READS;
    }

    @ParameterizedTest
    @MethodSource("notOfReads")
    void theOthersShowInNoRead(String name) {
        StorageEngine engine = memory();
        StorageEngine mutant = NamedMutations.of(name).apply(engine);
        for (int seed = 0; seed < HISTORIES / 10; seed++)
            assertThat(differs(seed, engine, mutant, 0, false)).as("seed %s", seed).isFalse();
    }

    static Set<String> ofSomeTables() {
        return NamedMutations.ofSomeTables();
    }

    @ParameterizedTest
    @MethodSource("ofSomeTables")
    void thoseOfSomeTablesAreFoundThere(String name) {
        boolean isOfCounters = name.contains("counters");
        table = TestTable.of(isOfCounters ? COUNTERS : WIDE);
        StorageEngine engine = memory();
        StorageEngine mutant = NamedMutations.of(name).apply(engine);
        int found = 0;
        for (int seed = 0; seed < HISTORIES / 10; seed++) {
            assertThat(differs(seed, engine, engine, isOfCounters)).as("seed %s", seed).isFalse();
            if (differs(seed, engine, mutant, isOfCounters)) found++;
        }
        assertThat(found).isPositive();
    }

    /** Whether a history of such a table, in which nothing is deleted, shows a difference. */
    private boolean differs(
            long seed, StorageEngine ofLayers, StorageEngine ofShadow, boolean isOfCounters) {
        Random random = new Random(seed);
        List<TableStore> layers = layers(ofLayers);
        TableStore shadow = store(ofShadow);
        for (int i = 0; i < WRITES; i++) {
            UpdateBuilder.RowBuilder row =
                    table.update("k").at(random.nextInt(10)).row(value(random));
            if (isOfCounters) {
                int clock = 1 + random.nextInt(5);
                row.set("n", CounterTests.global(1 + random.nextInt(3), clock, 10L * clock));
            } else row.set("v" + random.nextInt(COLUMNS), text(random));
            PartitionUpdate update = row.build();
            layers.get(random.nextInt(layers.size())).write(update);
            shadow.write(update);
        }
        DecoratedKey key = table.key("k");
        try (UnfilteredRowIterator first = merged(layers, key, Slices.ALL, table.all(), false);
                UnfilteredRowIterator second = rows(shadow, key, Slices.ALL, table.all(), false)) {
            Comparison.Result result =
                    new Comparison(table.metadata(), table.all(), NOW, NOW - 1_000, false)
                            .compare(first, second, 1_000)
                            .result();
            assertThat(result).isIn(Comparison.Result.EQUAL, Comparison.Result.DIFFERENT);
            return result == Comparison.Result.DIFFERENT;
        }
    }

    /** Of two writes Cassandra itself may show the bytes of either. */
    @Test
    void rewrittenClusteringsAreUndecided() {
        table = TestTable.of("CREATE TABLE t (k text, c varint, v text, PRIMARY KEY (k, c))");
        StorageEngine engine = memory();
        TableStore ofTable = store(engine);
        TableStore shadow = store(NamedMutations.of("rewrites-clusterings").apply(engine));
        PartitionUpdate update =
                table.update("k")
                        .at(1)
                        .row(ByteBufferUtil.hexToBytes("0001"))
                        .set("v", "x")
                        .end()
                        .build();
        ofTable.write(update);
        shadow.write(update);
        DecoratedKey key = table.key("k");
        try (UnfilteredRowIterator first = rows(ofTable, key, Slices.ALL, table.all(), false);
                UnfilteredRowIterator second = rows(shadow, key, Slices.ALL, table.all(), false)) {
            assertThat(
                            new Comparison(table.metadata(), table.all(), NOW, NOW, false)
                                    .compare(first, second, 10)
                                    .kind())
                    .isEqualTo("undecided: bytes of equal clustering values");
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void nothingElseIsFoundInMemory(boolean isAltered) {
        StorageEngine engine = memory();
        for (int seed = 0; seed < 2 * HISTORIES; seed++)
            assertThat(differs(seed, engine, engine, 0, isAltered)).as("seed %s", seed).isFalse();
        assertThat(undecided).isZero();
    }

    /** Deletions are purged in the table, and what is older is written later. */
    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void nothingIsFoundWhereTheTablePurges(int purges) {
        StorageEngine engine = memory();
        for (int seed = 0; seed < 2 * HISTORIES; seed++)
            assertThat(differs(seed, engine, engine, purges, false)).as("seed %s", seed).isFalse();
        assertThat(undecided).isPositive();
    }

    @Test
    void nothingElseIsFoundInRocksDb() {
        StorageEngine engine =
                add(StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB"))));
        StorageEngine layers = memory();
        long base = System.nanoTime();
        for (int i = 0; i < 20; i++) {
            long seed = base + i;
            int before = undecided;
            int purges = i % 3;
            assertThat(differs(seed, layers, engine, purges, i % 6 == 0))
                    .as("seed %s", seed)
                    .isFalse();
            if (purges == 0) assertThat(undecided).as("seed %s", seed).isEqualTo(before);
        }
    }

    /**
     * Whether a history of that seed shows a difference.
     *
     * @param purges how often the table is compacted meanwhile, and purged
     * @param isAltered whether the table is altered meanwhile, and the shadow is opened again
     */
    private boolean differs(
            long seed,
            StorageEngine ofLayers,
            StorageEngine ofShadow,
            int purges,
            boolean isAltered) {
        table = TABLE.twin();
        Random random = new Random(seed);
        List<TableStore> layers = layers(ofLayers);
        StoreSpec spec = spec();
        TableStore shadow = ofShadow.openStore(spec);
        for (int i = 0; i < WRITES; i++) {
            if (isAltered && i == WRITES / 2) {
                shadow.close();
                shadow = ofShadow.openStore(spec);
                alter();
            }
            PartitionUpdate update = update(random, purges > 0);
            layers.get(random.nextInt(layers.size())).write(update);
            shadow.write(update);
            if (random.nextInt(20) == 0) shadow.flush();
            if ((i + 1) % (WRITES / (purges + 1)) == 0 && purges > 0)
                layers = purged(layers, layers(ofLayers));
        }
        boolean isFound = readsDiffer(random, layers, shadow, purges);
        shadow.drop();
        return isFound;
    }

    /** Drops a column and adds it again, and adds one that comes before all others. */
    private void alter() {
        table.dropColumn("v", 5);
        table.addColumn("v", UTF8Type.instance);
        table.addColumn("a", UTF8Type.instance);
    }

    private boolean readsDiffer(
            Random random, List<TableStore> layers, TableStore shadow, int purges) {
        for (int i = 0; i < READS; i++) {
            // gc_grace_seconds of 0, of 2, or long enough; by 2 the table was purged.
            long gcBefore = NOW - List.of(0, 2, 1_000).get(random.nextInt(purges == 0 ? 3 : 2));
            compared++;
            Comparison.Result result = read(random, layers, shadow, gcBefore).result();
            if (result == Comparison.Result.UNDECIDED) undecided++;
            else if (result != Comparison.Result.EQUAL) {
                assertThat(result).isEqualTo(Comparison.Result.DIFFERENT);
                return true;
            }
        }
        return false;
    }

    /** Those that show only where slices are asked for, or the reverse, as a client may. */
    private static final Set<String> OF_SLICES =
            Set.of(
                    "reads-only-the-first-slice",
                    "reads-slices-forwards-in-reverse",
                    "scans-without-clustering-filter",
                    "reads-forwards-in-reverse",
                    "takes-every-bound-for-inclusive",
                    "clips-no-range-tombstones");

    /** Those whose stores look as if something had been deleted since the snapshot. */
    private static final Set<String> LIKE_LATER_DELETIONS =
            Set.of(
                    "shares-deletions-by-token",
                    "expires-at-write-time-plus-ttl",
                    "loses-closing-markers");

    static Stream<String> mutantsOfAll() {
        return mutants()
                .filter(name -> !OF_SLICES.contains(name))
                .filter(name -> !OF_CHANGES.contains(name))
                .filter(name -> !LIKE_LATER_DELETIONS.contains(name));
    }

    @ParameterizedTest
    @MethodSource("mutantsOfAll")
    void everyMutantIsFoundByASnapshot(String name) {
        StorageEngine engine = memory();
        StorageEngine mutant = NamedMutations.of(name).apply(engine);
        for (int seed = 0; seed < 2 * HISTORIES; seed++)
            if (lacks(seed, engine, store(mutant)) == Comparison.Result.DIFFERENT) return;
        throw new AssertionError(name + " was not found in " + 2 * HISTORIES + " histories");
    }

    /** Whatever is written later, also with older timestamps. */
    @Test
    void nothingOfASnapshotIsMissed() {
        StorageEngine engine = memory();
        for (int seed = 0; seed < 2 * HISTORIES; seed++)
            assertThat(lacks(seed, engine, store(engine)))
                    .as("seed %s", seed)
                    .isEqualTo(Comparison.Result.EQUAL);
    }

    @Test
    void nothingOfASnapshotIsMissedInRocksDb() {
        StorageEngine engine =
                add(StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB"))));
        StorageEngine layers = memory();
        long base = System.nanoTime();
        for (int i = 0; i < 20; i++) {
            long seed = base + i;
            TableStore store = store(engine);
            assertThat(lacks(seed, layers, store))
                    .as("seed %s", seed)
                    .isEqualTo(Comparison.Result.EQUAL);
            store.drop();
        }
    }

    /** A table is written, a snapshot is taken, it goes on; whether the store lacks something. */
    private Comparison.Result lacks(long seed, StorageEngine ofLayers, TableStore store) {
        Random random = new Random(seed);
        List<TableStore> snapshot = layers(ofLayers);
        for (int i = 0; i < WRITES; i++) {
            PartitionUpdate update = update(random, false);
            if (i < WRITES / 2) snapshot.get(random.nextInt(snapshot.size())).write(update);
            store.write(update);
            if (random.nextInt(20) == 0) store.flush();
        }
        // gc_grace_seconds of 0, of 2, or long enough; nothing is purged.
        for (DecoratedKey key : KEYS)
            for (long grace : List.of(0, 2, 1_000)) {
                Comparison.Result result =
                        missing(random, snapshot, store, key, NOW - grace).result();
                if (result != Comparison.Result.EQUAL) return result;
            }
        return Comparison.Result.EQUAL;
    }

    /**
     * A store that has lost one write, or a column of it: that is found if, and only if, the store
     * differs from one that has it.
     */
    @Test
    void aLossIsFoundWhereItMakesADifference() {
        StorageEngine engine = memory();
        int found = 0;
        for (int seed = 0; seed < 5 * HISTORIES; seed++) {
            Random random = new Random(seed);
            List<TableStore> snapshot = layers(engine);
            TableStore whole = store(engine);
            TableStore lossy = store(engine);
            int lost = random.nextInt(WRITES / 2);
            for (int i = 0; i < WRITES; i++) {
                PartitionUpdate update = update(random, false);
                if (i < WRITES / 2) snapshot.get(random.nextInt(snapshot.size())).write(update);
                whole.write(update);
                if (i != lost) lossy.write(update);
                else if (random.nextBoolean()) lossy.write(without(random, update));
            }
            boolean differs = false;
            boolean isMissed = false;
            for (DecoratedKey key : KEYS) {
                long gcBefore = NOW - 1_000;
                differs |=
                        inPieces(random, List.of(whole), lossy, key, table.all(), gcBefore).result()
                                == Comparison.Result.DIFFERENT;
                isMissed |=
                        missing(random, snapshot, lossy, key, gcBefore).result()
                                == Comparison.Result.DIFFERENT;
                assertThat(missing(random, snapshot, whole, key, gcBefore))
                        .as("seed %s", seed)
                        .isEqualTo(Comparison.Outcome.EQUAL);
            }
            assertThat(isMissed).as("seed %s", seed).isEqualTo(differs);
            if (differs) found++;
        }
        assertThat(found).isGreaterThan(HISTORIES / 2);
    }

    /** The same but for a column. */
    private PartitionUpdate without(Random random, PartitionUpdate update) {
        List<String> columns = new ArrayList<>(List.of("s", "v", "w", "m"));
        columns.remove(random.nextInt(columns.size()));
        ColumnFilter left = table.only(columns.toArray(String[]::new));
        try (UnfilteredRowIterator rows =
                Transformation.apply(
                        update.unfilteredIterator(),
                        new Transformation<UnfilteredRowIterator>() {
                            @Override
                            protected Row applyToStatic(Row row) {
                                Row some = row.filter(left, table.metadata());
                                return some == null ? Rows.EMPTY_STATIC_ROW : some;
                            }

                            @Override
                            protected @Nullable Row applyToRow(Row row) {
                                return row.filter(left, table.metadata());
                            }
                        })) {
            return PartitionUpdate.fromIterator(rows, table.all());
        }
    }

    private Comparison.Outcome missing(
            Random random,
            List<TableStore> snapshot,
            TableStore store,
            DecoratedKey key,
            long gcBefore) {
        return inPieces(
                random,
                snapshot,
                store,
                key,
                table.all(),
                gcBefore,
                (piece, first, second) -> piece.missing(first, second));
    }

    private List<TableStore> layers(StorageEngine engine) {
        List<TableStore> layers = new ArrayList<>();
        for (int i = 0; i < 3; i++) layers.add(store(engine));
        return layers;
    }

    /** Compacts all layers into the first of others, as Cassandra does. */
    private List<TableStore> purged(List<TableStore> layers, List<TableStore> others) {
        for (DecoratedKey key : KEYS) {
            PurgeFunction purging =
                    new PurgeFunction(NOW, NOW - 2, 0, false, false) {
                        @Override
                        protected LongPredicate getPurgeEvaluator() {
                            return any -> true;
                        }
                    };
            try (UnfilteredPartitionIterator left =
                    Transformation.apply(
                            new SingletonUnfilteredPartitionIterator(
                                    merged(layers, key, Slices.ALL, table.all(), false)),
                            purging)) {
                while (left.hasNext())
                    try (UnfilteredRowIterator rows = left.next()) {
                        others.get(0).write(PartitionUpdate.fromIterator(rows, table.all()));
                    }
            }
        }
        return others;
    }

    /**
     * A random one.
     *
     * @param hasTtlOfTimestamp a compaction after the expiry, on one side only, decides ties of
     *     expiring cells otherwise
     */
    private PartitionUpdate update(Random random, boolean hasTtlOfTimestamp) {
        UpdateBuilder update = table.update(KEYS.get(random.nextInt(KEYS.size())));
        for (int i = random.nextInt(2); i >= 0; i--) {
            long timestamp = random.nextInt(8) == 0 ? -1 : random.nextInt(10);
            // Of one timestamp, as what Cassandra itself does not decide by order.
            update.at(timestamp).now(UpdateBuilder.NOW + Math.floorMod(timestamp, 4));
            int ttl = 1 + (hasTtlOfTimestamp ? Math.floorMod(timestamp, 3) : random.nextInt(3));
            update.ttl(random.nextInt(4) == 0 ? ttl : 0);
            switch (random.nextInt(12)) {
                case 0 -> update.deletePartition();
                case 1, 2 -> {
                    Slice slice = slice(random);
                    if (!slice.isEmpty(table.metadata().comparator)) update.deleteRange(slice);
                }
                case 3, 4 -> update.deleteRow(value(random), value(random));
                case 5 -> {
                    UpdateBuilder.RowBuilder row = update.staticRow();
                    if (random.nextBoolean()) row.set("s", text(random));
                    else row.unset("s");
                    row.end();
                }
                default -> cells(random, update.row(value(random), value(random)));
            }
        }
        return update.build();
    }

    private static void cells(Random random, UpdateBuilder.RowBuilder row) {
        if (random.nextInt(3) == 0) row.liveness();
        switch (random.nextInt(6)) {
            case 0 -> row.unset("v");
            case 1 -> row.set("v", "");
            case 2 -> row.set("v", text(random)).set("w", value(random));
            case 3 -> row.put("m", "x" + random.nextInt(2), text(random));
            case 4 -> {
                row.clearBefore("m");
                row.put("m", "x" + random.nextInt(2), text(random));
            }
            default -> row.set("v", text(random));
        }
        row.end();
    }

    private static int value(Random random) {
        return random.nextInt(3);
    }

    private static String text(Random random) {
        return "t" + random.nextInt(3);
    }

    private Slice slice(Random random) {
        return Slice.make(bound(random, true), bound(random, false));
    }

    private ClusteringBound<?> bound(Random random, boolean start) {
        Object[] values = new Object[random.nextInt(3)];
        for (int i = 0; i < values.length; i++) values[i] = value(random);
        return ClusteringBound.create(
                table.metadata().comparator,
                start,
                values.length == 0 || random.nextBoolean(),
                values);
    }

    private Comparison.Outcome read(
            Random random, List<TableStore> layers, TableStore shadow, long gcBefore) {
        DecoratedKey key = KEYS.get(random.nextInt(KEYS.size()));
        Slices slices = slices(random);
        ColumnFilter columns =
                switch (random.nextInt(3)) {
                    case 0 -> table.queried(true, "v");
                    case 1 -> table.only("v", "m");
                    default -> table.all();
                };
        boolean reversed = random.nextBoolean();
        if (random.nextInt(3) == 0) return inPieces(random, layers, shadow, key, columns, gcBefore);
        try (UnfilteredRowIterator ofTable = merged(layers, key, slices, columns, reversed);
                UnfilteredRowIterator ofShadow = rows(shadow, key, slices, columns, reversed)) {
            return new Comparison(table.metadata(), columns, NOW, gcBefore, reversed)
                    .compare(ofTable, ofShadow, 1_000);
        }
    }

    private UnfilteredRowIterator merged(
            List<TableStore> layers,
            DecoratedKey key,
            Slices slices,
            ColumnFilter columns,
            boolean reversed) {
        List<UnfilteredRowIterator> parts = new ArrayList<>();
        for (TableStore layer : layers) parts.add(rows(layer, key, slices, columns, reversed));
        return UnfilteredRowIterators.merge(parts);
    }

    /** As a whole table is compared: each piece is read anew, behind the one before. */
    private Comparison.Outcome inPieces(
            Random random,
            List<TableStore> layers,
            TableStore shadow,
            DecoratedKey key,
            ColumnFilter columns,
            long gcBefore) {
        return inPieces(
                random,
                layers,
                shadow,
                key,
                columns,
                gcBefore,
                (piece, first, second) -> piece.compare(first, second, Integer.MAX_VALUE));
    }

    @FunctionalInterface
    private interface Compared {
        Comparison.Outcome by(
                Comparison piece, UnfilteredRowIterator first, UnfilteredRowIterator second);
    }

    private Comparison.Outcome inPieces(
            Random random,
            List<TableStore> layers,
            TableStore shadow,
            DecoratedKey key,
            ColumnFilter columns,
            long gcBefore,
            Compared compared) {
        TableMetadata metadata = table.metadata();
        ClusteringPrefix<?> after = null;
        Comparison.Outcome firstUndecided = null;
        while (true) {
            Slices slices = TableComparison.slicesBehind(metadata, after);
            ClusteringPrefix<?> from = after;
            Comparison piece = new Comparison(metadata, columns, NOW, gcBefore, false);
            AtomicInteger left = new AtomicInteger(1 + random.nextInt(4));
            BooleanSupplier mayGoOn =
                    () -> left.getAndDecrement() > 0 || !isBehind(piece.reached(), from);
            try (Timed ofTable =
                            Timed.open(
                                    () -> merged(layers, key, slices, columns, false),
                                    false,
                                    mayGoOn,
                                    bytes -> {});
                    Timed ofShadow =
                            Timed.open(
                                    () ->
                                            Attempt.readAside(
                                                    shadow,
                                                    SinglePartitionReadCommand.create(
                                                            metadata,
                                                            NOW,
                                                            key,
                                                            columns,
                                                            new ClusteringIndexSliceFilter(
                                                                    slices, false)),
                                                    () -> {}),
                                    true,
                                    mayGoOn,
                                    bytes -> {})) {
                Comparison.Outcome last = compared.by(piece, ofTable, ofShadow);
                return firstUndecided != null && last.result() == Comparison.Result.EQUAL
                        ? firstUndecided
                        : last;
            } catch (Timed.TooLong e) {
                if (firstUndecided == null) firstUndecided = piece.undecided();
                after = piece.reached();
                if (after != null && TableComparison.isEnd(metadata, after))
                    return firstUndecided == null ? Comparison.Outcome.EQUAL : firstUndecided;
            }
        }
    }

    private boolean isBehind(
            @Nullable ClusteringPrefix<?> place, @Nullable ClusteringPrefix<?> from) {
        return place != null
                && (from == null || table.metadata().comparator.compare(place, from) > 0);
    }

    private UnfilteredRowIterator rows(
            TableStore store,
            DecoratedKey key,
            Slices slices,
            ColumnFilter columns,
            boolean reversed) {
        UnfilteredRowIterator rows = store.read(key, slices, columns, reversed);
        return rows == null ? EmptyIterators.unfilteredRow(table.metadata(), key, reversed) : rows;
    }

    private Slices slices(Random random) {
        if (random.nextInt(3) == 0) return Slices.ALL;
        List<Slice> some = new ArrayList<>();
        for (int i = random.nextInt(2); i >= 0; i--) {
            Slice slice =
                    random.nextInt(3) == 0
                            ? Slice.make(table.clustering(value(random), value(random)))
                            : slice(random);
            if (!slice.isEmpty(table.metadata().comparator)) some.add(slice);
        }
        Slices slices = table.slices(some.toArray(Slice[]::new));
        return slices.isEmpty() ? Slices.ALL : slices;
    }
}
