// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine.TypeConversionException;

final class ConvertersTest {
    @ParameterizedTest
    @CsvSource({"500ms,500", "30s,30000", "5m,300000", "2h,7200000", "1d,86400000"})
    void readsDurationsInCassandrasUnits(String text, long millis) {
        assertThat(new DurationConverter().convert(text)).isEqualTo(Duration.ofMillis(millis));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "30", "s", "-1s", "1.5s", "30 seconds"})
    void namesTheFormForWhatIsNoDuration(String text) {
        assertThatThrownBy(() -> new DurationConverter().convert(text))
                .isInstanceOf(TypeConversionException.class)
                .hasMessageContaining("write it like 30s");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "0", "65536", "99999999999", "-1", "x"})
    void refusesWhatIsNoPort(String text) {
        assertThatThrownBy(() -> new PortConverter().convert(text))
                .isInstanceOf(TypeConversionException.class)
                .hasMessageContaining("1 to 65535");
    }
}
