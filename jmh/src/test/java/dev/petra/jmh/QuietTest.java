// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.launcher.NodeException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;

class QuietTest {
    /** Times were taken while a table that had been imported was on its way into the engine. */
    @Test
    void migrationsAreWaitedForAsLongAsTheyGetFurther() {
        Deque<List<String>> seen =
                new ArrayDeque<>(
                        List.of(
                                List.of("ks.t, 1 done", "ks.u, 0 done"),
                                List.of("ks.u, 1 done"),
                                List.of("ks.u, 2 done"),
                                List.<String>of()));
        Quiet.awaitMigrations(seen::remove, Duration.ofMinutes(1));
        assertThat(seen).isEmpty();
    }

    @Test
    void aMigrationThatGetsNoFurtherIsNamed() {
        assertThatThrownBy(
                        () ->
                                Quiet.awaitMigrations(
                                        () -> List.of("ks.t, waiting: no room"), Duration.ZERO))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("ks.t, waiting: no room");
    }
}
