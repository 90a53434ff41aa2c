// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Instant;
import org.apache.cassandra.db.DecoratedKey;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompressionType;
import org.rocksdb.FlushOptions;
import org.rocksdb.HyperClockCache;
import org.rocksdb.MutableColumnFamilyOptions;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;

/**
 * RocksDB with nothing around it: a row is one entry, or where single columns are read an empty one
 * and each column one. What an engine built on it could do at most.
 */
final class BareAccess implements Access {
    private static final int BLOCK = 16 << 10;
    private static final int BITS_PER_KEY = 10;
    private static final int LARGE = 16 << 10;
    private static final int KEY_BYTES = 1 << 10;
    private static final int VALUE_BYTES = 256 << 10;

    static {
        RocksDB.loadLibrary();
    }

    private final Workload workload;
    private final Requests requests;

    /** Each column an entry of its own. */
    private final boolean apart;

    private final int selected;
    private final HyperClockCache cache;
    private final BloomFilter filter = new BloomFilter(BITS_PER_KEY, false);
    private final Options options;
    private final WriteOptions written = new WriteOptions();
    private final ReadOptions readOptions = new ReadOptions();
    private final RocksDB db;

    private final ThreadLocal<ByteBuffer> keys =
            ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(KEY_BYTES));
    private final ThreadLocal<ByteBuffer> values =
            ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(VALUE_BYTES));
    private final ThreadLocal<ByteBuffer> foundKeys =
            ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(KEY_BYTES));

    BareAccess(Workload workload, int nativeMiB) {
        this.workload = workload;
        this.requests =
                new Requests(
                        workload,
                        EmbeddedNode.start(workload, Engine.LEGACY.memtable()).metadata());
        this.apart = !workload.selected().isEmpty();
        this.selected =
                apart
                        ? workload.columns().stream()
                                .map(column -> column[0])
                                .toList()
                                .indexOf(workload.selected().get(0))
                        : 0;
        this.cache = new HyperClockCache((long) nativeMiB << 20, 0, -1, false);
        this.options =
                new Options()
                        .setCreateIfMissing(true)
                        .setCompressionType(CompressionType.LZ4_COMPRESSION)
                        .setEnableBlobFiles(apart)
                        .setMinBlobSize(LARGE)
                        .setBlobCompressionType(CompressionType.LZ4_COMPRESSION)
                        .setTableFormatConfig(
                                new BlockBasedTableConfig()
                                        .setBlockCache(cache)
                                        .setBlockSize(BLOCK)
                                        .setFilterPolicy(filter)
                                        .setCacheIndexAndFilterBlocks(true));
        try {
            this.db =
                    RocksDB.open(
                            options,
                            Path.of(System.getProperty("cassandra.storagedir"), "bare").toString());
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    private static IllegalStateException failed(RocksDBException e) {
        return new IllegalStateException("RocksDB: " + e.getMessage(), e);
    }

    /** Token and key: partitions lie as they do in the engine. */
    private ByteBuffer partition(DecoratedKey key) {
        return keys.get()
                .clear()
                .putLong((long) key.getToken().getTokenValue() ^ Long.MIN_VALUE)
                .put(key.getKey().duplicate());
    }

    /** The newest first. */
    private static void putClustering(ByteBuffer key, Object value) {
        key.putLong(
                Long.MAX_VALUE
                        - (value instanceof Instant instant
                                ? instant.toEpochMilli()
                                : ((Number) value).longValue()));
    }

    @Override
    public void write(long number, int version) {
        Object[] row = workload.row(number, version);
        int regular = 1 + workload.clusterings();
        ByteBuffer key = partition(requests.key(number));
        if (regular > 1) putClustering(key, row[1]);
        int prefix = key.position();
        ByteBuffer value = values.get().clear();
        try {
            // Where the row begins: whoever looks for rows need not read a value.
            if (apart) db.put(written, key.flip(), value.flip());
            value.clear();
            for (int i = regular; i < row.length; i++) {
                ByteBuffer bytes = requests.bytes(i, row[i]);
                if (!apart) value.putInt(bytes.remaining());
                value.put(bytes.duplicate());
                if (!apart) continue;
                key.clear().position(prefix).put((byte) i);
                db.put(written, key.flip(), value.flip());
                value.clear();
            }
            if (!apart) db.put(written, key.flip(), value.flip());
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    @Override
    public long read(long number) {
        ByteBuffer key = partition(requests.key(number));
        try {
            long bytes = workload.clusterings() == 0 ? get(key.flip()) : slice(key.flip());
            if (bytes <= 0) throw new IllegalStateException("row " + number + " is not there");
            return bytes;
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    /** The bytes of a value, which are copied; -1 if there is none. */
    private int get(ByteBuffer key) throws RocksDBException {
        return db.get(readOptions, key, values.get().clear());
    }

    private long slice(ByteBuffer partition) throws RocksDBException {
        long bytes = 0;
        ByteBuffer value = values.get();
        ByteBuffer found = foundKeys.get();
        try (RocksIterator it = db.newIterator(readOptions)) {
            it.seek(partition.duplicate());
            for (int left = workload.limit(); left > 0 && it.isValid(); left--) {
                it.key(found.clear());
                if (!startsWith(found, partition)) break;
                if (!apart) {
                    bytes += it.value(value.clear());
                    it.next();
                    continue;
                }
                // The column of this row, and then the next row.
                int row = partition.remaining() + Long.BYTES;
                bytes += get(found.duplicate().limit(row + 1).put(row, (byte) selected));
                it.seek(found.limit(row + 1).put(row, (byte) 0xFF));
            }
            it.status();
        }
        return bytes;
    }

    private static boolean startsWith(ByteBuffer key, ByteBuffer prefix) {
        int length = prefix.remaining();
        return key.remaining() >= length && key.slice(0, length).equals(prefix);
    }

    @Override
    public long scan() {
        long count = 0;
        ByteBuffer value = values.get();
        try (RocksIterator it = db.newIterator(readOptions)) {
            for (it.seekToFirst(); it.isValid(); it.next())
                if (it.value(value.clear()) > 0) count++;
            it.status();
        } catch (RocksDBException e) {
            throw failed(e);
        }
        if (count < workload.rows())
            throw new IllegalStateException(count + " rows of " + workload.rows());
        return count;
    }

    @Override
    public void settle() {
        try (FlushOptions flush = new FlushOptions()) {
            db.flush(flush);
            db.compactRange();
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    @Override
    public void compacting(boolean automatic) {
        try {
            db.setOptions(
                    MutableColumnFamilyOptions.builder()
                            .setDisableAutoCompactions(!automatic)
                            .build());
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    @Override
    public Probe probe() {
        return EmbeddedNode.probe();
    }

    @Override
    public void close() {
        db.close();
        options.close();
        readOptions.close();
        written.close();
        filter.close();
        cache.close();
    }
}
