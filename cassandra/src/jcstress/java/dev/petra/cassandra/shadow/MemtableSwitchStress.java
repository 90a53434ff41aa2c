// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.time.Duration;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** A late write comes while the memtable is switched. */
@JCStressTest
@Outcome(
        id = {"0, 1", "1, 0", "1, 1"},
        expect = Expect.ACCEPTABLE,
        desc = "the switch knows of it, or it waits, or both")
@Outcome(expect = Expect.FORBIDDEN, desc = "it goes to the former memtable unnoticed")
@State
public class MemtableSwitchStress {
    private final MemtableSwitch memtable = new MemtableSwitch();

    /** As {@link LateWrites#reason}. */
    private volatile boolean late;

    /** As {@link ShadowCopy#begins}; whether it waits. */
    @Actor
    public void write(II_Result result) {
        late = true;
        try {
            result.r1 = memtable.await(Duration.ZERO) ? 0 : 1;
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** As a table is taken into its engine; whether it knows that something was late. */
    @Actor
    public void switches(II_Result result) {
        memtable.begin();
        result.r2 = late ? 1 : 0;
    }
}
