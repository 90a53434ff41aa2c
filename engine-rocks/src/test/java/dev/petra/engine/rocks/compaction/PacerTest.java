// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Work in the background rests, and can be stopped all the same. */
class PacerTest extends PurgeFixture {
    /** It rested as long as a rewrite of all the table had taken, and nobody could stop it. */
    @Test
    void whatTookLongBetweenTwoStepsIsNotRestedFor() {
        table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)");
        open();
        Pacer pace = new Pacer(Tables.context(store), database(), true);
        Uninterruptibles.sleepUninterruptibly(3, TimeUnit.SECONDS);
        long began = System.nanoTime();
        pace.step();
        assertThat(System.nanoTime() - began).isLessThan(TimeUnit.SECONDS.toNanos(2));
    }
}
