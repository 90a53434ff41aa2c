// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.WriteStallException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.junit.jupiter.api.Test;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

class WriteStallRetryTest {
    private final LongAdder stalled = new LongAdder();

    private static RocksDBException behind() {
        return new RocksDBException(
                "Write stall", new Status(Status.Code.Incomplete, Status.SubCode.None, ""));
    }

    /** RocksDB counts no stall of a write that it refuses: operators saw none. */
    @Test
    void theTimeInWhichAStoreTakesNoWritesIsCounted() throws RocksDBException {
        WriteStallRetry room = new WriteStallRetry("t", 10_000, stalled);
        room.await(() -> {});
        assertThat(stalled.sum()).isZero();
        long from = System.nanoTime();
        long end = from + TimeUnit.MILLISECONDS.toNanos(30);
        room.await(
                () -> {
                    if (System.nanoTime() - end < 0) throw behind();
                });
        assertThat(stalled.sum())
                .isBetween(TimeUnit.MILLISECONDS.toNanos(25), System.nanoTime() - from);
    }

    @Test
    void aWriteThatIsNotDoneHasStalledToo() {
        WriteStallRetry room = new WriteStallRetry("t", 20, stalled);
        assertThatThrownBy(
                        () ->
                                room.await(
                                        () -> {
                                            throw behind();
                                        }))
                .isInstanceOf(WriteStallException.class);
        assertThat(stalled.sum()).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(15));
    }
}
