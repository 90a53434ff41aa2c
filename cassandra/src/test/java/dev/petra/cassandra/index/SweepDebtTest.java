// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.concurrent.CancellationException;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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
            assertThat(debt.pay(true, () -> 0, sweep -> sweep.add(swept.looked(), swept.removed())))
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

    /** An index whose rows are overwritten while it is swept, each look at an entry 20 µs. */
    private static final class Overwritten {
        private static final long LOOK_NANOS = 20_000;
        private static final int PAGE = 1_000;

        private final SweepDebt debt = new SweepDebt(0);
        private final int perSecond;
        private final SweepPace pace;
        private long now;
        private long written;
        private long entries = MANY;

        Overwritten(int perSecond) {
            this.perSecond = perSecond;
            // Not a leap in time: what is written meanwhile makes the sleep shorter.
            pace = new SweepPace(() -> now, nanos -> pass(Math.min(nanos, 1_000_000)), this::due);
        }

        private long due() {
            return debt.timesDue(() -> MANY);
        }

        private void pass(long nanos) {
            now += nanos;
            int more = (int) ((double) now / 1_000_000_000 * perSecond - written);
            written += more;
            entries += more;
            debt.written(more);
        }

        /** Returns how many times due the next one is when it ends. */
        long sweep() {
            while (!debt.isDue(() -> MANY)) pass(100_000_000);
            debt.pay(
                    false,
                    () -> 0,
                    sweep -> {
                        long before = entries;
                        for (long looked = 0; looked < before; looked += PAGE) {
                            pace.rest(() -> {});
                            pass(PAGE * LOOK_NANOS);
                        }
                        sweep.add(before, before - MANY);
                        entries -= before - MANY;
                    });
            return due();
        }
    }

    /** Above 5,000 each sweep took longer than the last one, and the index grew without bound. */
    @ParameterizedTest
    @ValueSource(ints = {1_000, 10_000, 40_000})
    void sweepsKeepUpWithOverwrites(int perSecond) {
        Overwritten index = new Overwritten(perSecond);
        for (int i = 0; i < 10; i++)
            // At 40,000 four entries come for five looks: the index is then five times its rows.
            assertThat(index.sweep()).as("sweep %d", i).isLessThanOrEqualTo(10);
        assertThat(index.entries).isLessThanOrEqualTo(6L * MANY);
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
                () -> 0,
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
        debt.pay(false, () -> 0, sweep -> sweep.add(10_000, 10_000));
        assertThat(debt.isDue(() -> 0)).isFalse();
    }

    private static void interrupt(SweepDebt debt, int written, Consumer<SweepDebt.Sweep> before) {
        assertThatThrownBy(
                        () ->
                                debt.pay(
                                        false,
                                        () -> 0,
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
                        () -> 0,
                        sweep -> {
                            assertThat(sweep.isDone(1)).isTrue();
                            assertThat(sweep.isDone(2)).isFalse();
                            sweep.add(2_000, 1_000);
                        });
        assertThat(all).isEqualTo(new SweepDebt.Swept(7_000, 4_000));
        assertThat(debt.isDue(() -> 0)).as("what was written after it began").isTrue();
        debt.pay(false, () -> 0, sweep -> assertThat(sweep.isDone(1)).isFalse());
        assertThat(debt.isDue(() -> 0)).isFalse();
    }

    /** Its entries had passed for none at all: each minute another sweep was due, and hastened. */
    @Test
    void anIndexThatIsBuiltHasItsEntriesBeforeItIsSwept() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(MANY);
        debt.pay(false, () -> MANY, SweepDebt.Sweep::passedOver);
        debt.written(MANY / 3);
        assertThat(debt.isDue(() -> MANY)).isFalse();
        assertThat(debt.timesDue(() -> MANY)).isZero();
    }

    /** What a build adds does not count as written: few writes made a sweep of all of it due. */
    @Test
    void whatABuildAddsCountsAsThere() {
        SweepDebt debt = new SweepDebt(0);
        assertThat(debt.isDue(() -> 0)).isFalse();
        debt.built();
        debt.written(20_000);
        assertThat(debt.timesDue(() -> MANY)).isZero();
        // It is estimated once.
        assertThat(debt.isDue(() -> 0)).isFalse();
        debt.written(MANY / 2);
        assertThat(debt.isDue(() -> 0)).isTrue();
    }

    /** Where one is built again, the others have their entries. */
    @Test
    void aBuildMakesNoSweepDueEarlier() {
        SweepDebt debt = new SweepDebt(0);
        assertThat(debt.isDue(() -> MANY)).isFalse();
        debt.built();
        debt.written(20_000);
        assertThat(debt.isDue(() -> 0)).isFalse();
    }

    /** As by {@code nodetool garbagecollect}. */
    @Test
    void aSweepOfEverythingEndsOneThatWasInterrupted() {
        SweepDebt debt = new SweepDebt(0);
        interrupt(debt, 0, sweep -> sweep.done(1));
        debt.pay(true, () -> 0, sweep -> assertThat(sweep.isDone(1)).isFalse());
        debt.pay(false, () -> 0, sweep -> assertThat(sweep.isDone(1)).isFalse());
    }

    /** What both swept counted twice, so that the next sweep came later. */
    @Test
    void twoSweepsAtOncePayOnce() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(10_000);
        debt.pay(
                true, () -> 0, all -> debt.pay(false, () -> 0, sweep -> sweep.add(10_000, 10_000)));
        assertThat(debt.isDue(() -> 0)).isFalse();
        debt.written(10_000);
        assertThat(debt.isDue(() -> 0)).isTrue();
    }
}
