// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;

/**
 * A store under test and a store of the reference engine, given the same updates. Whatever is read
 * is read from both and must be equal; a difference is reported with both sides.
 */
public final class ComparedStore {
    private final EngineUnderTest kit;
    private final TestTable table;
    private final TableStore reference;
    private TableStore store;

    ComparedStore(EngineUnderTest kit, TestTable table) {
        this.kit = kit;
        this.table = table;
        this.store = kit.open(table);
        this.reference = kit.openReference(table);
    }

    /** The store under test. */
    public TableStore store() {
        return store;
    }

    /** The table. */
    public TestTable table() {
        return table;
    }

    /** Writes updates, in order, to both. */
    public void write(PartitionUpdate... updates) {
        for (PartitionUpdate update : updates) {
            store.write(update);
            reference.write(update);
        }
    }

    /** Flushes the store under test. */
    public void flush() {
        store.flush();
    }

    /** Compacts the store under test. */
    public void compact() {
        store.compact(List.of());
    }

    /** Closes the store under test and opens it again. */
    public void reopen() {
        store = kit.reopen(store);
    }

    /**
     * Sends everything to a new store, which takes the place of the one under test.
     *
     * @param there what the new store has before
     */
    public void stream(List<PartitionUpdate> there) {
        if (!kit.capabilities().streams()) {
            there.forEach(this::write);
            return;
        }
        TableStore next = kit.open(table);
        for (PartitionUpdate update : there) {
            next.write(update);
            reference.write(update);
        }
        StreamTests.send(
                store,
                next,
                List.of(new SliceRanges(RangeTests.everything(table.metadata().partitioner), 0)));
        store.drop();
        store = next;
    }

    /** Drops both stores. */
    public void drop() {
        store.drop();
        reference.drop();
    }

    /** Reads a partition of both; null if there is nothing in it. */
    public PartitionContent read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        PartitionContent expected =
                PartitionContent.of(reference.read(key, slices, columns, reversed));
        PartitionContent actual = PartitionContent.of(store.read(key, slices, columns, reversed));
        if (!Objects.equals(expected, actual))
            throw new AssertionError(
                    "Reading "
                            + slices
                            + (reversed ? " in reverse" : "")
                            + " with columns "
                            + columns
                            + ":\n"
                            + difference(expected, actual));
        if (actual != null && !store.mayContain(key))
            throw new AssertionError("mayContain denies " + key + ", which has\n" + actual);
        return actual;
    }

    /** Reads all of a partition, forwards and backwards, and returns it as read forwards. */
    public PartitionContent read(DecoratedKey key) {
        read(key, Slices.ALL, table.all(), true);
        return read(key, Slices.ALL, table.all(), false);
    }

    /** Reads slices of a partition, forwards and backwards, and returns it as read forwards. */
    public PartitionContent read(DecoratedKey key, Slices slices) {
        read(key, slices, table.all(), true);
        return read(key, slices, table.all(), false);
    }

    /** Scans both. */
    public List<PartitionContent> scan(DataRange range, ColumnFilter columns) {
        List<PartitionContent> expected = PartitionContent.listOf(reference.scan(range, columns));
        List<PartitionContent> actual = PartitionContent.listOf(store.scan(range, columns));
        if (!expected.equals(actual))
            throw new AssertionError(
                    "Scanning "
                            + range.toString(table.metadata())
                            + " with columns "
                            + columns
                            + ":\n"
                            + difference(expected, actual));
        return actual;
    }

    /** Scans everything. */
    public List<PartitionContent> scan() {
        return scan(DataRange.allData(table.metadata().partitioner), table.all());
    }

    /**
     * Reads all of a partition as it was written, after a flush, after a compaction and after the
     * store was opened again.
     */
    public PartitionContent everywhere(DecoratedKey key) {
        return everywhere(() -> read(key));
    }

    /** Scans everything as written, flushed, compacted and opened again. */
    public List<PartitionContent> scanEverywhere() {
        return everywhere(() -> scan());
    }

    /** Does the same wherever the data may be: as written, flushed, compacted, opened again. */
    public <T> T everywhere(Supplier<T> check) {
        T first = check.get();
        flush();
        requireSame("flush", first, check.get());
        compact();
        requireSame("compaction", first, check.get());
        reopen();
        requireSame("reopening", first, check.get());
        return first;
    }

    /**
     * Applies updates in every order, each order to a partition of its own (whose keys are {@code
     * p0}, {@code p1}… of a text column), some with flushes between, and requires the same content
     * of all.
     */
    public PartitionContent inAnyOrder(List<UnaryOperator<UpdateBuilder>> updates) {
        List<List<UnaryOperator<UpdateBuilder>>> orders = new ArrayList<>();
        permute(new ArrayList<>(), updates, orders);
        for (int i = 0; i < orders.size(); i++)
            for (UnaryOperator<UpdateBuilder> update : orders.get(i)) {
                write(update.apply(table.update("p" + i)).build());
                if (i % 5 == 4) flush();
            }
        return everywhere(
                () -> {
                    PartitionContent first = read(table.key("p0"));
                    for (int i = 1; i < orders.size(); i++)
                        requireSame(
                                "another order of the same updates",
                                first.withoutKey(),
                                read(table.key("p" + i)).withoutKey());
                    return first;
                });
    }

    private static <T> void permute(List<T> begun, List<T> rest, List<List<T>> all) {
        if (rest.isEmpty()) all.add(List.copyOf(begun));
        for (int i = 0; i < rest.size(); i++) {
            List<T> others = new ArrayList<>(rest);
            begun.add(others.remove(i));
            permute(begun, others, all);
            begun.remove(begun.size() - 1);
        }
    }

    private static void requireSame(String after, Object expected, Object actual) {
        if (!Objects.equals(expected, actual))
            throw new AssertionError("After " + after + ":\n" + difference(expected, actual));
    }

    private static String difference(Object expected, Object actual) {
        return "--- expected, as Cassandra's memtable has it\n"
                + expected
                + "\n--- actual\n"
                + actual
                + "\n---";
    }
}
