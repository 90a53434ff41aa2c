// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Generation;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.streaming.netty.FrameInput;
import dev.petra.streaming.staging.IncomingSession;
import dev.petra.streaming.wire.Frame;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.ReadableByteChannel;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.streaming.CassandraStreamReceiver;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.util.RebufferingInputStream;
import org.apache.cassandra.service.CacheService;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.StreamSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a session receives of one table: parts of stores, which go into the store when all have
 * come, and SSTables, which are live as such at once and moved into the store by {@link
 * dev.petra.cassandra.migration.MigrateIn}. Thread-safe.
 */
final class PetraStreamReceiver extends CassandraStreamReceiver {
    private static final Logger logger = LoggerFactory.getLogger(PetraStreamReceiver.class);

    private final ColumnFamilyStore cfs;
    private final IncomingSession parts = new IncomingSession(this::open);

    PetraStreamReceiver(ColumnFamilyStore cfs, StreamSession session, int totalStreams) {
        // It is the peer's word, and makes room in a list.
        super(cfs, session, Math.min(totalStreams, 1_024));
        this.cfs = cfs;
    }

    /**
     * Takes a part, and what comes before it.
     *
     * @throws IOException if the table cannot take it, or the peer lies
     */
    Frame receive(RebufferingInputStream input, FrameInput.Progress progress) throws IOException {
        return parts.receivePart(input, progress);
    }

    private IncomingParts open(StreamManifest manifest) throws IOException {
        EngineMemtable table = StreamCapabilities.receiver(cfs);
        if (table == null)
            throw new IOException(
                    "%s.%s is not in a storage engine as a whole any more: run again what streams"
                            .formatted(cfs.getKeyspaceName(), cfs.name));
        return new GenerationParts(
                cfs,
                table.generation(),
                manifest,
                table.generation().writable().streamIn(manifest, owned()));
    }

    /** Parts for one generation of a table, which go live only while it is the table's. */
    private record GenerationParts(
            ColumnFamilyStore cfs,
            Generation generation,
            StreamManifest manifest,
            IncomingParts parts)
            implements IncomingParts {
        private boolean takes() {
            return StreamCapabilities.receiver(cfs) != null;
        }

        @Override
        public void receive(int index, ReadableByteChannel channel) throws IOException {
            parts.receive(index, channel);
        }

        @Override
        public void verify() throws IOException {
            generation.stores().verify(generation, this::takes, parts);
        }

        @Override
        public boolean ingest() throws IOException {
            if (generation.stores().ingest(generation, this::takes, parts)) return true;
            logger.info(
                    "Ingested {} bytes in {} parts into {}.{}",
                    manifest.totalBytes(),
                    manifest.parts().size(),
                    cfs.getKeyspaceName(),
                    cfs.name);
            return false;
        }

        @Override
        public void awaitRoom() {
            parts.awaitRoom();
        }

        @Override
        public void close() {
            parts.close();
        }
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
        if (hasSSTables) TableLifecycle.migrateIn(cfs);
        super.finished();
        if (hasSSTables) TableLifecycle.migrateIn(cfs);
    }

    private void ingest() {
        if (parts.isEmpty()) {
            parts.close();
            return;
        }
        try {
            parts.ingest();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            // Of what failed too, some may be live.
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
        parts.close();
        super.abort();
    }
}
