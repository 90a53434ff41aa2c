// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.conformance.StorageEngineConformance;
import java.util.Map;

/** The engine keeps every rule of the SPI. */
class RocksEngineConformanceTest extends StorageEngineConformance {
    @Override
    protected String engineName() {
        return "rocks";
    }

    @Override
    protected Map<String, String> settings() {
        // On a slow machine flushes are late.
        return Map.of("memory", "32MiB", "write_buffer", "1MiB", "write_stall_timeout", "30s");
    }

    @Override
    public Map<String, String> illFormedSettings() {
        return Map.of(
                "memory", "32 apples",
                "write_buffers", "-1",
                "write_buffer", "1B",
                "block_size", "4",
                "background_threads", "0",
                "write_stall_timeout", "soon",
                "large_cell", "0B",
                "stream_part", "1B",
                "purge_interval", "daily",
                "compaction", "sometimes");
    }
}
