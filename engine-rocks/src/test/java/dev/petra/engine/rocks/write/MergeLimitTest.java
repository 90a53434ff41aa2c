// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.write;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntConsumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;

/** A large row that is written bit by bit does not fill write buffers with copies of itself. */
class MergeLimitTest {
    private static final int WRITES = 20_000;

    /** Fewer than those of which one copies the row. */
    private static final int LOOK_EVERY = 50;

    private static final Pattern LIMIT =
            Pattern.compile(
                    "\\[CFOptions \"default\"\\].*?\\smax_successive_merges=(\\d+)",
                    Pattern.DOTALL);

    @TempDir Path directory;
    private final TestTable table =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, v text, m map<text,text>, PRIMARY KEY (k, c))");
    private StorageEngine engine;

    @BeforeEach
    void open() {
        engine = Tables.engine();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private TableStore open(String name) {
        return Tables.open(engine, directory.resolve(name), table.metadata());
    }

    /** By how much the write buffers of rows grow while something is written. */
    private static long growth(TableStore store, IntConsumer write) throws RocksDBException {
        Database database = Tables.context(store).database();
        long grown = 0;
        long before = 0;
        for (int i = 0; i < WRITES; i++) {
            write.accept(i);
            if (i % LOOK_EVERY != 0) continue;
            long size =
                    database.db.getLongProperty(database.data, "rocksdb.cur-size-active-mem-table");
            grown += size < before ? size : size - before;
            before = size;
            Tables.tick(store);
        }
        return grown;
    }

    private void writeElement(TableStore store, int c, int i) {
        store.write(
                table.update("k")
                        .at(i + 1)
                        .row(c)
                        .put("m", "element %05d".formatted(i), "value %05d".formatted(i))
                        .build());
    }

    /** What new write buffers of rows get. */
    private static int limit(TableStore store) throws IOException {
        try (Stream<Path> files = Files.list(Tables.context(store).directory())) {
            Path newest =
                    files.filter(file -> file.getFileName().toString().matches("OPTIONS-\\d+"))
                            .max(Comparator.comparing(file -> file.getFileName().toString()))
                            .orElseThrow();
            Matcher limit = LIMIT.matcher(Files.readString(newest));
            assertThat(limit.find()).isTrue();
            return Integer.parseInt(limit.group(1));
        }
    }

    private int elements(TableStore store) {
        try (UnfilteredRowIterator rows =
                store.read(table.key("k"), Slices.ALL, table.all(), false)) {
            Row row = (Row) rows.next();
            return row.getComplexColumnData(table.column("m")).cellsCount();
        }
    }

    @Test
    void aRowOfManyElementsTakesLittleMoreThanThese() throws RocksDBException, IOException {
        TableStore rows = open("rows");
        long apart = growth(rows, i -> writeElement(rows, i, i));
        assertThat(limit(rows)).isEqualTo(64);
        TableStore row = open("row");
        long together = growth(row, i -> writeElement(row, 1, i));
        // 50 times as much if each 64th write copies the row.
        assertThat(together).isLessThan(12 * apart);
        assertThat(limit(row)).isGreaterThan(64);
        assertThat(elements(row)).isEqualTo(WRITES);
        row.flush();
        assertThat(elements(row)).isEqualTo(WRITES);
    }

    @Test
    void aSmallRowIsReconciledAsOftenAsBeforeHoweverOftenItIsWritten()
            throws RocksDBException, IOException {
        TableStore store = open("1");
        growth(
                store,
                i ->
                        store.write(
                                table.update("k").at(i + 1).row(1).set("v", "value " + i).build()));
        assertThat(limit(store)).isEqualTo(64);
    }

    @Test
    void anHourLaterItIsAsAtFirst() throws RocksDBException, IOException {
        TableStore store = open("1");
        Database database = Tables.context(store).database();
        AtomicLong now = new AtomicLong();
        // As if nearly nothing had been written of what is in the write buffer.
        MergeLimit limit =
                new MergeLimit(
                        new AtomicLong()::incrementAndGet,
                        Tables.context(store).settings(),
                        now::get);
        assertThat(limit.follow(database)).isFalse();
        String value = "x".repeat(10_000);
        int rows = 0;
        while (!limit.follow(database)) {
            assertThat(rows).isLessThan(1_000);
            store.write(table.update("k").row(rows).set("v", value).build());
            rows++;
        }
        // Once may be chance: a MiB tells it, and then another one.
        assertThat(rows).isGreaterThan(200);
        assertThat(limit(store)).isEqualTo(512);
        now.addAndGet(TimeUnit.MINUTES.toNanos(59));
        assertThat(limit.follow(database)).isFalse();
        assertThat(limit(store)).isEqualTo(512);
        now.addAndGet(TimeUnit.MINUTES.toNanos(2));
        assertThat(limit.follow(database)).isFalse();
        assertThat(limit(store)).isEqualTo(64);
    }
}
