// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import org.apache.cassandra.io.FSDiskFullWriteError;
import org.apache.cassandra.io.FSWriteError;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which failures are for {@code disk_failure_policy}, and which are for want of room. */
final class FullDiskTest {
    private static Throwable failure(String message) {
        return new IllegalStateException(
                new FSWriteError(new IOException(message), "nb-1-Data.db"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "No space left on device",
                "/x/nb-1-Data.db: Disk quota exceeded",
                "Quota exceeded"
            })
    void aFullDiskIsFoundAmongTheCauses(String message) {
        assertThat(FullDisk.isCauseOf(failure(message))).isTrue();
    }

    @Test
    void cassandraSaysItInItsOwnWords() {
        assertThat(FullDisk.isCauseOf(new FSDiskFullWriteError("ks", 1))).isTrue();
    }

    @Test
    void aBrokenDiskIsNotFull() {
        assertThat(FullDisk.isCauseOf(failure("Input/output error"))).isFalse();
    }
}
