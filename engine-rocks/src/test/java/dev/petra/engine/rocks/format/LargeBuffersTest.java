// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Each value above half a megabyte allocated a direct buffer that only a full collection freed. */
class LargeBuffersTest {
    private static final BufferPoolMXBean DIRECT =
            ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
                    .filter(pool -> pool.getName().equals("direct"))
                    .findFirst()
                    .orElseThrow();

    @Test
    void whatIsGivenBackIsLentAgain() {
        LargeBuffers pool = new LargeBuffers(8 << 20);
        ByteBuffer first = pool.lend(1_500_000);
        assertThat(first.capacity()).isBetween(1_500_000, 2_000_000);
        first.order(ByteOrder.LITTLE_ENDIAN).position(7).limit(9);
        pool.giveBack(first);
        ByteBuffer again = pool.lend(1_400_000);
        assertThat(again).isSameAs(first);
        assertThat(again.order()).isEqualTo(ByteOrder.BIG_ENDIAN);
        assertThat(again.position()).isEqualTo(0);
        assertThat(again.remaining()).isEqualTo(again.capacity());
        assertThat(pool.lend(1_400_000)).isNotSameAs(first);
        pool.giveBack(again);
        // A much smaller value does not get it.
        assertThat(pool.lend(300_000)).isNotSameAs(first);
    }

    /** The JVM's count of direct memory would show a buffer that is left to the collector. */
    @Test
    void whatIsKeptIsBoundedAndTheRestIsFreedAtOnce() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        long bound = 20 << 20;
        long before = DIRECT.getMemoryUsed();
        LargeBuffers pool = new LargeBuffers(bound);
        List<ByteBuffer> lent = new ArrayList<>();
        Set<ByteBuffer> inUse = Collections.newSetFromMap(new IdentityHashMap<>());
        long lentBytes = 0;
        for (int step = 0; step < 2_000; step++) {
            if (lent.isEmpty() || (lent.size() < 6 && random.nextBoolean())) {
                int bytes = 1 + random.nextInt(6 << 20);
                ByteBuffer buffer = pool.lend(bytes);
                assertThat(buffer.capacity()).as("seed %d", seed).isGreaterThanOrEqualTo(bytes);
                assertThat(inUse.add(buffer)).as("lent once, seed %d", seed).isTrue();
                lentBytes += buffer.capacity();
                lent.add(buffer);
            } else {
                ByteBuffer buffer = lent.remove(random.nextInt(lent.size()));
                lentBytes -= buffer.capacity();
                inUse.remove(buffer);
                pool.giveBack(buffer);
            }
            assertThat(pool.idleBytes()).as("seed %d", seed).isBetween(0L, bound);
            // The JVM allocates and frees some direct memory of its own.
            assertThat(DIRECT.getMemoryUsed() - before)
                    .as("seed %d", seed)
                    .isLessThan(lentBytes + bound + (4 << 20));
        }
        lent.forEach(pool::giveBack);
    }

    @ParameterizedTest
    @ValueSource(strings = {"16KiB", "64MiB"})
    void repeatedLargeWritesAndReadsAllocateNoDirectBuffers(
            String largeCell, @TempDir Path directory) {
        TestTable table = TestTable.of("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", "64MiB", "large_cell", largeCell))) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            int[] sizes = {600_000, 1_500_000, 16_000_000};
            for (int size : sizes) writeAndRead(store, table, size);
            long allocated = LargeBuffers.OF_PROCESS.allocated();
            long lent = LargeBuffers.OF_PROCESS.lent();
            long direct = DIRECT.getMemoryUsed();
            for (int i = 0; i < 3; i++) for (int size : sizes) writeAndRead(store, table, size);
            assertThat(LargeBuffers.OF_PROCESS.allocated()).isEqualTo(allocated);
            assertThat(LargeBuffers.OF_PROCESS.lent()).isGreaterThan(lent + 20);
            // Threads of the engine allocate small buffers of their own at their first use.
            assertThat(DIRECT.getMemoryUsed() - direct).isLessThan(sizes[0]);
            assertThat(LargeBuffers.OF_PROCESS.idleBytes())
                    .isLessThanOrEqualTo(LargeBuffers.MOST_IDLE);
        }
    }

    private static void writeAndRead(TableStore store, TestTable table, int size) {
        String value = "x".repeat(size);
        for (int i = 0; i < 3; i++)
            store.write(table.update(size).at(i).row(i % 2).set("v", value).build());
        // One row by a get, several by an iterator, all by a scan.
        for (Slices slices :
                List.of(
                        table.slices(table.from(0), table.to(0)),
                        table.slices(table.from(0), table.to(5))))
            try (UnfilteredRowIterator rows =
                    store.read(table.key(size), slices, table.all(), false)) {
                while (rows.hasNext()) check((Row) rows.next(), size);
            }
        try (UnfilteredPartitionIterator all =
                store.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            while (all.hasNext())
                try (UnfilteredRowIterator rows = all.next()) {
                    int expected = ByteBufferUtil.toInt(rows.partitionKey().getKey());
                    while (rows.hasNext()) check((Row) rows.next(), expected);
                }
        }
    }

    private static void check(Row row, int size) {
        row.cells().forEach(cell -> assertThat(cell.valueSize()).isEqualTo(size));
    }
}
