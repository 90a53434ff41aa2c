// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.index.ReceivedSSTables;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.GenerationSink;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import dev.petra.streaming.staging.IdleLimit;
import dev.petra.streaming.staging.IncomingSlices;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.streaming.CassandraStreamReceiver;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.RebufferingInputStream;
import org.apache.cassandra.service.CacheService;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.StreamSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a session receives of one table: slices of stores, which go into the store when all have
 * come, and SSTables, which are live as such at once and migrated into the store by {@link
 * dev.petra.cassandra.migration.MigrateIn}. Thread-safe.
 */
final class PetraStreamReceiver extends CassandraStreamReceiver {
    private static final Logger logger = LoggerFactory.getLogger(PetraStreamReceiver.class);

    private final ColumnFamilyStore cfs;
    private final StreamSession session;
    private final IncomingSlices slices;
    private final AtomicInteger count = new AtomicInteger();
    private final AtomicLong bytes = new AtomicLong();

    /** Whether the SSTables that came are the table's for good. */
    private volatile boolean isCommitted;

    PetraStreamReceiver(ColumnFamilyStore cfs, StreamSession session, int totalStreams) {
        // The peer sends this number, and Cassandra allocates a list of that size.
        super(cfs, session, Math.min(totalStreams, 1_024));
        this.cfs = cfs;
        this.session = session;
        this.slices =
                new IncomingSlices(
                        session.peer.toString(),
                        cfs.getKeyspaceName() + "." + cfs.name,
                        IdleLimit.OF_PROCESS,
                        this::open);
    }

    /**
     * Takes a slice.
     *
     * @return how many bytes came
     * @throws IOException if the table cannot take it, or the peer lies
     */
    long receive(RebufferingInputStream input, IncomingSlices.Listener listener)
            throws IOException {
        long received = slices.receive(input, listener);
        count.incrementAndGet();
        bytes.addAndGet(received);
        return received;
    }

    private StreamSink open(StreamHead head) throws IOException {
        EngineMemtable table = StreamCapabilities.receiver(cfs);
        if (!StreamCapabilities.ENABLED)
            throw new IOException(
                    "This node takes no slices (-D%s=false): repeat the operation that streams"
                            .formatted(StreamSource.SLICES_PROPERTY));
        if (table == null)
            throw new IOException(
                    "%s.%s is not in a storage engine as a whole any more:"
                                    .formatted(cfs.getKeyspaceName(), cfs.name)
                            + " repeat the operation that streams");
        Generation generation = table.generation();
        TableStore store = generation.writable();
        StoreIndexes.deriveBy(cfs, store);
        return new GenerationSink(
                generation,
                () -> StreamCapabilities.receiver(cfs) != null,
                store.receive(head, owned()));
    }

    /** The ranges that this node may receive, as Cassandra checks them for its own streams. */
    private Collection<Range<Token>> owned() {
        Host host = Host.current();
        if (host.refusesOtherRanges())
            return Range.normalize(host.ownAndPendingRanges(cfs.getKeyspaceName()));
        Token minimum = cfs.getPartitioner().getMinimumToken();
        return List.of(new Range<>(minimum, minimum));
    }

    @Override
    public synchronized void received(IncomingStream stream) {
        // A slice is where it belongs by now.
        if (!(stream instanceof IncomingSlice)) super.received(stream);
    }

    @Override
    public void discardStream(IncomingStream stream) {
        if (!(stream instanceof IncomingSlice)) super.discardStream(stream);
    }

    @Override
    public void finished() {
        List<SSTableReader> received;
        synchronized (this) {
            received = List.copyOf(sstables);
        }
        EngineMemtable table = received.isEmpty() ? null : EngineMemtables.any(cfs);
        // A migration that finds no SSTables ends, and to build their indexes takes minutes: until
        // they are live, or have failed, no deletion is purged that may hide what they have.
        StreamGuards.Guard guard =
                table == null
                        ? null
                        : table.generation().stores().streams().begin(List.of(), () -> false);
        try {
            finished(received);
        } finally {
            if (guard != null) guard.close();
        }
    }

    private void finished(List<SSTableReader> received) {
        try {
            // Before anything goes live: what is being purged ends. Again later, because a
            // migration that finds no SSTables ends.
            if (!received.isEmpty()) TableLifecycle.migrateIn(cfs);
            ingest();
            if (!received.isEmpty()) {
                TableLifecycle.migrateIn(cfs);
                ReceivedSSTables.complete(cfs, received, this::isGivenUp);
            }
        } catch (RuntimeException | Error e) {
            // Cassandra would leave the SSTables to the garbage collector.
            abort();
            throw e;
        }
        try {
            super.finished();
        } catch (RuntimeException | Error e) {
            if (isCommitted) ReceivedSSTables.forget(cfs, received);
            else abort();
            throw e;
        }
        if (!received.isEmpty()) TableLifecycle.migrateIn(cfs);
    }

    /**
     * Whether the session has failed, of which Cassandra tells nobody who has all of a table, and
     * nothing of it is live. Where slices are, SSTables may have deletions that hide what is in
     * them, which the sender may purge once the session has ended.
     */
    private boolean isGivenUp() {
        return count.get() == 0 && session.isFailedOrAborted();
    }

    @Override
    public synchronized void finishTransaction() {
        super.finishTransaction();
        isCommitted = true;
    }

    private void ingest() {
        if (slices.isEmpty()) {
            slices.close();
            return;
        }
        try {
            // Cassandra does not abort a table that has all, whatever becomes of the session.
            slices.ingest(session::isFailedOrAborted);
            logger.info(
                    "Ingested {} bytes in {} slices into {}.{}",
                    bytes,
                    count,
                    cfs.getKeyspaceName(),
                    cfs.name);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            // Slices of a failed stream may be live, too.
            invalidateCaches();
        }
    }

    private void invalidateCaches() {
        CacheService.instance.invalidateRowCacheForCf(cfs.metadata());
        if (cfs.metadata().isCounter())
            CacheService.instance.invalidateCounterCacheForCf(cfs.metadata());
    }

    @Override
    public synchronized void abort() {
        slices.close();
        ReceivedSSTables.forget(cfs, sstables);
        super.abort();
    }
}
