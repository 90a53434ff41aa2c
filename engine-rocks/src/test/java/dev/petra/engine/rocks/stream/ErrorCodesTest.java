// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.rocks.Tables;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

/** What the native methods of {@link StreamSst} say of an error is what Java takes it for. */
class ErrorCodesTest {
    @Test
    void nativeErrorCodesAreThoseOfJava() {
        try (StorageEngine engine = Tables.engine()) {
            assertThat(engine.name()).isNotEmpty();
            assertThat(StreamSst.errorCodes().split(" ", 0))
                    .containsExactly(
                            Arrays.stream(StreamSst.ErrorCode.values())
                                    .map(Enum::name)
                                    .toArray(String[]::new));
        }
    }
}
