// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngineProvider;

/** Finds the reference engine by its name, {@value #NAME}. */
public final class MemoryEngineProvider implements StorageEngineProvider {
    /** The engine's name. */
    public static final String NAME = "memory";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public StorageEngine open(EngineSettings settings) {
        return new MemoryEngine(settings.bytes("memory_budget", 1 << 20));
    }
}
