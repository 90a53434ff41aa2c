// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.engine.DroppedColumns;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.Iterator;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.index.sai.analyzer.AbstractAnalyzer;
import org.apache.cassandra.index.sai.utils.IndexTermType;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.bytecomparable.ByteComparable;
import org.apache.cassandra.utils.bytecomparable.ByteSourceInverse;
import org.jspecify.annotations.Nullable;

/**
 * Derives the terms of a row as SAI's memtable index does. Writes do not read, so the row may be
 * only what one update has of it; each update gives the terms of its own cells.
 *
 * <p>Two things differ on purpose; both only add terms. Cells with a TTL count as live even when
 * they have expired, because a read by another node's clock may still see them. And SAI decides
 * whether the row is live by the row as a whole, here it is decided by the update alone: the update
 * that made the row live gave its terms when it was written.
 */
final class RowTerms {
    /** A time before any expiration: nothing has expired, only deletions are not live. */
    private static final long BEFORE_ALL = 0;

    private RowTerms() {}

    /**
     * Returns what a read needs to derive terms: the values of the indexed columns, and of all
     * other columns only whether they have a cell. A cell in any column makes its row live, and an
     * index on a column of the primary key finds each live row; an index on a column of the
     * partition key finds live static rows too. The columns that the table has dropped are among
     * the others: if one is added again, what was written to it after the drop lets its row live.
     */
    static ColumnFilter columns(TableMetadata table, Collection<ColumnMetadata> indexed) {
        return filter(table, indexed, true);
    }

    /**
     * The same as {@link #columns}.
     *
     * @param ofStaticRows false if only other rows are read, which static columns say nothing of
     */
    static ColumnFilter filter(
            TableMetadata table, Collection<ColumnMetadata> indexed, boolean ofStaticRows) {
        RegularAndStaticColumns.Builder values = RegularAndStaticColumns.builder();
        for (ColumnMetadata column : indexed) if (!column.isPrimaryKeyColumn()) values.add(column);
        return ColumnFilter.selection(
                DroppedColumns.addedAgain(table), values.build(), ofStaticRows);
    }

    /** Whether a row, or what one update has of it, has live data. */
    static boolean hasLiveData(Row row) {
        return row.hasLiveData(BEFORE_ALL, false);
    }

    /**
     * Derives the terms of one index.
     *
     * @param row one with live data
     * @param analyzer one that no other thread uses; null if the index has none
     * @param fits whether a term is small enough to be indexed
     * @param terms is given each term, in the form by which the store sorts
     */
    static void derive(
            IndexTermType type,
            @Nullable AbstractAnalyzer analyzer,
            Predicate<ByteBuffer> fits,
            DecoratedKey key,
            Row row,
            Consumer<ByteBuffer> terms) {
        if (!type.isNonFrozenCollection()) {
            one(type, analyzer, fits, type.valueOf(key, row, BEFORE_ALL), terms);
            return;
        }
        Iterator<ByteBuffer> values = type.valuesOf(row, BEFORE_ALL);
        while (values != null && values.hasNext()) one(type, analyzer, fits, values.next(), terms);
    }

    private static void one(
            IndexTermType type,
            @Nullable AbstractAnalyzer analyzer,
            Predicate<ByteBuffer> fits,
            @Nullable ByteBuffer value,
            Consumer<ByteBuffer> terms) {
        if (value == null || (value.remaining() == 0 && type.skipsEmptyValue())) return;
        ByteBuffer encoded = type.asIndexBytes(value);
        if (analyzer == null) {
            if (fits.test(encoded)) terms.accept(comparable(type, encoded));
            return;
        }
        try {
            analyzer.reset(encoded);
            while (analyzer.hasNext()) {
                ByteBuffer term = analyzer.next();
                if (fits.test(term)) terms.accept(comparable(type, term));
            }
        } finally {
            analyzer.end();
        }
    }

    /**
     * Returns a term in the form by which the store sorts: in the order of unsigned bytes.
     *
     * @param encoded the term from {@link IndexTermType#asIndexBytes} or from an analyzer
     */
    static ByteBuffer comparable(IndexTermType type, ByteBuffer encoded) {
        return ByteBuffer.wrap(
                ByteSourceInverse.readBytes(
                        type.asComparableBytes(encoded, ByteComparable.Version.OSS50)));
    }
}
