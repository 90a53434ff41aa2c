// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * What reading, writing, compaction and streams of one store have in common: its table, its keys,
 * its database, and what they must know of each other.
 */
public final class StoreContext {
    private final StoreSpec spec;
    private final RocksSettings settings;
    private final PartitionKeys partitionKeys;
    private final Reconciler reconciler;
    private final WriteStallRetry room;
    private final ReopenableDatabase reopenable;
    private final OldestPurgeable purgeable = new OldestPurgeable();
    private final SupersededNotice superseded = new SupersededNotice();
    private final HiddenNotice hidden = new HiddenNotice();

    private final PartitionLocks largeCells = new PartitionLocks();

    private final Indexing indexing = new Indexing();

    private final AtomicLong recordWritesBegun = new AtomicLong();
    private final AtomicLong recordWritesEnded = new AtomicLong();

    /** Streams of which files become live now. */
    private final AtomicInteger arriving = new AtomicInteger();

    private final AtomicLong streamsBegun = new AtomicLong();

    private final AtomicLong abandonedStreams = new AtomicLong();

    public StoreContext(
            StoreSpec spec,
            RocksSettings settings,
            Reconciler reconciler,
            WriteStallRetry room,
            ReopenableDatabase reopenable) {
        this.spec = spec;
        this.settings = settings;
        this.partitionKeys = new PartitionKeys(spec.metadata().get().partitioner);
        this.reconciler = reconciler;
        this.room = room;
        this.reopenable = reopenable;
    }

    public StoreSpec spec() {
        return spec;
    }

    public String name() {
        return spec.displayName();
    }

    public Path directory() {
        return spec.directory();
    }

    public TableMetadata table() {
        return spec.metadata().get();
    }

    public RocksSettings settings() {
        return settings;
    }

    public PartitionKeys partitionKeys() {
        return partitionKeys;
    }

    public Reconciler reconciler() {
        return reconciler;
    }

    public WriteStallRetry room() {
        return room;
    }

    public ReopenableDatabase reopenable() {
        return reopenable;
    }

    /** {@link ReopenableDatabase#database}. */
    public Database database() {
        return reopenable.database();
    }

    /** {@link ReopenableDatabase#acquire}. */
    public Database acquire() {
        return reopenable.acquire();
    }

    /** The catalog of the database that is open now; ask for it once that was acquired. */
    public Catalog catalog() {
        return reopenable.catalog();
    }

    public OldestPurgeable purgeable() {
        return purgeable;
    }

    public SupersededNotice superseded() {
        return superseded;
    }

    public HiddenNotice hidden() {
        return hidden;
    }

    public Indexing indexing() {
        return indexing;
    }

    // Records of partitions

    /** A write of a partition's record begins; see {@link #recordWritesBegun}. */
    public void recordWriteBegins() {
        recordWritesBegun.incrementAndGet();
    }

    /** It has ended, whether it succeeded or not. */
    public void recordWriteEnds() {
        recordWritesEnded.incrementAndGet();
    }

    /** Writes of partition records that began. */
    public long recordWritesBegun() {
        return recordWritesBegun.get();
    }

    /** Writes of partition records that ended, whether they succeeded or not. */
    public long recordWritesEnded() {
        return recordWritesEnded.get();
    }

    // Large cells

    /** Of writers of large cells, and of whoever removes those that no row refers to. */
    public PartitionLocks largeCells() {
        return largeCells;
    }

    // Streams

    /** Files of a stream are about to become live: nothing is purged until {@link #filesEnd}. */
    public void filesBegin() {
        // In this order: who sees none arrive after it has read how many have begun misses none.
        arriving.incrementAndGet();
        streamsBegun.incrementAndGet();
    }

    /** How many streams there were of which files became live, or were about to. */
    public long streamsBegun() {
        return streamsBegun.get();
    }

    /** All have, or no more will. */
    public void filesEnd() {
        arriving.decrementAndGet();
    }

    /** Some files of a stream are live, and the others will never be. */
    public void streamAbandoned() {
        abandonedStreams.incrementAndGet();
    }

    /** How many streams have left large cells, perhaps, to which no row refers. */
    public long abandonedStreams() {
        return abandonedStreams.get();
    }

    /**
     * Whether some files of a stream may be live and others not yet: what deletes and what is
     * deleted, or large cells and the rows that refer to them.
     */
    public boolean isArriving() {
        return arriving.get() > 0;
    }

    // Keys

    /** How many bytes of a key are its partition's position. */
    public int positionBytes(byte[] key) {
        ByteBuffer in = ByteBuffer.wrap(key);
        try {
            partitionKeys.get(in);
            return in.position();
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw malformed(e, in.rewind());
        }
    }

    /**
     * How many bytes of a large cell's key are its row's.
     *
     * @throws RuntimeException of several kinds if it is malformed
     */
    public int rowBytes(ByteBuffer largeKey) {
        partitionKeys.get(largeKey);
        if ((largeKey.get() & 0xFF) == KeyKind.ROW)
            catalog().layout(table()).clusterings.getClustering(largeKey);
        return largeKey.position();
    }

    public CorruptStoreException malformed(RuntimeException e, ByteBuffer key) {
        return new CorruptStoreException(
                "The store of "
                        + name()
                        + " in "
                        + directory()
                        + " has a malformed entry ("
                        + e.getMessage()
                        + ") under key "
                        + ByteBufferUtil.bytesToHex(key)
                        + ". Restore it from a snapshot, or repair that partition's replicas.",
                e);
    }
}
