// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import static com.google.common.util.concurrent.Uninterruptibles.awaitUninterruptibly;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.WalSync;
import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.rocks.Tables;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.rocksdb.RocksDBException;

/** Sweeps of an index while a partition is written all the time. */
class HotPartitionTest extends IndexFixture {
    @BeforeEach
    @Override
    void open() {
        // A sweep waits for so long.
        engine = Tables.engine(Map.of("memory", "32MiB", "write_stall_timeout", "200ms"));
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
    }

    private Lock writing(int row) {
        return Tables.context(store).indexing().partitions().writing(Tables.key(TABLE, row));
    }

    /** A row whose partition has another lock than that of row 1. */
    private int withAnotherLock() {
        return IntStream.range(2, 100)
                .filter(row -> !writing(row).equals(writing(1)))
                .findFirst()
                .orElseThrow();
    }

    /** The sweep ended there, and so did each one after it. */
    @Test
    void itsEntriesStayAndThoseBehindThemGo() {
        store.indexes().define(INDEX);
        int cold = withAnotherLock();
        write(store, 1);
        write(store, cold);
        Lock hot = writing(1);
        hot.lock();
        try {
            assertThat(sweepOfAll()).isOne();
            assertThat(indexed(store)).containsExactly(1);
        } finally {
            hot.unlock();
        }
        assertThat(sweepOfAll()).isOne();
        assertThat(indexed(store)).isEmpty();
    }

    /**
     * The look counted as a write. So whoever writes alone waited for it, and all writers for that
     * one.
     */
    @Test
    void aSlowLookAtARowKeepsNoWriterOfOthersWaiting() throws Exception {
        store.indexes().define(INDEX);
        int other = withAnotherLock();
        write(store, 1);
        AtomicInteger looks = new AtomicInteger();
        CountDownLatch looking = new CountDownLatch(1);
        CountDownLatch mayEnd = new CountDownLatch(1);
        SweepCheck slow =
                (term, key, clustering) -> {
                    if (looks.incrementAndGet() == 2) {
                        looking.countDown();
                        awaitUninterruptibly(mayEnd);
                    }
                    return false;
                };
        CompletableFuture<Long> sweep =
                CompletableFuture.supplyAsync(() -> store.indexes().sweep(INDEX, slow));
        try {
            assertThat(looking.await(1, TimeUnit.MINUTES)).isTrue();
            CompletableFuture.runAsync(this::writeAlone).get(20, TimeUnit.SECONDS);
            CompletableFuture.runAsync(() -> write(store, other)).get(20, TimeUnit.SECONDS);
            assertThat(sweep).isNotDone();
        } finally {
            mayEnd.countDown();
        }
        assertThat(sweep.get(1, TimeUnit.MINUTES)).isOne();
        assertThat(indexed(store)).containsExactly(other);
    }

    private void writeAlone() {
        try {
            Tables.context(store).room().writeAlone(() -> {});
        } catch (RocksDBException e) {
            throw new IllegalStateException(e);
        }
    }

    private long sweepOfAll() {
        return store.indexes().sweep(INDEX, (term, key, clustering) -> false);
    }
}
