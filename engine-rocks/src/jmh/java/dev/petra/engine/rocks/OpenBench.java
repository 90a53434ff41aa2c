// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import com.sun.management.OperatingSystemMXBean;
import dev.petra.engine.DirectoryTree;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.db.Database;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.schema.CompressionParams;
import org.apache.cassandra.schema.TableId;
import org.rocksdb.RocksDBException;

/**
 * How long a store takes to open, all in the page cache: after its process was killed, by how much
 * of its logs has not been flushed, in rows of 1 KB; and by how many data files it has, with the
 * memory that they take outside the block cache, each time in a process of its own. {@code mvn -pl
 * engine-rocks -am -P open-bench verify -DskipTests}
 */
public final class OpenBench {
    private static final List<Integer> LOG_MIB = List.of(1, 16, 64, 256);
    private static final List<Integer> FILES = List.of(10, 1_000, 10_000);
    private static final int FILE_BYTES = 8 << 10;
    private static final int ROUNDS = 3;
    private static final int VALUE = 1_000;

    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");

    /** The same in each process. */
    private static final TestTable PLAIN =
            TestTable.of(
                    TABLE.metadata()
                            .unbuild()
                            .id(TableId.fromUUID(new UUID(0x1000, 1)))
                            .compression(CompressionParams.noCompression())
                            .build());

    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private OpenBench() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            openFiles(Path.of(arguments[0]));
            return;
        }
        Path root = Files.createTempDirectory("open-bench");
        try {
            for (int round = 0; round < ROUNDS; round++)
                for (int mib : LOG_MIB) {
                    Path killed = Files.createDirectory(root.resolve("killed"));
                    leave(mib, root.resolve("alive"), killed);
                    open(mib, killed);
                    DirectoryTree.delete(root.resolve("alive"));
                    DirectoryTree.delete(killed);
                }
            for (int files : FILES) write(files, root.resolve("files" + files));
            for (int round = 0; round < ROUNDS; round++)
                for (int files : FILES) openElsewhere(root.resolve("files" + files));
        } finally {
            DirectoryTree.delete(root);
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
                    store.read(TABLE.key((rows(mib) - 1) / 100), Slices.ALL, TABLE.all(), false)) {
                if (!last.hasNext()) throw new AssertionError("the last row was not recovered");
            }
            System.out.printf(
                    Locale.ROOT,
                    "OpenBench: %d MiB of logs: open after %.0f ms, %.0f ms of CPU%n",
                    mib,
                    millis,
                    cpuMillis);
        }
    }

    private static StorageEngine engineOfSmallFiles() {
        return Tables.engine(
                Map.of(
                        "memory",
                        "64MiB",
                        "rocksdb_options",
                        "disable_auto_compactions=true;target_file_size_base=" + FILE_BYTES));
    }

    private static void write(int files, Path directory) {
        SplittableRandom random = new SplittableRandom(files);
        try (StorageEngine engine = engineOfSmallFiles()) {
            TableStore store = engine.openStore(PLAIN.spec(directory));
            byte[] noise = new byte[VALUE / 2];
            for (int row = 0; row < files * (FILE_BYTES / VALUE); row++) {
                random.nextBytes(noise);
                store.write(
                        PLAIN.update(random.nextInt())
                                .at(1)
                                .row(0)
                                .set("v", HexFormat.of().formatHex(noise))
                                .build());
            }
            store.compact(List.of());
        }
    }

    /** So that what another store left in the allocator is not taken again. */
    private static void openElsewhere(Path directory) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.addAll(
                List.of(
                        // Else the part of the heap that is used first would be counted.
                        "-Xms1g",
                        "-XX:+AlwaysPreTouch",
                        "-cp",
                        System.getProperty("java.class.path"),
                        OpenBench.class.getName(),
                        directory.toString()));
        int exit = new ProcessBuilder(command).inheritIO().start().waitFor();
        if (exit != 0) throw new IllegalStateException(command + " ended with " + exit);
    }

    private static void openFiles(Path directory) throws IOException, RocksDBException {
        try (StorageEngine engine = engineOfSmallFiles()) {
            // Classes, and the native library with its threads.
            engine.openStore(PLAIN.spec(directory.resolveSibling("first"))).close();
            long before = resident();
            long cpu = PROCESS.getProcessCpuTime();
            long begun = System.nanoTime();
            TableStore store = engine.openStore(PLAIN.spec(directory));
            double millis = (System.nanoTime() - begun) / 1e6;
            double cpuMillis = (PROCESS.getProcessCpuTime() - cpu) / 1e6;
            Database database = Tables.context(store).database();
            int files = database.dataFiles().size();
            long cached = database.db.getLongProperty(database.data, "rocksdb.block-cache-usage");
            System.out.printf(
                    Locale.ROOT,
                    "OpenBench: %,d data files: open after %.0f ms, %.0f ms of CPU, %.1f MiB more"
                            + " resident, %.1f MiB in the block cache%n",
                    files,
                    millis,
                    cpuMillis,
                    (resident() - before) / 1024.0,
                    cached / 1048576.0);
        }
        DirectoryTree.delete(directory.resolveSibling("first"));
    }

    /** In KiB. */
    private static long resident() throws IOException {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
            return lines.filter(line -> line.startsWith("VmRSS:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                    .findFirst()
                    .orElseThrow();
        }
    }
}
