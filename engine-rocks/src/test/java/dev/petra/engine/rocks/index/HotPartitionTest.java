// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.Tables;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

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

    /** The sweep ended there, and so did each one after it. */
    @Test
    void itsEntriesStayAndThoseBehindThemGo() {
        store.indexes().define(INDEX);
        int cold =
                IntStream.range(2, 100)
                        .filter(row -> !writing(row).equals(writing(1)))
                        .findFirst()
                        .orElseThrow();
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

    private long sweepOfAll() {
        return store.indexes().sweep(INDEX, (term, key, clustering) -> false);
    }
}
