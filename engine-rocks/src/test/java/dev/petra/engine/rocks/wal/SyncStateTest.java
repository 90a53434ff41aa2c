// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

/** In periodic mode writes do not wait for a sync, unless one takes longer than a period. */
class SyncStateTest {
    private final SyncState state = new SyncState();
    private final CountDownLatch disk = new CountDownLatch(1);
    private final CountDownLatch asked = new CountDownLatch(1);

    private CompletableFuture<Void> sync(Runnable after) {
        state.written(false);
        CompletableFuture<Void> sync =
                CompletableFuture.runAsync(
                        () ->
                                state.sync(
                                        () -> {
                                            asked.countDown();
                                            await(disk);
                                            after.run();
                                        }));
        await(asked);
        return sync;
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private CompletableFuture<Void> write() {
        Thread[] writer = new Thread[1];
        CountDownLatch begun = new CountDownLatch(1);
        CompletableFuture<Void> write =
                CompletableFuture.runAsync(
                        () -> {
                            writer[0] = Thread.currentThread();
                            begun.countDown();
                            state.written(false);
                        });
        await(begun);
        Tables.await(
                "the writer", () -> write.isDone() || writer[0].getState() == Thread.State.WAITING);
        return write;
    }

    @Test
    void writesWaitForASyncThatLags() {
        CompletableFuture<Void> sync = sync(() -> {});
        assertThat(write()).isDone();
        state.lags();
        CompletableFuture<Void> late = write();
        assertThat(late).isNotDone();
        disk.countDown();
        sync.join();
        late.join();
        assertThat(state.isPending()).as("what was written during the sync").isTrue();
        assertThat(write()).isDone();
    }

    @Test
    void theyFailIfItFails() {
        CompletableFuture<Void> sync =
                sync(
                        () -> {
                            throw new IllegalStateException("the disk is gone");
                        });
        state.lags();
        CompletableFuture<Void> late = write();
        disk.countDown();
        assertThatThrownBy(sync::join).hasMessageContaining("the disk is gone");
        assertThatThrownBy(late::join).hasMessageContaining("the disk is gone");
    }

    /** It was tried and logged for ever, and a client was told to wait for it. */
    @Test
    void aSyncThatHasFailedForGoodIsNotTriedAgain() {
        Throwable failure =
                new FailedSyncError(
                        new IOException("nothing is taken until the node is started anew"),
                        Path.of("t"));
        assertThatThrownBy(() -> state.sync(() -> fail((Error) failure))).isSameAs(failure);
        assertThat(state.isPending()).isFalse();
        assertThat(state.isUnsettled()).as("whoever asks must learn it").isTrue();
        assertThatThrownBy(state::refuseAfterFailure)
                .hasMessage(
                        "The table takes no writes: nothing is taken until the node is started"
                                + " anew")
                .hasCause(failure);
        // A writer that waits is told so by the next one, which must come.
        state.written(false);
        assertThat(state.isPending()).isTrue();
    }

    private static void fail(Error failure) {
        throw failure;
    }

    @Test
    void noneWaitsForASyncThatHasEnded() {
        state.lags();
        assertThat(write()).isDone();
        disk.countDown();
        sync(() -> {}).join();
        state.lags();
        assertThat(write()).isDone();
    }

    /** It is done: the caller would take it for one that is not. */
    @Test
    void anInterruptDoesNotEndTheWaitOfAWrite() throws Exception {
        CompletableFuture<Void> sync = sync(() -> {});
        CompletableFuture<Boolean> written = new CompletableFuture<>();
        Thread writer =
                new Thread(
                        () -> {
                            Thread.currentThread().interrupt();
                            try {
                                state.written(true);
                                written.complete(Thread.interrupted());
                            } catch (RuntimeException e) {
                                written.completeExceptionally(e);
                            }
                        });
        writer.start();
        while (writer.getState() != Thread.State.WAITING && !written.isDone()) Thread.onSpinWait();
        assertThat(written).isNotDone();
        disk.countDown();
        sync.get();
        state.sync(() -> {});
        assertThat(written.get()).as("it stays interrupted").isTrue();
    }
}
