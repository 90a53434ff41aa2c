// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class DifferencesTest {
    private final AtomicLong now = new AtomicLong();
    private final Differences differences = new Differences("ks.t", now::get, () -> false);

    private static Differences.Difference difference(String key) {
        return new Differences.Difference(1, "different", key, "row 1", "a", "b");
    }

    private boolean add(String key) {
        return differences.add(difference(key));
    }

    @Test
    void aPartitionIsLoggedOnce() {
        assertThat(add("k")).isTrue();
        assertThat(add("k")).isFalse();
        assertThat(differences.last()).hasSize(2);
    }

    @Test
    void fewAreLoggedInAMinute() {
        for (int i = 0; i < Differences.LOGGED; i++) assertThat(add("a" + i)).isTrue();
        assertThat(add("b")).isFalse();
        now.addAndGet(TimeUnit.MINUTES.toNanos(1));
        assertThat(add("b")).isTrue();
    }

    /** A table that is always deleted from may have any number of them. */
    @Test
    void whatIsUndecidedDrivesNoDifferenceOut() {
        add("k");
        for (int i = 0; i < Differences.KEPT + 5; i++)
            differences.addUndecided(difference("u" + i));
        assertThat(differences.last()).containsExactly(difference("k"));
        assertThat(differences.undecided()).hasSize(Differences.KEPT);
        // Nor is it logged.
        assertThat(add("u0")).isTrue();
    }

    @Test
    void theLastAreKeptTheNewestFirst() {
        for (int i = 0; i < Differences.KEPT + 5; i++) add("k" + i);
        assertThat(differences.last()).hasSize(Differences.KEPT);
        assertThat(differences.last().get(0).key()).isEqualTo("k" + (Differences.KEPT + 4));
    }
}
