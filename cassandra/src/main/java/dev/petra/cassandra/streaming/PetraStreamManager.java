// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.sstable.SSTableExport;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.streaming.wire.ManifestTooLargeException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.streaming.CassandraOutgoingFile;
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
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Streams of a table that is in an engine, in whole or in part. To a node that has the table in the
 * same engine go parts of the store, written by the engine itself; to all others, SSTables in
 * Cassandra's own format. From nodes on any engine, and from {@code sstableloader}, comes either;
 * see {@link PetraStreamReceiver}.
 *
 * <p>What is sent is first written to files beside the store, which are gone when the last is sent.
 *
 * @param stock for the SSTables of a table on its way
 */
public record PetraStreamManager(
        ColumnFamilyStore cfs, EngineMemtable table, TableStreamManager stock)
        implements TableStreamManager {
    private static final Logger logger = LoggerFactory.getLogger(PetraStreamManager.class);

    @Override
    public StreamReceiver createStreamReceiver(StreamSession session, int totalStreams) {
        return new PetraStreamReceiver(cfs, session, totalStreams);
    }

    @Override
    public IncomingStream prepareIncomingStream(StreamSession session, StreamMessageHeader header) {
        return header.repairedAt == OutgoingPart.MARK
                ? new IncomingPart(session, cfs.metadata())
                : stock.prepareIncomingStream(session, header);
    }

    @Override
    @SuppressWarnings("try") // the group is held, not used
    public Collection<OutgoingStream> createOutgoingStreams(
            StreamSession session,
            RangesAtEndpoint replicas,
            TimeUUID pendingRepair,
            PreviewKind previewKind) {
        // Only SSTables are ever repaired.
        boolean fromStore = previewKind != PreviewKind.REPAIRED;
        boolean incremental = !Objects.equals(pendingRepair, ActiveRepairService.NO_PENDING_REPAIR);
        List<OutgoingStream> streams = new ArrayList<>();
        // Keeps a store that leaves until it is read.
        try (OpOrder.Group reading = cfs.readOrdering.start()) {
            // The store last: what moves into it meanwhile is seen twice rather than not at all,
            // and what moves out stays in it.
            streams.addAll(
                    stock.createOutgoingStreams(session, replicas, pendingRepair, previewKind));
            if (fromStore) streams.addAll(export(session, replicas, incremental));
            return streams;
        } catch (RuntimeException | Error e) {
            streams.forEach(OutgoingStream::finish);
            throw e;
        }
    }

    /** Null if there are too many, as there may be of petabytes, or of very long keys. */
    private @Nullable List<OutgoingStream> parts(TableStore store, List<Range<Token>> ranges) {
        OutgoingParts parts = store.streamOut(ranges);
        try {
            return OutgoingPart.of(parts);
        } catch (ManifestTooLargeException e) {
            logger.warn(
                    "{} is streamed as SSTables: {}",
                    table.generation().stores().displayName(),
                    e.getMessage());
            parts.close();
            return null;
        } catch (RuntimeException | Error e) {
            parts.close();
            throw e;
        }
    }

    private List<OutgoingStream> export(
            StreamSession session, RangesAtEndpoint replicas, boolean incremental) {
        TableStore store = table.generation().existing();
        if (store == null) return List.of();
        List<Range<Token>> ranges = Range.normalize(replicas.ranges());
        boolean parts =
                StreamCapabilities.takes(
                        session.peer, Engines.get(table.engine()), cfs.metadata.id);
        // SSTables would be marked as repaired there, and of those here only some would be sent.
        if (incremental && (!parts || table.departure() != 0))
            throw new IllegalStateException(
                    table.generation().stores().displayName()
                            + " was altered into a storage engine or out of it during an"
                            + " incremental repair. Run it again.");
        if (parts) {
            List<OutgoingStream> streams = parts(store, ranges);
            if (streams != null) return streams;
            if (incremental)
                throw new IllegalStateException(
                        table.generation().stores().displayName()
                                + " is too large for an incremental repair: repair it in subranges"
                                + " (nodetool repair --full -st … -et …).");
        }
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
}
