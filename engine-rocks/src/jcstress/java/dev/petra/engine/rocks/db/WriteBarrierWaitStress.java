// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** Who has seen that a write had begun, and waits then, sees what it wrote. */
@JCStressTest
@Outcome(
        id = {"0, 0", "0, 1", "1, 1"},
        expect = Expect.ACCEPTABLE,
        desc = "had not begun; or had ended")
@Outcome(id = "1, 0", expect = Expect.FORBIDDEN, desc = "had begun, and not ended")
@State
public class WriteBarrierWaitStress {
    private final WriteBarrier barrier = new WriteBarrier();
    private volatile int begun;
    private volatile int ended;

    /** Writes once, which takes longer than not to wait. */
    @Actor
    public void writer() {
        int slot = barrier.begin();
        begun = 1;
        for (int i = 0; i < 50; i++) Thread.onSpinWait();
        ended = 1;
        barrier.end(slot);
    }

    /** Looks, then waits. */
    @Actor
    public void waiter(II_Result result) {
        result.r1 = begun;
        barrier.awaitThoseBegun();
        result.r2 = ended;
    }
}
