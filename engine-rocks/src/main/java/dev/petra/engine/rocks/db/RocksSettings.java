// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import com.sun.management.OperatingSystemMXBean;
import dev.petra.engine.EngineSettings;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.exceptions.ConfigurationException;

/**
 * The engine's settings; {@code docs/operations.md} has the table for operators.
 *
 * @param memory native bytes for the block cache, with write buffers, indexes and filters counted
 *     in
 * @param writeBuffers the part of {@code memory} that write buffers of all tables may take
 * @param writeBuffer bytes of one table's write buffer before it is flushed
 * @param directReads whether data files are read past the page cache, where the file system can
 * @param blockSize bytes of a data block, before compression; 0 to have what each table's {@code
 *     chunk_length_in_kb} asks for
 * @param backgroundThreads threads for flush and compaction, all tables together
 * @param writeStallTimeoutMillis how long a write waits for a store that is behind
 * @param largeCell from how many bytes on a cell's value lies apart from its row
 * @param streamPart of how many bytes about the files are that a stream is staged in
 * @param purgeIntervalMillis how long at least between two removals of old deletions of one table
 * @param universal whether a table with the node's default compaction is compacted by size, not
 *     leveled
 * @param rocksdbOptions of the column family that holds the rows, as RocksDB names them, over what
 *     the engine sets
 * @param nativeLibraryDirectory where the native library is unpacked; must allow execution
 */
