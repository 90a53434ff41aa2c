// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.write;

import dev.petra.engine.WalSync;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.PartitionLocks;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreSync;
import dev.petra.engine.rocks.db.WriteStallRetry;
import dev.petra.engine.rocks.wal.LogSyncer;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.Lock;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/** Writes updates to one store, and has them synced as the engine's mode says. */
public final class WritePath {
    private final StoreContext store;
    private final StoreSync sync;
    private final LogSyncer<?> syncer;
    private final LongAdder writes = new LongAdder();
    private final LongAdder bytesWritten = new LongAdder();

    /**
     * @param syncer knows the mode
     */
    public WritePath(StoreContext store, StoreSync sync, LogSyncer<?> syncer) {
        this.store = store;
        this.sync = sync;
        this.syncer = syncer;
    }

    /**
     * Writes an update, and entries of indexes in the same batch.
     *
     * @throws IllegalArgumentException if one is of an index that was never defined
     */
    public void write(PartitionUpdate update, List<TermEntry> indexed) {
        // What nobody syncs, nobody waits for.
        write(update, indexed, store.spec().isDurable() ? syncer.mode() : WalSync.PERIODIC);
    }

    /** Writes an update, and waits for no sync. */
    public void writeUnsynced(PartitionUpdate update) {
        // Whoever syncs a write of his own must not take this one for durable, too.
        store.room().asideBegins();
        try {
            write(update, List.of(), WalSync.PERIODIC);
        } finally {
            store.room().asideEnds();
        }
    }

    private void write(PartitionUpdate update, List<TermEntry> indexed, WalSync mode) {
        ReopenableDatabase reopenable = store.reopenable();
        reopenable.healing.heal();
        Database database = store.acquire();
        int use = Database.stripe();
        try {
            write(update, indexed, database, mode);
        } catch (RocksDBException e) {
            throw reopenable.healing.failed(e);
        } catch (Catalog.CatalogWriteFailure e) {
            throw reopenable.healing.failed(e.error);
        } finally {
            database.release(use);
        }
    }

    private void write(
            PartitionUpdate update, List<TermEntry> indexed, Database database, WalSync mode)
            throws RocksDBException {
        sync.refuseAfterFailure();
        UpdateEncoder writer = UpdateEncoder.get();
        try {
            write(update, indexed, database, writer, mode);
        } finally {
            writer.release();
        }
    }

    private void write(
            PartitionUpdate update,
            List<TermEntry> indexed,
            Database database,
            UpdateEncoder writer,
            WalSync mode)
            throws RocksDBException {
        int entries = writer.encode(update, indexed, store, database);
        if (entries == 0) return;
        int bytes = writer.bytes();
        boolean record = UpdateEncoder.hasPartitionRecord(update);
        int flags = record ? Catalog.Flag.PARTITION_RECORDS.bit : 0;
        if (writer.minLocalTime() != Long.MAX_VALUE) flags |= Catalog.Flag.TOMBSTONES.bit;
        if (writer.hasLargeCells()) flags |= Catalog.Flag.LARGE_CELLS.bit;
        store.catalog().setForClient(flags);
        boolean synced = mode == WalSync.BATCH;
        DecoratedKey key = update.partitionKey();
        if (record) store.recordWriteBegins();
        try {
            if (indexed.isEmpty()) write(key, writer, database, synced);
            else
                whileNotSwept(
                        store.indexing().partitions(),
                        key,
                        () -> write(key, writer, database, synced));
        } finally {
            if (record) store.recordWriteEnds();
        }
        store.reopenable().dataWritten();
        writes.increment();
        bytesWritten.add(bytes);
        sync.written(database, mode);
    }

    private static void whileNotSwept(
            PartitionLocks partitions, DecoratedKey key, WriteStallRetry.Attempt write)
            throws RocksDBException {
        Lock writing = partitions.writing(key);
        writing.lock();
        try {
            write.run();
        } finally {
            writing.unlock();
        }
    }

    private void write(DecoratedKey key, UpdateEncoder writer, Database database, boolean synced)
            throws RocksDBException {
        if (writer.hasLargeCells())
            whileNotSwept(store.largeCells(), key, () -> write(writer, database, synced));
        else write(writer, database, synced);
    }

    /** Writes entries of rows that are there; it is synced soon, and nobody waits for that. */
    public void add(DecoratedKey key, List<TermEntry> indexed) {
        ReopenableDatabase reopenable = store.reopenable();
        reopenable.healing.heal();
        reopenable.maintain(
                database -> {
                    sync.refuseAfterFailure();
                    UpdateEncoder writer = UpdateEncoder.get();
                    try {
                        PartitionUpdate none = PartitionUpdate.emptyUpdate(store.table(), key);
                        if (writer.encode(none, indexed, store, database) == 0) return;
                        try (WriteBatch batch = new WriteBatch(writer.batch())) {
                            whileNotSwept(
                                    store.indexing().partitions(),
                                    key,
                                    () ->
                                            store.room()
                                                    .write(
                                                            () ->
                                                                    database.db.write(
                                                                            database.writeOptions,
                                                                            batch)));
                        }
                        bytesWritten.add(writer.bytes());
                        sync.written(database, WalSync.PERIODIC);
                    } finally {
                        writer.release();
                    }
                });
    }

    private void write(UpdateEncoder writer, Database database, boolean synced)
            throws RocksDBException {
        WriteOptions options = synced ? database.syncedWriteOptions : database.writeOptions;
        WriteStallRetry room = store.room();
        int phase = room.writers.begin();
        try {
            // Before it can be seen: what is purged from now on must not uncover this write.
            store.reconciler().lowerMaxPurgeable(writer.minTimestamp());
            store.purgeable().written(writer.minLocalTime());
            if (writer.isBatched()) {
                try (WriteBatch batch = new WriteBatch(writer.batch())) {
                    room.awaitForClient(() -> database.db.write(options, batch));
                }
            } else {
                ByteBuffer key = writer.key();
                ByteBuffer value = writer.value();
                // Each attempt sets the positions: the one before may have left them anywhere.
                room.awaitForClient(
                        () ->
                                database.db.merge(
                                        database.data,
                                        options,
                                        key.position(0),
                                        value.position(0)));
            }
        } finally {
            room.writers.end(phase);
        }
    }

    /** Writes since the store was opened. */
    public long writes() {
        return writes.sum();
    }

    /** The bytes of all writes since the store was opened. */
    public long bytesWritten() {
        return bytesWritten.sum();
    }
}
