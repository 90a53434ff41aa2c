// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.view.View;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Why a table cannot be used in an engine although its schema puts it there. {@code SchemaGate}
 * refuses the statements by which it would come to that, but not those that a node without the
 * engine executes, nor another class of a configuration in {@code cassandra.yaml}.
 *
 * <p>Views, and indexes of SASI, of other custom classes and of the kind KEYS, are built from
 * SSTables and flushed memtables, so they would lack rows without a word. The table fails instead,
 * until they are dropped, or the table leaves the engine; nothing is migrated in meanwhile.
 */
public final class Unfit {
    private static final Logger logger = LoggerFactory.getLogger(Unfit.class);

    private static final String MEND =
            ", or give the table a memtable configuration of Cassandra's on this node";

    private Unfit() {}

    /**
     * The reason, or null if the table is fit. Asked for each read and write: nothing is allocated
     * then.
     *
     * @param cfs a table in an engine
     */
    public static @Nullable String reason(ColumnFamilyStore cfs) {
        TableMetadata table = cfs.metadata();
        if (table.indexes.isEmpty()
                && !cfs.viewManager.hasViews()
                && !table.isView()
                && !table.isCompactTable()
                && !(table.params.cdc && DatabaseDescriptor.isCDCEnabled())) return null;
        boolean engineHasNone = !table.indexes.isEmpty() && !hasIndexes(cfs);
        if (engineHasNone || !IndexSupport.supportsAllOf(table))
            for (IndexMetadata index : table.indexes)
                if (engineHasNone || IndexSupport.reason(table, index) != null)
                    return "it is in a storage engine and has the index '"
                            + index.name
                            + "', which would not show what is in the engine. DROP INDEX "
                            + ColumnIdentifier.maybeQuote(table.keyspace)
                            + "."
                            + ColumnIdentifier.maybeQuote(index.name)
                            + MEND;
        for (View view : cfs.viewManager)
            return "it is in a storage engine and has the materialized view '"
                    + view.name
                    + "', which would not show what is in the engine. DROP MATERIALIZED VIEW "
                    + ColumnIdentifier.maybeQuote(table.keyspace)
                    + "."
                    + ColumnIdentifier.maybeQuote(view.name)
                    + MEND;
        if (table.isView())
            return "it is a materialized view in a storage engine, which is not supported. Drop it"
                    + MEND;
        if (table.isCompactTable())
            return "it is in a storage engine and has COMPACT STORAGE, which is not supported."
                    + " ALTER TABLE "
                    + table
                    + " DROP COMPACT STORAGE"
                    + MEND;
        if (!(table.params.cdc && DatabaseDescriptor.isCDCEnabled())) return null;
        return "it is in a storage engine and has cdc = true, but its writes skip the commit log,"
                + " which change data capture reads. ALTER TABLE "
                + table
                + " WITH cdc = false"
                + MEND;
    }

    private static boolean hasIndexes(ColumnFamilyStore cfs) {
        EngineMemtable memtable = EngineMemtables.current(cfs);
        return memtable == null || memtable.generation().stores().hasIndexes();
    }

    /** Tells the operator of a table that fails from here on, because of an index for example. */
    public static void logIfSo(ColumnFamilyStore cfs) {
        String reason = reason(cfs);
        if (reason != null)
            logger.error(
                    "Table {} cannot be used, every read and write of it will fail: {}",
                    cfs.metadata(),
                    reason);
    }

    /** As {@link #reason}, or null if the table is in no engine, or about to leave it. */
    static @Nullable String failure(ColumnFamilyStore cfs) {
        return isCurrent(cfs) ? reason(cfs) : null;
    }

    /**
     * Fails if rows may be missing in what is read from an index or a view. What is on its way out
     * of an engine is in them only when {@code MigrateOut} has built them; read by itself the table
     * is whole all the while, as it must be for who builds them.
     *
     * <p>The indexes that a store keeps are asked of what is in the engine all the while, and say
     * themselves what they lack.
     *
     * @param table with an index, or a view
     * @param indexes by which the rows are looked for, if they are
     * @throws UnavailableStoreException if the table, or that which the view is of, is in an engine
     *     and unfit for it, or on its way out
     */
    public static void checkRead(TableMetadata table, Index.@Nullable QueryPlan indexes) {
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(table.id);
        if (cfs == null) return;
        if (table.isView()) {
            TableMetadataRef base = View.findBaseTable(table.keyspace, table.name);
            ColumnFamilyStore of = base == null ? null : ColumnFamilyStore.getIfExists(base.id);
            if (of != null) checkFound(of, "the materialized view '" + table.name + "'");
        }
        if (indexes != null && !areKept(indexes)) checkFound(cfs, "its indexes");
        else if (isCurrent(cfs)) check(cfs);
    }

    private static boolean areKept(Index.QueryPlan indexes) {
        return indexes.getIndexes().stream().allMatch(IndexSupport::isKept);
    }

    private static void checkFound(ColumnFamilyStore cfs, String by) {
        var now = cfs.getTracker().getView();
        if (now.getCurrentMemtable() instanceof EngineMemtable) check(cfs);
        else if (EngineMemtables.departing(now) != null)
            throw new UnavailableStoreException(
                    cfs.metadata().toString(),
                    new IllegalStateException(
                            "it is being migrated out of a storage engine, and only when that is"
                                    + " over (see petra.migrations) reads by "
                                    + by
                                    + " find all of it"));
    }

    private static boolean isCurrent(ColumnFamilyStore cfs) {
        return cfs.getCurrentMemtable() instanceof EngineMemtable;
    }

    /**
     * Fails if a table cannot be used in an engine.
     *
     * @throws UnavailableStoreException with the reason
     */
    public static void check(ColumnFamilyStore cfs) {
        String reason = reason(cfs);
        if (reason != null)
            throw new UnavailableStoreException(
                    cfs.metadata().toString(), new IllegalStateException(reason));
    }
}
