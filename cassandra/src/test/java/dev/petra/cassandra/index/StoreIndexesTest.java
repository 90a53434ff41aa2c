// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static dev.petra.cassandra.Hollow.proxy;
import static dev.petra.cassandra.index.HollowTable.asOnANode;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermIndexes;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreIndexesTest {
    @TempDir Path directory;

    /**
     * While the node starts, a new index was taken for complete where there is no store, and the
     * first write was about to make one without it: queries found none of what was written.
     */
    @Test
    void aStoreThatIsBeingMadeIsWaitedForAndAskedForTheIndex() throws Exception {
        CountDownLatch isBegun = new CountDownLatch(1);
        CountDownLatch mayEnd = new CountDownLatch(1);
        TermIndexes none = proxy(TermIndexes.class, (self, method, arguments) -> Map.of());
        TableStore store = proxy(TableStore.class, (self, method, arguments) -> none);
        StorageEngine engine =
                proxy(
                        StorageEngine.class,
                        (self, method, arguments) -> {
                            isBegun.countDown();
                            mayEnd.await();
                            return store;
                        });
        HollowTable table = new HollowTable(directory, engine);
        CompletableFuture<TableStore> made =
                CompletableFuture.supplyAsync(() -> table.stores.current().writable());
        isBegun.await();
        try {
            boolean isBuilt =
                    asOnANode(
                            () -> {
                                CompletableFuture<Boolean> asked =
                                        CompletableFuture.supplyAsync(
                                                () -> StoreIndexes.isBuiltForGood(table.index));
                                assertThatThrownBy(() -> asked.get(200, TimeUnit.MILLISECONDS))
                                        .isInstanceOf(TimeoutException.class);
                                mayEnd.countDown();
                                return asked.get(1, TimeUnit.MINUTES);
                            });
            assertThat(isBuilt).isFalse();
            assertThat(made.get(1, TimeUnit.MINUTES)).isSameAs(store);
        } finally {
            mayEnd.countDown();
        }
    }

    /** The first write makes one that has the index. */
    @Test
    void anIndexOfATableWithoutAStoreIsComplete() throws Exception {
        StorageEngine engine =
                proxy(
                        StorageEngine.class,
                        (self, method, arguments) -> {
                            throw new UnsupportedOperationException(method.getName());
                        });
        HollowTable table = new HollowTable(directory, engine);
        assertThat(asOnANode(() -> StoreIndexes.isBuiltForGood(table.index))).isTrue();
    }
}
