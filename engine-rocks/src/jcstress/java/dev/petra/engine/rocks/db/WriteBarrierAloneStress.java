// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.I_Result;

/** A write and what runs alone count up, which neither could do beside the other. */
@JCStressTest
@Outcome(id = "4", expect = Expect.ACCEPTABLE, desc = "one after the other")
@Outcome(expect = Expect.FORBIDDEN, desc = "beside each other")
@State
public class WriteBarrierAloneStress {
    private final WriteBarrier barrier = new WriteBarrier();
    private int count;

    /** Writes twice. */
    @Actor
    public void writer() {
        write();
        write();
    }

    private void write() {
        int slot = barrier.begin();
        count++;
        barrier.end(slot);
    }

    /** Runs alone twice. */
    @Actor
    public void alone() {
        barrier.alone(() -> count++);
        barrier.alone(() -> count++);
    }

    /** Whether each has counted. */
    @Arbiter
    public void result(I_Result result) {
        result.r1 = count;
    }
}
