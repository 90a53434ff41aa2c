// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.conformance.StorageEngineConformance;
import java.util.Map;

/** The reference engine keeps the rules that it is the reference for. */
final class MemoryEngineConformanceTest extends StorageEngineConformance {
    @Override
    protected String engineName() {
        return MemoryEngineProvider.NAME;
    }

    @Override
    public Map<String, String> illFormedSettings() {
        return Map.of("memory_budget", "lots");
    }

    @Override
    protected boolean findsDamage() {
        return false;
    }
}
