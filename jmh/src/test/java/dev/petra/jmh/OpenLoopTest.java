// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

class OpenLoopTest {
    private static final Workload KV = Workload.of("kv", 0.001);

    /** Answers at once, but for one request. */
    private static class Engine implements Access {
        final AtomicLong reads = new AtomicLong();
        final AtomicLong writes = new AtomicLong();

        @Override
        public void write(long number, int version) {
            writes.incrementAndGet();
        }

        @Override
        public long read(long number) {
            assertThat(number).isBetween(0L, KV.rows() - 1);
            reads.incrementAndGet();
            return 1;
        }

        @Override
        public long scan() {
            return 0;
        }

        @Override
        public void flush() {}

        @Override
        public void settle() {}

        @Override
        public void compacting(boolean automatic) {}

        @Override
        public Probe probe() {
            throw new UnsupportedOperationException();
        }

        @Override
        public void close() {}
    }

    @Test
    void everyRequestIsMadeAndTimed() {
        Engine engine = new Engine();
        OpenLoop loop = new OpenLoop(engine, KV, 0.5, 1);
        long start = System.nanoTime();
        loop.run(500, 2);
        assertThat(System.nanoTime() - start).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(1900));
        assertThat(engine.reads.get() + engine.writes.get()).isEqualTo(1000);
        assertThat(loop.reads.getTotalCount()).isEqualTo(engine.reads.get());
        assertThat(loop.writes.getTotalCount()).isEqualTo(engine.writes.get());
        assertThat(engine.reads.get()).isBetween(400L, 600L);
        // 2 ms are between two requests.
        assertThat(loop.gap.millis()).isBetween(1.9, 2000.0);
        for (int slot = 0; slot < OpenLoop.SLOTS; slot++)
            assertThat(loop.slowest.get(slot)).describedAs("slot " + slot).isPositive();
    }

    @Test
    void withoutARateItAsksAgainAsSoonAsItIsAnswered() {
        Engine engine = new Engine();
        long start = System.nanoTime();
        assertThat(new OpenLoop(engine, KV, 0.5, 1).runClosed(1)).isGreaterThan(1000);
        assertThat(System.nanoTime() - start)
                .isBetween(TimeUnit.MILLISECONDS.toNanos(950), TimeUnit.MINUTES.toNanos(4));
        assertThat(engine.reads.get()).isGreaterThan(1000);
        assertThat(engine.writes.get()).isGreaterThan(1000);
    }

    /** Coordinated omission: a closed loop would have seen one slow request of a thousand. */
    @Test
    void aStallIsSeenByAllThatWereDueInIt() {
        Object lock = new Object();
        Engine engine =
                new Engine() {
                    @Override
                    public long read(long number) {
                        synchronized (lock) {
                            if (reads.incrementAndGet() == 500)
                                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(500));
                        }
                        return 1;
                    }
                };
        OpenLoop loop = new OpenLoop(engine, KV, 1, 1);
        loop.run(1000, 2);
        // Half a second of two: a quarter of all waited, half of those more than 250 ms.
        long slow = TimeUnit.MILLISECONDS.toNanos(200);
        long waited = loop.reads.getCountBetweenValues(slow, loop.reads.getHighestTrackableValue());
        assertThat(waited).isGreaterThan(200);
        assertThat(loop.gap.millis()).isGreaterThan(490);
    }

    @Test
    void aFailedRequestFailsTheRun() {
        Engine engine =
                new Engine() {
                    @Override
                    public long read(long number) {
                        throw new IllegalStateException("not there");
                    }
                };
        assertThatThrownBy(() -> new OpenLoop(engine, KV, 1, 1).run(100, 1))
                .hasRootCauseMessage("not there");
    }
}
