// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import java.util.Map;

/** Opens the engine in a process that is not a node, to write or read one store. */
final class OfflineEngine {
    /** Nobody repeats a write here, so it waits for compaction as long as a migration's does. */
    private static final Map<String, String> SETTINGS =
            Map.of("memory", "64MiB", "write_stall_timeout", "10m");

    private OfflineEngine() {}

    static StorageEngine open() {
        return StorageEngines.open("rocks", new EngineSettings(SETTINGS));
    }
}
