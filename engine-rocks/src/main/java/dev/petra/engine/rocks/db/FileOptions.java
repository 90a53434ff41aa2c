// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.apache.cassandra.io.compress.DeflateCompressor;
import org.apache.cassandra.io.compress.ICompressor;
import org.apache.cassandra.io.compress.LZ4Compressor;
import org.apache.cassandra.io.compress.NoopCompressor;
import org.apache.cassandra.io.compress.SnappyCompressor;
import org.apache.cassandra.io.compress.ZstdCompressor;
import org.apache.cassandra.schema.CompressionParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableParams;
import org.jspecify.annotations.Nullable;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompressionOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.IndexType;

/**
 * What a table's own options ask of its data files. RocksDB takes them when a store is opened, and
 * for the files that are written from then on when they change.
 *
 * @param level of compression; {@link #DEFAULT_LEVEL} where the algorithm has none
 * @param blockSize bytes, before compression
 * @param bitsPerKey of the bloom filters, 0 for no filters
 * @param compaction how files are merged
 * @param automatic whether they are merged without being asked
 * @param partitioned whether index and filter are cut into blocks, see {@link IndexVolume}
 */
public record FileOptions(
        CompressionType compression,
        int level,
        int blockSize,
        double bitsPerKey,
        CompactionSettings compaction,
        boolean automatic,
        boolean partitioned) {
    /** RocksDB's name for the algorithm's own. */
    private static final int DEFAULT_LEVEL = 32767;

    /** Where nothing is compressed, there are no chunks: a page. */
    private static final int PLAIN_BLOCK = 4 << 10;

    /** Where each partition is one row, a read wants no other row of the block. */
    private static final int MOST_OF_SINGLE_ROWS = 8 << 10;

    private static final Map<Class<? extends ICompressor>, CompressionType> TYPES =
            Map.of(
                    LZ4Compressor.class, CompressionType.LZ4_COMPRESSION,
                    ZstdCompressor.class, CompressionType.ZSTD_COMPRESSION,
                    SnappyCompressor.class, CompressionType.SNAPPY_COMPRESSION,
                    DeflateCompressor.class, CompressionType.ZLIB_COMPRESSION,
                    NoopCompressor.class, CompressionType.NO_COMPRESSION);

    /** As RocksDB's option strings have them. */
    private static final Map<CompressionType, String> NAMES =
            new EnumMap<>(
                    Map.of(
                            CompressionType.NO_COMPRESSION, "kNoCompression",
                            CompressionType.SNAPPY_COMPRESSION, "kSnappyCompression",
                            CompressionType.ZLIB_COMPRESSION, "kZlibCompression",
                            CompressionType.LZ4_COMPRESSION, "kLZ4Compression",
                            CompressionType.LZ4HC_COMPRESSION, "kLZ4HCCompression",
                            CompressionType.ZSTD_COMPRESSION, "kZSTD"));

    private static final String BLOB_COMPRESSION = "blob_compression_type";

    private static final double LN_2_SQUARED = Math.log(2) * Math.log(2);

    /** Those of a table as it is now. */
    static FileOptions of(
            TableMetadata metadata,
            boolean automatic,
            boolean partitioned,
            RocksSettings settings) {
        TableParams table = metadata.params;
        CompressionParams compression = table.compression;
        ICompressor compressor = compression.getSstableCompressor();
        int chunk = compressor == null ? PLAIN_BLOCK : compression.chunkLength();
        if (metadata.comparator.size() == 0) chunk = Math.min(chunk, MOST_OF_SINGLE_ROWS);
        return new FileOptions(
                type(compressor, compression.getOtherOptions()),
                level(compressor, compression.getOtherOptions()),
                settings.blockSize() > 0 ? (int) settings.blockSize() : chunk,
                bitsPerKey(table.bloomFilterFpChance),
                CompactionSettings.of(table.compaction, settings.universal()),
                automatic,
                partitioned);
    }

    private static CompressionType type(
            @Nullable ICompressor compressor, Map<String, String> options) {
        if (compressor == null) return CompressionType.NO_COMPRESSION;
        if (isHighLz4(compressor, options)) return CompressionType.LZ4HC_COMPRESSION;
        return TYPES.getOrDefault(compressor.getClass(), CompressionType.LZ4_COMPRESSION);
    }

    private static boolean isHighLz4(ICompressor compressor, Map<String, String> options) {
        return compressor instanceof LZ4Compressor
                && LZ4Compressor.LZ4_HIGH_COMPRESSOR.equals(
                        options.get(LZ4Compressor.LZ4_COMPRESSOR_TYPE));
    }

    private static int level(@Nullable ICompressor compressor, Map<String, String> options) {
        if (compressor instanceof ZstdCompressor) {
            String level = options.get(ZstdCompressor.COMPRESSION_LEVEL_OPTION_NAME);
            return level == null
                    ? ZstdCompressor.DEFAULT_COMPRESSION_LEVEL
                    : Integer.parseInt(level);
        }
        if (compressor != null && isHighLz4(compressor, options))
            return LZ4Compressor.validateCompressionLevel(
                    options.get(LZ4Compressor.LZ4_HIGH_COMPRESSION_LEVEL));
        return DEFAULT_LEVEL;
    }

    /** The size at which a bloom filter errs so often. */
    private static double bitsPerKey(double falsePositives) {
        return falsePositives >= 1 ? 0 : -Math.log(falsePositives) / LN_2_SQUARED;
    }

    /** What of a table's options is not honoured, a sentence each. */
    public static List<String> reservations(TableParams table) {
        List<String> reservations = new ArrayList<>();
        ICompressor compressor = table.compression.getSstableCompressor();
        if (compressor != null && !TYPES.containsKey(compressor.getClass()))
            reservations.add(
                    "compression class "
                            + compressor.getClass().getName()
                            + " is not known, and its files are compressed by LZ4");
        if (table.compression.maxCompressedLength() < table.compression.chunkLength())
            reservations.add(
                    "min_compress_ratio is ignored: a block that compression makes less than 12.5 %"
                            + " smaller is stored as it is");
        reservations.addAll(CompactionSettings.reservations(table.compaction));
        if (table.crcCheckChance < 1)
            reservations.add("crc_check_chance is ignored: every block's checksum is checked");
        if (!table.caching.cacheKeys())
            reservations.add(
                    "caching without keys is ignored: the block cache decides what it keeps");
        return reservations;
    }

    // To RocksDB

    /**
     * Sets them on options of a column family that is to be opened; of the compaction, only whether
     * there is any.
     */
    void applyTo(
            ColumnFamilyOptions family,
            BlockBasedTableConfig table,
            CompressionOptions compressionOptions,
            @Nullable BloomFilter filter) {
        family.setDisableAutoCompactions(!automatic)
                .setCompressionType(compression)
                // As the others.
                .setBottommostCompressionType(CompressionType.DISABLE_COMPRESSION_OPTION)
                .setCompressionOptions(compressionOptions.setLevel(level));
        table.setBlockSize(blockSize)
                .setPinL0FilterAndIndexBlocksInCache(isPinned())
                .setIndexType(
                        partitioned ? IndexType.kTwoLevelIndexSearch : IndexType.kBinarySearch)
                .setPartitionFilters(partitioned);
        if (filter != null) table.setFilterPolicy(filter);
    }

    /**
     * Whether indexes and filters of files in level 0 stay in the cache whatever else needs room.
     * Where all files may be in that level, as a large stream leaves them, they would fill it for
     * good and go beyond its budget.
     */
    private boolean isPinned() {
        return automatic && compaction.window() == null;
    }

    /** A filter of this size, which the caller closes; null for none. */
    @Nullable BloomFilter newFilter() {
        return bitsPerKey == 0 ? null : new BloomFilter(bitsPerKey, false);
    }

    /** {@link #asMap} for the column family of indexes. */
    Map<String, String> asIndexMap() {
        FileOptions unfiltered =
                new FileOptions(
                        compression, level, blockSize, 0, compaction, automatic, partitioned);
        Map<String, String> options = unfiltered.asMap(true);
        options.remove(BLOB_COMPRESSION);
        return options;
    }

    /**
     * The same for an open column family, as names and values, for the files that it writes then.
     *
     * @param blobs whether its values are in blob files
     */
    Map<String, String> asMap(boolean blobs) {
        String name = Objects.requireNonNull(NAMES.get(compression));
        Map<String, String> options = new LinkedHashMap<>();
        options.put("disable_auto_compactions", Boolean.toString(!automatic));
        if (!blobs) options.putAll(compaction.asMap());
        options.put("compression", name);
        options.put("compression_opts", "{level=" + level + "}");
        if (blobs) options.put(BLOB_COMPRESSION, name);
        options.put(
                "block_based_table_factory",
                "{block_size="
                        + blockSize
                        + ";index_type="
                        + (partitioned ? "kTwoLevelIndexSearch" : "kBinarySearch")
                        + ";partition_filters="
                        + partitioned
                        + ";filter_policy="
                        + (bitsPerKey == 0
                                ? "nullptr"
                                : String.format(Locale.ROOT, "bloomfilter:%f:false", bitsPerKey))
                        + ";pin_l0_filter_and_index_blocks_in_cache="
                        + isPinned()
                        + "}");
        return options;
    }
}
