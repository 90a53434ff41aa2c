// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.shadow.DoubledWrites.Doubled;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class DoubledWritesTest {
    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c text, d int, s text STATIC, v int, b blob, m"
                            + " map<text, text>, PRIMARY KEY (k, c, d))");

    private static final long HOUR_MILLIS = TimeUnit.HOURS.toMillis(1);

    @TempDir Path directory;

    private final CountDownLatch engineGoesOn = new CountDownLatch(1);
    private final DoubledWrites writes = new DoubledWrites();
    private StorageEngine engine;
    private int opened;

    @BeforeEach
    void open() {
        engine = new MemoryEngineProvider().open(new EngineSettings(Map.of()));
        writes.start();
    }

    @AfterEach
    void close() {
        engineGoesOn.countDown();
        engine.close();
    }

    private ShadowStore shadow() {
        return new ShadowStore("ks.t", waiting(store()));
    }

    private TableStore store() {
        return engine.openStore(TABLE.spec(directory.resolve(Integer.toString(++opened))));
    }

    /** A store whose engine takes nothing for a while. */
    private TableStore waiting(TableStore store) {
        return (TableStore)
                Proxy.newProxyInstance(
                        getClass().getClassLoader(),
                        new Class<?>[] {TableStore.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("writeUnsynced")) engineGoesOn.await();
                            return method.invoke(store, arguments);
                        });
    }

    private Doubled add(ShadowStore shadow, PartitionUpdate update) {
        Doubled write = Doubled.begin(shadow, update);
        writes.add(write);
        return write;
    }

    private static void awaitNoneQueued(ShadowStore shadow) throws InterruptedException {
        while (shadow.queued.get() > 0) TimeUnit.MILLISECONDS.sleep(1);
    }

    /** Of many small cells, whose objects take several times their data. */
    private static PartitionUpdate smallCells(String key) {
        UpdateBuilder update = TABLE.update(key);
        for (int i = 0; i < 1_000; i++) update.row("c", i).set("v", i).end();
        return update.build();
    }

    @Test
    void anEngineThatTakesNothingHoldsABoundedHeapAndNoWriter() throws Exception {
        ShadowStore behind = shadow();
        List<Doubled> begun = new ArrayList<>();
        long taken = 0;
        while (true) {
            PartitionUpdate update = smallCells("k" + begun.size());
            begun.add(add(behind, update));
            if (behind.isOver()) break;
            taken += update.unsharedHeapSize();
            assertThat(taken).isLessThanOrEqualTo(DoubledWrites.MAX_BYTES);
        }
        assertThat(taken).isGreaterThan(DoubledWrites.MAX_BYTES / 4);
        assertThat(behind.end())
                .isEqualTo(
                        new ShadowStore.End("writes came faster than its engine takes them", true));

        // Nothing that waited keeps a partition from being compared, or room from those to come.
        engineGoesOn.countDown();
        awaitNoneQueued(behind);
        for (Doubled write : begun)
            assertThat(behind.clock.quietSince(write.stripe())).isNotEqualTo(WriteClock.WRITING);
        assertThat(writes.waitingBytes()).isZero();
        ShadowStore next = shadow();
        add(next, smallCells("k"));
        awaitNoneQueued(next);
        assertThat(next.isOver()).isFalse();
        try (UnfilteredRowIterator rows =
                next.store.read(TABLE.key("k"), Slices.ALL, TABLE.all(), false)) {
            assertThat(rows).isNotNull();
        }
    }

    @Test
    void anEngineThatTakesNothingHoldsUpOtherShadowsForAMomentOnly() throws Exception {
        ShadowStore behind = shadow();
        ShadowStore other = new ShadowStore("ks.other", store());
        add(behind, smallCells("a"));
        add(other, smallCells("b"));
        awaitNoneQueued(other);
        assertThat(behind.queued).hasValue(1);
        assertThat(other.isOver()).isFalse();
    }

    /** Each of which waits for its engine. */
    @Test
    void manyWritesCallAllThreads() throws Exception {
        awaitAllThreads(TABLE.update("k").deletePartition().build(), 1_000);
    }

    /** Else the bound is met before the other threads are there. */
    @Test
    void largeWritesCallAllThreadsBeforeTheBound() throws Exception {
        PartitionUpdate large = smallCells("k");
        int count = (int) (DoubledWrites.MAX_BYTES / 2 / DoubledWrites.heapBytes(large));
        assertThat(count).isLessThan(200);
        awaitAllThreads(large, count);
    }

    private void awaitAllThreads(PartitionUpdate update, int count) throws Exception {
        DoubledWrites called = new DoubledWrites(HOUR_MILLIS, 1);
        called.start();
        Set<Thread> threads = ConcurrentHashMap.newKeySet();
        CountDownLatch go = new CountDownLatch(1);
        ShadowStore shadow =
                new ShadowStore("ks.t", store()) {
                    @Override
                    void looked(PartitionUpdate any) {
                        threads.add(Thread.currentThread());
                        try {
                            go.await();
                        } catch (InterruptedException e) {
                            Thread.currentThread().interrupt();
                        }
                    }
                };
        for (int i = 0; i < count; i++) called.add(Doubled.begin(shadow, update));
        while (threads.size() < 4) TimeUnit.MILLISECONDS.sleep(1);
        go.countDown();
        awaitNoneQueued(shadow);
        assertThat(shadow.isOver()).isFalse();
    }

    /** Else the table would answer reads of it for longer. */
    @Test
    void noWriteToAShadowThatAnswersWaitsForARest() throws Exception {
        DoubledWrites resting = new DoubledWrites(HOUR_MILLIS, HOUR_MILLIS);
        resting.start();
        ShadowStore shadow = new ShadowStore("ks.t", store());
        shadow.answers = true;
        for (int i = 0; i < 2; i++) {
            resting.add(Doubled.begin(shadow, smallCells("k")));
            awaitNoneQueued(shadow);
        }
        // The other way round it rests when it has taken all, and takes nothing meanwhile.
        shadow.answers = false;
        do {
            resting.add(Doubled.begin(shadow, smallCells("k")));
            TimeUnit.MILLISECONDS.sleep(20);
        } while (shadow.queued.get() == 0);
    }

    @Test
    void anErrorEndsTheShadowAndNoThread() throws Exception {
        ShadowStore broken =
                new ShadowStore("ks.broken", store()) {
                    @Override
                    void looked(PartitionUpdate update) {
                        throw new AssertionError("for a test");
                    }
                };
        for (int i = 0; i < 8; i++) add(broken, smallCells("a"));
        awaitNoneQueued(broken);
        assertThat(broken.isOver()).isTrue();
        ShadowStore other = new ShadowStore("ks.other", store());
        add(other, smallCells("b"));
        awaitNoneQueued(other);
        assertThat(other.isOver()).isFalse();
    }

    /** Else a shadow of a table that is always written would never be taken for complete. */
    @Test
    void whatBeginsLaterIsNotWaitedFor() throws Exception {
        ShadowStore shadow = shadow();
        Doubled inTheTable = Doubled.begin(shadow, smallCells("a"));
        add(shadow, smallCells("b"));
        BooleanSupplier isTold = shadow.toldOfAll();
        Doubled later = Doubled.begin(shadow, smallCells("c"));
        BooleanSupplier isToldOfLater = shadow.toldOfAll();
        assertThat(isTold.getAsBoolean()).isFalse();

        engineGoesOn.countDown();
        awaitNoneQueued(shadow);
        assertThat(isTold.getAsBoolean()).isFalse();
        writes.add(inTheTable);
        awaitNoneQueued(shadow);
        assertThat(isTold.getAsBoolean()).isTrue();
        assertThat(isToldOfLater.getAsBoolean()).isFalse();
        writes.add(later);
        awaitNoneQueued(shadow);
        assertThat(isToldOfLater.getAsBoolean()).isTrue();
    }

    /** A write that it was at when it ended would come behind a purge of what hides it. */
    @Test
    void itIsQuietWhenItHasEndedAndWhatHadBegunIsOver() {
        ShadowStore shadow = shadow();
        assertThat(shadow.isQuiet()).isFalse();
        Doubled begun = Doubled.begin(shadow, smallCells("a"));
        shadow.end("a test");
        assertThat(shadow.isQuiet()).isFalse();
        // Which goes nowhere.
        Doubled later = Doubled.begin(shadow, smallCells("b"));
        begun.end();
        assertThat(shadow.isQuiet()).isTrue();
        later.end();
        assertThat(shadow.isQuiet()).isTrue();
    }

    @Test
    void oneThatIsLargerThanTheBoundIsTakenAlone() throws Exception {
        PartitionUpdate large =
                TABLE.update("k")
                        .row("c", 1)
                        .set("b", ByteBuffer.allocate((int) DoubledWrites.MAX_BYTES))
                        .build();
        ShadowStore shadow = shadow();
        ShadowStore other = shadow();
        add(shadow, large);
        assertThat(shadow.isOver()).isFalse();
        add(other, smallCells("k"));
        assertThat(other.isOver()).isTrue();
        engineGoesOn.countDown();
        awaitNoneQueued(shadow);
        assertThat(shadow.isOver()).isFalse();
        assertThat(writes.waitingBytes()).isZero();
    }

    /** Some of what clients write, on both sides, and nothing else. */
    @Test
    void ofTheSameWritesBothSidesAreTimed() throws Exception {
        engineGoesOn.countDown();
        ShadowStore shadow = shadow();
        PartitionUpdate update = TABLE.update("k").deletePartition().build();
        // That none of so many is chosen has a chance of 1 to 10^28.
        for (int i = 0; i < 1_000; i++) add(shadow, update);
        awaitNoneQueued(shadow);
        assertThat(shadow.isOver()).isFalse();
        Latencies latencies = shadow.writeLatencies;
        long timed = latencies.shadowMicros.getCount();
        assertThat(timed).isBetween(1L, 999L);
        assertThat(latencies.tableMicros.getCount()).isEqualTo(timed);

        for (int i = 0; i < 1_000; i++) assertThat(shadow.write(update)).isTrue();
        assertThat(latencies.shadowMicros.getCount()).as("copied").isEqualTo(timed);
        shadow.successor(new Successor(shadow::isOver));
        for (int i = 0; i < 1_000; i++) add(shadow, update);
        awaitNoneQueued(shadow);
        assertThat(latencies.shadowMicros.getCount()).as("of a successor").isEqualTo(timed);
        assertThat(latencies.tableMicros.getCount()).as("of a successor").isEqualTo(timed);
    }

    /** What looks at it, before it goes to the one and to the other, does not count. */
    @Test
    void aWriteIsTimedInTheTableAndInTheStore() throws Exception {
        AtomicLong lookedAt = new AtomicLong();
        ShadowStore shadow =
                new ShadowStore("ks.t", store()) {
                    @Override
                    void begins(PartitionUpdate update) {
                        lookedAt.set(System.nanoTime());
                    }

                    @Override
                    void looked(PartitionUpdate update) {
                        LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(2));
                    }
                };
        PartitionUpdate update = TABLE.update("k").deletePartition().build();
        Doubled write = Doubled.begin(shadow, update);
        while (write.timedFrom() == 0) {
            write.end();
            write = Doubled.begin(shadow, update);
        }
        assertThat(write.timedFrom() - lookedAt.get()).isNotNegative();
        // In the table.
        TimeUnit.MILLISECONDS.sleep(20);
        writes.add(write);
        awaitNoneQueued(shadow);
        assertThat(shadow.writeLatencies.tableMicros.getSnapshot().getMax()).isGreaterThan(10_000);
        assertThat(shadow.writeLatencies.shadowMicros.getSnapshot().getMax())
                .isBetween(1L, 1_000_000L);
    }

    /** It would hold what little room there is, while Cassandra cannot flush. */
    @Test
    void aFullDiskEndsItAtOnce() {
        AtomicInteger attempts = new AtomicInteger();
        ShadowStore shadow = failing(attempts, Integer.MAX_VALUE, true);
        assertThat(shadow.write(smallCells("k"))).isFalse();
        assertThat(shadow.end()).isEqualTo(new ShadowStore.End("its disk is full", true));
        assertThat(attempts).hasValue(1);
    }

    @Test
    void aStallIsWaitedFor() {
        AtomicInteger attempts = new AtomicInteger();
        ShadowStore shadow = failing(attempts, 3, false);
        assertThat(shadow.write(smallCells("k"))).isTrue();
        assertThat(shadow.isOver()).isFalse();
        assertThat(attempts).hasValue(4);
    }

    /** One whose first writes fail. */
    private ShadowStore failing(AtomicInteger attempts, int failures, boolean isDiskFull) {
        TableStore store = engine.openStore(TABLE.spec(directory.resolve("failing")));
        return new ShadowStore(
                "ks.t",
                (TableStore)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {TableStore.class},
                                (proxy, method, arguments) -> {
                                    if (method.getName().equals("writeUnsynced")
                                            && attempts.incrementAndGet() <= failures)
                                        throw new WriteStallException("stalled", isDiskFull);
                                    return method.invoke(store, arguments);
                                }));
    }

    @Test
    void anUpdateCountsForNoLessThanCassandraSays() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 2_000; i++) {
            PartitionUpdate update = random(random);
            assertThat(DoubledWrites.heapBytes(update))
                    .as("seed %s, update %s: %s", seed, i, update)
                    .isGreaterThanOrEqualTo(update.unsharedHeapSize());
        }
    }

    @Test
    void readOnlyValuesCanBeCounted() {
        ByteBuffer value = ByteBuffer.allocate(1_000).asReadOnlyBuffer();
        assertThat(DoubledWrites.heapBytes(TABLE.update("k").row("c", 1).set("b", value).build()))
                .isGreaterThan(1_000);
    }

    private static PartitionUpdate random(Random random) {
        UpdateBuilder update = TABLE.update(text(random));
        int size = 1 << random.nextInt(8);
        for (int i = 0; i < size; i++) {
            switch (random.nextInt(8)) {
                case 0 -> update.deletePartition();
                case 1, 2 -> {
                    int from = 4 * i;
                    String c = text(random);
                    update.at(i).deleteRange(TABLE.from(c, from), TABLE.to(c, from + 2));
                }
                case 3 -> update.deleteRow(text(random), i);
                case 4 -> update.staticRow().set("s", text(random)).end();
                case 5 -> {
                    UpdateBuilder.RowBuilder row = update.row(text(random), i).clearBefore("m");
                    for (int e = random.nextInt(size); e >= 0; e--)
                        row.put("m", e + text(random), text(random));
                    row.end();
                }
                default -> update.row(text(random), i).liveness().set("v", i).end();
            }
        }
        return update.build();
    }

    private static String text(Random random) {
        return "x".repeat(random.nextInt(20));
    }
}
