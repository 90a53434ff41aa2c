// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.PetraMemtableFactory;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class EngineKeyTest {
    @Test
    void theEngineIsRocksUnlessNamed() {
        assertThat(EngineKey.consume(new HashMap<>()).engine()).isEqualTo("rocks");
        assertThat(EngineKey.consume(new HashMap<>(Map.of("engine", " other "))).engine())
                .isEqualTo("other");
    }

    @Test
    void everyParameterIsConsumed() {
        Map<String, String> parameters = new HashMap<>(Map.of("engine", "rocks", "memory", "1GiB"));
        EngineKey key = EngineKey.consume(parameters);
        assertThat(parameters).isEmpty();
        assertThat(key.settings().text("memory", "")).isEqualTo("1GiB");
        assertThat(key.settings().text("engine", "absent")).isEqualTo("absent");
    }

    @Test
    void valuesThatYamlReadAsNumbersAreTheirText() {
        @SuppressWarnings("unchecked")
        Map<String, String> parameters =
                (Map<String, String>) (Map<?, ?>) new HashMap<>(Map.of("threads", 4));
        assertThat(EngineKey.consume(parameters).settings().count("threads", 0, 1)).isEqualTo(4);
    }

    @Test
    void equalSettingsAreOneEngineWhateverWasRead() {
        EngineKey a = EngineKey.consume(new HashMap<>(Map.of("memory", "1GiB")));
        EngineKey b = EngineKey.consume(new HashMap<>(Map.of("engine", "rocks", "memory", "1GiB")));
        assertThat(a.settings().bytes("memory", 0)).isEqualTo(1L << 30);
        assertThat(a).isEqualTo(b).hasSameHashCodeAs(b);
        assertThat(new PetraMemtableFactory(a)).isEqualTo(new PetraMemtableFactory(b));
        assertThat(a).isNotEqualTo(EngineKey.consume(new HashMap<>(Map.of("memory", "2GiB"))));
    }
}
