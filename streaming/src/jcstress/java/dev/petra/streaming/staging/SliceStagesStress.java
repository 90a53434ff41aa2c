// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.SliceStages;
import java.io.IOException;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.IIII_Result;

/**
 * One slice comes by two connections. One of them ends too early, and its thread asks then whether
 * all slices are there.
 */
@JCStressTest
@Outcome(
        id = {"1, 0, 0, 0", "0, 1, 0, 1", "0, 1, 1, 1", "1, 1, 0, 1", "1, 1, 1, 1"},
        expect = Expect.ACCEPTABLE,
        desc = "torn and to come again; or staged, and seen whole or not yet")
@Outcome(
        expect = Expect.FORBIDDEN,
        desc = "taken by none, torn by another, or seen before it was whole")
@State
public class SliceStagesStress {
    private final SliceStages<int[]> slices = new SliceStages<>("a table", 1);

    private boolean begins() {
        try {
            slices.begin(0);
            return true;
        } catch (IllegalStateException e) {
            return false;
        }
    }

    /** Receives it, and not to its end; and asks for all slices. */
    @Actor
    public void tears(IIII_Result result) {
        boolean begun = begins();
        result.r1 = begun ? 1 : 0;
        if (begun) slices.torn(0);
        try {
            result.r3 = slices.all().get(0)[0] == 1 ? 1 : 2;
        } catch (IOException e) {
            result.r3 = 0;
        }
    }

    /** Receives it whole. */
    @Actor
    public void stages(IIII_Result result) {
        boolean begun = begins();
        result.r2 = begun ? 1 : 0;
        if (begun) slices.staged(0, new int[] {1});
    }

    /** Whether it cannot come again. */
    @Arbiter
    public void result(IIII_Result result) {
        result.r4 = begins() ? 0 : 1;
    }
}
