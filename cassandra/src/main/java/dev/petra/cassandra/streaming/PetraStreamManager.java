// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamSource;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.locator.RangesAtEndpoint;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.PreviewKind;
import org.apache.cassandra.streaming.StreamReceiver;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.TableStreamManager;
import org.apache.cassandra.streaming.messages.StreamMessageHeader;
import org.apache.cassandra.utils.JVMStabilityInspector;
import org.apache.cassandra.utils.TimeUUID;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;

/**
 * Streams of a table that is in an engine, in whole or in part. To a node that has the table in the
 * same engine go slices of the store, which are read while they are sent; to all others, SSTables
 * in Cassandra's own format, each of which is written when its turn has come. From nodes on any
 * engine, and from {@code sstableloader}, comes either; see {@link PetraStreamReceiver}.
 *
 * <p>Of a table that is in none, only slices that come all the same, of a peer that was told
 * otherwise before: Cassandra would read one as the begin of an SSTable, and might wait for the
 * rest of it for ever.
 *
 * @param table null if it is in no engine
 * @param stock for SSTables
 */
public record PetraStreamManager(
        ColumnFamilyStore cfs, @Nullable EngineMemtable table, TableStreamManager stock)
        implements TableStreamManager {
    @Override
    public StreamReceiver createStreamReceiver(StreamSession session, int totalStreams) {
        return table == null
                ? stock.createStreamReceiver(session, totalStreams)
                : new PetraStreamReceiver(cfs, session, totalStreams);
    }

    @Override
    public IncomingStream prepareIncomingStream(StreamSession session, StreamMessageHeader header) {
        return header.repairedAt == SliceStream.MARK
                ? new IncomingSlice(session, cfs.metadata())
                : stock.prepareIncomingStream(session, header);
    }

    @Override
    @SuppressWarnings("try") // the group is held, not used
    public Collection<OutgoingStream> createOutgoingStreams(
            StreamSession session,
            RangesAtEndpoint replicas,
            TimeUUID pendingRepair,
            PreviewKind previewKind) {
        EngineMemtable from = table;
        if (from == null)
            return stock.createOutgoingStreams(session, replicas, pendingRepair, previewKind);
        // Only SSTables are ever repaired.
        boolean fromStore = previewKind != PreviewKind.REPAIRED;
        boolean incremental = !Objects.equals(pendingRepair, ActiveRepairService.NO_PENDING_REPAIR);
        // Keeps a store that leaves until it is read.
        try (OpOrder.Group reading = cfs.readOrdering.start()) {
            if (!fromStore)
                return stock.createOutgoingStreams(session, replicas, pendingRepair, previewKind);
            StreamGuards.Guard guard =
                    from.generation().stores().streams().begin(replicas.ranges(), ended(session));
            return create(
                    guard,
                    () ->
                            stock.createOutgoingStreams(
                                    session, replicas, pendingRepair, previewKind),
                    () -> fromStore(from, session, replicas, incremental, guard));
        }
    }

    /**
     * Whether nobody sends the streams of a session any more. Cassandra finishes a stream when it
     * was sent or the session failed; but not if the session fails while the stream is made, and
     * not if the session never starts, as where the streams of the next keyspace cannot be made. In
     * the latter case its state stays as it is, and nothing holds it.
     */
    static BooleanSupplier ended(StreamSession session) {
        WeakReference<StreamSession> held = new WeakReference<>(session);
        return () -> {
            StreamSession now = held.get();
            return now == null || now.state().isFinalState();
        };
    }

    /**
     * Makes the streams of a table that has SSTables, a store, or both.
     *
     * @param guard of the store; closed when the streams of it are finished, or none was made
     * @throws IllegalStateException if a cleanup removed what they were to send since the guard
     *     began. What is read later is checked then; SSTables are files of their own. Or for an
     *     FSError
     */
    static List<OutgoingStream> create(
            StreamGuards.Guard guard,
            Supplier<Collection<OutgoingStream>> sstables,
            Supplier<List<OutgoingStream>> store) {
        List<OutgoingStream> streams = new ArrayList<>();
        try {
            // The store last: what is migrated into it meanwhile is seen twice rather than not at
            // all, and what is migrated out stays in it.
            streams.addAll(sstables.get());
            if (streams.isEmpty()) guard.withoutSSTables();
            List<OutgoingStream> exported = store.get();
            AtomicInteger unfinished = new AtomicInteger(exported.size());
            for (OutgoingStream stream : exported)
                streams.add(
                        new FollowedStream(
                                stream,
                                () -> {
                                    if (unfinished.decrementAndGet() == 0) guard.close();
                                }));
            guard.check();
            if (exported.isEmpty()) guard.close();
            return streams;
        } catch (RuntimeException | Error e) {
            guard.close();
            streams.forEach(OutgoingStream::finish);
            if (!(e instanceof FSError)) throw e;
            // It would end this thread, and neither the session nor the peer that waits for it.
            JVMStabilityInspector.inspectThrowable(e);
            throw new IllegalStateException(
                    "The ranges to be sent cannot be read or prepared: " + e.getMessage(), e);
        }
    }

    /**
     * @param guard has the source closed if its session ends otherwise than by finishing streams
     */
    static List<OutgoingStream> slices(
            StorageEngine engine,
            TableStore store,
            Collection<Range<Token>> ranges,
            StreamGuards.Guard guard) {
        List<SliceRanges> plan = SliceStream.plan(engine, store, ranges);
        if (plan.isEmpty()) return List.of();
        StreamSource source = store.send(plan);
        guard.holds(source);
        return List.copyOf(SliceStream.of(source, plan, guard::check));
    }

    private List<OutgoingStream> fromStore(
            EngineMemtable table,
            StreamSession session,
            RangesAtEndpoint replicas,
            boolean incremental,
            StreamGuards.Guard guard) {
        Generation generation = table.generation();
        TableStore store = generation.existing();
        if (store == null) return List.of();
        List<Range<Token>> ranges = Range.normalize(replicas.ranges());
        StorageEngine engine = Engines.get(table.engine());
        boolean slices = StreamCapabilities.takes(session.peer, engine, cfs.metadata.id);
        // SSTables would be marked as repaired there, and of those here only some would be sent.
        if (incremental && (!slices || table.departure() != 0))
            throw new IllegalStateException(
                    table.generation().stores().displayName()
                            + " was altered into a storage engine or out of it during an"
                            + " incremental repair. Run it again.");
        if (slices) return slices(engine, store, ranges, guard);
        return SSTableSlice.of(
                cfs, engine, generation, store, session.getStreamOperation(), ranges, guard);
    }
}
