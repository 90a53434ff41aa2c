// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** One thread uses what another closes and frees, as a read uses a {@link Database}. */
@JCStressTest
@Outcome(
        id = {"-1, 0", "0, 0"},
        expect = Expect.ACCEPTABLE,
        desc = "refused; or used before it was freed")
@Outcome(expect = Expect.FORBIDDEN, desc = "used when it was freed, or counted for ever")
@State
public class UseCountStress {
    private final UseCount uses = new UseCount();
    private volatile int freed;

    /** A read. */
    @Actor
    public void user(II_Result result) {
        if (uses.acquire()) {
            result.r1 = freed;
            uses.release(StripedCounter.stripe());
        } else result.r1 = -1;
    }

    /** Closes it, and frees it when nobody uses it. */
    @Actor
    public void closer(II_Result result) {
        uses.close();
        while (uses.count() != 0) Thread.onSpinWait();
        freed = 1;
        result.r2 = uses.acquire() ? 1 : 0;
    }
}
