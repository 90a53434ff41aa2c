// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The engine's own flusher has nothing to do here: the buffers are far from what they may take. */
class FlusherTest {
    private static final int LONG = 10 * 20;
    private static final long LIMIT = 8 << 10;

    @TempDir Path directory;
    private final AtomicInteger measured = new AtomicInteger();
    private final AtomicLong written = new AtomicLong();

    private void run(Flusher flusher, int times) {
        measured.set(0);
        for (int i = 0; i < times; i++) flusher.run();
    }

    private static boolean isEmpty(TableStore store) {
        return ((RocksStore) store).buffers().isEmpty();
    }

    @Test
    void buffersAreMeasuredAfterWritesAndNotWhileNothingHappens() {
        try (StorageEngine engine = Tables.engine();
                TableStore store =
                        engine.openStore(
                                TestTable.of("CREATE TABLE t (k int PRIMARY KEY, v text)")
                                        .spec(directory.resolve("1")))) {
            Flusher flusher =
                    new Flusher(
                            () -> {
                                measured.incrementAndGet();
                                return List.of((RocksStore) store);
                            },
                            written::get,
                            LIMIT);
            run(flusher, LONG);
            run(flusher, LONG);
            assertThat(measured).as("nothing was written").hasValue(0);

            write(store, 100);
            // So little that it is looked at only once in a while.
            written.addAndGet(1);
            run(flusher, 1);
            assertThat(isEmpty(store)).isFalse();
            run(flusher, LONG);
            assertThat(measured).hasPositiveValue();
            assertThat(isEmpty(store)).as("above three quarters of the limit").isTrue();
            run(flusher, LONG);
            assertThat(measured).as("all is flushed").hasValue(0);

            write(store, 100);
            // So much that it is looked at immediately.
            written.addAndGet(LIMIT);
            run(flusher, 1);
            assertThat(isEmpty(store)).isTrue();
        }
    }

    /** A write is counted a moment before it is in the buffer. */
    @Test
    void whatWasCountedBeforeItWasThereIsMeasuredAgain() {
        try (StorageEngine engine = Tables.engine();
                TableStore store =
                        engine.openStore(
                                TestTable.of("CREATE TABLE t (k int PRIMARY KEY, v text)")
                                        .spec(directory.resolve("1")))) {
            Flusher flusher = new Flusher(() -> List.of((RocksStore) store), written::get, LIMIT);
            written.addAndGet(LIMIT);
            run(flusher, 1);
            write(store, 100);
            run(flusher, LONG);
            assertThat(isEmpty(store)).isTrue();
        }
    }

    private static void write(TableStore store, int rows) {
        TestTable table = TestTable.of("CREATE TABLE t (k int PRIMARY KEY, v text)");
        for (int k = 0; k < rows; k++)
            store.write(table.update(k).at(1).row().set("v", "x".repeat(300)).build());
    }
}
