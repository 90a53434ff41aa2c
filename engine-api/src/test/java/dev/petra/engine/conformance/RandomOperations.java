// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static dev.petra.engine.conformance.RandomSchema.pick;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.marshal.MapType;
import org.apache.cassandra.db.marshal.SetType;
import org.apache.cassandra.db.marshal.TimeUUIDType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.ExcludingBounds;
import org.apache.cassandra.dht.IncludingExcludingBounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.CounterId;

/**
 * Random updates, slices, filters and ranges. Few values, few clusterings and few timestamps, so
 * that everything meets everything else, ties included.
 *
 * <p>Left out, because Cassandra's own answer depends on the order or the grouping of merges:
 *
 * <ul>
 *   <li>range tombstones of one timestamp with different local deletion times ({@code
 *       RangeTombstoneList} keeps the first, its merging iterator the later);
 *   <li>deletions of counters in the midst of their timestamps (a merged counter has the higher
 *       timestamp and so saves an older shard);
 *   <li>a collection's deletion and cells of the same timestamp in one row (a row builder keeps
 *       them, a merge does not);
 *   <li>slices of one query that touch (a memtable closes a range tombstone and opens it again at
 *       one place, where others would give nothing; CQL makes no such queries);
 *   <li>shadowable deletions, which nothing in Cassandra 5.0 writes.
 * </ul>
 */
final class RandomOperations {
    private final Random random;

    RandomOperations(Random random) {
        this.random = random;
    }

    /** One statement of an update. */
    Consumer<UpdateBuilder> piece(TableMetadata table) {
        boolean counter = table.isCounter();
        boolean rows = !table.clusteringColumns().isEmpty();
        int kind = random.nextInt(20);
        long timestamp = timestamp();
        if (kind == 0) return deletion(counter, timestamp, UpdateBuilder::deletePartition);
        if (kind <= 4 && rows) {
            Slice slice = slice(table.comparator);
            if (slice != null) {
                long marked = counter ? deletionOfCounters() : timestamp;
                return update ->
                        update.at(marked)
                                .now(UpdateBuilder.NOW + Math.floorMod(marked, 7L))
                                .deleteRange(slice);
            }
        }
        if (kind <= 6) {
            Clustering<?> clustering = clustering(table);
            return deletion(counter, timestamp, update -> update.row(clustering).deletion().end());
        }
        if (kind <= 9 && !table.staticColumns().isEmpty())
            return row(table, Clustering.STATIC_CLUSTERING, timestamp);
        return row(table, clustering(table), timestamp);
    }

    private Consumer<UpdateBuilder> deletion(
            boolean counter, long timestamp, Consumer<UpdateBuilder> deletion) {
        long marked = counter ? deletionOfCounters() : timestamp;
        long now = UpdateBuilder.NOW + random.nextInt(3);
        return update -> deletion.accept(update.at(marked).now(now));
    }

    private long deletionOfCounters() {
        return random.nextInt(3) == 0 ? -1000 : 1000;
    }

    private long timestamp() {
        return switch (random.nextInt(40)) {
            case 0 -> Long.MIN_VALUE + 2;
            case 1 -> Long.MAX_VALUE;
            case 2 -> -3;
            default -> random.nextInt(12);
        };
    }

    private Consumer<UpdateBuilder> row(
            TableMetadata table, Clustering<?> clustering, long timestamp) {
        boolean isStatic = clustering == Clustering.STATIC_CLUSTERING;
        int ttl = random.nextInt(4) == 0 ? 1 + random.nextInt(3) : 0;
        long now = UpdateBuilder.NOW + random.nextInt(3);
        boolean live = !isStatic && !table.isCounter() && random.nextBoolean();
        List<Consumer<UpdateBuilder.RowBuilder>> cells = new ArrayList<>();
        for (ColumnMetadata column : isStatic ? table.staticColumns() : table.regularColumns())
            if (random.nextInt(3) > 0) cells.add(cells(column));
        long counterTimestamp = Math.floorMod(timestamp, 20L);
        boolean counter = table.isCounter();
        return update -> {
            update.at(counter ? counterTimestamp : timestamp).now(now).ttl(counter ? 0 : ttl);
            UpdateBuilder.RowBuilder row = update.row(clustering);
            if (live) row.liveness();
            cells.forEach(cell -> cell.accept(row));
            row.end().ttl(0);
        };
    }

