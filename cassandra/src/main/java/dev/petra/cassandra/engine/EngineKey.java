// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import dev.petra.engine.EngineSettings;
import java.util.HashMap;
import java.util.Map;

/**
 * Which engine with which settings: equal keys share one engine.
 *
 * @param engine the provider's name
 * @param settings what is left of the configuration's parameters
 */
public record EngineKey(String engine, EngineSettings settings) {
    /** The parameter that names the engine. */
    static final String ENGINE = "engine";

    /** The engine without that parameter. */
    static final String DEFAULT_ENGINE = "rocks";

    /**
     * Takes everything out of a memtable configuration's parameters.
     *
     * @param parameters emptied, by which the host knows that all were understood; values that YAML
     *     read as numbers or booleans are taken as their text
     */
    public static EngineKey consume(Map<String, String> parameters) {
        Map<String, String> settings = new HashMap<>();
        ((Map<?, ?>) parameters)
                .forEach((name, value) -> settings.put(name.toString(), String.valueOf(value)));
        parameters.clear();
        String engine = settings.remove(ENGINE);
        return new EngineKey(
                engine == null ? DEFAULT_ENGINE : engine.trim(), new EngineSettings(settings));
    }

    @Override
    public String toString() {
        return engine + settings;
    }
}
