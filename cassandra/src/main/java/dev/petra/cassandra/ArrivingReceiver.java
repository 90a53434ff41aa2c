// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.StreamManifest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.streaming.CassandraStreamReceiver;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.service.CacheService;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.StreamSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a session receives of one table: parts of stores, which go into the store whole when all
 * have come, and SSTables, which are live as such at once and moved into the store by {@link
 * MoveIn}. Thread-safe.
 */
final class ArrivingReceiver extends CassandraStreamReceiver {
    private static final Logger logger = LoggerFactory.getLogger(ArrivingReceiver.class);

    /** The parts of one manifest, and the generation they are for. */
    private record Arriving(Generation generation, StreamManifest manifest, IncomingParts parts) {}

    private final ColumnFamilyStore cfs;
    private final Map<Long, Arriving> arriving = new HashMap<>();
    private boolean over;

    ArrivingReceiver(ColumnFamilyStore cfs, StreamSession session, int totalStreams) {
        super(cfs, session, totalStreams);
        this.cfs = cfs;
    }

    /**
     * Where a part goes.
     *
     * @throws IOException if the table cannot take it
     */
    synchronized IncomingParts parts(PartHeader header) throws IOException {
        if (over) throw new IOException(header.name() + " came after its session was over.");
        Arriving known = arriving.get(header.digest());
        if (known != null) return known.parts();
        PetraMemtable table = StreamPeers.receiver(cfs);
        if (table == null)
            throw new IOException(
                    "%s.%s is not in a storage engine as a whole any more: run again what streams"
                            .formatted(cfs.getKeyspaceName(), cfs.name));
        Arriving begun =
                new Arriving(
                        table.generation(),
                        header.manifest(),
                        table.generation().writable().streamIn(header.manifest(), owned()));
        arriving.put(header.digest(), begun);
        return begun.parts();
    }

    /** As Cassandra asks of its own streams. */
    private Collection<Range<Token>> owned() {
        if (DatabaseDescriptor.getRejectOutOfTokenRangeRequests())
            return Range.normalize(
                    StorageService.instance.getLocalAndPendingRanges(cfs.getKeyspaceName()));
        Token minimum = cfs.getPartitioner().getMinimumToken();
        return List.of(new Range<>(minimum, minimum));
    }

    @Override
    public synchronized void received(IncomingStream stream) {
        // A part is where it belongs by now.
        if (!(stream instanceof IncomingPart)) super.received(stream);
    }

    @Override
    public void discardStream(IncomingStream stream) {
        if (!(stream instanceof IncomingPart)) super.discardStream(stream);
    }

    @Override
    public void finished() {
        ingest();
        boolean hasSSTables;
        synchronized (this) {
            hasSSTables = !sstables.isEmpty();
        }
        // Before: from here on nothing is purged that may hide something in what came.
        if (hasSSTables) TableRegistry.moveIn(cfs);
        super.finished();
        if (hasSSTables) TableRegistry.moveIn(cfs);
    }

    /** Without the lock: it can take long, and {@link #abort} ends it by closing the parts. */
    private void ingest() {
        List<Arriving> all;
        synchronized (this) {
            all = List.copyOf(arriving.values());
        }
        try {
            for (Arriving each : all) {
                TableStores stores = each.generation().stores();
                BooleanSupplier stays = () -> StreamPeers.receiver(cfs) != null;
                stores.verify(each.generation(), stays, each.parts());
                boolean more = true;
                while (more) {
                    each.parts().awaitRoom();
                    more = stores.ingest(each.generation(), stays, each.parts());
                }
                logger.info(
                        "Ingested {} bytes in {} parts into {}.{}",
                        each.manifest().totalBytes(),
                        each.manifest().parts().size(),
                        cfs.getKeyspaceName(),
                        cfs.name);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            closeParts();
            // Of what failed too, some may be live.
            if (!all.isEmpty()) invalidateCaches();
        }
    }

    private void invalidateCaches() {
        CacheService.instance.invalidateRowCacheForCf(cfs.metadata());
        if (cfs.metadata().isCounter())
            CacheService.instance.invalidateCounterCacheForCf(cfs.metadata());
    }

    @Override
    public synchronized void abort() {
        closeParts();
        super.abort();
    }

    private synchronized void closeParts() {
        over = true;
        for (Arriving each : arriving.values()) each.parts().close();
        arriving.clear();
    }
}
