// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.launcher.NodeException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class ReplayNodeTest {
    private static ReplayNode.Migrating migrating(
            String table, @Nullable Long leftBytes, String state) {
        return new ReplayNode.Migrating(table, leftBytes, table + ", " + state);
    }

    private static ReplayNode.Migrating migrating(String table, @Nullable Long leftBytes) {
        return migrating(table, leftBytes, "migrating");
    }

    /** Times were taken while a table that had been imported was on its way into the engine. */
    @Test
    void migrationsAreWaitedForAsLongAsTheyGetFurther() {
        Deque<List<ReplayNode.Migrating>> seen =
                new ArrayDeque<>(
                        List.of(
                                List.of(migrating("ks.t", 1L), migrating("ks.u", null)),
                                List.of(migrating("ks.u", null)),
                                // It begins: more is left than was known before.
                                List.of(migrating("ks.u", 2L)),
                                List.of(migrating("ks.u", 1L)),
                                List.<ReplayNode.Migrating>of()));
        // Each look must find it further than the one before.
        ReplayNode.awaitMigrations(seen::remove, Duration.ZERO);
        assertThat(seen).isEmpty();
    }

    @Test
    void aMigrationThatGetsNoFurtherIsNamed() {
        assertThatThrownBy(
                        () ->
                                ReplayNode.awaitMigrations(
                                        () -> List.of(migrating("ks.t", null, "waiting: no room")),
                                        Duration.ZERO))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("ks.t, waiting: no room");
    }

    /** It was waited for without end: what was shown of it changed each time. */
    @Test
    @Timeout(60)
    void aMigrationThatOnlyChangesItsStateGetsNoFurther() {
        AtomicInteger looks = new AtomicInteger();
        assertThatThrownBy(
                        () ->
                                ReplayNode.awaitMigrations(
                                        () -> flipping(looks.getAndIncrement()),
                                        Duration.ofSeconds(2)))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("ks.t, ");
        assertThat(looks).hasValueGreaterThan(3);
    }

    /** Begins, loses what it has done, and cannot begin, again and again; so does another. */
    private static List<ReplayNode.Migrating> flipping(int look) {
        ReplayNode.Migrating one =
                migrating("ks.t", look % 3 == 0 ? null : 10L + look % 3, "look " + look);
        return look % 2 == 0 ? List.of(one) : List.of(one, migrating("ks.u", 7L));
    }
}
