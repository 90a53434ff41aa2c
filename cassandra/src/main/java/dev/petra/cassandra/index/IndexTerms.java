// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.nio.ByteBuffer;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.schema.ColumnMetadata;

/**
 * What the two kinds of indexes that a store can keep have in common: Storage-Attached Indexes, and
 * Cassandra's legacy indexes, those of a plain {@code CREATE INDEX} ({@link CassandraIndex}). Every
 * method takes one of these two. Thread-safe.
 */
final class IndexTerms {
    private IndexTerms() {}

    static String name(Index index) {
        return index.getIndexMetadata().name;
    }

    static ColumnFamilyStore table(Index index) {
        return index instanceof StorageAttachedIndex sai ? sai.baseCfs() : legacy(index).baseCfs;
    }

    static ColumnMetadata column(Index index) {
        return index instanceof StorageAttachedIndex sai
                ? sai.termType().columnMetadata()
                : legacy(index).getIndexedColumn();
    }

    /**
     * Whether the table has it still: not after DROP INDEX, also if there is another of the name.
     */
    static boolean isValid(Index index) {
        return index instanceof StorageAttachedIndex sai
                ? sai.isIndexValid().getAsBoolean()
                : table(index).indexManager.getIndexByName(name(index)) == index;
    }

    /**
     * Derives the terms of a row, or of a part of one.
     *
     * @param row with live data
     * @param anySize also terms that are too large to be indexed today
     */
    static void derive(
            Index index, DecoratedKey key, Row row, boolean anySize, Consumer<ByteBuffer> terms) {
        if (index instanceof StorageAttachedIndex sai)
            RowTerms.derive(
                    sai.termType(),
                    sai.hasAnalyzer() ? sai.analyzer() : null,
                    term -> anySize || sai.validateTermSize(key, term, false, null),
                    key,
                    row,
                    terms);
        else LegacyTerms.derive(legacy(index), key, row, terms);
    }

    /**
     * Whether a row has a term, or one that is equal by its type. Two writes may give a row equal
     * values of several forms, such as the decimals 1.0 and 1.00: it has an entry of each, by which
     * queries find it, and keeps one. So an entry of a column of the primary key is of every live
     * row that it leads to.
     *
     * @param row whole, of the key and the clustering that the entry has
     * @param term of an entry
     */
    static boolean isOf(Index index, DecoratedKey key, Row row, ByteBuffer term) {
        if (!RowTerms.hasLiveData(row)) return false;
        if (column(index).isPrimaryKeyColumn()) return true;
        if (!(index instanceof StorageAttachedIndex))
            return LegacyTerms.isOf(legacy(index), key, row, term);
        boolean[] found = new boolean[1];
        // Whatever the limit of the size of terms: it may have been lowered.
        derive(index, key, row, true, derived -> found[0] |= derived.equals(term));
        return found[0];
    }

    private static CassandraIndex legacy(Index index) {
        return (CassandraIndex) index;
    }
}
