// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StoreSpec;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * What reading, writing, compaction and streams of one store have in common: its table, its keys,
 * its database, and what they must know of each other.
 */
final class StoreContext {
    private static final int LARGE_WRITE_STRIPES = 64;

    private final StoreSpec spec;
    private final RocksSettings settings;
    private final PartitionKeys partitionKeys;
    private final Reconciler reconciler;
    private final WriteRoom room;
    private final ReopenableDatabase reopenable;
    private final OldestPurgeable purgeable = new OldestPurgeable();
    private final SupersededNotice superseded = new SupersededNotice();

    /** Held by writers of large cells, and by whoever removes those no row refers to. */
    private final Object[] largeWrites = new Object[LARGE_WRITE_STRIPES];

    private final AtomicLong recordWritesBegun = new AtomicLong();
    private final AtomicLong recordWritesEnded = new AtomicLong();

    /** Streams of which parts become live now. */
    private final AtomicInteger arriving = new AtomicInteger();

    StoreContext(
            StoreSpec spec,
            RocksSettings settings,
            Reconciler reconciler,
            WriteRoom room,
            ReopenableDatabase reopenable) {
        this.spec = spec;
        this.settings = settings;
        this.partitionKeys = new PartitionKeys(spec.metadata().get().partitioner);
        this.reconciler = reconciler;
        this.room = room;
        this.reopenable = reopenable;
        Arrays.setAll(largeWrites, i -> new Object());
    }

    StoreSpec spec() {
        return spec;
    }

    String name() {
        return spec.displayName();
    }

    Path directory() {
        return spec.directory();
    }

    TableMetadata table() {
        return spec.metadata().get();
    }

    RocksSettings settings() {
        return settings;
    }

    PartitionKeys partitionKeys() {
        return partitionKeys;
    }

    Reconciler reconciler() {
        return reconciler;
    }

    WriteRoom room() {
        return room;
    }

    ReopenableDatabase reopenable() {
        return reopenable;
    }

    /** {@link ReopenableDatabase#database}. */
    Database database() {
        return reopenable.database();
    }

    /** {@link ReopenableDatabase#acquire}. */
    Database acquire() {
        return reopenable.acquire();
    }

    /** Of the database that is open now: to be asked for after that was acquired. */
    Catalog catalog() {
        return reopenable.catalog();
    }

    OldestPurgeable purgeable() {
        return purgeable;
    }

    SupersededNotice superseded() {
        return superseded;
    }

    // Records of partitions

    /** A write of a partition's record begins; see {@link #recordWritesBegun}. */
    void recordWriteBegins() {
        recordWritesBegun.incrementAndGet();
    }

    /** It has ended, whether it succeeded or not. */
    void recordWriteEnds() {
        recordWritesEnded.incrementAndGet();
    }

    /** Writes of partition records that began. */
    long recordWritesBegun() {
        return recordWritesBegun.get();
    }

    /** Writes of partition records that ended, whether they succeeded or not. */
    long recordWritesEnded() {
        return recordWritesEnded.get();
    }

    // Large cells

    /** What writers of large cells of this partition hold. */
    Object largeWrites(DecoratedKey key) {
        return largeWrites[Math.floorMod(key.getToken().hashCode(), LARGE_WRITE_STRIPES)];
    }

    // Streams

    /** Parts are about to become live: nothing is purged until {@link #partsEnd}. */
    void partsBegin() {
        arriving.incrementAndGet();
    }

    /** All have, or no more will. */
    void partsEnd() {
        arriving.decrementAndGet();
    }

    /**
     * Whether some parts of a stream may be live and others not yet: what deletes and what is
     * deleted, or large cells and the rows that refer to them.
     */
    boolean isArriving() {
        return arriving.get() > 0;
    }

    // Keys

    /** How many bytes of a key are its partition's position. */
    int positionBytes(byte[] key) {
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
    int rowBytes(ByteBuffer largeKey) {
        partitionKeys.get(largeKey);
        if ((largeKey.get() & 0xFF) == KeyKind.ROW)
            catalog().form(table()).clusterings.getClustering(largeKey);
        return largeKey.position();
    }

    CorruptStoreException malformed(RuntimeException e, ByteBuffer key) {
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
