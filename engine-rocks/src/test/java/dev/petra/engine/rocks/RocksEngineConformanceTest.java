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
        return Map.of("memory", "32MiB", "write_buffer", "1MiB");
    }

    @Override
    protected boolean supportsStreams() {
        return false;
    }
}
