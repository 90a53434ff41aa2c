// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.util.concurrent.Uninterruptibles;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class IndexCatalogTest {
    private static final UUID FORMER = new UUID(0, 1);
    private static final UUID INDEX = new UUID(0, 2);

    /** What looks after the dropped indexes of all tables, on one thread, waited with it. */
    @Test
    void whoReadsDoesNotWaitForAnEntryThatWaits() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch mayGoOn = new CountDownLatch(1);
        IndexCatalog catalog =
                new IndexCatalog(
                        (key, value) -> {
                            begun.countDown();
                            Uninterruptibles.awaitUninterruptibly(mayGoOn);
                        },
                        Map.of("0", FORMER + " dropping", "1", INDEX + " building"));
        CompletableFuture<Void> drop = CompletableFuture.runAsync(() -> catalog.drop(INDEX));
        try {
            assertThat(begun.await(1, TimeUnit.MINUTES)).isTrue();
            CompletableFuture<List<Integer>> left =
                    CompletableFuture.supplyAsync(catalog::leftovers);
            assertThat(left.get(20, TimeUnit.SECONDS)).containsExactly(0);
            assertThat(catalog.states()).as("what is not dropped yet").containsOnlyKeys(INDEX);
        } finally {
            mayGoOn.countDown();
        }
        drop.get(1, TimeUnit.MINUTES);
        assertThat(catalog.states()).isEmpty();
        assertThat(catalog.leftovers()).containsExactlyInAnyOrder(0, 1);
        catalog.removed(0);
        assertThat(catalog.leftovers()).containsExactly(1);
    }
}
