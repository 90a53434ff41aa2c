// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngines;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.junit.jupiter.api.Test;

/** Settings that are not understood are refused by name. */
public interface SettingsTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** Settings of the engine with values that it must refuse, each refused by itself. */
    Map<String, String> illFormedSettings();

    @Test
    default void anUnknownSettingIsRefusedByName() {
        assertRefused(Map.of("no_such_setting", "1"), "no_such_setting");
    }

    @Test
    default void anIllFormedSettingIsRefusedByName() {
        illFormedSettings().forEach((name, value) -> assertRefused(Map.of(name, value), name));
    }

    private void assertRefused(Map<String, String> settings, String name) {
        String engine = kit().engine().name();
        assertThatThrownBy(() -> StorageEngines.open(engine, new EngineSettings(settings)))
                .as("opening with " + settings)
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining(name);
    }
}
