// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.Statement;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongFunction;

/** Statements of which so many are in flight at a time, and none fails. */
record ClosedLoop(CqlSession session, int inFlight) {
    /**
     * Runs until it has sent all, or its time is over, and each is answered.
     *
     * @return how many were sent
     */
    long run(long most, long nanos, LongFunction<? extends Statement<?>> next)
            throws InterruptedException {
        Semaphore free = new Semaphore(inFlight);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        long begun = System.nanoTime();
        long sent = 0;
        for (; sent < most && System.nanoTime() - begun < nanos && failure.get() == null; sent++) {
            free.acquire();
            CompletionStage<AsyncResultSet> answer = session.executeAsync(next.apply(sent));
            var unused =
                    answer.whenComplete(
                            (rows, failed) -> {
                                if (failed != null) failure.compareAndSet(null, failed);
                                free.release();
                            });
        }
        free.acquire(inFlight);
        assertThat(failure.get()).isNull();
        return sent;
    }
}
