// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/** Opens an engine; registered in {@code META-INF/services} and found by {@link #name()}. */
public interface StorageEngineProvider {
    /**
     * The name by which settings choose this engine: lower case, unique among the engines on the
     * class path, and never changed once data was written under it.
     */
    String name();

    /**
     * Opens the engine for this process. Called once per distinct settings; may block on loading
     * native code.
     *
     * @param settings what the configuration says; the engine reads each setting it knows and
     *     leaves the others, which the caller then refuses
     * @throws org.apache.cassandra.exceptions.ConfigurationException if a setting is ill-formed or
     *     the platform lacks what the engine needs; the message names the setting and the mend
     */
    StorageEngine open(EngineSettings settings);
}