    /** What is done to one column. */
    private Consumer<UpdateBuilder.RowBuilder> cells(ColumnMetadata column) {
        String name = column.name.toString();
        if (column.type.isCounter()) {
            if (random.nextInt(6) == 0) return row -> row.unset(name);
            ByteBuffer context = counter(random);
            return row -> row.set(name, context.duplicate());
        }
        if (!column.isComplex()) {
            if (random.nextInt(4) == 0) return row -> row.unset(name);
            ByteBuffer value = pick(random, Domains.of(column.type));
            return row -> row.set(name, value);
        }
        int kind = random.nextInt(6);
        if (kind == 0) return row -> row.clear(name);
        TreeSet<Integer> indexes = new TreeSet<>();
        for (int i = random.nextInt(3); i >= 0; i--) indexes.add(random.nextInt(4));
        List<Consumer<UpdateBuilder.RowBuilder>> elements = new ArrayList<>();
        for (int index : indexes) elements.add(element(column, name, index));
        boolean overwrite = kind == 1;
        return row -> {
            if (overwrite) row.clearBefore(name);
            elements.forEach(element -> element.accept(row));
        };
    }

    private Consumer<UpdateBuilder.RowBuilder> element(
            ColumnMetadata column, String name, int index) {
        Object element = elementOf(column.type, index);
        if (random.nextInt(4) == 0) return row -> row.remove(name, element);
        if (column.type instanceof SetType) return row -> row.add(name, element);
        AbstractType<?> valueType = UpdateBuilder.valueType(column, element);
        ByteBuffer value = pick(random, Domains.of(valueType));
        return row -> row.put(name, element, value);
    }

    /** One of a few keys, elements, fields or list positions. */
    static Object elementOf(AbstractType<?> type, int index) {
        if (type instanceof UserType udt) return udt.fieldNameAsString(index % udt.size());
        if (type instanceof ListType) return at(Domains.of(TimeUUIDType.instance), index);
        if (type instanceof SetType<?> set) return at(Domains.of(set.getElementsType()), index);
        return at(Domains.of(((MapType<?, ?>) type).getKeysType()), index);
    }

    private static ByteBuffer at(List<ByteBuffer> values, int index) {
        return values.get(index % values.size()).duplicate();
    }

    /** A context of some global shards whose counts follow from their clocks. */
    static ByteBuffer counter(Random random) {
        int shards = 1 + random.nextInt(3);
        CounterContext.ContextState state = CounterContext.ContextState.allocate(shards, 0, 0);
        int id = 0;
        for (int i = 0; i < shards; i++) {
            id += 1 + random.nextInt(2);
            long clock = random.nextLong(1, 6);
            state.writeGlobal(CounterId.fromInt(id), clock, clock * 10 + id);
        }
        return state.context;
    }

    private Clustering<?> clustering(TableMetadata table) {
        ByteBuffer[] values = new ByteBuffer[table.clusteringColumns().size()];
        for (int i = 0; i < values.length; i++) values[i] = value(table.comparator, i);
        return values.length == 0 ? Clustering.EMPTY : Clustering.make(values);
    }

    private ByteBuffer value(ClusteringComparator comparator, int i) {
        return pick(random, Domains.of(comparator.subtype(i))).duplicate();
    }

    /** A slice that is not empty, or null if none was found. */
    private Slice slice(ClusteringComparator comparator) {
        for (int attempt = 0; attempt < 5; attempt++) {
            Slice slice =
                    random.nextInt(4) == 0
                            ? prefix(comparator)
                            : Slice.make(bound(comparator, true), bound(comparator, false));
            if (!slice.isEmpty(comparator)) return slice;
        }
        return null;
    }

    private Slice prefix(ClusteringComparator comparator) {
        Object[] values = values(comparator);
        return Slice.make(
                ClusteringBound.create(comparator, true, true, values),
                ClusteringBound.create(comparator, false, true, values));
    }

    private ClusteringBound<?> bound(ClusteringComparator comparator, boolean start) {
        Object[] values = values(comparator);
        boolean inclusive = values.length == 0 || random.nextBoolean();
        return ClusteringBound.create(comparator, start, inclusive, values);
    }

    private Object[] values(ClusteringComparator comparator) {
        Object[] values = new Object[random.nextInt(comparator.size() + 1)];
        for (int i = 0; i < values.length; i++) values[i] = value(comparator, i);
        return values;
    }

