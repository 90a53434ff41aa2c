// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EstimatesTest {
    private static final TableMetadataRef TABLE = TestTables.reference();

    @TempDir Path table;

    private final List<Thread> scrapes = new ArrayList<>();
    private final Set<Thread> readers = ConcurrentHashMap.newKeySet();
    private final CountDownLatch othersWait = new CountDownLatch(1);

    /** A store of one partition, in which the first reader is until all others wait. */
    private TableStore store() {
        return (TableStore)
                Proxy.newProxyInstance(
                        TableStore.class.getClassLoader(),
                        new Class<?>[] {TableStore.class},
                        (proxy, method, arguments) ->
                                switch (method.getName()) {
                                    case "spec" ->
                                            new StoreSpec(
                                                    table, "t", 1, TABLE, () -> false, () -> true);
                                    case "scan" -> scan();
                                    // Nothing is read in the background then.
                                    case "isEmpty" -> true;
                                    default -> throw new UnsupportedOperationException();
                                });
    }

    private SingletonUnfilteredPartitionIterator scan() throws InterruptedException {
        Thread self = Thread.currentThread();
        if (readers.add(self)) {
            if (readers.size() == 1) {
                for (Thread scrape : scrapes) if (scrape != self) awaitWaiting(scrape);
                othersWait.countDown();
            } else {
                othersWait.await();
            }
        }
        return new SingletonUnfilteredPartitionIterator(
                PartitionUpdate.fullPartitionDelete(TABLE.get(), ByteBufferUtil.bytes(7), 1, 1)
                        .unfilteredIterator());
    }

    private static void awaitWaiting(Thread thread) {
        Set<Thread.State> waiting = EnumSet.of(Thread.State.WAITING, Thread.State.BLOCKED);
        while (!waiting.contains(thread.getState())) Thread.onSpinWait();
    }

    @Test
    void scrapesAtOnceReadATableOnce() throws InterruptedException {
        TableGenerations stores =
                TableGenerations.open("t", TABLE, FileEngine::new, List.of(table), Disk.REAL);
        Estimates estimates = Generation.of(stores, 1, store()).estimates();
        assertThat(estimates.knownSample().isEmpty()).isTrue();
        Queue<PartitionSample> samples = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < 4; i++) scrapes.add(new Thread(() -> samples.add(estimates.sample())));
        scrapes.forEach(Thread::start);
        for (Thread scrape : scrapes) scrape.join();
        assertThat(readers).hasSize(1);
        PartitionSample known = estimates.knownSample();
        assertThat(known.isEmpty()).isFalse();
        assertThat(samples).hasSize(4).allSatisfy(sample -> assertThat(sample).isSameAs(known));
    }
}