public record RocksSettings(
        long memory,
        long writeBuffers,
        long writeBuffer,
        boolean directReads,
        long blockSize,
        int backgroundThreads,
        long writeStallTimeoutMillis,
        int largeCell,
        long streamPart,
        long purgeIntervalMillis,
        boolean universal,
        Map<String, String> rocksdbOptions,
        String nativeLibraryDirectory) {
    private static final long MIB = 1L << 20;
    private static final String LEVELED = "leveled";
    private static final String UNIVERSAL = "universal";
    private static final String AUTO = "auto";
    private static final long LEAST_MEMORY = 16 * MIB;

    /** Code, classes, threads, collector, direct buffers; measured at a heap of 1 GiB. */
    private static final long JVM_BESIDES_HEAP = 512 * MIB;

    /** What {@code PartitionBounds} relies on. */
    private static final String PREFIX_EXTRACTOR = "prefix_extractor";

    public static RocksSettings of(EngineSettings settings) {
        long memory = settings.bytes("memory", defaultMemory());
        long writeBuffers = settings.bytes("write_buffers", memory / 4);
        // Half: the larger it is, the less is written again by compaction.
        long writeBuffer = settings.bytes("write_buffer", Math.min(64 * MIB, writeBuffers / 2));
        RocksSettings result =
                new RocksSettings(
                        memory,
                        writeBuffers,
                        writeBuffer,
                        isDirect(settings.text("direct_reads", AUTO), memory),
                        settings.bytes("block_size", 0),
                        settings.count(
                                "background_threads",
                                Math.max(2, Runtime.getRuntime().availableProcessors() / 2),
                                1),
                        settings.millis("write_stall_timeout", 2_000),
                        (int) Math.min(Integer.MAX_VALUE, settings.bytes("large_cell", 16 << 10)),
                        settings.bytes("stream_part", 64 * MIB),
                        settings.millis("purge_interval", TimeUnit.DAYS.toMillis(1)),
                        isUniversal(settings.text("compaction", LEVELED)),
                        options(settings.text("rocksdb_options", "")),
                        settings.text(
                                "native_library_directory", System.getProperty("java.io.tmpdir")));
        result.check();
        return result;
    }

    private void check() {
        atLeast("memory", memory, LEAST_MEMORY);
        atLeast("write_buffers", writeBuffers, MIB);
        atLeast("write_buffer", writeBuffer, 64 << 10);
        if (blockSize != 0) atLeast("block_size", blockSize, 1 << 10);
        atLeast("large_cell", largeCell, 1);
        atLeast("stream_part", streamPart, 64 << 10);
        if (writeBuffers > memory)
            throw new ConfigurationException(
                    "Setting 'write_buffers' is more than 'memory', of which it is a part: "
                            + writeBuffers
                            + " B of "
                            + memory
                            + " B.");
    }

    /** By the names that they have in the configuration; sizes in bytes, times in milliseconds. */
    public Map<String, String> asMap() {
        Map<String, String> all = new LinkedHashMap<>();
        all.put("memory", memory + " B");
        all.put("write_buffers", writeBuffers + " B");
        all.put("write_buffer", writeBuffer + " B");
        all.put("direct_reads", Boolean.toString(directReads));
        all.put(
                "block_size",
                blockSize == 0
                        ? "chunk_length_in_kb of the table, without clustering columns at most 8"
                                + " KiB"
                        : blockSize + " B");
        all.put("background_threads", Integer.toString(backgroundThreads));
        all.put("write_stall_timeout", writeStallTimeoutMillis + " ms");
        all.put("large_cell", largeCell + " B");
        all.put("stream_part", streamPart + " B");
        all.put("purge_interval", purgeIntervalMillis + " ms");
        all.put("compaction", universal ? UNIVERSAL : LEVELED);
        all.put("rocksdb_options", rocksdbOptions.toString());
        all.put("native_library_directory", nativeLibraryDirectory);
        return all;
    }

    /** Names and values, {@code name=value; name={inner=value;inner=value}}. */
    private static Map<String, String> options(String text) {
        Map<String, String> options = new LinkedHashMap<>();
        // Not where braces are open.
        for (String option : text.split(";(?![^{]*})", -1)) {
            if (option.isBlank()) continue;
            int equals = option.indexOf('=');
            if (equals < 1)
                throw new ConfigurationException(
                        "Setting 'rocksdb_options' has '"
                                + option.trim()
                                + "', but must be name=value; name=value.");
            String name = option.substring(0, equals).trim();
            if (name.equals(PREFIX_EXTRACTOR))
                throw new ConfigurationException(
                        "Setting 'rocksdb_options' has "
                                + name
                                + ", which the engine sets itself: with another one, reads would"
                                + " miss rows.");
            options.put(name, option.substring(equals + 1).trim());
        }
        return options;
    }

    private static boolean isUniversal(String compaction) {
        if (compaction.equals(UNIVERSAL)) return true;
        if (compaction.equals(LEVELED)) return false;
        throw new ConfigurationException(
                "Setting 'compaction' is '"
                        + compaction
                        + "', but must be '"
                        + LEVELED
                        + "' or '"
                        + UNIVERSAL
                        + "'.");
    }

    private static void atLeast(String name, long value, long least) {
        if (value < least)
            throw new ConfigurationException(
                    "Setting '"
                            + name
                            + "' is "
                            + value
                            + " B, but must be at least "
                            + least
                            + " B.");
    }

    /** Half of what there is; the other half is for the page cache and whatever else runs. */
    private static long defaultMemory() {
        return Math.max(64 * MIB, spareMemory() / 2);
    }

    /**
     * By default where the page cache could not hold much more than the block cache: otherwise
     * blocks would be in both.
     */
    private static boolean isDirect(String reads, long memory) {
        return switch (reads) {
            case AUTO -> spareMemory() > 0 && memory >= spareMemory() / 2;
            case "true" -> true;
            case "false" -> false;
            default ->
                    throw new ConfigurationException(
                            "Setting 'direct_reads' is '"
                                    + reads
                                    + "', but must be 'auto', 'true' or 'false'.");
        };
    }

    /** What the JVM leaves of the machine or the container: for this engine and the page cache. */
    public static long spareMemory() {
        long total =
                ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class)
                        .getTotalMemorySize();
        return Math.max(0, total - Runtime.getRuntime().maxMemory() - JVM_BESIDES_HEAP);
    }
}
