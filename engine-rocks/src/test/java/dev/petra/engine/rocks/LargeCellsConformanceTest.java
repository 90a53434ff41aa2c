// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.util.Map;
import org.junit.jupiter.api.Tag;

/**
 * The same rules with every value apart from its row, tiny blocks, tiny write buffers, tiny files
 * of streams, direct reads and compaction by size.
 */
@Tag("slow")
class LargeCellsConformanceTest extends RocksEngineConformanceTest {
    @Override
    protected Map<String, String> settings() {
        return Map.of(
                "memory", "32MiB",
                "write_buffer", "64KiB",
                "block_size", "1KiB",
                "large_cell", "1B",
                "direct_reads", "true",
                "stream_part", "64KiB",
                "compaction", "universal");
    }
}
