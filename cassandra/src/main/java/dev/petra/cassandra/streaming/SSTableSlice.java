// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.cassandra.sstable.SSTableExport;
import dev.petra.cassandra.table.ExportDirectory;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.engine.FullDisk;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.streaming.staging.SlicePlan;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.streaming.CassandraOutgoingFile;
import org.apache.cassandra.db.streaming.CassandraStreamHeader;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.StreamOperation;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.apache.cassandra.utils.TimeUUID;
import org.apache.cassandra.utils.concurrent.Ref;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One slice of a store for a node that takes no slices: an SSTable in Cassandra's own format, which
 * is written when its turn has come and deleted when it was sent. A session needs the disk space of
 * one for each of its connections.
 *
 * <p>What it holds is the store's as of the moment at which it is written.
 */
final class SSTableSlice implements OutgoingStream {
    private static final Logger logger = LoggerFactory.getLogger(SSTableSlice.class);

    /** The bytes of an engine's slice, divided by this, are those of an SSTable, about. */
    private static final int SHARE = 4;

    /** The most SSTables of one table to one peer. */
    private static final int MOST = 1024;

    private final ColumnFamilyStore cfs;
    private final Generation generation;
    private final TableStore store;
    private final StreamOperation operation;
    private final StreamGuards.Guard guard;
    private final SliceRanges slice;
    private final String name;

    /** Its size, once it is written. */
    private volatile long bytes;

    private SSTableSlice(
            ColumnFamilyStore cfs,
            Generation generation,
            TableStore store,
            StreamOperation operation,
            StreamGuards.Guard guard,
            SliceRanges slice,
            String name) {
        this.cfs = cfs;
        this.generation = generation;
        this.store = store;
        this.operation = operation;
        this.guard = guard;
        this.slice = slice;
        this.name = name;
        this.bytes = Math.max(1, slice.bytes());
    }

    /**
     * Streams of what a store has in some ranges; none if it has nothing.
     *
     * @param guard of these ranges
     */
    static List<OutgoingStream> of(
            ColumnFamilyStore cfs,
            StorageEngine engine,
            Generation generation,
            TableStore store,
            StreamOperation operation,
            Collection<Range<Token>> ranges,
            StreamGuards.Guard guard) {
        List<SliceRanges> plan = plan(engine, store, ranges);
        List<OutgoingStream> streams = new ArrayList<>();
        for (SliceRanges slice : plan) {
            String name =
                    "%s-%s SSTable %d of %d"
                            .formatted(
                                    cfs.name,
                                    cfs.metadata.id.toHexString(),
                                    streams.size() + 1,
                                    plan.size());
            streams.add(new SSTableSlice(cfs, generation, store, operation, guard, slice, name));
        }
        return streams;
    }

    /** What each SSTable is to have: all of it is written before any of it is sent. */
    static List<SliceRanges> plan(
            StorageEngine engine, TableStore store, Collection<Range<Token>> ranges) {
        return SlicePlan.of(store, ranges, engine.sliceBytes() / SHARE, MOST);
    }

    @Override
    public void write(StreamSession session, StreamingDataOutputPlus output, int version)
            throws IOException {
        List<Range<Token>> ranges = Range.normalize(slice.ranges());
        try (ExportDirectory directory = begin()) {
            SSTableReader sstable =
                    directory == null ? null : export(session, ranges, directory.path());
            try {
                // Both before anything goes out: an SSTable that is not whole looks like one that
                // is.
                guard.check();
                checkSession(session);
                if (sstable == null) sendNothing(output, version);
                else send(sstable, ranges, session, output, version);
            } finally {
                if (sstable != null) sstable.selfRef().release();
            }
        }
    }

    /** A node has one thread that ends sessions, and it waits for what writes for them. */
    private static void checkSession(StreamSession session) throws EOFException {
        if (session.state().isFinalState())
            throw new EOFException("The session of a stream ended before it was sent.");
    }

    /** Null if there is nothing to write any more. */
    private @Nullable ExportDirectory begin() throws IOException {
        if (isGone()) return null;
        try {
            return generation.stores().beginExport();
        } catch (IllegalStateException e) {
            checkGone(e);
            return null;
        }
    }

