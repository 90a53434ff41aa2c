// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.marshal.Int32Type;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WriteClockTest {
    private static final int STRIPE = 7;

    private final WriteClock clock = new WriteClock();

    @Test
    void aWriteThatIsUnderWay() {
        clock.begin(STRIPE);
        assertThat(clock.quietSince(STRIPE)).isEqualTo(WriteClock.WRITING);
        assertThat(clock.quietSince(STRIPE + 1)).isNotEqualTo(WriteClock.WRITING);
        assertThat(clock.allQuietSince()).isEqualTo(WriteClock.WRITING);
        clock.end(STRIPE);
        assertThat(clock.isAllQuietSince(clock.allQuietSince())).isTrue();
        assertThat(clock.isQuietSince(STRIPE, clock.quietSince(STRIPE))).isTrue();
    }

    @Test
    void aWriteThatBeganSince() {
        long moment = clock.quietSince(STRIPE);
        long ofAll = clock.allQuietSince();
        clock.begin(STRIPE);
        assertThat(clock.isQuietSince(STRIPE, moment)).isFalse();
        assertThat(clock.isAllQuietSince(ofAll)).isFalse();
        clock.end(STRIPE);
        assertThat(clock.isQuietSince(STRIPE, moment)).isFalse();
        assertThat(clock.isAllQuietSince(ofAll)).isFalse();
    }

    @Test
    void stripesAreWithinBounds() {
        for (int i = 0; i < 10_000; i++) {
            DecoratedKey key =
                    TestTables.reference()
                            .get()
                            .partitioner
                            .decorateKey(Int32Type.instance.decompose(i));
            int stripe = WriteClock.stripe(key);
            clock.begin(stripe);
            clock.end(stripe);
        }
    }

    /**
     * Two counters, written one after the other: whoever reads both in a quiet time reads the same.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatIsReadInAQuietTimeIsOfOneMoment(boolean all) throws InterruptedException {
        AtomicLong table = new AtomicLong();
        AtomicLong shadow = new AtomicLong();
        AtomicBoolean over = new AtomicBoolean();
        List<Thread> writers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            int stripe = all ? STRIPE + 1_000 * i : STRIPE;
            Thread writer =
                    new Thread(
                            () -> {
                                while (!over.get()) {
                                    clock.begin(stripe);
                                    table.incrementAndGet();
                                    for (int i1 = 0; i1 < 50; i1++) Thread.onSpinWait();
                                    shadow.incrementAndGet();
                                    clock.end(stripe);
                                    for (int pause = 0; pause < 200; pause++) Thread.onSpinWait();
                                }
                            });
            writer.start();
            writers.add(writer);
        }
        int compared = 0;
        long different = 0;
        long end = System.nanoTime() + 10_000_000_000L;
        while (compared < 2_000 && System.nanoTime() < end) {
            long moment = all ? clock.allQuietSince() : clock.quietSince(STRIPE);
            if (moment == WriteClock.WRITING) continue;
            long ofTable = table.get();
            long ofShadow = shadow.get();
            boolean isQuiet =
                    all ? clock.isAllQuietSince(moment) : clock.isQuietSince(STRIPE, moment);
            if (!isQuiet) continue;
            compared++;
            if (ofTable != ofShadow) different++;
        }
        over.set(true);
        for (Thread writer : writers) writer.join();
        assertThat(compared).isPositive();
        assertThat(different).isZero();
    }
}
