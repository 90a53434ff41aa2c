// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import com.google.common.collect.Iterables;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
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
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ActiveRepairService;
import org.jspecify.annotations.Nullable;

/** Writes what a store holds, deletions included, to SSTables of Cassandra's own format. */
public final class SSTableExport {
    /** How large an SSTable becomes, whole partitions permitting. */
    public static final long SSTABLE_BYTES =
            Long.getLong("petra.migration.sstable_bytes", 256L << 20);

    /** After how many bytes an export is throttled and may be halted. */
    private static final int PACE_BYTES = 4096;

    /** More than a file system keeps beside a file's name. */
    private static final int PROBE_BYTES = 64 << 10;

    private SSTableExport() {}

    /**
     * One step of an export.
     *
     * @param sstables open, complete on disk, part of no table yet; empty if there was nothing to
     *     write
     * @param last the last partition that was met; null if nothing was left
     */
    public record Step(Collection<SSTableReader> sstables, @Nullable DecoratedKey last) {}

    /**
     * Writes the next SSTable, or several if the table's compaction wants them split.
     *
     * @param table as it was when the columns of the rest were chosen
     * @param rest in the order of its partitions; goes on behind what was written
     * @param directory where to
     * @param partitions about how many of them it will be
     * @param written is told of bytes as they are written
     * @param halted asked now and then, also within a partition
     * @return null if it was halted; nothing is left then
     */
    public static @Nullable Step writeNext(
            ColumnFamilyStore cfs,
            TableMetadata table,
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
                        SerializationHeader.makeWithoutStats(table))) {
            return writeNext(writer, rest, written, halted);
        }
    }

    static @Nullable Step writeNext(
            SSTableTxnWriter writer,
            UnfilteredPartitionIterator rest,
            LongConsumer written,
            BooleanSupplier halted) {
        Pace pace = new Pace(writer, written, halted);
        Watched watched = new Watched(pace::keepNowAndThen);
        DecoratedKey last = null;
        // A partition may have cells of dropped columns alone; an SSTable of none fails.
        boolean isEmpty = true;
        try {
            while (rest.hasNext() && writer.getFilePointer() < SSTABLE_BYTES) {
                try (UnfilteredRowIterator partition = rest.next()) {
                    last = partition.partitionKey();
                    if (!partition.isEmpty()) {
                        writer.append(Transformation.apply(partition, watched));
                        isEmpty = false;
                    }
                }
                pace.keep();
            }
        } catch (Halt e) {
            return null;
        }
        return new Step(isEmpty ? List.of() : writer.finish(true), last);
    }

    /** Tells of what is written. */
    private static final class Pace {
        private final SSTableTxnWriter writer;
        private final LongConsumer written;
        private final BooleanSupplier halted;
        private long told;

        Pace(SSTableTxnWriter writer, LongConsumer written, BooleanSupplier halted) {
            this.writer = writer;
            this.written = written;
            this.halted = halted;
            told = writer.getFilePointer();
        }

        void keepNowAndThen() {
            if (Math.abs(writer.getFilePointer() - told) >= PACE_BYTES) keep();
        }

        /** Throws {@link Halt} if no more is to be written. */
        void keep() {
            long now = writer.getFilePointer();
            // Where compaction wants the SSTables split, another one has begun.
            written.accept(now < told ? now : now - told);
            told = now;
            if (halted.getAsBoolean()) throw new Halt();
        }
    }

    private static final class Halt extends RuntimeException {
        private static final long serialVersionUID = 1;

        Halt() {
            super("halted", null, false, false);
        }
    }

    /** Asked at each row while an SSTable is written. */
    @FunctionalInterface
    public interface Watch {
        /**
         * Lets it go on.
         *
         * @param written bytes of the SSTable, those in memory not counted
         * @throws IOException if no more is to be written
         */
        void check(long written) throws IOException;
    }

    /**
     * Writes what lies in some ranges to one SSTable. A column that is added meanwhile is left out.
     *
     * @param ranges normalized
     * @param descriptor where to
     * @return open, part of no table; null if there is nothing
     * @throws IllegalStateException if the store is closed
     * @throws IOException of the watch, or if the disk takes nothing; nothing is left then
     */
    public static @Nullable SSTableReader write(
            TableMetadataRef reference,
            TableStore store,
            List<Range<Token>> ranges,
            Descriptor descriptor,
            SSTable.@Nullable Owner owner,
            Watch watch)
            throws IOException {
        TableMetadata table = reference.get();
        // Not ColumnFilter.all: of a row that is read later, that lets columns pass which the
        // SSTable's header does not know.
        ColumnFilter columns = ColumnFilter.selection(table.regularAndStaticColumns());
        SSTableTxnWriter writer = null;
        try {
            for (Range<Token> range : ranges)
                try (UnfilteredPartitionIterator rest =
                        store.scanAside(DataRange.forTokenRange(range), columns)) {
                    while (rest.hasNext())
                        try (UnfilteredRowIterator partition = rest.next()) {
                            watch.check(writer == null ? 0 : writer.getOnDiskBytesWritten());
                            if (partition.isEmpty()) continue;
                            if (writer == null)
                                writer = begin(table, reference, store, ranges, descriptor, owner);
                            writer.append(Transformation.apply(partition, watched(writer, watch)));
                        }
                }
            return writer == null ? null : Iterables.getOnlyElement(writer.finish(true));
        } catch (UncheckedIOException e) {
            throw e.getCause();
        } finally {
            // Deletes what is not complete.
            if (writer != null) writer.close();
        }
    }

    private static SSTableTxnWriter begin(
            TableMetadata table,
            TableMetadataRef reference,
            TableStore store,
            List<Range<Token>> ranges,
            Descriptor descriptor,
            SSTable.@Nullable Owner owner)
            throws IOException {
        probe(descriptor.directory.toPath());
        long partitions = 1;
        for (Range<Token> range : ranges) partitions += store.estimate(range).partitions();
        return SSTableTxnWriter.create(
                reference,
                descriptor,
                partitions,
                ActiveRepairService.UNREPAIRED_SSTABLE,
                ActiveRepairService.NO_PENDING_REPAIR,
                false,
                SerializationHeader.makeWithoutStats(table),
                List.of(),
                owner);
    }

    /**
     * Writes something, and deletes it. Cassandra begins an SSTable with a log of its own, and has
     * {@code disk_failure_policy} act there and then if that cannot be written, as where a quota is
     * used up, which the free space of the disk does not show.
     */
    private static void probe(Path directory) throws IOException {
        Path probe = directory.resolve("probe");
        try {
            Files.write(probe, new byte[PROBE_BYTES]);
        } catch (IOException e) {
            throw new IOException(
                    ("An SSTable to be sent cannot be begun in %s: %s. Free space and repeat the"
                                    + " operation that streams")
                            .formatted(directory, e.getMessage()),
                    e);
        } finally {
            Files.deleteIfExists(probe);
        }
    }

    private static Watched watched(SSTableTxnWriter writer, Watch watch) {
        return new Watched(
                () -> {
                    try {
                        watch.check(writer.getOnDiskBytesWritten());
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                });
    }

    /** Checks at each row: a partition may be larger than memory, and take hours to write. */
    private static final class Watched extends Transformation<UnfilteredRowIterator> {
        private final Runnable check;

        Watched(Runnable check) {
            this.check = check;
        }

        @Override
        protected Row applyToRow(Row row) {
            check.run();
            return row;
        }

        @Override
        protected RangeTombstoneMarker applyToMarker(RangeTombstoneMarker marker) {
            check.run();
            return marker;
        }
    }
}
