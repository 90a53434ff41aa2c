// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.commitlog.CommitLogOrder;
import dev.petra.cassandra.commitlog.ReplayPlan;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Unfit;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.commitlog.CommitLogSegment;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/** Join points of writes and reads. */
public final class DataHooks {
    private DataHooks() {}

    /**
     * Whether a table's writes are durable without the commit log.
     *
     * @param stock what the configuration says of which its next memtable is. While the table is
     *     altered into an engine, that is the engine's before the memtable is, and the commit log
     *     would forget what is in Cassandra's alone
     */
    public static boolean writesAreDurable(ColumnFamilyStore cfs, boolean stock) {
        if (!stock) return false;
        if (EngineMemtables.current(cfs) == null) return !PetraMemtableFactory.owns(cfs.metadata());
        return !ReplayPlan.isMade() && EngineMemtables.areWritesOurs(cfs);
    }

    /**
     * Before a mutation is appended to the commit log, in the write's group of {@code
     * Keyspace.writeOrder}. Cassandra goes by the schema that the update was made with, which is a
     * former one if the statement was prepared before ALTER TABLE changed the memtable. The table's
     * memtables say where the write goes: while one of Cassandra's is alive beside the engine's, it
     * may go to either, so it goes to the log as well; and if none is, it must not go there, where
     * a restart would find it without the deletion that came after it.
     *
     * @return its position, or {@link CommitLogPosition#NONE} if nothing of it goes there; null if
     *     Cassandra is to append what the tables' configurations say
     */
    public static @Nullable CommitLogPosition logInstead(Mutation mutation) {
        return logInstead(
                mutation,
                DataHooks::owns,
                DataHooks::skipsLog,
                each -> CommitLog.instance.add(each));
    }

    /**
     * The same.
     *
     * @param bySchema whether an update skips the log, as Cassandra sees it
     * @param skips whether it does by the table's memtables as of now
     * @param log appends to it
     */
    static @Nullable CommitLogPosition logInstead(
            Mutation mutation,
            Predicate<PartitionUpdate> bySchema,
            Predicate<PartitionUpdate> skips,
            Function<Mutation, CommitLogPosition> log) {
        boolean differs = false;
        int skipped = 0;
        for (PartitionUpdate update : mutation.getPartitionUpdates()) {
            boolean skipsNow = skips.test(update);
            differs |= bySchema.test(update) != skipsNow;
            if (skipsNow) skipped++;
        }
        boolean isMixed = skipped > 0 && skipped < mutation.getPartitionUpdates().size();
        if (!differs && !isMixed) return null;
        Set<TableId> skipping = new HashSet<>();
        for (PartitionUpdate update : mutation.getPartitionUpdates())
            // The last flush may just have ended.
            if (skips.test(update)) skipping.add(update.metadata().id);
        if (skipping.containsAll(mutation.getTableIds())) return CommitLogPosition.NONE;
        CommitLogPosition position = log.apply(without(mutation, skipping));
        // The memtables of a table that skips it may have been switched meanwhile, as by ALTER out
        // of the engine and TRUNCATE: by this position the write goes to Cassandra's memtable then,
        // and needs a record. Without a position it goes where its group does, which is before.
        Set<TableId> rest = new HashSet<>(mutation.getTableIds());
        for (PartitionUpdate update : mutation.getPartitionUpdates())
            if (skipping.contains(update.metadata().id) && !skips.test(update))
                rest.remove(update.metadata().id);
        if (rest.size() < mutation.getTableIds().size()) {
            CommitLogPosition unused = log.apply(without(mutation, rest));
        }
        return position;
    }

    private static Mutation without(Mutation mutation, Set<TableId> tables) {
        Mutation left = mutation;
        for (TableId table : tables) left = left.without(table);
        return left;
    }

    private static boolean owns(PartitionUpdate update) {
        return PetraMemtableFactory.owns(update.metadata());
    }

    private static boolean mayBeInEngine(PartitionUpdate update) {
        return owns(update) || TableRegistry.contains(update.metadata());
    }

    private static boolean skipsLog(PartitionUpdate update) {
        if (!mayBeInEngine(update)) return false;
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(update.metadata().id);
        return cfs == null ? owns(update) : EngineMemtables.areWritesOurs(cfs);
    }

    /**
     * Before a mutation is applied. Checks what the commit log would have checked, if it skips it.
     *
     * @throws org.apache.cassandra.exceptions.MutationExceededMaxSizeException if it is too large
     */
    public static void beforeWrite(Mutation mutation, boolean durable) {
        if (!durable) return;
        CommitLogOrder.note(mutation);
        for (PartitionUpdate update : mutation.getPartitionUpdates()) {
            if (!mayBeInEngine(update)) continue;
            // Computed once per mutation; the coordinator and the verb handler ask for it as well.
            mutation.validateSize(
                    MessagingService.current_version, CommitLogSegment.ENTRY_OVERHEAD_SIZE);
            return;
        }
    }

    /**
     * Before an update goes to its table's memtable, in the write's group of {@code
     * Keyspace.writeOrder}.
     *
     * @return for {@link #afterApply}; null for a table without a shadow
     */
    public static @Nullable Object beforeApply(ColumnFamilyStore cfs, PartitionUpdate update) {
        return Shadows.beforeWrite(cfs, update);
    }

    /**
     * When it is there.
     *
     * @param doubled what {@link #beforeApply} returned
     * @param failure what the table threw
     */
    public static void afterApply(Object doubled, @Nullable Throwable failure) {
        Shadows.afterWrite(doubled, failure);
    }

    /**
     * Before a read on this node. Rows in an engine are in no view, and in no index that its store
     * does not keep, so reads by these would miss rows.
     *
     * @return what {@link #afterRead} is to get; null if it need not be called
     * @throws RuntimeException for such an index of an engine table, or a view of one
     */
    public static @Nullable Object beforeRead(ReadCommand command) {
        TableMetadata table = command.metadata();
        if (!table.indexes.isEmpty() || table.isView())
            Unfit.checkRead(table, command.indexQueryPlan());
        return Shadows.sample(command);
    }

    /**
     * Before the answer of a read is gone through.
     *
     * @param sampled what {@link #beforeRead} returned
     * @return the answer, for whoever asked
     */
    public static UnfilteredPartitionIterator afterRead(
            Object sampled, ReadCommand command, UnfilteredPartitionIterator answer) {
        return Shadows.compareLater(sampled, command, answer);
    }

    /**
     * Before a read of one partition or of a range looks into memtables and SSTables.
     *
     * @return what the read is answered with; null if Cassandra is to look there
     */
    public static @Nullable UnfilteredPartitionIterator answer(
            ReadCommand command, ColumnFamilyStore cfs, ReadExecutionController reading) {
        return Shadows.answer(command, cfs, reading);
    }
}
