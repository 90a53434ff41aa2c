// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.IZ_Result;

/** A write that does not wait is in the sync that runs beside it, or the next knows of it. */
@JCStressTest
@Outcome(
        id = {"1, false", "1, true", "0, true"},
        expect = Expect.ACCEPTABLE,
        desc = "synced; or to be synced")
@Outcome(id = "0, false", expect = Expect.FORBIDDEN, desc = "acknowledged, and never synced")
@State
public class SyncPendingStress {
    private final SyncState state = new SyncState();
    private volatile int log;
    private int synced;

    /** Writes once. */
    @Actor
    public void writer() {
        log = 1;
        state.written(false);
    }

    /** Syncs what is in the log, for an earlier write. */
    @Actor
    public void syncer() {
        state.written(false);
        state.sync(() -> synced = log);
    }

    /** What is synced, and whether a sync is due. */
    @Arbiter
    public void result(IZ_Result result) {
        result.r1 = synced;
        result.r2 = state.isPending();
    }
}
