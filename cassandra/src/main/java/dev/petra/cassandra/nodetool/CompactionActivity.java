// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.nodetool;

import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.shadow.TableComparisons;
import dev.petra.cassandra.table.CompactionInfos;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.engine.BackgroundTask;
import dev.petra.engine.BackgroundTask.Kind;
import dev.petra.engine.TableStore;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.TimeUUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the engines do in the background, and comparisons of tables with their shadows, among
 * Cassandra's compactions. It is not registered there: whatever wants a table's SSTables for
 * itself, such as TRUNCATE, would wait for it.
 */
public final class CompactionActivity {
    private static final Logger logger = LoggerFactory.getLogger(CompactionActivity.class);

    /** The types of operations for which an engine is asked, or that are as these in an engine. */
    private static final Set<OperationType> COMPACTIONS =
            Set.of(
                    OperationType.COMPACTION,
                    OperationType.MAJOR_COMPACTION,
                    OperationType.TOMBSTONE_COMPACTION,
                    OperationType.CLEANUP,
                    OperationType.GARBAGE_COLLECT,
                    OperationType.UPGRADE_SSTABLES,
                    OperationType.VERIFY);

    private CompactionActivity() {}

    /** Adds it, in the form that {@code nodetool compactionstats} wants. */
    public static void addTo(List<Map<String, String>> shown) {
        Engines.forEach(
                (key, engine) -> {
                    for (BackgroundTask task : engine.backgroundTasks()) shown.add(row(task));
                });
        for (CompactionInfo each : TableComparisons.running()) shown.add(each.asMap());
    }

    private static Map<String, String> row(BackgroundTask task) {
        TableMetadata table = task.store().metadata().get();
        long total = Math.max(task.totalBytes(), task.doneBytes());
        return CompactionInfos.withoutSSTables(
                        table,
                        task.kind() == Kind.FLUSH ? OperationType.FLUSH : OperationType.COMPACTION,
                        task.doneBytes(),
                        total,
                        CompactionInfo.Unit.BYTES,
                        TimeUUID.Generator.nextTimeUUID())
                .asMap();
    }

    /**
     * Ends those compactions and comparisons that somebody asked for. What an engine begins by
     * itself goes on: it would only begin again.
     *
     * @param type of {@code nodetool stop}
     */
    public static void stop(String type) {
        if (OperationType.UNKNOWN.name().equals(type)) TableComparisons.stop();
        if (COMPACTIONS.stream().noneMatch(compaction -> compaction.name().equals(type))) return;
        TableRegistry.forEach(
                (table, stores) -> {
                    try {
                        stores.current().ifOpen(TableStore::stopCompactions);
                    } catch (RuntimeException | FSError e) {
                        logger.warn("Compactions of {} could not be stopped", table, e);
                    }
                });
        logger.info(
                "Compactions and purges of tables in storage engines were stopped. Automatic"
                        + " compaction goes on; 'nodetool disableautocompaction' ends that.");
    }
}
