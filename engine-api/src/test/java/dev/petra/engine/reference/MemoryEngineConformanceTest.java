// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.conformance.StorageEngineConformance;

/** The reference engine keeps the rules that it is the reference for. */
final class MemoryEngineConformanceTest extends StorageEngineConformance {
    @Override
    protected String engineName() {
        return MemoryEngineProvider.NAME;
    }

    @Override
    protected boolean findsDamage() {
        return false;
    }
}
