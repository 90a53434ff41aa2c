// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.cassandra.db.Slices;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** RocksDB keeps blob files without a footer for good; the next opening removes them. */
class UnfinishedBlobFilesTest {
    private static final int ROWS = 3000;

    @TempDir Path directory;
    private final StorageEngine engine =
            Tables.engine(Map.of("memory", "32MiB", "write_buffer", "64KiB", "large_cell", "1B"));
    private final TestTable table =
            TestTable.of("CREATE TABLE t (k int, c int, v blob, PRIMARY KEY (k, c))");

    @AfterEach
    void close() {
        engine.close();
    }

    private TableStore open() {
        return engine.openStore(table.spec(directory));
    }

    private void write(TableStore store, int seed) {
        Random random = new Random(seed);
        for (int row = 0; row < ROWS; row++) {
            byte[] value = new byte[200];
            random.nextBytes(value);
            store.write(table.update(1).at(1).row(row).set("v", ByteBuffer.wrap(value)).build());
        }
        store.flush();
    }

    private Set<Path> blobs() throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(file -> file.toString().endsWith(".blob"))
                    .collect(Collectors.toSet());
        }
    }

    private Set<Path> unfinished() throws IOException {
        Set<Path> unfinished = blobs();
        for (Path file : blobs()) if (BlobFiles.isFinished(file)) unfinished.remove(file);
        return unfinished;
    }

    @Test
    void whatAnEndedCompactionLeftGoesAndNothingElse() throws IOException {
        TableStore store = open();
        write(store, 1);
        store.close();
        Set<Path> before = blobs();
        byte[] whole = Files.readAllBytes(before.iterator().next());
        Path empty = Files.createFile(directory.resolve("000001.blob"));
        Path cut = directory.resolve("000002.blob");
        Files.write(cut, Arrays.copyOf(whole, whole.length - 1));
        // An interrupt is no reason to leave them.
        Thread.currentThread().interrupt();
        try {
            store = open();
        } finally {
            assertThat(Thread.interrupted()).as("it stays interrupted").isTrue();
        }
        assertThat(empty).doesNotExist();
        assertThat(cut).doesNotExist();
        store.rewrite();
        store.verify();
        String text = Tables.text(store.read(table.key(1), Slices.ALL, table.all(), false));
        assertThat(text.lines()).hasSize(ROWS + 1);
    }

    @Test
    void noneIsLeftByAStoreThatIsClosedWhileItCompacts() throws IOException {
        boolean met = false;
        // As often as it takes; seconds, on a machine that does nothing else.
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        for (int i = 0; !met && System.nanoTime() - end < 0; i++) {
            TableStore store = open();
            write(store, i);
            store.close();
            Set<Path> unfinished = unfinished();
            met = !unfinished.isEmpty();
            store = open();
            for (Path file : unfinished) assertThat(file).doesNotExist();
            store.close();
        }
        assertThat(met).as("a compaction was ended").isTrue();
    }
}
