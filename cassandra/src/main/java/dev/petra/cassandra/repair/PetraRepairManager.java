// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.repair;

import com.google.common.cache.CacheBuilder;
import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.streaming.StreamCapabilities;
import dev.petra.cassandra.table.EngineMemtable;
import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.metrics.TopPartitionTracker;
import org.apache.cassandra.repair.NoSuchRepairSessionException;
import org.apache.cassandra.repair.TableRepairManager;
import org.apache.cassandra.repair.ValidationPartitionIterator;
import org.apache.cassandra.repair.consistent.LocalSession;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.TimeUUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Repair of a table that is in an engine, in whole or in part. A store does not know what was
 * repaired: an incremental repair compares and streams all of it, and marks nothing. So each
 * replica must have the table in the engine: SSTables would be marked as repaired, and compared
 * with less than all that is here.
 *
 * @param stock Cassandra's own, for what does not touch data
 */
public record PetraRepairManager(
        ColumnFamilyStore cfs, EngineMemtable table, TableRepairManager stock)
        implements TableRepairManager {
    private static final Logger logger = LoggerFactory.getLogger(PetraRepairManager.class);

    /** How long gossip may take to say that a replica takes slices of a new table. */
    private static final Duration GOSSIP = Duration.ofSeconds(15);

    /** The incremental repairs that the log has told of. */
    private static final Set<TimeUUID> told =
            Collections.newSetFromMap(
                    CacheBuilder.newBuilder()
                            .maximumSize(1_000)
                            .<TimeUUID, Boolean>build()
                            .asMap());

    /**
     * @throws UnsupportedOperationException for an incremental repair while a replica has any of
     *     the table elsewhere
     */
    @Override
    public ValidationPartitionIterator getValidationIterator(
            Collection<Range<Token>> ranges,
            TimeUUID parentId,
            TimeUUID sessionId,
            boolean isIncremental,
            long nowInSec,
            TopPartitionTracker.Collector topPartitionCollector)
            throws NoSuchRepairSessionException {
        if (isIncremental) {
            checkReplicas(parentId);
            if (told.add(parentId))
                logger.info(
                        "Incremental repair {}: tables in storage engines, such as {}, are compared"
                                + " in full and not marked as repaired, which is as good as --full,"
                                + " and no cheaper",
                        parentId,
                        table.generation().stores().displayName());
        }
        return new StoreValidation(cfs, table, ranges, parentId, nowInSec, topPartitionCollector);
    }

    private void checkReplicas(TimeUUID parentId) throws NoSuchRepairSessionException {
        LocalSession session = ActiveRepairService.instance().consistent.local.getSession(parentId);
        if (session == null) throw new NoSuchRepairSessionException(parentId);
        if (table.departure() != 0 || !cfs.getLiveSSTables().isEmpty())
            throw refused("it is being migrated (see petra.migrations) on this node");
        long end = System.nanoTime() + GOSSIP.toNanos();
        for (InetAddressAndPort replica : session.participants)
            while (!replica.equals(FBUtilities.getBroadcastAddressAndPort()) && !takes(replica)) {
                if (System.nanoTime() > end)
                    throw refused("replica " + replica + " does not have it in the same engine");
                Uninterruptibles.sleepUninterruptibly(100, TimeUnit.MILLISECONDS);
            }
    }

    private boolean takes(InetAddressAndPort replica) {
        return StreamCapabilities.takes(replica, Engines.get(table.engine()), cfs.metadata.id);
    }

    private UnsupportedOperationException refused(String reason) {
        return new UnsupportedOperationException(
                "Incremental repair cannot include table "
                        + table.generation().stores().displayName()
                        + " of storage engine '"
                        + table.engine().engine()
                        + "': "
                        + reason
                        + ", and would mark as repaired what was not compared. Use nodetool repair"
                        + " --full.");
    }

    @Override
    public Future<?> submitValidation(Callable<Object> validation) {
        return stock.submitValidation(validation);
    }

    @Override
    public void incrementalSessionCompleted(TimeUUID sessionId) {
        stock.incrementalSessionCompleted(sessionId);
    }

    /**
     * For a sequential repair. Nothing: what is validated is seen as of one moment all the same,
     * only that it is another one on each replica.
     */
    @Override
    public void snapshot(String name, Collection<Range<Token>> ranges, boolean force) {}
}
