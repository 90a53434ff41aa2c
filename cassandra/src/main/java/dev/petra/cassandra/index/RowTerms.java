// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

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
 * The terms of a row, as SAI's memtable index makes them. The row may be a part of one, as a blind
 * write gives it: each part gives the terms of what is in it.
 *
 * <p>Two things differ on purpose, and only towards more terms. What expires is taken for live: a
 * read by another node's clock may still see it. And SAI indexes a row that an update leaves live,
 * which here is known of the update alone; but whatever makes the row live was written once, and
 * gave its terms then.
 */
final class RowTerms {
    /** Before any expiration: of cells and rows, only deletions are not live then. */
    private static final long BEFORE_ALL = 0;

    private RowTerms() {}

    /**
     * What has to be read of rows to derive their terms: the values of the indexed columns, and of
     * all others only that they are there. Such a cell may be all that makes a row live, and a live
     * row is found by the columns of its key; so does a static row by those of the partition key.
     */
    static ColumnFilter columns(TableMetadata table, Collection<ColumnMetadata> indexed) {
        RegularAndStaticColumns.Builder values = RegularAndStaticColumns.builder();
        for (ColumnMetadata column : indexed) if (!column.isPrimaryKeyColumn()) values.add(column);
        return ColumnFilter.selection(table, values.build(), true);
    }

    /** Whether a row has anything that an index could find it by. */
    static boolean hasLiveData(Row row) {
        return row.hasLiveData(BEFORE_ALL, false);
    }

    /**
     * Derives the terms of one index.
     *
     * @param row with live data
     * @param analyzer for this call alone, or null
     * @param fits whether a term is small enough to be indexed
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
     * The bytes of a term, by which the store sorts.
     *
     * @param encoded what {@link IndexTermType#asIndexBytes} or an analyzer made
     */
    static ByteBuffer comparable(IndexTermType type, ByteBuffer encoded) {
        return ByteBuffer.wrap(
                ByteSourceInverse.readBytes(
                        type.asComparableBytes(encoded, ByteComparable.Version.OSS50)));
    }
}
