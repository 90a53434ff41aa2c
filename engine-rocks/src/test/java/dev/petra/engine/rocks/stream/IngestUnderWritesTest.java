// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.stream.StreamSink;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;

/** A bootstrap: hundreds of files come to a table that is written to all the while. */
class IngestUnderWritesTest {
    private static final TableMetadata TABLE =
            Tables.table(
                    "CREATE TABLE t (k int PRIMARY KEY, v blob) WITH compression = {'enabled':"
                            + " false}");
    private static final int ROWS = 14_000;
    private static final int WRITTEN_FROM = 1_000_000;

    @TempDir Path directory;

    private static void write(TableStore store, Random random, int key, int bytes) {
        byte[] value = new byte[bytes];
        random.nextBytes(value);
        PartitionUpdate.SimpleBuilder update = Tables.update(TABLE, key);
        update.row().add("v", ByteBuffer.wrap(value));
        store.write(update.build());
    }

    private static boolean has(TableStore store, int key) {
        try (UnfilteredRowIterator rows =
                store.read(Tables.key(TABLE, key), Slices.ALL, ColumnFilter.all(TABLE), false)) {
            return rows != null && rows.hasNext();
        }
    }

    /** 378 of 378 once went to level 0: writes were stopped, then refused. */
    @Test
    void level0StaysFarFromWhereWritesAreSlowed() throws Exception {
        try (StorageEngine engine =
                Tables.engine(
                        Map.of(
                                "memory", "64MiB",
                                "write_buffer", "2MiB",
                                "stream_part", "64KiB"))) {
            TableStore from = Tables.open(engine, directory.resolve("from"), TABLE);
            TableStore to = Tables.open(engine, directory.resolve("to"), TABLE);
            Random random = new Random(1);
            for (int i = 0; i < ROWS; i++) write(from, random, i, 2_000);

            AtomicBoolean done = new AtomicBoolean();
            AtomicLong written = new AtomicLong();
            AtomicLong longest = new AtomicLong();
            AtomicLong level0 = new AtomicLong();
            List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
            List<Thread> threads = new ArrayList<>();
            threads.add(
                    new Thread(
                            () -> {
                                Random values = new Random(2);
                                while (!done.get()) {
                                    long start = System.nanoTime();
                                    write(
                                            to,
                                            values,
                                            WRITTEN_FROM + (int) written.getAndIncrement(),
                                            500);
                                    longest.accumulateAndGet(System.nanoTime() - start, Math::max);
                                    LockSupport.parkNanos(1_000_000);
                                }
                            }));
            threads.add(
                    new Thread(
                            () -> {
                                while (!done.get()) {
                                    level0.accumulateAndGet(level0(to), Math::max);
                                    LockSupport.parkNanos(2_000_000);
                                }
                            }));
            for (Thread thread : threads) {
                thread.setUncaughtExceptionHandler((t, e) -> failures.add(e));
                thread.start();
            }
            int files;
            SentStream sent = SentStream.of(from);
            try (StreamSink in = to.receive(sent.head(), RangeTests.everything())) {
                sent.stagedBy(in);
                try (var staged =
                        Files.walk(directory.resolve("to").resolve(StoreDescriptor.STREAMS))) {
                    files =
                            (int)
                                    staged.filter(
                                                    path ->
                                                            path.toString()
                                                                    .matches(".*/streams/.*sst"))
                                            .count();
                }
                in.verify();
                longest.set(0);
                while (in.ingest()) in.prepare();
            }
            Map<String, Long> metrics = to.metrics();
            done.set(true);
            for (Thread thread : threads) thread.join();
            assertThat(failures).isEmpty();
            System.out.printf(
                    "IngestUnderWritesTest: %d files, %d writes meanwhile, the longest %d us; level"
                            + " 0 had %d files at most, at the end %s%n",
                    files, written.get(), longest.get() / 1_000, level0.get(), metrics);
            assertThat(files).isGreaterThan(200);
            // RocksDB slows writes down from 20 on.
            assertThat(level0.get()).isLessThanOrEqualTo(16);
            assertThat(metrics)
                    .containsEntry("stalls_delayed", 0L)
                    .containsEntry("stalls_stopped", 0L);
            for (int i = 0; i < ROWS; i++) assertThat(has(to, i)).isTrue();
            for (int i = 0; i < written.get(); i += 7)
                assertThat(has(to, WRITTEN_FROM + i)).isTrue();
        }
    }

    private static long level0(TableStore store) {
        Database database = Tables.context(store).database();
        try {
            return Long.parseLong(
                    database.db.getProperty(database.data, "rocksdb.num-files-at-level0"));
        } catch (RocksDBException e) {
            throw new IllegalStateException(e);
        }
    }
}
