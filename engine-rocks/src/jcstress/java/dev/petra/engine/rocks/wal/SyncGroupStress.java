// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.I_Result;

/** A write that waits for its sync is synced when it is acknowledged. */
@JCStressTest
@Outcome(id = "1", expect = Expect.ACCEPTABLE, desc = "synced")
@Outcome(id = "0", expect = Expect.FORBIDDEN, desc = "acknowledged by a sync that began before it")
@State
public class SyncGroupStress {
    private final SyncState state = new SyncState();
    private volatile int log;
    private volatile int synced;
    private volatile boolean acknowledged;

    /** Writes once. */
    @Actor
    public void writer(I_Result result) {
        log = 1;
        state.written(true);
        result.r1 = synced;
        acknowledged = true;
    }

    /** Syncs what is in the log until nobody waits any more, each time for a while. */
    @Actor
    public void syncer() {
        do
            state.sync(
                    () -> {
                        int now = log;
                        for (int i = 0; i < 20; i++) Thread.onSpinWait();
                        synced = now;
                    });
        while (!acknowledged);
    }
}
