// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import com.google.common.io.MoreFiles;
import com.google.common.io.RecursiveDeleteOption;
import com.sun.management.OperatingSystemMXBean;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.cassandra.db.Slices;

/**
 * How long a store takes to open after its process was killed, by how much of its logs has not been
 * flushed: rows of 1 KB, all in the page cache. {@code mvn -pl engine-rocks -am -P recovery-bench
 * verify -DskipTests}
 */
public final class RecoveryBench {
    private static final List<Integer> LOG_MIB = List.of(1, 16, 64, 256);
    private static final int ROUNDS = 3;
    private static final int VALUE = 1_000;

    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private RecoveryBench() {}

    public static void main(String[] arguments) throws Exception {
        Path root = Files.createTempDirectory("recovery-bench");
        try {
            for (int round = 0; round < ROUNDS; round++)
                for (int mib : LOG_MIB) {
                    Path killed = Files.createDirectory(root.resolve("killed"));
                    leave(mib, root.resolve("alive"), killed);
                    open(mib, killed);
                    delete(root.resolve("alive"));
                    delete(killed);
                }
        } finally {
            delete(root);
        }
    }

    private static StorageEngine engine() {
        return Tables.engine(Map.of("memory", "2GiB", "write_buffer", "512MiB"));
    }

    /** Leaves the files that a killed process would leave. */
    private static void leave(int mib, Path alive, Path killed) throws IOException {
        Random random = new Random(mib);
        byte[] noise = new byte[VALUE / 2];
        try (StorageEngine engine = engine()) {
            TableStore store = engine.openStore(TABLE.spec(alive));
            for (int row = 0; row < rows(mib); row++) {
                random.nextBytes(noise);
                store.write(
                        TABLE.update(row / 100)
                                .at(row)
                                .row(row % 100)
                                .set("v", HexFormat.of().formatHex(noise))
                                .build());
            }
            try (Stream<Path> files = Files.walk(alive)) {
                for (Path file : files.toList()) {
                    Path copy = killed.resolve(alive.relativize(file).toString());
                    if (Files.isDirectory(file)) Files.createDirectories(copy);
                    else Files.copy(file, copy);
                }
            }
        }
    }

    private static int rows(int mib) {
        return (mib << 20) / (VALUE + 50);
    }

    private static void open(int mib, Path killed) {
        try (StorageEngine engine = engine()) {
            long cpu = PROCESS.getProcessCpuTime();
            long begun = System.nanoTime();
            TableStore store = engine.openStore(TABLE.spec(killed));
            double millis = (System.nanoTime() - begun) / 1e6;
            double cpuMillis = (PROCESS.getProcessCpuTime() - cpu) / 1e6;
            try (var last =
                    store.read(
                            TABLE.key((rows(mib) - 1) / 100), Slices.ALL, TABLE.all(), false)) {
                if (!last.hasNext()) throw new AssertionError("the last row was not recovered");
            }
            System.out.printf(
                    Locale.ROOT,
                    "RecoveryBench: %d MiB of logs: open after %.0f ms, %.0f ms of CPU%n",
                    mib,
                    millis,
                    cpuMillis);
        }
    }

    private static void delete(Path directory) throws IOException {
        if (Files.exists(directory))
            MoreFiles.deleteRecursively(directory, RecursiveDeleteOption.ALLOW_INSECURE);
    }
}
