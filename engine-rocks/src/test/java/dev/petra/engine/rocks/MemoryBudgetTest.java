// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A process of its own loads much more than its memory, over several tables. */
class MemoryBudgetTest {
    private static final int MEMORY_MIB = 64;
    private static final int HEAP_MIB = 128;

    /** Of a JVM with Cassandra's classes and RocksDB's library, before it opens a table. */
    private static final int JVM_MIB = 130;

    private static final int TABLES = 4;
    private static final int ROWS = 20_000;
    private static final int VALUE = 4_000;

    @TempDir Path directory;

    @Test
    void residentMemoryStaysWithinTheBudget() throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        for (String option : ManagementFactory.getRuntimeMXBean().getInputArguments())
            if (option.startsWith("--add")) command.add(option);
        command.add("-Xmx" + HEAP_MIB + "m");
        command.add("-cp");
        command.add(System.getProperty("java.class.path"));
        command.add(MemoryBudgetTest.class.getName());
        command.add(directory.toString());
        command.add(Integer.toString(Tables.LENGTH));
        Path out = directory.resolve("out");
        ProcessBuilder builder =
                new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(out.toFile());
        builder.environment().put("MALLOC_ARENA_MAX", "2");
        assertThat(builder.start().waitFor()).describedAs(Files.readString(out)).isZero();
        Matcher peak =
                Pattern.compile("resident at most (\\d+) MiB").matcher(Files.readString(out));
        assertThat(peak.find()).describedAs(Files.readString(out)).isTrue();
        System.out.println("MemoryBudgetTest: " + peak.group());
        assertThat(Integer.parseInt(peak.group(1))).isLessThan(MEMORY_MIB + HEAP_MIB + JVM_MIB);
    }

    /** The process: directory, and how many times the rows; prints what it took. */
    public static void main(String[] args) throws IOException {
        int rows = ROWS * Integer.parseInt(args[1]);
        try (StorageEngine engine = Tables.engine(Map.of("memory", MEMORY_MIB + "MiB"))) {
            List<TableMetadata> tables = new ArrayList<>();
            List<TableStore> stores = new ArrayList<>();
            for (int t = 0; t < TABLES; t++) {
                tables.add(
                        Tables.table(
                                "CREATE TABLE t"
                                        + t
                                        + " (k int PRIMARY KEY, v blob) WITH"
                                        + " compression = {'enabled': false}"));
                stores.add(
                        Tables.open(engine, Path.of(args[0], Integer.toString(t)), tables.get(t)));
            }
            Random random = new Random(1);
            byte[] value = new byte[VALUE];
            for (int i = 0; i < rows; i++)
                for (int t = 0; t < TABLES; t++) {
                    random.nextBytes(value);
                    PartitionUpdate.SimpleBuilder update = Tables.update(tables.get(t), i);
                    update.row().add("v", ByteBuffer.wrap(value.clone()));
                    stores.get(t).write(update.build());
                    if (i % 4 == 0) read(stores.get(t), tables.get(t), random.nextInt(i + 1));
                }
            for (TableStore store : stores) store.compact(List.of());
            for (int i = 0; i < rows; i++) {
                int t = i % TABLES;
                read(stores.get(t), tables.get(t), random.nextInt(rows));
            }
        }
        Matcher peak =
                Pattern.compile("VmHWM:\\s+(\\d+) kB")
                        .matcher(Files.readString(Path.of("/proc/self/status")));
        if (!peak.find()) throw new IllegalStateException("no VmHWM");
        System.out.println("resident at most " + (Long.parseLong(peak.group(1)) >> 10) + " MiB");
    }

    private static void read(TableStore store, TableMetadata table, int key) {
        try (UnfilteredRowIterator rows =
                store.read(Tables.key(table, key), Slices.ALL, ColumnFilter.all(table), false)) {
            if (rows == null || !rows.hasNext())
                throw new IllegalStateException("row " + key + " is not there");
            rows.next();
        }
    }
}
