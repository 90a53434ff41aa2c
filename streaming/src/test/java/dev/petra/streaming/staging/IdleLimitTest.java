// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class IdleLimitTest {
    /** A task of an executor that throws once is never run again. */
    @Test
    void aWaitThatCouldNotBeEndedIsEndedLater() throws InterruptedException {
        AtomicInteger tries = new AtomicInteger();
        CountDownLatch ended = new CountDownLatch(1);
        IdleLimit limit = new IdleLimit(Duration.ofMillis(50));
        try (IdleLimit.Wait wait =
                limit.watch(
                        "nothing comes",
                        why -> {
                            if (tries.incrementAndGet() == 1)
                                throw new OutOfMemoryError("unable to create a thread");
                            ended.countDown();
                        })) {
            wait.begins();
            assertThat(ended.await(1, TimeUnit.MINUTES)).isTrue();
            assertThat(wait.isOver()).isTrue();
        }
        assertThat(tries).hasValue(2);
    }
}
