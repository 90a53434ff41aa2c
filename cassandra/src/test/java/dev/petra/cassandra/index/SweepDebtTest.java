// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.concurrent.CancellationException;
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
            assertThat(debt.pay(() -> swept)).isEqualTo(swept);
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
                () -> {
                    debt.written(10_000);
                    return new SweepDebt.Swept(10_000, 10_000);
                });
        assertThat(debt.isDue(() -> 0)).isTrue();
    }

    /** As where a stream brings rows to the table. */
    @Test
    void aSweepThatEndsEarlyPaysNothing() {
        SweepDebt debt = new SweepDebt(0);
        debt.written(10_000);
        assertThatThrownBy(
                        () ->
                                debt.pay(
                                        () -> {
                                            throw new CancellationException();
                                        }))
                .isInstanceOf(CancellationException.class);
        assertThat(debt.isDue(() -> 0)).isTrue();
        debt.pay(() -> new SweepDebt.Swept(10_000, 10_000));
        assertThat(debt.isDue(() -> 0)).isFalse();
    }
}
