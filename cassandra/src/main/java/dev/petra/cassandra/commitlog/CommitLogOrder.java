// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.commitlog;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.WriteStallException;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.marshal.UUIDType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.SchemaConstants;
import org.apache.cassandra.schema.TableId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the order between Cassandra's commit log and the engines' logs. In stock Cassandra the
 * commit log has a write and, behind it, records that rely on the write: that a Paxos round has
 * committed it, or that its batch is done. After a power loss such a record is there only if the
 * write is. An engine has a log of its own; so before a section of the commit log with such a
 * record becomes valid, the engines sync the writes that the record may rely on.
 */
public final class CommitLogOrder {
    private static final Logger logger = LoggerFactory.getLogger(CommitLogOrder.class);

    /** The tables named by Paxos records that are in no valid section of the commit log yet. */
    private static final Set<TableId> named = ConcurrentHashMap.newKeySet();

    /** Whether such a section has records that do not name the tables on which they rely. */
    private static volatile boolean any;

    /** Whether the last sync was refused, and that is told. */
    private static volatile boolean stalled;

    private CommitLogOrder() {}

    /**
     * Before a mutation is appended to the commit log. What it relies on has been written by then:
     * whoever sees it noted here, and syncs then, syncs that.
     */
    public static void note(Mutation mutation) {
        if (!mutation.getKeyspaceName().equals(SchemaConstants.SYSTEM_KEYSPACE_NAME)) return;
        for (PartitionUpdate update : mutation.getPartitionUpdates()) {
            if (!update.metadata().name.equals(SystemKeyspace.PAXOS)
                    || !update.deletionInfo().isLive()) any = true;
            else
                for (Row row : update)
                    named.add(
                            TableId.fromUUID(
                                    UUIDType.instance.compose(row.clustering().bufferAt(0))));
        }
    }

    /**
     * When all records of a section of the commit log are written, and before its marker is, which
     * makes them valid.
     *
     * @throws FSError if an engine cannot sync, so that {@code commit_failure_policy} decides; with
     *     {@code ignore} it is only logged
     */
    public static synchronized void beforeMarker(Supplier<List<StorageEngine>> engines) {
        // One call at a time: what another one is syncing is not synced yet.
        if (!any && named.isEmpty()) return;
        boolean all = any;
        Set<TableId> tables = Set.copyOf(named);
        // What is noted from here on comes into the next section or is synced now.
        if (all) any = false;
        named.removeAll(tables);
        boolean complete = false;
        try {
            // The next section's marker tries a table again that takes no writes; until then this
            // one is valid in spite of what the table lacks.
            complete = sync(engines.get(), all, tables);
        } catch (RuntimeException | Error e) {
            // The place of the marker is taken: if Cassandra came to this section again it would
            // leave a hole of zeros there, at which replay ends. It does not, where the policy ends
            // the thread.
            if (DatabaseDescriptor.getCommitFailurePolicy() != Config.CommitFailurePolicy.ignore)
                throw e;
            logger.error(
                    "A storage engine cannot sync the tables that the commit log refers to. The"
                            + " node goes on, because commit_failure_policy is 'ignore': if the"
                            + " machine loses power, the commit log may have records of writes"
                            + " that are lost. Check the disks of the data directories",
                    e);
        } finally {
            if (!complete) {
                named.addAll(tables);
                if (all) any = true;
            }
        }
    }

    /**
     * Before a memtable of a system table becomes an SSTable, which is durable at once.
     *
     * @throws FSError if an engine cannot sync, so that the flush fails and {@code
     *     disk_failure_policy} decides; where the commit log or the disk is to be ignored it is
     *     only logged
     */
    public static void beforeFlush(List<StorageEngine> engines) {
        try {
            boolean unused = sync(engines, true, Set.of());
        } catch (RuntimeException | Error e) {
            if (DatabaseDescriptor.getCommitFailurePolicy() != Config.CommitFailurePolicy.ignore
                    && DatabaseDescriptor.getDiskFailurePolicy() != Config.DiskFailurePolicy.ignore)
                throw e;
            logger.error(
                    "A storage engine cannot sync its tables before a system table is flushed. The"
                            + " flush goes on, because commit_failure_policy or"
                            + " disk_failure_policy is 'ignore': if the machine loses power, the"
                            + " system table may refer to writes that are lost. Check the disks of"
                            + " the data directories",
                    e);
        }
    }

    /**
     * @return whether all of them are synced, but for what is logged
     */
    private static boolean sync(List<StorageEngine> engines, boolean all, Set<TableId> tables) {
        boolean complete = true;
        for (StorageEngine engine : engines) {
            try {
                engine.syncAcknowledged(table -> all || tables.contains(table));
            } catch (WriteStallException e) {
                // A full disk fails that table's writes until there is room, and not the node.
                complete = false;
                if (!stalled)
                    logger.error(
                            "A table that the commit log refers to is not synced yet, because its"
                                    + " writes are refused. It is synced when they go on; until"
                                    + " then the commit log may have records of writes that are"
                                    + " lost if the machine loses power",
                            e);
            }
        }
        stalled = !complete;
        return complete;
    }
}