    /** None, all, one or several slices; no two that touch. */
    Slices slices(TableMetadata table) {
        ClusteringComparator comparator = table.comparator;
        int wanted = pick(random, List.of(-1, -1, 0, 1, 1, 1, 2, 2, 3, 4));
        if (wanted < 0) return Slices.ALL;
        if (wanted == 0) return random.nextInt(3) == 0 ? Slices.NONE : Slices.ALL;
        Slices.Builder builder = new Slices.Builder(comparator);
        for (int i = 0; i < wanted; i++) {
            Slice slice = random.nextInt(3) == 0 ? point(table) : slice(comparator);
            if (slice != null) builder.add(slice);
        }
        Slices slices = builder.build();
        for (int i = 1; i < slices.size(); i++)
            if (comparator.compare(slices.get(i - 1).end(), slices.get(i).start()) >= 0)
                return Slices.with(comparator, slices.get(0));
        return slices;
    }

    private Slice point(TableMetadata table) {
        return Slice.make(clustering(table));
    }

    /** A filter: everything, a selection, or more fetched than queried; elements of collections. */
    ColumnFilter filter(TableMetadata table) {
        int kind = random.nextInt(6);
        if (kind <= 1) return ColumnFilter.all(table);
        if (kind == 2) return ColumnFilter.selection(table.regularAndStaticColumns());
        ColumnFilter.Builder builder =
                kind == 3
                        ? ColumnFilter.selectionBuilder()
                        : ColumnFilter.allRegularColumnsBuilder(table, kind == 4);
        for (ColumnMetadata column : table.regularAndStaticColumns()) {
            if (random.nextBoolean()) continue;
            if (!column.isComplex() || column.type.isUDT() || random.nextBoolean()) {
                builder.add(column);
                continue;
            }
            CellPath path = path(column, random.nextInt(4));
            if (random.nextBoolean()) builder.select(column, path);
            else {
                CellPath other = path(column, random.nextInt(4));
                boolean ordered = column.cellPathComparator().compare(path, other) <= 0;
                builder.slice(column, ordered ? path : other, ordered ? other : path);
            }
        }
        return builder.build();
    }

    private static CellPath path(ColumnMetadata column, int index) {
        return CellPath.create((ByteBuffer) elementOf(column.type, index));
    }

    /** A range of partitions, of every kind of bounds, and what is wanted of each. */
    DataRange range(TableMetadata table, List<DecoratedKey> keys) {
        ClusteringIndexFilter filter = clusteringFilter(table);
        if (random.nextInt(4) == 0) return DataRange.allData(table.partitioner, filter);
        PartitionPosition left = position(table, keys);
        PartitionPosition right = position(table, keys);
        if (left.compareTo(right) > 0 && !right.isMinimum()) {
            PartitionPosition swap = left;
            left = right;
            right = swap;
        }
        AbstractBounds<PartitionPosition> bounds =
                switch (random.nextInt(left.equals(right) ? 2 : 4)) {
                    case 0 -> new Bounds<>(left, right);
                    // (x, x] is the whole ring to Cassandra, which unwraps it before a memtable.
                    case 1 ->
                            left.equals(right) && !left.isMinimum()
                                    ? new Bounds<>(left, right)
                                    : new Range<>(left, right);
                    case 2 -> new IncludingExcludingBounds<>(left, right);
                    default -> new ExcludingBounds<>(left, right);
                };
        return new DataRange(bounds, filter);
    }

    private PartitionPosition position(TableMetadata table, List<DecoratedKey> keys) {
        DecoratedKey key = pick(random, keys);
        return switch (random.nextInt(5)) {
            case 0 -> table.partitioner.getMinimumToken().minKeyBound();
            case 1 -> key.getToken().minKeyBound();
            case 2 -> key.getToken().maxKeyBound();
            default -> key;
        };
    }

    private ClusteringIndexFilter clusteringFilter(TableMetadata table) {
        boolean reversed = random.nextInt(3) == 0;
        if (random.nextInt(4) > 0 || table.clusteringColumns().isEmpty())
            return new ClusteringIndexSliceFilter(slices(table), reversed);
        TreeSet<Clustering<?>> names = new TreeSet<>(table.comparator);
        for (int i = random.nextInt(3); i >= 0; i--) names.add(clustering(table));
        return new ClusteringIndexNamesFilter(names, reversed);
    }
}
