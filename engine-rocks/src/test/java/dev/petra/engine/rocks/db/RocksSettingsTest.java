// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.EngineSettings;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.junit.jupiter.api.Test;

class RocksSettingsTest {
    private static RocksSettings settings(Map<String, String> settings) {
        return RocksSettings.of(new EngineSettings(settings));
    }

    @Test
    void tooLittleMemoryIsRefused() {
        assertThat(settings(Map.of("memory", "16MiB")).memory()).isEqualTo(16L << 20);
        assertThatThrownBy(() -> settings(Map.of("memory", "16777215B")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("'memory' is 16777215 B")
                .hasMessageContaining("at least 16777216 B");
    }

    /** They are a part of it. */
    @Test
    void writeBuffersAboveTheMemoryAreRefused() {
        assertThat(settings(Map.of("memory", "32MiB", "write_buffers", "32MiB")).writeBuffers())
                .isEqualTo(32L << 20);
        assertThatThrownBy(() -> settings(Map.of("memory", "32MiB", "write_buffers", "33554433B")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("'write_buffers'")
                .hasMessageContaining("'memory'")
                .hasMessageContaining("33554433 B of 33554432 B");
    }
}
