// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Logged;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;

/** Data files are read past the page cache, or not. */
class DirectReadsTest {
    private static final Path OPEN = Path.of("/proc/self/fd");

    /** O_DIRECT of x86 and of ARM. */
    private static final long DIRECT =
            System.getProperty("os.arch").equals("aarch64") ? 0200000 : 040000;

    @TempDir Path directory;

    /** Whether each open data file of a store is read so; rows and large cells. */
    private List<Boolean> readDirectly(Map<String, String> settings) throws IOException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text, w text)");
        try (StorageEngine engine = Tables.engine(settings);
                TableStore store =
                        engine.openStore(
                                new StoreSpec(directory.resolve("1"), "t", 1, table.ref()))) {
            for (int i = 0; i < 100; i++)
                store.write(
                        table.update("k" + i)
                                .at(1)
                                .row()
                                .set("v", "value " + i)
                                .set("w", "large".repeat(i))
                                .build());
            store.flush();
            for (int i = 0; i < 100; i++)
                try (var read = store.read(table.key("k" + i), Slices.ALL, table.all(), false)) {
                    assertThat(read).isNotNull().hasNext();
                }
            List<Boolean> found = new ArrayList<>();
            try (DirectoryStream<Path> open = Files.newDirectoryStream(OPEN)) {
                for (Path descriptor : open) {
                    String file;
                    try {
                        file = Files.readSymbolicLink(descriptor).toString();
                    } catch (NoSuchFileException e) {
                        continue;
                    }
                    if (file.startsWith(directory.toRealPath().toString())
                            && (file.endsWith(".sst") || file.endsWith(".blob")))
                        found.add((flags(descriptor) & DIRECT) != 0);
                }
            }
            return found;
        }
    }

    private static long flags(Path descriptor) throws IOException {
        for (String line :
                Files.readAllLines(
                        Path.of("/proc/self/fdinfo", descriptor.getFileName().toString())))
            if (line.startsWith("flags:")) return Long.parseLong(line.substring(6).strip(), 8);
        throw new AssertionError("no flags of " + descriptor);
    }

    private static boolean isLinux() {
        return Files.exists(OPEN);
    }

    @Test
    void theyAreReadAsTheSettingSays() throws IOException {
        assumeThat(isLinux()).isTrue();
        assumeThat(new DirectReads(true).in(directory)).as("a file system that can").isTrue();
        assertThat(
                        readDirectly(
                                Map.of(
                                        "memory",
                                        "32MiB",
                                        "direct_reads",
                                        "true",
                                        "large_cell",
                                        "50B")))
                .hasSizeGreaterThan(2)
                .containsOnly(true);
    }

    @Test
    void littleMemoryLeavesThemToThePageCache() throws IOException {
        assumeThat(isLinux()).isTrue();
        assertThat(readDirectly(Map.of("memory", "32MiB", "large_cell", "50B")))
                .hasSizeGreaterThan(2)
                .containsOnly(false);
    }

    @Test
    void aFileSystemIsTriedOnce() {
        int[] tried = new int[1];
        DirectReads refused =
                new DirectReads(
                        true,
                        file -> {
                            assertThat(file).exists();
                            tried[0]++;
                            throw new RocksDBException("Invalid argument");
                        },
                        new ConcurrentHashMap<>());
        assertThat(refused.in(directory)).isFalse();
        assertThat(refused.in(directory)).isFalse();
        assertThat(tried[0]).isOne();
        assertThat(directory).isEmptyDirectory();
        DirectReads possible = reads(true, tried);
        assertThat(possible.in(directory)).isTrue();
        assertThat(directory).isEmptyDirectory();
        assertThat(reads(false, tried).in(directory)).isFalse();
        assertThat(tried[0]).isEqualTo(2);
    }

    /** By whichever engine tried it. */
    @Test
    void aFileSystemThatRefusesThemIsWarnedOfOnce() throws IOException {
        int[] tried = new int[1];
        DirectReads.Probe probe =
                file -> {
                    tried[0]++;
                    throw new RocksDBException("Invalid argument");
                };
        ConcurrentMap<Object, Boolean> known = new ConcurrentHashMap<>();
        DirectReads one = new DirectReads(true, probe, known);
        DirectReads other = new DirectReads(true, probe, known);
        Path another = Files.createDirectory(directory.resolve("another"));
        List<String> warnings =
                Logged.by(
                        DirectReads.class,
                        () -> {
                            for (DirectReads reads : List.of(one, one, other)) {
                                assertThat(reads.in(directory)).isFalse();
                                assertThat(reads.in(another)).isFalse();
                            }
                        });
        assertThat(warnings)
                .singleElement()
                .asString()
                .contains(directory.toString(), "Invalid argument", "direct_reads: false");
        assertThat(tried[0]).isOne();
    }

    @Test
    void aFileSystemThatCanIsNotWarnedOf() {
        DirectReads possible = reads(true, new int[1]);
        assertThat(Logged.by(DirectReads.class, () -> possible.in(directory))).isEmpty();
    }

    private static DirectReads reads(boolean wanted, int[] tried) {
        return new DirectReads(wanted, file -> tried[0]++, new ConcurrentHashMap<>());
    }

    @Test
    void byDefaultWhereTheBlockCacheHasMostOfTheMemory() {
        long spare = RocksSettings.spareMemory();
        assertThat(settings(Map.of()).memory()).isEqualTo(Math.max(64L << 20, spare / 2));
        assertThat(settings(Map.of()).directReads()).isTrue();
        assertThat(settings(Map.of("memory", spare / 2 + 1 + "B")).directReads()).isTrue();
        assertThat(settings(Map.of("memory", spare / 2 - 1 + "B")).directReads()).isFalse();
        assertThat(settings(Map.of("memory", "64MiB", "direct_reads", "true")).directReads())
                .isTrue();
        assertThat(settings(Map.of("direct_reads", "false")).directReads()).isFalse();
        assertThatThrownBy(() -> settings(Map.of("direct_reads", "yes")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("direct_reads")
                .hasMessageContaining("'yes'");
    }

    /** A full disk, or a folder that cannot be written to, says nothing of the file system. */
    @Test
    void whatCannotBeTriedIsTriedAgain() throws IOException {
        DirectReads reads = new DirectReads(true);
        assertThat(reads.in(directory.resolve("missing"))).isFalse();
        int[] tried = new int[1];
        DirectReads counted = reads(true, tried);
        Path file = Files.createFile(directory.resolve("file"));
        assertThat(counted.in(file)).isFalse();
        assertThat(counted.in(directory)).isTrue();
        assertThat(tried[0]).isOne();
    }

    /** Nothing else has them: a second read asks no disk. */
    @Test
    void largeCellsAreInTheBlockCache() throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)");
        try (StorageEngine engine =
                        Tables.engine(
                                Map.of(
                                        "memory", "32MiB",
                                        "direct_reads", "true",
                                        "large_cell", "1KiB"));
                TableStore store =
                        engine.openStore(
                                new StoreSpec(directory.resolve("1"), "t", 1, table.ref()))) {
            String value = "large".repeat(100_000);
            store.write(table.update("k").at(1).row().set("v", value).build());
            store.flush();
            long before = blockCache(engine);
            for (int i = 0; i < 2; i++)
                try (var read = store.read(table.key("k"), Slices.ALL, table.all(), false)) {
                    assertThat(read).isNotNull().hasNext();
                }
            assertThat(blockCache(engine) - before).isBetween(500_000L, 600_000L);
        }
    }

    private static long blockCache(StorageEngine engine) {
        return engine.statistics().cacheBytes();
    }

    private static RocksSettings settings(Map<String, String> settings) {
        return RocksSettings.of(new EngineSettings(settings));
    }
}
