// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static dev.petra.engine.conformance.RandomSchema.pick;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Random histories, applied to an engine and to the reference, whose every answer must be the same:
 * updates with few values and few timestamps, ALTERs, flushes, compactions, reopenings and streams
 * between them, and reads of all kinds. A history follows from its seed alone.
 *
 * <p>A history that shows a difference is shortened, step by step and statement by statement, while
 * it still shows one, and reported with its seed.
 */
public final class Differential implements AutoCloseable {
    /** Reruns one history: {@code -Dpetra.seed=N}; with {@link #SECONDS}, goes on from there. */
    public static final String SEED = "petra.seed";

    /** How long to go on: {@code -Dpetra.fuzz.seconds=N}. */
    public static final String SECONDS = "petra.fuzz.seconds";

    private final Supplier<EngineUnderTest> opener;
    private final Duration shortening;

    /** Serves one history after the other, until one fails. */
    private EngineUnderTest kit;

    /** Runs histories on the engine that this opens, each on a new store. */
    public Differential(Supplier<EngineUnderTest> opener) {
        this(opener, Duration.ofSeconds(20));
    }

    private Differential(Supplier<EngineUnderTest> opener, Duration shortening) {
        this.opener = opener;
        this.shortening = shortening;
    }

    /** Does not take the time to shorten what it finds. */
    public static Differential quick(Supplier<EngineUnderTest> opener) {
        return new Differential(opener, Duration.ZERO);
    }

    /**
     * Runs histories for some time, from a seed that differs each time; or the one, or for the
     * time, that the system properties say.
     *
     * @return how many were run
     */
    public int run(Duration time) {
        Long seed = Long.getLong(SEED);
        Long seconds = Long.getLong(SECONDS);
        if (seed != null && seconds == null) {
            check(seed);
            return 1;
        }
        Duration duration = seconds == null ? time : Duration.ofSeconds(seconds);
        return run(seed == null ? System.nanoTime() : seed, duration);
    }

    /** Runs histories for some time, from this seed upwards. */
    public int run(long firstSeed, Duration time) {
        long end = System.nanoTime() + time.toNanos();
        int count = 0;
        // Said before anything else, because native code may take the process with it.
        System.out.println("Random histories from seed " + firstSeed + " for " + time);
        do check(firstSeed + count++);
        while (System.nanoTime() < end);
        return count;
    }

    /**
     * Runs the history of one seed.
     *
     * @throws AssertionError if the engine and the reference differ, or the engine throws
     */
    public void check(long seed) {
        History history = History.of(seed);
        Throwable failure = failure(history);
        if (failure == null) return;
        History shortest = shorten(history);
        Throwable last = failure(shortest);
        throw new AssertionError(
                "Seed "
                        + seed
                        + " (run it again with -D"
                        + SEED
                        + "="
                        + seed
                        + "). The shortest history found is\n"
                        + shortest
                        + "\n"
                        + (last == null ? "which fails only sometimes: " + failure : last),
                last == null ? failure : last);
    }

    /** What goes wrong, or null. */
    private Throwable failure(History history) {
        try {
            if (kit == null) kit = opener.get();
            ComparedStore store = kit.compared(TestTable.of(history.table));
            for (Step step : history.steps) step.run(store);
            store.drop();
            return null;
        } catch (AssertionError | RuntimeException e) {
            try {
                close();
            } catch (RuntimeException closing) {
                e.addSuppressed(closing);
            }
            return e;
        }
    }

    /** Closes the engine. */
    @Override
    public void close() {
        EngineUnderTest last = kit;
        kit = null;
        if (last != null) last.close();
    }

    private History shorten(History history) {
        long end = System.nanoTime() + shortening.toNanos();
        History shortest = history;
        for (int size = shortest.steps.size(); size > 0; size /= 2)
            for (int from = 0; from < shortest.steps.size() && System.nanoTime() < end; ) {
                History without = shortest.without(from, from + size);
                if (!without.isPossible() || failure(without) == null) from += size;
                else shortest = without;
            }
        for (int i = 0; i < shortest.steps.size(); i++)
            if (shortest.steps.get(i) instanceof Write write)
                for (int piece = 0; piece < write.pieces.size() && System.nanoTime() < end; ) {
                    History without = shortest.with(i, write.without(piece));
                    if (failure(without) == null) piece++;
                    else {
                        shortest = without;
                        write = (Write) shortest.steps.get(i);
                    }
                }
        return shortest;
    }

