// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.conformance.HostFixture;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Settings read as cassandra.yaml's are, and what nobody read refused. */
final class EngineSettingsTest {
    @BeforeAll
    static void initialise() {
        HostFixture.initialise();
    }

    private static EngineSettings of(String name, String value) {
        return new EngineSettings(Map.of(name, value));
    }

    @Test
    void sizesAndTimesHaveUnits() {
        assertThat(of("a", "512MiB").bytes("a", 1)).isEqualTo(512L << 20);
        assertThat(of("a", " 3KiB ").bytes("a", 1)).isEqualTo(3072);
        assertThat(of("a", "10s").millis("a", 1)).isEqualTo(10_000);
        assertThat(of("a", "7").count("a", 1, 7)).isEqualTo(7);
        assertThat(of("a", " x ").text("a", "y")).isEqualTo("x");
    }

    @Test
    void whatIsAbsentIsWhatStandsForIt() {
        EngineSettings none = new EngineSettings(Map.of());
        assertThat(none.bytes("a", 5)).isEqualTo(5);
        assertThat(none.millis("a", 6)).isEqualTo(6);
        assertThat(none.count("a", 7, 1)).isEqualTo(7);
        assertThat(none.text("a", "y")).isEqualTo("y");
        none.refuseUnread("memory");
    }

    @Test
    void illFormedValuesAreRefusedByNameValueAndForm() {
        for (String value : new String[] {"", "10", "10 MB", "-1MiB", "MiB", "99999999999GiB"})
            assertThatThrownBy(() -> of("cache", value).bytes("cache", 1))
                    .as("size '" + value + "'")
                    .isInstanceOf(ConfigurationException.class)
                    .hasMessageContaining("cache")
                    .hasMessageContaining("512MiB");
        for (String value : new String[] {"", "10", "1 fortnight", "-1s"})
            assertThatThrownBy(() -> of("pause", value).millis("pause", 1))
                    .as("time '" + value + "'")
                    .isInstanceOf(ConfigurationException.class)
                    .hasMessageContaining("pause");
        for (String value : new String[] {"", "3", "4.5", "x", "99999999999"})
            assertThatThrownBy(() -> of("threads", value).count("threads", 8, 4))
                    .as("count '" + value + "'")
                    .isInstanceOf(ConfigurationException.class)
                    .hasMessageContaining("threads")
                    .hasMessageContaining("at least 4");
    }

    @Test
    void whatNobodyReadIsRefusedByName() {
        EngineSettings settings = new EngineSettings(Map.of("known", "1s", "cash", "1MiB"));
        settings.millis("known", 0);
        assertThatThrownBy(() -> settings.refuseUnread("memory"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("memory")
                .hasMessageContaining("cash")
                .hasMessageContaining("known");
    }

    @Test
    void equalSettingsAreEqual() {
        assertThat(of("a", "1")).isEqualTo(of("a", "1")).hasSameHashCodeAs(of("a", "1"));
        assertThat(of("a", "1")).isNotEqualTo(of("a", "2"));
    }

    @Test
    void anUnknownEngineIsRefusedWithTheKnownOnes() {
        assertThatThrownBy(() -> StorageEngines.open("none", new EngineSettings(Map.of())))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("none")
                .hasMessageContaining("memory");
    }
}
