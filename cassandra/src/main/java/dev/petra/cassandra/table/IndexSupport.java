// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import com.google.common.collect.MapMaker;
import java.util.Arrays;
import java.util.Map;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.cql3.statements.schema.IndexTarget;
import org.apache.cassandra.db.marshal.VectorType;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.TargetParser;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.index.sai.memory.MemtableIndex;
import org.apache.cassandra.index.sasi.SASIIndex;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.Indexes;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/** Which indexes a table in an engine can have. Thread-safe. */
public final class IndexSupport {
    /** Cassandra 5.0.6 does not tell the index of a memtable which memtable it is of. */
    private static final boolean RELEASE_HAS_THEM =
            Arrays.stream(MemtableIndex.class.getConstructors())
                    .anyMatch(
                            constructor ->
                                    Arrays.asList(constructor.getParameterTypes())
                                            .contains(Memtable.class));

    /** Whether a table can have all of them. */
    private static final Map<Indexes, Boolean> known = new MapMaker().weakKeys().makeMap();

    /** Why a table in some engine cannot have any index. */
    public static final String ENGINE_HAS_NONE = "this engine has no indexes.";

    private IndexSupport() {}

    /**
     * Whether a table in an engine can have all indexes that it has. Asked for each read and write.
     */
    static boolean supportsAllOf(TableMetadata table) {
        Boolean supported = known.get(table.indexes);
        if (supported == null) {
            supported = table.indexes.stream().allMatch(index -> reason(table, index) == null);
            known.put(table.indexes, supported);
        }
        return supported;
    }

    /** Whether the store of a table keeps the entries of an index, if the table may have it. */
    public static boolean isKept(Index index) {
        return index instanceof StorageAttachedIndex || index instanceof CassandraIndex;
    }

    /** Why a table in an engine cannot have an index, and the mend, or null if it can. */
    public static @Nullable String reason(TableMetadata table, IndexMetadata index) {
        if (!RELEASE_HAS_THEM)
            return "indexes need Cassandra 5.0.7 or later. Upgrade this node first";
        // A legacy index, of a plain CREATE INDEX.
        if (index.kind == IndexMetadata.Kind.COMPOSITES) return null;
        String type = index.getIndexClassName();
        if (!type.equals(StorageAttachedIndex.class.getName()))
            return (type.equals(SASIIndex.class.getName())
                            ? "SASI indexes are not supported."
                            : index.isCustom()
                                    ? "custom index classes are not supported."
                                    : "indexes of the kind KEYS are not supported.")
                    + " Use CREATE INDEX "
                    + ColumnIdentifier.maybeQuote(index.name)
                    + " ON "
                    + table
                    + " ("
                    // As it was written: a column, or a part of a collection.
                    + index.options.getOrDefault(IndexTarget.TARGET_OPTION_NAME, "…")
                    + ") USING 'sai'";
        if (TargetParser.parse(table, index).left.type.unwrap() instanceof VectorType)
            return "an index on a vector searches a graph, which Cassandra keeps beside its"
                    + " SSTables and the engine does not have. Such a table needs a memtable of"
                    + " Cassandra's";
        return null;
    }
}