    /** A table and what is done to it. */
    private record History(TableMetadata table, List<Step> steps) {
        static History of(long seed) {
            HostFixture.initialise();
            Random random = new Random(seed);
            // Neighbouring seeds begin alike.
            for (int i = 0; i < 4; i++) random = new Random(random.nextLong());
            RandomSchema schema = RandomSchema.next(random);
            RandomOperations operations = new RandomOperations(random);
            TableMetadata table = schema.metadata();
            List<Step> steps = new ArrayList<>();
            int added = 0;
            for (int i = 10 + random.nextInt(50); i > 0; i--) {
                switch (random.nextInt(30)) {
                    case 0 -> steps.add(new Maintain("flush", ComparedStore::flush));
                    case 1 -> steps.add(new Maintain("compact", ComparedStore::compact));
                    case 2 -> {
                        if (random.nextBoolean())
                            steps.add(new Maintain("reopen", ComparedStore::reopen));
                    }
                    case 3 -> {
                        table = alter(random, table, added++);
                        steps.add(new Alter(table));
                    }
                    case 12 -> {
                        List<Write> there = new ArrayList<>();
                        for (int w = random.nextInt(4); w > 0; w--)
                            there.add(write(random, schema, operations, table));
                        steps.add(new Stream(there));
                    }
                    case 4, 5, 6, 7, 8, 9 ->
                            steps.add(
                                    new Read(
                                            pick(random, schema.keys()),
                                            operations.slices(table),
                                            operations.filter(table),
                                            random.nextInt(3) == 0));
                    case 10, 11 ->
                            steps.add(
                                    new Scan(
                                            operations.range(table, schema.keys()),
                                            operations.filter(table)));
                    default -> steps.add(write(random, schema, operations, table));
                }
            }
            for (DecoratedKey key : schema.keys()) {
                steps.add(new Read(key, Slices.ALL, ColumnFilter.all(table), false));
                steps.add(new Read(key, Slices.ALL, ColumnFilter.all(table), true));
            }
            steps.add(new Scan(DataRange.allData(table.partitioner), ColumnFilter.all(table)));
            return new History(schema.metadata(), steps);
        }

        private static Write write(
                Random random,
                RandomSchema schema,
                RandomOperations operations,
                TableMetadata table) {
            List<Consumer<UpdateBuilder>> pieces = new ArrayList<>();
            for (int i = pick(random, List.of(1, 1, 1, 2, 3)); i > 0; i--)
                pieces.add(operations.piece(table));
            return new Write(
                    table,
                    pick(random, schema.keys()),
                    pieces,
                    pick(random, List.of(Carriers.values())));
        }

        /** Adds a column, drops one, or adds again what was dropped. */
        private static TableMetadata alter(Random random, TableMetadata table, int number) {
            List<ColumnMetadata> columns = new ArrayList<>();
            table.regularAndStaticColumns().forEach(columns::add);
            List<DroppedColumn> dropped =
                    table.droppedColumns.values().stream()
                            .filter(column -> table.getColumn(column.column.name) == null)
                            // Cassandra adds no counter again: shards from before are merged in.
                            .filter(column -> !column.column.type.isCounter())
                            // A user type is remembered as a tuple when it is dropped. Added again,
                            // the column has another type than the cells that are there.
                            .filter(column -> !column.column.type.toString().contains("Tuple"))
                            .toList();
            int kind = random.nextInt(3);
            if (kind == 0 && !columns.isEmpty()) {
                ColumnMetadata column = pick(random, columns);
                // A dropped user type is remembered as a tuple, and cannot be added again.
                if (!column.type.isUDT() || !column.type.isMultiCell()) {
                    // A drop never goes back in time: cells between the two times come back or
                    // not, in Cassandra too, depending on what was compacted or streamed between.
                    DroppedColumn before = table.droppedColumns.get(column.name.bytes);
                    long earliest = before == null ? 0 : before.droppedTime;
                    return table.unbuild()
                            .removeRegularOrStaticColumn(column.name)
                            .recordColumnDrop(column, Math.max(earliest, random.nextInt(12)))
                            .build();
                }
            }
            if (kind == 1 && !dropped.isEmpty()) {
                ColumnMetadata column = pick(random, dropped).column;
                return table.unbuild().addColumn(column).build();
            }
            AbstractType<?> type = RandomSchema.type(random, table.isCounter());
            TableMetadata.Builder builder = table.unbuild();
            return (random.nextInt(3) == 0 && !table.clusteringColumns().isEmpty()
                            ? builder.addStaticColumn("a" + number, type)
                            : builder.addRegularColumn("a" + number, type))
                    .build();
        }

