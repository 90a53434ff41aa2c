// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import java.util.ServiceLoader;
import java.util.TreeSet;
import org.apache.cassandra.exceptions.ConfigurationException;

/** Finds engines by name. */
public final class StorageEngines {
    private StorageEngines() {}

    /**
     * Opens the engine of that name and checks that every setting was understood. Thread-safe.
     *
     * @throws ConfigurationException if there is no such engine, a setting is ill-formed, or a
     *     setting is unknown to the engine
     */
    public static StorageEngine open(String name, EngineSettings settings) {
        StorageEngineProvider provider = find(name);
        StorageEngine engine = provider.open(settings);
        try {
            settings.refuseUnread(name);
        } catch (ConfigurationException e) {
            engine.close();
            throw e;
        }
        return engine;
    }

    private static StorageEngineProvider find(String name) {
        TreeSet<String> known = new TreeSet<>();
        for (StorageEngineProvider provider :
                ServiceLoader.load(
                        StorageEngineProvider.class, StorageEngines.class.getClassLoader())) {
            if (provider.name().equals(name)) return provider;
            known.add(provider.name());
        }
        throw new ConfigurationException(
                "There is no storage engine named '" + name + "'. Engines found: " + known + ".");
    }
}
