// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShadowCommandTest {
    private static final long MEBIBYTE = 1 << 20;

    @ParameterizedTest
    @CsvSource({
        "1000, 600, 'the engine takes 400 MiB less (40 %)'",
        "1000, 2500, 'the engine takes 1,500 MiB more (150 %)'",
        "1000, 1000, 'about the same'",
        "0, 0, 'too little in SSTables to tell'",
        "0, 50, 'too little in SSTables to tell'"
    })
    void whatChangingSavesOnDiskIsSaidInPlainWords(long ofTable, long ofShadow, String told) {
        assertThat(ShadowCommand.Report.difference(ofTable * MEBIBYTE, ofShadow * MEBIBYTE))
                .isEqualTo(told);
    }
}
