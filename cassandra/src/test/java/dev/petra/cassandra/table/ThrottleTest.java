// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.util.concurrent.RateLimiter;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class ThrottleTest {
    private final RateLimiter limiter = RateLimiter.create(1L << 40);
    private final AtomicInteger asked = new AtomicInteger();

    @Test
    void asksBeforeEachChunk() {
        Throttle.await(
                limiter,
                2L * Throttle.CHUNK + 1,
                () -> {
                    asked.incrementAndGet();
                    return false;
                });
        assertThat(asked).hasValue(3);
    }

    @Test
    void waitsForNoMoreOnceItIsStopped() {
        Throttle.await(limiter, Long.MAX_VALUE, () -> asked.incrementAndGet() == 3);
        assertThat(asked).hasValue(3);
    }
}
