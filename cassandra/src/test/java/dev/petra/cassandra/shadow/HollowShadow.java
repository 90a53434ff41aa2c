// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import com.codahale.metrics.Counter;
import dev.petra.cassandra.Hollow;
import dev.petra.engine.TableStore;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.GuardrailsOptions;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.metrics.TableMetrics;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.jspecify.annotations.Nullable;

/** Shadows of tables without a node, whose copies have caught up. */
final class HollowShadow {
    private HollowShadow() {}

    /** What a store does for a read. */
    interface Reading {
        @Nullable Object read() throws Throwable;
    }

    /** Has a hollow table become that one, without SSTables. */
    static void begin(ColumnFamilyStore cfs, TableMetadata table) {
        become(cfs, table);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", Tracker.newDummyTracker());
    }

    /** Alters it. */
    static void become(ColumnFamilyStore cfs, TableMetadata table) {
        Hollow.set(
                cfs, ColumnFamilyStore.class, "metadata", TableMetadataRef.forOfflineTools(table));
    }

    /** Gives a hollow table these directories. */
    static void lieIn(ColumnFamilyStore cfs, Path... tableDirectories) {
        Directories directories = Hollow.of(Directories.class);
        Hollow.set(
                directories,
                Directories.class,
                "dataPaths",
                Arrays.stream(tableDirectories).map(File::new).toArray(File[]::new));
        Hollow.set(cfs, ColumnFamilyStore.class, "directories", directories);
    }

    /** Has a hollow table take so much on disk, on a node without guardrails. */
    static void takes(ColumnFamilyStore cfs, long bytes) {
        TableMetrics metrics = Hollow.of(TableMetrics.class);
        Counter size = new Counter();
        size.inc(bytes);
        Hollow.set(metrics, TableMetrics.class, "liveDiskSpaceUsed", size);
        Hollow.set(cfs, ColumnFamilyStore.class, "metric", metrics);
        GuardrailsOptions none = new GuardrailsOptions(new Config());
        Hollow.set(null, DatabaseDescriptor.class, "guardrails", none);
    }

    static Shadow of(ColumnFamilyStore cfs, boolean answers) {
        return new Shadow(
                cfs,
                ShadowFactory.consume(new HashMap<>(Map.of("engine", "rocks")), answers),
                null);
    }

    /**
     * A copy that has all of a table.
     *
     * @param now of the clock of the table's compactions, in seconds
     * @param reading what a read of its store gives; everything else does nothing
     */
    static ShadowCopy copy(ColumnFamilyStore cfs, long number, long now, Reading reading) {
        TableStore store =
                (TableStore)
                        Proxy.newProxyInstance(
                                HollowShadow.class.getClassLoader(),
                                new Class<?>[] {TableStore.class},
                                (proxy, method, arguments) ->
                                        switch (method.getName()) {
                                            case "read" -> reading.read();
                                            case "scansAreOfOneMoment" -> true;
                                            case "scan" ->
                                                    new SingletonUnfilteredPartitionIterator(
                                                            (UnfilteredRowIterator) reading.read());
                                            default -> null;
                                        });
        ShadowCopy copy =
                new ShadowCopy(
                        cfs, store, number, new LateWrites(), () -> new LateWrites.Moment(now, 10));
        copy.resume(List.of(), null);
        return copy;
    }

    /** Has a shadow that copy. */
    static void has(Shadow shadow, ShadowCopy copy) {
        Hollow.set(shadow, Shadow.class, "copy", copy);
    }

    /** Has a shadow be one of the node's, until {@link #unregister}. */
    static void register(Shadow shadow) {
        registered().put(shadow.cfs.metadata.id, shadow);
        Hollow.set(null, Shadows.class, "any", true);
    }

    static void unregister(Shadow shadow) {
        registered().remove(shadow.cfs.metadata.id, shadow);
        Hollow.set(null, Shadows.class, "any", !registered().isEmpty());
    }

    private static Map<TableId, Shadow> registered() {
        return shadows("tables");
    }

    /** Those of the node that have ended. */
    static Map<TableId, Shadow> former() {
        return shadows("former");
    }

    @SuppressWarnings("unchecked")
    private static Map<TableId, Shadow> shadows(String field) {
        try {
            Field shadows = Shadows.class.getDeclaredField(field);
            shadows.setAccessible(true);
            return (Map<TableId, Shadow>) shadows.get(null);
        } catch (ReflectiveOperationException e) {
            throw new LinkageError(e.getMessage(), e);
        }
    }
}
