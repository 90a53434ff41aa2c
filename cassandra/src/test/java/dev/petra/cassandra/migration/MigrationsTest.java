// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import org.apache.cassandra.io.FSWriteError;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which failures of a migration are for {@code disk_failure_policy}. */
class MigrationsTest {
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
    void roomIsWaitedFor(String message) {
        assertThat(Migrations.isDiskFull(failure(message))).isTrue();
    }

    @Test
    void aBrokenDiskIsNot() {
        assertThat(Migrations.isDiskFull(failure("Input/output error"))).isFalse();
    }
}
