// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.PetraMemtable;
import dev.petra.cassandra.engine.EngineKey;
import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ShadowFactoryTest {
    private static ShadowFactory of(Map<String, String> parameters) {
        Map<String, String> all = new HashMap<>(parameters);
        ShadowFactory factory = ShadowFactory.consume(all, false);
        assertThat(all).isEmpty();
        return factory;
    }

    @Test
    void theEngineIsThatOfTablesWithTheSameSettings() {
        ShadowFactory factory = of(Map.of("engine", "rocks", "memory", "1GiB"));
        assertThat(factory.engine())
                .isEqualTo(
                        EngineKey.consume(
                                new HashMap<>(Map.of("engine", "rocks", "memory", "1GiB"))));
        assertThat(factory.share()).isEqualTo(0.01);
        assertThat(of(Map.of("compared_share", "1")).share()).isEqualTo(1);
        assertThat(of(Map.of("compared_share", "0")).share()).isZero();
    }

    @Test
    void modes() {
        assertThat(PetraMemtable.factory(new HashMap<>(Map.of("mode", "shadow"))))
                .matches(made -> !((ShadowFactory) made).answers());
        assertThat(PetraMemtable.factory(new HashMap<>(Map.of("mode", "fallback"))))
                .matches(made -> ((ShadowFactory) made).answers());
        assertThat(PetraMemtable.factory(new HashMap<>(Map.of("mode", "engine"))))
                .isEqualTo(PetraMemtable.factory(new HashMap<>()));
        assertThatThrownBy(() -> PetraMemtable.factory(new HashMap<>(Map.of("mode", "both"))))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining(
                        "mode is 'both', but must be 'engine', 'shadow' or 'fallback'");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "1.5", "-0.1", "NaN", "all", "1%"})
    void sharesThatAreNone(String share) {
        assertThatThrownBy(() -> of(Map.of("compared_share", share)))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("compared_share");
    }
}
