// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.concurrent.CancellationException;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

class SweepDebtTest {
    private static final int MANY = 1_000_000;

    /** Sweeps until so many entries were written; gives how many entries they looked at. */
    private static long looked(SweepDebt debt, int written, boolean overwrites) {
        long entries = MANY;
        long looked = 0;
        for (int i = 0; i < written; i += 1_000) {
            debt.written(1_000);
            entries += 1_000;
            if (!debt.isDue(() -> MANY)) continue;
            long removed = overwrites ? entries - MANY : 0;
            looked += entries;
            SweepDebt.Swept swept = new SweepDebt.Swept(entries, removed);
            assertThat(debt.pay(true, sweep -> sweep.add(swept.looked(), swept.removed())))
                    .isEqualTo(swept);
            entries -= removed;
            assertThat(debt.isDue(() -> MANY)).isFalse();
        }
        return looked;
    }

    @Test
    void aSweepPaysForWhatWasWritten() {
        int written = 100 * MANY;
        // Of what is overwritten, three looks each: a half more, and all is looked at.
        assertThat(looked(new SweepDebt(0), written, true)).isLessThan(4L * written);
        // Where nothing is, hardly any.
        assertThat(looked(new SweepDebt(0), written, false)).isLessThan(written);
    }

    @Test
    void fewEntriesAreNotSwept() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(9_999);
        assertThat(debt.isDue(() -> 0)).isFalse();
        debt.written(1);
        assertThat(debt.isDue(() -> 0)).isTrue();
    }

    /** So a store that is opened again and again is swept now and then. */
    @Test
    void aStoreThatIsOpenedOwesAPart() {
        SweepDebt debt = new SweepDebt(0.9);
        debt.written(MANY / 20 - 1);
        assertThat(debt.isDue(() -> MANY)).isFalse();
        debt.written(1);
        assertThat(debt.isDue(() -> MANY)).isTrue();
    }

    /** Those that came while it ran are not forgotten. */
    @Test
    void whatIsWrittenDuringASweepCounts() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(10_000);
        debt.pay(
                false,
                sweep -> {
                    debt.written(10_000);
                    sweep.add(10_000, 10_000);
                });
        assertThat(debt.isDue(() -> 0)).isTrue();
    }

    /** As where a stream brings rows to the table. */
    @Test
    void aSweepThatEndsEarlyPaysNothing() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(10_000);
        interrupt(debt, 0, sweep -> {});
        assertThat(debt.isDue(() -> 0)).isTrue();
        debt.pay(false, sweep -> sweep.add(10_000, 10_000));
        assertThat(debt.isDue(() -> 0)).isFalse();
    }

    private static void interrupt(SweepDebt debt, int written, Consumer<SweepDebt.Sweep> before) {
        assertThatThrownBy(
                        () ->
                                debt.pay(
                                        false,
                                        sweep -> {
                                            before.accept(sweep);
                                            debt.written(written);
                                            throw new CancellationException();
                                        }))
                .isInstanceOf(CancellationException.class);
    }

    /** A table to which streams come again and again was never swept to its end. */
    @Test
    void aSweepGoesOnWhereItWasInterrupted() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(10_000);
        interrupt(
                debt,
                10_000,
                sweep -> {
                    sweep.add(5_000, 3_000);
                    sweep.done(1);
                });
        SweepDebt.Swept all =
                debt.pay(
                        false,
                        sweep -> {
                            assertThat(sweep.isDone(1)).isTrue();
                            assertThat(sweep.isDone(2)).isFalse();
                            sweep.add(2_000, 1_000);
                        });
        assertThat(all).isEqualTo(new SweepDebt.Swept(7_000, 4_000));
        assertThat(debt.isDue(() -> 0)).as("what was written after it began").isTrue();
        debt.pay(false, sweep -> assertThat(sweep.isDone(1)).isFalse());
        assertThat(debt.isDue(() -> 0)).isFalse();
    }

    /** As by {@code nodetool garbagecollect}. */
    @Test
    void aSweepOfEverythingEndsOneThatWasInterrupted() {
        SweepDebt debt = new SweepDebt(0);
        interrupt(debt, 0, sweep -> sweep.done(1));
        debt.pay(true, sweep -> assertThat(sweep.isDone(1)).isFalse());
        debt.pay(false, sweep -> assertThat(sweep.isDone(1)).isFalse());
    }

    /** What both swept counted twice, so that the next sweep came later. */
    @Test
    void twoSweepsAtOncePayOnce() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(10_000);
        debt.pay(true, all -> debt.pay(false, sweep -> sweep.add(10_000, 10_000)));
        assertThat(debt.isDue(() -> 0)).isFalse();
        debt.written(10_000);
        assertThat(debt.isDue(() -> 0)).isTrue();
    }
}
