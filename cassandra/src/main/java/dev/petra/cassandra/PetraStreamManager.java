// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.streaming.CassandraOutgoingFile;
import org.apache.cassandra.db.streaming.CassandraStreamReceiver;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.locator.RangesAtEndpoint;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.PreviewKind;
import org.apache.cassandra.streaming.StreamReceiver;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.TableStreamManager;
import org.apache.cassandra.streaming.messages.StreamMessageHeader;
import org.apache.cassandra.utils.TimeUUID;
import org.apache.cassandra.utils.concurrent.OpOrder;

/**
 * Streams of a table that is in an engine, in whole or in part, in Cassandra's own format: to and
 * from nodes on any engine, and from {@code sstableloader}.
 *
 * <p>What is sent is first written to SSTables beside the store, which are gone when the last is
 * sent. What comes is live as an SSTable of the table at once, and moved into the store by {@link
 * MoveIn}.
 *
 * @param stock for the SSTables of a table on its way
 */
record PetraStreamManager(ColumnFamilyStore cfs, PetraMemtable table, TableStreamManager stock)
        implements TableStreamManager {
    @Override
    public StreamReceiver createStreamReceiver(StreamSession session, int totalStreams) {
        return new ArrivingReceiver(cfs, session, totalStreams);
    }

    @Override
    public IncomingStream prepareIncomingStream(StreamSession session, StreamMessageHeader header) {
        return stock.prepareIncomingStream(session, header);
    }

    @Override
    @SuppressWarnings("try") // the group is held, not used
    public Collection<OutgoingStream> createOutgoingStreams(
            StreamSession session,
            RangesAtEndpoint replicas,
            TimeUUID pendingRepair,
            PreviewKind previewKind) {
        // Only SSTables are ever repaired or pending.
        boolean fromStore =
                Objects.equals(pendingRepair, ActiveRepairService.NO_PENDING_REPAIR)
                        && previewKind != PreviewKind.REPAIRED;
        List<OutgoingStream> streams = new ArrayList<>();
        // Keeps a store that leaves until it is read.
        try (OpOrder.Group reading = cfs.readOrdering.start()) {
            // The store last: what moves into it meanwhile is seen twice rather than not at all,
            // and what moves out stays in it.
            streams.addAll(
                    stock.createOutgoingStreams(session, replicas, pendingRepair, previewKind));
            if (fromStore) streams.addAll(export(session, replicas));
            return streams;
        } catch (RuntimeException | Error e) {
            streams.forEach(OutgoingStream::finish);
            throw e;
        }
    }

    private List<OutgoingStream> export(StreamSession session, RangesAtEndpoint replicas) {
        TableStore store = table.generation().existing();
        if (store == null) return List.of();
        List<Range<Token>> ranges = Range.normalize(replicas.ranges());
        Path directory = table.generation().stores().streamDirectory();
        try {
            Files.createDirectories(directory);
        } catch (IOException e) {
            throw new FSWriteError(e, directory.toString());
        }
        Exported exported = new Exported(directory);
        List<OutgoingStream> streams = new ArrayList<>();
        List<SSTableReader> sstables = List.of();
        try {
            sstables = SSTableExport.write(cfs, store, ranges, new File(directory));
            for (SSTableReader sstable : sstables)
                streams.add(
                        exported.stream(
                                new CassandraOutgoingFile(
                                        session.getStreamOperation(),
                                        sstable.ref(),
                                        sstable.getPositionsForRanges(ranges),
                                        ranges,
                                        sstable.estimatedKeys())));
            return streams;
        } catch (RuntimeException | Error e) {
            streams.forEach(OutgoingStream::finish);
            throw e;
        } finally {
            sstables.forEach(sstable -> sstable.selfRef().release());
            exported.complete();
        }
    }

    /** Makes what came live, and has it moved into the store. */
    private static final class ArrivingReceiver extends CassandraStreamReceiver {
        private final ColumnFamilyStore cfs;

        ArrivingReceiver(ColumnFamilyStore cfs, StreamSession session, int totalStreams) {
            super(cfs, session, totalStreams);
            this.cfs = cfs;
        }

        @Override
        public void finished() {
            // Before: from here on nothing is purged that may hide something in what came.
            TableRegistry.moveIn(cfs);
            super.finished();
            TableRegistry.moveIn(cfs);
        }
    }
}