        History without(int from, int to) {
            List<Step> rest = new ArrayList<>(steps);
            rest.subList(from, Math.min(to, rest.size())).clear();
            return new History(table, rest);
        }

        /** Whether each step is one of the table as it is by then. */
        boolean isPossible() {
            TableMetadata now = table;
            for (Step step : steps) {
                if (step instanceof Alter alter) now = alter.table;
                else if (!step.isPossible(now)) return false;
            }
            return true;
        }

        History with(int index, Step step) {
            List<Step> changed = new ArrayList<>(steps);
            changed.set(index, step);
            return new History(table, changed);
        }

        @Override
        public String toString() {
            StringBuilder out = new StringBuilder(RandomSchema.describe(table));
            for (Step step : steps)
                out.append("\n* ").append(step.toString().replace("\n", "\n  "));
            return out.toString();
        }
    }

    /** One thing done to both stores. */
    private interface Step {
        void run(ComparedStore store);

        /** Whether it knows no other columns than the table has. */
        boolean isPossible(TableMetadata table);
    }

    private record Write(
            TableMetadata table,
            DecoratedKey key,
            List<Consumer<UpdateBuilder>> pieces,
            Carriers carrier)
            implements Step {
        PartitionUpdate build() {
            UpdateBuilder update = new UpdateBuilder(table, key);
            pieces.forEach(piece -> piece.accept(update));
            return carrier.carry(update.build());
        }

        Write without(int piece) {
            List<Consumer<UpdateBuilder>> rest = new ArrayList<>(pieces);
            rest.remove(piece);
            return new Write(table, key, rest, carrier);
        }

        @Override
        public void run(ComparedStore store) {
            store.write(build());
        }

        @Override
        public boolean isPossible(TableMetadata table) {
            return table.regularAndStaticColumns().includes(build().columns());
        }

        @Override
        public String toString() {
            return "write, in "
                    + carrier
                    + ", "
                    + PartitionContent.of(build().unfilteredIterator());
        }
    }

    private record Stream(List<Write> there) implements Step {
        @Override
        public void run(ComparedStore store) {
            store.stream(there.stream().map(Write::build).toList());
        }

        @Override
        public boolean isPossible(TableMetadata table) {
            return there.stream().allMatch(write -> write.isPossible(table));
        }

        @Override
        public String toString() {
            return "stream to a store with " + there;
        }
    }

    private record Maintain(String name, Consumer<ComparedStore> work) implements Step {
        @Override
        public void run(ComparedStore store) {
            work.accept(store);
        }

        @Override
        public boolean isPossible(TableMetadata table) {
            return true;
        }

        @Override
        public String toString() {
            return name;
        }
    }

    private record Alter(TableMetadata table) implements Step {
        @Override
        public void run(ComparedStore store) {
            store.table().alter(table);
        }

        @Override
        public boolean isPossible(TableMetadata before) {
            return true;
        }

        @Override
        public String toString() {
            return "alter to " + RandomSchema.describe(table);
        }
    }

    /** Whether a filter is one of this table: what names all columns must know them all. */
    private static boolean isOf(ColumnFilter filter, TableMetadata table) {
        RegularAndStaticColumns fetched = filter.fetchedColumns();
        return table.regularAndStaticColumns().includes(fetched)
                && (!filter.fetchesAllColumns(false)
                        || fetched.regulars.equals(table.regularColumns()))
                && (!filter.fetchesAllColumns(true)
                        || fetched.statics.equals(table.staticColumns()));
    }

    private record Read(DecoratedKey key, Slices slices, ColumnFilter filter, boolean reversed)
            implements Step {
        @Override
        public void run(ComparedStore store) {
            store.read(key, slices, filter, reversed);
        }

        @Override
        public boolean isPossible(TableMetadata table) {
            return isOf(filter, table);
        }

        @Override
        public String toString() {
            return "read "
                    + ByteBufferUtil.bytesToHex(key.getKey())
                    + " slices "
                    + slices
                    + " columns "
                    + filter
                    + (reversed ? " reversed" : "");
        }
    }

    private record Scan(DataRange range, ColumnFilter filter) implements Step {
        @Override
        public void run(ComparedStore store) {
            store.scan(range, filter);
        }

        @Override
        public boolean isPossible(TableMetadata table) {
            return isOf(filter, table);
        }

        @Override
        public String toString() {
            return "scan " + range.keyRange() + " columns " + filter;
        }
    }
}
