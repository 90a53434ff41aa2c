// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.StorageEngine;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexManager;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.index.internal.composites.RegularColumnIndex;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;

/** A table in an engine, with one legacy index that Cassandra has registered, without a node. */
final class HollowTable {
    final Map<String, Index> registered = new ConcurrentHashMap<>();
    final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    final CassandraIndex index = Hollow.of(RegularColumnIndex.class);
    final Tracker tracker = Tracker.newDummyTracker();
    final TableGenerations stores;

    HollowTable(Path directory, StorageEngine engine) {
        TableMetadataRef metadata = TestTables.reference();
        stores = TableGenerations.open("t", metadata, () -> engine, List.of(directory), Disk.REAL);
        SecondaryIndexManager manager = Hollow.of(SecondaryIndexManager.class);
        Hollow.set(manager, SecondaryIndexManager.class, "indexes", registered);
        tracker.reset(HollowMemtable.of(stores, 0));
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(cfs, ColumnFamilyStore.class, "valid", true);
        Hollow.set(cfs, ColumnFamilyStore.class, "indexManager", manager);
        Hollow.set(index, CassandraIndex.class, "baseCfs", cfs);
        Hollow.set(
                index,
                CassandraIndex.class,
                "indexedColumn",
                metadata.get().getColumn(ByteBufferUtil.bytes("v")));
        Hollow.set(
                index,
                CassandraIndex.class,
                "metadata",
                IndexMetadata.fromSchemaMetadata(
                        "t_v", IndexMetadata.Kind.COMPOSITES, Map.of("target", "v")));
        registered.put("t_v", index);
    }

    /** Does something as on a node: else no table has memtables. */
    static <T> T asOnANode(Callable<T> action) throws Exception {
        Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", true);
        try {
            return action.call();
        } finally {
            Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", false);
        }
    }
}
