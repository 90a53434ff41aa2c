// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.disk.Disk;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RememberedDifferencesTest {
    @TempDir Path first;
    @TempDir Path second;

    private final AtomicLong clock = new AtomicLong();

    private List<ShadowFolder> folders() {
        return List.of(new ShadowFolder(first, Disk.REAL), new ShadowFolder(second, Disk.REAL));
    }

    private RememberedDifferences open() {
        return new RememberedDifferences("ks.t", clock::get);
    }

    @Test
    void theFirstIsNotedAtOnceAndFurtherOnesOnceInASecond() {
        RememberedDifferences shadow = open();
        assertThat(shadow.recall(this::folders)).isZero();
        shadow.remember(1, this::folders);
        assertThat(open().recall(this::folders)).isEqualTo(1);
        shadow.remember(2, this::folders);
        shadow.remember(3, this::folders);
        assertThat(open().recall(this::folders)).isEqualTo(1);
        clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
        shadow.remember(4, this::folders);
        assertThat(open().recall(this::folders)).isEqualTo(4);
        shadow.remember(5, this::folders);
        shadow.catchUp(this::folders);
        assertThat(open().recall(this::folders)).isEqualTo(5);
    }

    @Test
    void theyAreFoundInEachDirectory() {
        new ShadowFolder(second, Disk.REAL).writeDifferent(7);
        assertThat(open().recall(this::folders)).isEqualTo(7);
    }

    /** As of a comparison that has not noticed yet that the table was altered. */
    @Test
    void afterTheEndNothingIsNoted() {
        RememberedDifferences shadow = open();
        shadow.remember(1, this::folders);
        shadow.remember(2, this::folders);
        shadow.end(this::folders);
        assertThat(open().recall(this::folders)).isEqualTo(2);
        shadow.forget(this::folders);
        clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
        shadow.remember(3, this::folders);
        shadow.catchUp(this::folders);
        assertThat(open().recall(this::folders)).isZero();
    }

    @Test
    void whatCannotBeReadCountsAsADifference() {
        assertThat(
                        open().recall(
                                        () -> {
                                            throw new IllegalStateException("no disk");
                                        }))
                .isEqualTo(1);
    }
}
