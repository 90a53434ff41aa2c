// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** What is compared: an engine in one of its configurations. */
enum Engine {
    /** RocksDB, with the memory budget of the run. */
    ROCKS("rocks", "rocks"),

    /** The same in a node from a {@link WovenDistribution woven} Cassandra, without the agent. */
    ROCKS_WOVEN("rocks-woven", "rocks"),

    /** Cassandra as {@code cassandra.yaml} ships it. */
    LEGACY("legacy", "default"),

    /** Cassandra as {@code cassandra_latest.yaml} ships it: the one to beat. */
    LEGACY_LATEST("legacy-latest", "default"),

    /** The same with as much memory for its chunk cache as the engine has. */
    LEGACY_LATEST_CACHE("legacy-latest-cache", "default"),

    /** The same as {@link #LEGACY_LATEST}, with a log that keeps what was acknowledged. */
    LEGACY_LATEST_MMAP("legacy-latest-mmap", "default"),

    /** The same as {@link #LEGACY_LATEST}, with a table that has a shadow in RocksDB. */
    LEGACY_LATEST_SHADOW("legacy-latest-shadow", "rocks_shadow"),

    /** The same, with a shadow that answers reads. */
    LEGACY_LATEST_FALLBACK("legacy-latest-fallback", "rocks_fallback"),

    /** RocksDB with this engine's options, and without an engine. At the level spi only. */
    BARE("bare", "default");

    /** What of {@code file_cache_size} is for other buffers, in MiB. */
    private static final int CHUNK_CACHE_RESERVED = 32;

    private final String label;
    private final String memtable;

    Engine(String label, String memtable) {
        this.label = label;
        this.memtable = memtable;
    }

    static Engine of(String label) {
        for (Engine engine : values()) if (engine.label.equals(label)) return engine;
        throw new IllegalArgumentException(
                "no engine '"
                        + label
                        + "': "
                        + Arrays.stream(values())
                                .map(Engine::label)
                                .collect(Collectors.joining(", ")));
    }

    /** As reports and options have it. */
    String label() {
        return label;
    }

    /** The memtable configuration of a table in it. */
    String memtable() {
        return memtable;
    }

    /** Whether its node needs the plugin, and its tables are in the plugin's engine. */
    boolean isPetra() {
        return this == ROCKS || this == ROCKS_WOVEN;
    }

    /** Whether its node needs the plugin, and its tables have a shadow in the plugin's engine. */
    boolean isShadowed() {
        return this == LEGACY_LATEST_SHADOW || this == LEGACY_LATEST_FALLBACK;
    }

    /**
     * What it is given beside the heap, in MiB: for caches, write buffers and memtables.
     *
     * @param nativeMiB of {@code --memory}
     */
    int besideHeap(int heapMiB, int nativeMiB) {
        // As Cassandra's default is.
        int memtables = heapMiB / 4;
        return switch (this) {
            case ROCKS, ROCKS_WOVEN, BARE -> nativeMiB;
            // Its memtables are on the heap.
            case LEGACY -> 0;
            case LEGACY_LATEST, LEGACY_LATEST_MMAP -> memtables;
            case LEGACY_LATEST_CACHE, LEGACY_LATEST_SHADOW, LEGACY_LATEST_FALLBACK ->
                    memtables + nativeMiB;
        };
    }

    /**
     * The node's settings: for {@code legacy-latest} those in which {@code cassandra_latest.yaml}
     * differs from the defaults.
     *
     * @param nativeMiB memory beside the heap
     */
    Map<String, Object> yaml(int nativeMiB) {
        Map<String, Object> yaml = new LinkedHashMap<>();
        switch (this) {
            case ROCKS, ROCKS_WOVEN, LEGACY, BARE -> {}
            case LEGACY_LATEST,
                    LEGACY_LATEST_CACHE,
                    LEGACY_LATEST_MMAP,
                    LEGACY_LATEST_SHADOW,
                    LEGACY_LATEST_FALLBACK -> {
                yaml.put(
                        "memtable",
                        Map.of("configurations", Map.of("default", Map.of("inherits", "trie"))));
                yaml.put("memtable_allocation_type", "offheap_objects");
                yaml.put("column_index_size", "4KiB");
                yaml.put("concurrent_compactors", 8);
                yaml.put("commitlog_disk_access_mode", "auto");
                yaml.put("trickle_fsync", true);
                yaml.put("key_cache_size", "0MiB");
                yaml.put("uuid_sstable_identifiers_enabled", true);
                yaml.put("storage_compatibility_mode", "NONE");
                yaml.put("sstable", Map.of("selected_format", "bti"));
                yaml.put(
                        "default_compaction",
                        Map.of(
                                "class_name",
                                "UnifiedCompactionStrategy",
                                "parameters",
                                Map.of(
                                        "scaling_parameters",
                                        "T4",
                                        "max_sstables_to_compact",
                                        64,
                                        "target_sstable_size",
                                        "1GiB",
                                        "sstable_growth",
                                        0.3333333333333333,
                                        "min_sstable_size",
                                        "100MiB")));
            }
        }
        if (this == LEGACY_LATEST_CACHE) {
            yaml.put("file_cache_enabled", true);
            yaml.put("file_cache_size", nativeMiB + CHUNK_CACHE_RESERVED + "MiB");
        }
        // With direct I/O the writes since the last sync are in the process only.
        if (this == LEGACY_LATEST_MMAP) yaml.put("commitlog_disk_access_mode", "mmap");
        return yaml;
    }
}
