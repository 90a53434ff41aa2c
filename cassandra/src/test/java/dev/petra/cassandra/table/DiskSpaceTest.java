// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class DiskSpaceTest {
    private final AtomicBoolean hasMetrics = new AtomicBoolean();
    private final AtomicLong counted = new AtomicLong();

    /** As Cassandra's, which are not there yet while it creates the table. */
    private final DiskSpace space =
            new DiskSpace(
                    hasMetrics::get,
                    change -> {
                        if (!hasMetrics.get()) throw new NullPointerException("cfs.metric");
                        counted.addAndGet(change);
                    });

    @Test
    void aTableThatIsBeingCreatedIsCountedOnceItIsThere() {
        space.count(100);
        assertThat(counted).hasValue(0);
        hasMetrics.set(true);
        space.count(120);
        assertThat(counted).hasValue(120);
        space.count(70);
        assertThat(counted).hasValue(70);
        space.end();
        assertThat(counted).hasValue(0);
        space.count(10);
        assertThat(counted).hasValue(0);
    }

    @Test
    void aTableWhoseCreationFailedIsForgotten() {
        space.count(100);
        space.end();
        hasMetrics.set(true);
        space.count(100);
        assertThat(counted).hasValue(0);
    }
}
