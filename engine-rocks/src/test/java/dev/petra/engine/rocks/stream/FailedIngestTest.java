// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.nativelib.Preloaded;
import dev.petra.engine.stream.StreamSink;
import dev.petra.streaming.ChildJvm;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.util.PathUtils;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A disk that fails where the MANIFEST is synced that names the files of a stream ({@code
 * failedsync.cpp}): the MANIFEST may have them, and the store opens all the same.
 */
@Tag("slow")
class FailedIngestTest {
    private static final int ROWS = 100;
    private static final String GATE = "gate";
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v text)");

    /** What becomes of the store. */
    enum End {
        OPEN,
        CLOSED,

        /** Another thread has begun to close it when the ingest fails. */
        CLOSING,

        /** The process ends before it has linked again what RocksDB has unlinked. */
        KILLED,

        /** What RocksDB has unlinked cannot be linked again before the next start. */
        UNLINKED
    }

    @TempDir static Path libraries;
    private static Path library;

    @TempDir Path directory;

    @BeforeAll
    static void compile() throws IOException, InterruptedException {
        library = Preloaded.compile("failedsync", libraries);
    }

    private static void write(TableStore store, int key, String value) {
        PartitionUpdate.SimpleBuilder update = Tables.update(TABLE, key);
        update.row().add("v", value);
        store.write(update.build());
    }

    private static StorageEngine engine() {
        return Tables.engine(Map.of("memory", "32MiB", "large_cell", "1KiB"));
    }

    /** Ingests a stream, which fails. */
    static final class Receiving {
        private Receiving() {}

        /** Directory, length of values, and what becomes of the store. */
        public static void main(String[] args) throws Exception {
            End end = End.valueOf(args[2]);
            StorageEngine engine = engine();
            TableStore from = Tables.open(engine, Path.of(args[0], "from"), TABLE);
            TableStore to = Tables.open(engine, Path.of(args[0], "to"), TABLE);
            write(to, -1, "there");
            String value = "v".repeat(Integer.parseInt(args[1]));
            for (int k = 0; k < ROWS; k++) write(from, k, value);
            SentStream sent = SentStream.of(from);
            CompletableFuture<Void> closed =
                    end == End.CLOSING
                            ? CompletableFuture.runAsync(() -> close(to, Path.of(args[0], GATE)))
                            : CompletableFuture.completedFuture(null);
            try (StreamSink in = to.receive(sent.head(), RangeTests.everything())) {
                sent.stagedBy(in);
                in.verify();
                assertThrows(FSWriteError.class, in::ingest);
                if (end == End.KILLED) {
                    unlink(Path.of(args[0], "to"));
                    halt();
                }
            }
            closed.get(2, TimeUnit.MINUTES);
            if (end == End.CLOSED) to.close();
            halt();
        }

        private static void halt() {
            System.out.println("failed");
            Runtime.getRuntime().halt(0);
        }

        private static void unlink(Path store) throws IOException {
            int links = 0;
            try (var files = Files.newDirectoryStream(store, "*.sst")) {
                for (Path file : files)
                    if ((int) Files.getAttribute(file, "unix:nlink") > 1) {
                        Files.delete(file);
                        links++;
                    }
            }
            assertThat(links).isPositive();
        }

        /** Begins that where the MANIFEST is about to fail, which it does from then on. */
        private static void close(TableStore store, Path gate) {
            Tables.await("the failure", () -> Files.exists(gate));
            CompletableFuture<Void> closed = CompletableFuture.runAsync(store::close);
            try {
                Tables.await("the close", () -> Tables.context(store).reopenable().isShut());
            } finally {
                PathUtils.delete(gate);
            }
            closed.join();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "100, OPEN",
        "100, CLOSED",
        "100, CLOSING",
        "100, KILLED",
        "100, UNLINKED",
        "2000, OPEN",
        "2000, CLOSED",
        "2000, CLOSING",
        "2000, KILLED",
        "2000, UNLINKED"
    })
    void theStoreOpensAgain(int length, End end) throws Exception {
        File said = directory.resolve("said").toFile();
        ProcessBuilder builder =
                new ProcessBuilder(
                                ChildJvm.command(
                                        List.of(
                                                Receiving.class.getName(),
                                                directory.toString(),
                                                "" + length,
                                                end.name())))
                        .redirectErrorStream(true)
                        .redirectOutput(said);
        builder.environment().put("LD_PRELOAD", library.toString());
        builder.environment()
                .put("PETRA_STAGED", directory.resolve("to/" + StoreDescriptor.STREAMS) + "");
        if (end == End.CLOSING)
            builder.environment().put("PETRA_GATE", directory.resolve(GATE).toString());
        if (end == End.UNLINKED) builder.environment().put("PETRA_UNLINKED", "");
        assertThat(builder.start().waitFor()).as(Files.readString(said.toPath())).isZero();
        assertThat(Files.readString(said.toPath())).contains("failed");
        try (StorageEngine engine = engine()) {
            TableStore to = Tables.open(engine, directory.resolve("to"), TABLE);
            assertThat(directory.resolve("to/" + StoreDescriptor.STREAMS)).doesNotExist();
            assertThat(rows(to)).isGreaterThan(0);
            write(to, -2, "after");
            to.flush();
            to.compact(List.of());
            // All that the MANIFEST has, or nothing: the large cells came first.
            assertThat(rows(to)).isEqualTo(2 + (length < 1024 ? ROWS : 0));
        }
    }

    private static int rows(TableStore store) {
        int rows = 0;
        try (UnfilteredPartitionIterator all =
                store.scan(DataRange.allData(TABLE.partitioner), ColumnFilter.all(TABLE))) {
            while (all.hasNext())
                try (UnfilteredRowIterator partition = all.next()) {
                    Row row = (Row) partition.next();
                    if (row.cells().iterator().next().valueSize() > 0) rows++;
                }
        }
        return rows;
    }
}
