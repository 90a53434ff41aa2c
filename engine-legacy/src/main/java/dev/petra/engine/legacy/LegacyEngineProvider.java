// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.legacy;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngineProvider;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.exceptions.ConfigurationException;

/** Opens the engine named {@value #NAME}. It has no settings: it is configured as the node is. */
public final class LegacyEngineProvider implements StorageEngineProvider {
    static final String NAME = "legacy";

    /** For the service loader. */
    public LegacyEngineProvider() {}

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public StorageEngine open(EngineSettings settings) {
        if (!DatabaseDescriptor.isDaemonInitialized())
            throw new ConfigurationException(
                    "The engine 'legacy' is Cassandra's own storage, which needs a node's"
                        + " configuration: call DatabaseDescriptor.daemonInitialization first.");
        return new LegacyEngine();
    }
}
