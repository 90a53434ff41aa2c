// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class HeapSizeTest {
    @ParameterizedTest
    @CsvSource({"1GiB,1024", "512MiB,512", "1g,1024", "2G,2048", "512m,512", "' 3 GiB ',3072"})
    void readsCassandrasUnitsAndTheJvms(String text, int mebibytes) {
        assertThat(HeapSize.parse(text).mebibytes()).isEqualTo(mebibytes);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "1", "1GB", "1.5GiB", "-1g", "1 TiB", "g", "9999999g", "1gg"})
    void namesTheFormForWhatIsNone(String text) {
        assertThatThrownBy(() -> HeapSize.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("write it like 1GiB, 512MiB, 1g or 512m");
    }

    @ParameterizedTest
    @ValueSource(strings = {"0m", "127m", "000g"})
    void refusesWhatCassandraCannotStartWith(String text) {
        assertThatThrownBy(() -> HeapSize.parse(text)).hasMessageContaining("at least 128MiB");
    }
}
