// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.nio.ByteBuffer;
import java.util.function.Consumer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.CollectionType;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.index.internal.composites.CollectionEntryIndex;
import org.apache.cassandra.index.internal.composites.CollectionKeyIndex;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;

/**
 * The terms of a row in one of Cassandra's legacy indexes, and the row by which its hidden table
 * would show an entry. A term is the key that the entry's partition has in the hidden table, byte
 * for byte: Cassandra looks for no other bytes, also where two are equal by their type.
 *
 * <p>As in {@link RowTerms}, the row may be a part of one, and what expires is taken for live.
 */
final class LegacyTerms {
    /** Before any expiration: only deletions are not live then. */
    private static final long BEFORE_ALL = 0;

    private LegacyTerms() {}

    /** What of a cell is indexed. */
    enum Part {
        /** The path: the element of a set, the key of a map. */
        KEY,
        VALUE,
        /** Path and value: an entry of a map. */
        ENTRY
    }

    /**
     * Derives the terms of one index.
     *
     * @param row with live data
     */
    static void derive(
            CassandraIndex index, DecoratedKey key, Row row, Consumer<ByteBuffer> terms) {
        derive(index.baseCfs.metadata(), index.getIndexedColumn(), part(index), key, row, terms);
    }

    private static Part part(CassandraIndex index) {
        return index instanceof CollectionKeyIndex
                ? Part.KEY
                : index instanceof CollectionEntryIndex ? Part.ENTRY : Part.VALUE;
    }

    /** Whether a row has a term or one that is equal by its type, as Cassandra's queries ask. */
    static boolean isOf(CassandraIndex index, DecoratedKey key, Row row, ByteBuffer term) {
        return isOf(
                index.baseCfs.metadata(), index.getIndexedColumn(), part(index), key, row, term);
    }

    static boolean isOf(
            TableMetadata table,
            ColumnMetadata column,
            Part part,
            DecoratedKey key,
            Row row,
            ByteBuffer term) {
        AbstractType<?> type = type(column, part);
        boolean[] found = new boolean[1];
        derive(
                table,
                column,
                part,
                key,
                row,
                derived -> found[0] |= type.compare(derived, term) == 0);
        return found[0];
    }

    private static AbstractType<?> type(ColumnMetadata column, Part part) {
        if (!column.isComplex()) return column.type;
        CollectionType<?> type = (CollectionType<?>) column.type;
        return switch (part) {
            case KEY -> type.nameComparator();
            case VALUE -> type.valueComparator();
            case ENTRY -> CompositeType.getInstance(type.nameComparator(), type.valueComparator());
        };
    }

    static void derive(
            TableMetadata table,
            ColumnMetadata column,
            Part part,
            DecoratedKey key,
            Row row,
            Consumer<ByteBuffer> terms) {
        switch (column.kind) {
            case PARTITION_KEY -> add(component(table, key, column), terms);
            case CLUSTERING -> {
                if (!row.isStatic()) add(row.clustering().bufferAt(column.position()), terms);
            }
            case REGULAR, STATIC -> {
                if (row.isStatic() != column.isStatic()) return;
                if (!column.isComplex()) {
                    add(part, row.getCell(column), terms);
                    return;
                }
                ComplexColumnData collection = row.getComplexColumnData(column);
                if (collection == null) return;
                for (Cell<?> cell : collection) add(part, cell, terms);
            }
        }
    }

    private static ByteBuffer component(
            TableMetadata table, DecoratedKey key, ColumnMetadata column) {
        // Cassandra has no such index where the partition key is one column.
        CompositeType type = (CompositeType) table.partitionKeyType;
        return type.split(key.getKey())[column.position()];
    }

    private static void add(Part part, @Nullable Cell<?> cell, Consumer<ByteBuffer> terms) {
        if (cell == null || !cell.isLive(BEFORE_ALL)) return;
        add(
                switch (part) {
                    case KEY -> cell.path().get(0);
                    case VALUE -> cell.buffer();
                    case ENTRY ->
                            CompositeType.build(
                                    ByteBufferAccessor.instance, cell.path().get(0), cell.buffer());
                },
                terms);
    }

    /** A larger one is refused by writes and by queries; it may be of a time without the index. */
    private static void add(@Nullable ByteBuffer term, Consumer<ByteBuffer> terms) {
        if (term != null && term.remaining() < FBUtilities.MAX_UNSIGNED_SHORT) terms.accept(term);
    }

    /**
     * The clustering of an entry in the hidden table: the partition key, then the clustering
     * columns of the row without the indexed one. A static row has none. Where the hidden table has
     * the path of a cell behind them, it is empty, and so before all others: Cassandra does not
     * look at it.
     */
    static Clustering<?> hidden(CassandraIndex index, DecoratedKey key, Clustering<?> clustering) {
        return hidden(
                index.baseCfs.metadata(),
                index.getIndexedColumn(),
                index.getIndexComparator().size(),
                key,
                clustering);
    }

    static Clustering<?> hidden(
            TableMetadata table,
            ColumnMetadata indexed,
            int columns,
            DecoratedKey key,
            Clustering<?> clustering) {
        ByteBuffer[] values = new ByteBuffer[columns];
        int count = 0;
        values[count++] = key.getKey();
        if (clustering != Clustering.STATIC_CLUSTERING) {
            for (ColumnMetadata column : table.clusteringColumns())
                if (!column.equals(indexed))
                    values[count++] = clustering.bufferAt(column.position());
            if (count < columns) values[count] = ByteBuffer.allocate(0);
        }
        return Clustering.make(values);
    }

    /**
     * How many columns of {@link #hidden}, from the first, are the same for all entries of one row:
     * all but the path of the cell. Of a static column those of the partition.
     */
    static int rowColumns(TableMetadata table, ColumnMetadata indexed) {
        if (indexed.isStatic()) return 1;
        int columns = 1 + table.clusteringColumns().size();
        return indexed.isClusteringColumn() ? columns - 1 : columns;
    }
}
