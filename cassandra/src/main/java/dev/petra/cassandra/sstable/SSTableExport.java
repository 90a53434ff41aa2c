// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import dev.petra.engine.RangeEstimate;
import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.service.ActiveRepairService;
import org.jspecify.annotations.Nullable;

/** Writes what a store holds, deletions included, to SSTables of Cassandra's own format. */
public final class SSTableExport {
    /** How large an SSTable becomes, whole partitions permitting. */
    public static final long SSTABLE_BYTES =
            Long.getLong("petra.migration.sstable_bytes", 256L << 20);

    private SSTableExport() {}

    /**
     * One step of an export.
     *
     * @param sstables open, complete on disk, part of no table yet; empty if nothing was left
     * @param last the last partition in them
     */
    public record Step(Collection<SSTableReader> sstables, @Nullable DecoratedKey last) {}

    /**
     * Writes the next SSTable, or several if the table's compaction wants them split.
     *
     * @param rest in the order of its partitions; goes on behind what was written
     * @param directory where to
     * @param partitions about how many of them it will be
     * @param written is told of bytes as they are written
     * @param halted asked between partitions
     * @return null if it was halted; nothing is left then
     */
    public static @Nullable Step writeNext(
            ColumnFamilyStore cfs,
            UnfilteredPartitionIterator rest,
            File directory,
            long partitions,
            LongConsumer written,
            BooleanSupplier halted) {
        if (!rest.hasNext()) return new Step(List.of(), null);
        try (SSTableTxnWriter writer =
                SSTableTxnWriter.create(
                        cfs,
                        cfs.newSSTableDescriptor(directory),
                        partitions,
                        ActiveRepairService.UNREPAIRED_SSTABLE,
                        ActiveRepairService.NO_PENDING_REPAIR,
                        false,
                        SerializationHeader.makeWithoutStats(cfs.metadata()))) {
            DecoratedKey last = null;
            while (rest.hasNext() && writer.getFilePointer() < SSTABLE_BYTES) {
                long before = writer.getFilePointer();
                try (UnfilteredRowIterator partition = rest.next()) {
                    last = partition.partitionKey();
                    writer.append(partition);
                }
                written.accept(writer.getFilePointer() - before);
                if (halted.getAsBoolean()) return null;
            }
            return new Step(writer.finish(true), last);
        }
    }

    /**
     * Writes what lies in some ranges.
     *
     * @param ranges normalized
     * @return open SSTables, part of no table
     */
    public static List<SSTableReader> write(
            ColumnFamilyStore cfs,
            TableStore store,
            Collection<Range<Token>> ranges,
            File directory) {
        List<SSTableReader> all = new ArrayList<>();
        try {
            for (Range<Token> range : ranges) {
                RangeEstimate estimate = store.estimate(range);
                try (UnfilteredPartitionIterator rest =
                        store.scan(
                                DataRange.forTokenRange(range), ColumnFilter.all(cfs.metadata()))) {
                    while (rest.hasNext()) {
                        Step step =
                                writeNext(
                                        cfs,
                                        rest,
                                        directory,
                                        1 + estimate.partitions(),
                                        bytes -> {},
                                        () -> false);
                        if (step != null) all.addAll(step.sstables());
                    }
                }
            }
            return all;
        } catch (RuntimeException | Error e) {
            for (SSTableReader written : all) written.selfRef().release();
            throw e;
        }
    }
}
