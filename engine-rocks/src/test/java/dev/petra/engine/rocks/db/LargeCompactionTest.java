// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.Tables;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** All large cells are compacted by one at a time. */
class LargeCompactionTest {
    @TempDir Path directory;

    /** {@code nodetool stop}: it began when the other had ended. */
    @Test
    void oneThatWaitsForAnotherCanBeStopped() {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store =
                    Tables.open(
                            engine,
                            directory.resolve("1"),
                            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v blob)"));
            Database database = Tables.context(store).database();
            CompletableFuture<Void> rewriting;
            database.compactions.rewritingLarge.lock();
            try {
                rewriting = CompletableFuture.runAsync(store::rewrite);
                Tables.await("the wait", database.compactions.rewritingLarge::hasQueuedThreads);
                store.stopCompactions();
            } finally {
                database.compactions.rewritingLarge.unlock();
            }
            assertThatThrownBy(rewriting::join)
                    .hasCauseInstanceOf(CompactionStoppedException.class);
            store.rewrite();
        }
    }
}
