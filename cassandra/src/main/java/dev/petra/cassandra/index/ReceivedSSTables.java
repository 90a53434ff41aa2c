// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.index.sai.StorageAttachedIndexGroup;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.notifications.SSTableListChangedNotification;

/** SAI's indexes of SSTables that a stream has received and that are not live yet. */
public final class ReceivedSSTables {
    private static final int BUILDS = 5;

    private ReceivedSSTables() {}

    /**
     * Builds the indexes that the SSTables lack, as {@code nodetool import} does. A stream of whole
     * SSTables has only the indexes that the sender has. {@code sstableloader} has none if the
     * SSTables were written without, and a node that is building an index lacks that one. Cassandra
     * itself fails such a stream.
     *
     * <p>Blocks until they are built. The caller has to call {@link #forget} if the SSTables do not
     * go live.
     *
     * @param isGivenUp whether they are not to go live any more: asked before each build, which
     *     cannot be stopped by itself
     * @throws RuntimeException if they cannot be built, were stopped several times, or are given up
     */
    public static void complete(
            ColumnFamilyStore cfs, Collection<SSTableReader> sstables, BooleanSupplier isGivenUp) {
        // Cassandra verifies checksums itself before the SSTables go live. A CREATE INDEX stops the
        // builds of a table, and SAI then returns as if all were built.
        for (int i = 0; i < BUILDS; i++) {
            if (isGivenUp.getAsBoolean())
                throw new IllegalStateException(
                        "The session that sent SSTables of %s.%s failed before these were live:"
                                        .formatted(cfs.getKeyspaceName(), cfs.name)
                                + " repeat the operation that streams");
            if (cfs.indexManager.validateSSTableAttachedIndexes(sstables, false, false)) return;
            cfs.indexManager.buildSSTableAttachedIndexesBlocking(sstables);
        }
        cfs.indexManager.validateSSTableAttachedIndexes(sstables, true, false);
    }

    /**
     * Removes the SSTables that are not live from the indexes, which would keep their files open.
     * Idempotent.
     */
    public static void forget(ColumnFamilyStore cfs, Collection<SSTableReader> sstables) {
        StorageAttachedIndexGroup group = StorageAttachedIndexGroup.getIndexGroup(cfs);
        if (group == null) return;
        Set<SSTableReader> others = new HashSet<>(sstables);
        others.removeAll(cfs.getLiveSSTables());
        if (others.isEmpty()) return;
        group.handleNotification(
                new SSTableListChangedNotification(List.of(), others, OperationType.STREAM),
                cfs.getTracker());
    }
}