    /**
     * Writes it; null if there is nothing to write.
     *
     * @throws IOException also if the disk becomes full; not an error of the disk, at which a node
     *     may stop
     */
    @Nullable SSTableReader export(StreamSession session, List<Range<Token>> ranges, Path directory)
            throws IOException {
        try (ExportRoom room = new ExportRoom(directory, name, slice.bytes())) {
            return SSTableExport.write(
                    cfs.metadata,
                    store,
                    ranges,
                    cfs.newSSTableDescriptor(new File(directory)),
                    cfs,
                    written -> {
                        checkSession(session);
                        room.check(written);
                    });
        } catch (FSError e) {
            if (!FullDisk.isCauseOf(e)) throw e;
            // Not as the cause: Cassandra looks for an error of the disk among the causes.
            throw new IOException(
                    ("%s cannot be written to be sent: %s: %s. Free space and repeat the operation"
                                    + " that streams")
                            .formatted(name, e.path, e.getMessage()));
        } catch (IllegalStateException e) {
            checkGone(e);
            return null;
        }
    }

    private void checkGone(IllegalStateException e) throws IOException {
        if (!isGone())
            throw new IOException(name + " cannot be sent: repeat the operation that streams", e);
    }

    /** Whether the data was deleted, by DROP or TRUNCATE, and did not move elsewhere. */
    private boolean isGone() {
        return ColumnFamilyStore.getIfExists(cfs.metadata.id) == null
                || generation.stores().current().number() > generation.number();
    }

    private void send(
            SSTableReader sstable,
            List<Range<Token>> ranges,
            StreamSession session,
            StreamingDataOutputPlus output,
            int version)
            throws IOException {
        OutgoingStream file =
                new BySection(
                        operation,
                        sstable.ref(),
                        sstable.getPositionsForRanges(ranges),
                        ranges,
                        sstable.estimatedKeys());
        try {
            bytes = file.getEstimatedSize();
            file.write(session, output, version);
        } finally {
            file.finish();
        }
    }

    /**
     * Sends an SSTable without rows: the receiver was told that a file comes, and would wait for
     * it.
     */
    private void sendNothing(StreamingDataOutputPlus output, int version) throws IOException {
        CassandraStreamHeader header =
                CassandraStreamHeader.builder()
                        .withSSTableVersion(
                                DatabaseDescriptor.getSelectedSSTableFormat().getLatestVersion())
                        .withSSTableLevel(0)
                        .withEstimatedKeys(1)
                        .withSections(List.of())
                        .withSerializationHeader(
                                SerializationHeader.makeWithoutStats(cfs.metadata()).toComponent())
                        .withTableId(cfs.metadata.id)
                        .build();
        CassandraStreamHeader.serializer.serialize(header, output, version);
        output.flush();
        logger.info("{} is sent as an empty SSTable: its data was removed meanwhile", name);
    }

    /** In one file: how many an SSTable has is not known before it is written. */
    private static final class BySection extends CassandraOutgoingFile {
        BySection(
                StreamOperation operation,
                Ref<SSTableReader> ref,
                List<SSTableReader.PartitionPositionBounds> sections,
                List<Range<Token>> ranges,
                long keys) {
            super(operation, ref, sections, ranges, keys);
        }

        @Override
        public boolean computeShouldStreamEntireSSTables() {
            return false;
        }
    }

    @Override
    public void finish() {
        // There is no SSTable to release before it is written, nor afterwards.
    }

    @Override
    public long getRepairedAt() {
        return ActiveRepairService.UNREPAIRED_SSTABLE;
    }

    @Override
    public TimeUUID getPendingRepair() {
        return ActiveRepairService.NO_PENDING_REPAIR;
    }

    @Override
    public String getName() {
        return name;
    }

    @Override
    public long getEstimatedSize() {
        return bytes;
    }

    @Override
    public TableId getTableId() {
        return cfs.metadata.id;
    }

    @Override
    public int getNumFiles() {
        return 1;
    }

    @Override
    public String toString() {
        return name;
    }
}
