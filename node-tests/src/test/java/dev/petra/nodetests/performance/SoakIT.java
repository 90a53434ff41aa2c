// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * Mixed load for a while, on far more data than the engine's memory: the process's resident memory
 * stays within heap, native memory and what a JVM needs besides. In the profile {@code long}, or
 * with {@code -Dpetra.soak.minutes=30}.
 */
@EnabledIfSystemProperty(named = "petra.soak.minutes", matches = "\\d+")
class SoakIT {
    private static final int MINUTES = Integer.getInteger("petra.soak.minutes", 30);
    private static final int HEAP_MIB = 512;
    private static final int NATIVE_MIB = 128;

    /** Metaspace, code cache, thread stacks, Netty's direct buffers, RocksDB's table readers. */
    private static final int JVM_MIB = 512;

    private static final int KEYS = 2_000_000;
    private static final int IN_FLIGHT = 32;

    @TempDir Path directory;

    @Test
    @Timeout(value = 3, unit = java.util.concurrent.TimeUnit.HOURS)
    void residentMemoryStaysWithinHeapAndNativeMemory() throws Exception {
        try (TestNode node =
                        TestNode.start(
                                directory,
                                config ->
                                        config.heap(HEAP_MIB + "MiB")
                                                .jvmOptions("-Xms" + HEAP_MIB + "m")
                                                .engineParameters(
                                                        Map.of(
                                                                "engine",
                                                                "rocks",
                                                                "memory",
                                                                NATIVE_MIB + "MiB")));
                CqlSession session = node.session()) {
            TestNode.createKeyspace(session, "ks", 1);
            session.execute(
                    "CREATE TABLE ks.emp (emp_uname text PRIMARY KEY, emp_dept text,"
                            + " emp_first text, emp_last text) WITH memtable = 'rocks'");
            PreparedStatement write =
                    session.prepare(
                            "INSERT INTO ks.emp (emp_uname, emp_dept, emp_first, emp_last)"
                                    + " VALUES (?, ?, ?, ?)");
            PreparedStatement read = session.prepare("SELECT * FROM ks.emp WHERE emp_uname = ?");
            SplittableRandom random = new SplittableRandom(1);
            String filler = filler(random);
            Semaphore free = new Semaphore(IN_FLIGHT);
            AtomicReference<Throwable> failure = new AtomicReference<>();
            LongAdder done = new LongAdder();
            long end = System.nanoTime() + Duration.ofMinutes(MINUTES).toNanos();
            long report = System.nanoTime();
            long most = 0;
            while (System.nanoTime() < end && failure.get() == null) {
                free.acquireUninterruptibly();
                String key = "user" + random.nextInt(KEYS);
                int at = random.nextInt(10_000);
                var statement =
                        random.nextBoolean()
                                ? read.bind(key)
                                : write.bind(
                                        key,
                                        filler.substring(at, at + 100),
                                        filler.substring(at, at + 200),
                                        filler.substring(at, at + 300));
                session.executeAsync(statement)
                        .whenComplete(
                                (rows, error) -> {
                                    if (error != null) failure.compareAndSet(null, error);
                                    done.increment();
                                    free.release();
                                });
                if (System.nanoTime() - report >= 0) {
                    report += Duration.ofSeconds(30).toNanos();
                    long resident = NodeMetrics.mebibytes(node, "VmRSS");
                    most = Math.max(most, resident);
                    System.out.printf(
                            "SoakIT: %d operations, resident %d MiB (heap %d, native %d)%n",
                            done.sum(), resident, HEAP_MIB, NATIVE_MIB);
                }
            }
            free.acquireUninterruptibly(IN_FLIGHT);
            assertThat(failure.get()).isNull();
            System.out.printf("SoakIT: most resident %d MiB%n", most);
            assertThat(most).isLessThan(HEAP_MIB + NATIVE_MIB + JVM_MIB);
        }
    }

    private static String filler(SplittableRandom random) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 11_000; i++) text.append((char) ('a' + random.nextInt(26)));
        return text.toString();
    }
}
