// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Work in the background rests, and can be stopped all the same. */
class PacerTest extends PurgeFixture {
    private Pacer pace() {
        table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)");
        open();
        return new Pacer(Tables.context(store), database(), rest());
    }

    /** It rested as long as a rewrite of all the table had taken, and nobody could stop it. */
    @Test
    void whatTookLongBetweenTwoStepsIsNotRestedFor() {
        Pacer pace = pace();
        nanoTime.addAndGet(TimeUnit.HOURS.toNanos(1));
        pace.step();
        assertThat(rests).containsExactly(TimeUnit.MILLISECONDS.toNanos(100));
    }

    @Test
    void itRestsAsLongAsItWorked() {
        Pacer pace = pace();
        nanoTime.addAndGet(TimeUnit.MILLISECONDS.toNanos(4));
        pace.step();
        assertThat(rests).isEmpty();
        nanoTime.addAndGet(TimeUnit.MILLISECONDS.toNanos(16));
        pace.step();
        pace.step();
        assertThat(rests).containsExactly(TimeUnit.MILLISECONDS.toNanos(20));
    }
}
