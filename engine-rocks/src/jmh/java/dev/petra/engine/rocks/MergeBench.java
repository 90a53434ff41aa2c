// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.DirectoryTree;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Random;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.StringAppendOperator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/**
 * What native merging costs: a compaction of 8 files that each have a fragment of every row,
 * natively and by appending; and point reads of a row with so many fragments in the write buffer.
 * {@code mvn -pl engine-rocks -am -P merge-bench verify -DskipTests}
 */
public final class MergeBench {
    private static final int ROWS = 200_000;
    private static final int FILES = 8;
    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k text, c int, v text, w text, PRIMARY KEY (k, c))");

    private MergeBench() {}

    /** Prints the figures. */
    public static void main(String[] arguments) throws Exception {
        Tables.engine().close();
        System.out.println("| compaction | MB/s in | bytes left |\n|---|---|---|");
        for (int round = 0; round < 3; round++) {
            compaction("native", true);
            compaction("appending", false);
        }
        System.out.println("| point read | µs | against 1 |\n|---|---|---|");
        Path directory = Files.createTempDirectory("merge-bench");
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = Tables.open(engine, directory.resolve("1"), TABLE.metadata());
            double one = 0;
            for (int fragments : new int[] {1, 4, 16, 63, 100_000}) {
                String key = "k" + fragments;
                for (int i = 0; i < fragments; i++)
                    store.write(
                            TABLE.update(key)
                                    .at(i)
                                    .row(1)
                                    .set("v", "value " + i)
                                    .set("w", "w" + i)
                                    .build());
                double micros = read(store, key);
                if (fragments == 1) one = micros;
                System.out.printf(
                        Locale.ROOT,
                        "| written %d times, unflushed | %.2f | %.1f |%n",
                        fragments,
                        micros,
                        micros / one);
            }
            store.flush();
            System.out.printf(
                    Locale.ROOT, "| written 1 time, flushed | %.2f | |%n", read(store, "k1"));
            System.out.printf(
                    Locale.ROOT,
                    "| written 100000 times, flushed | %.2f | |%n",
                    read(store, "k100000"));
        }
        DirectoryTree.delete(directory);
    }

    private static double read(TableStore store, String key) {
        var partition = TABLE.key(key);
        Slices slices = TABLE.slices(TABLE.prefix(1));
        var columns = TABLE.only("v", "w");
        long best = Long.MAX_VALUE;
        for (int round = 0; round < 20; round++) {
            long start = System.nanoTime();
            for (int i = 0; i < 5_000; i++)
                try (UnfilteredRowIterator rows = store.read(partition, slices, columns, false)) {
                    if (!rows.hasNext()) throw new AssertionError("no row");
                    rows.next();
                }
            best = Math.min(best, System.nanoTime() - start);
        }
        return best / 5e6;
    }

    private static void compaction(String name, boolean natively) throws Exception {
        Path directory = Files.createTempDirectory("merge-bench");
        Random random = new Random(1);
        try (Options base = new Options();
                Reconciler reconciler = new Reconciler();
                StringAppendOperator append = new StringAppendOperator("")) {
            if (natively) reconciler.install(base, false);
            else base.setMergeOperator(append);
            base.setCreateIfMissing(true).setDisableAutoCompactions(true);
            base.setWriteBufferSize(256 << 20);
            try (RocksDB db = RocksDB.open(base, directory.toString())) {
                long bytes = fill(db, random);
                long start = System.nanoTime();
                try (CompactRangeOptions options =
                        new CompactRangeOptions()
                                .setBottommostLevelCompaction(
                                        CompactRangeOptions.BottommostLevelCompaction.kForce)) {
                    db.compactRange(db.getDefaultColumnFamily(), null, null, options);
                }
                double seconds = (System.nanoTime() - start) / 1e9;
                System.out.printf(
                        Locale.ROOT,
                        "| %s | %.0f | %d MB |%n",
                        name,
                        bytes / seconds / 1e6,
                        db.getLongProperty("rocksdb.estimate-live-data-size") / 1_000_000);
            }
        }
        DirectoryTree.delete(directory);
    }

    private static long fill(RocksDB db, Random random) throws RocksDBException {
        long bytes = 0;
        String padding = "x".repeat(80);
        for (int file = 0; file < FILES; file++) {
            try (WriteOptions options = new WriteOptions().setDisableWAL(true);
                    WriteBatch batch = new WriteBatch()) {
                for (int row = 0; row < ROWS; row++) {
                    byte[] key = "key%09d".formatted(row).getBytes(StandardCharsets.UTF_8);
                    byte[] value = fragment(file, padding + random.nextInt(1_000_000));
                    batch.merge(key, value);
                    bytes += key.length + value.length;
                    if (row % 1_000 == 999) {
                        db.write(options, batch);
                        batch.clear();
                    }
                }
            }
            try (FlushOptions options = new FlushOptions().setWaitForFlush(true)) {
                db.flush(options);
            }
        }
        return bytes;
    }

    /** One cell of two: base, column, flags, length, value; docs/FORMAT.md. */
    private static byte[] fragment(int timestamp, String value) {
        byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
        ByteBuffer fragment = ByteBuffer.allocate(2 + 8 + 3 + bytes.length);
        fragment.put((byte) 0).put((byte) (8 + 3 + bytes.length));
        fragment.putLong(timestamp).put((byte) (timestamp % 2 * 2)).put((byte) 1);
        return fragment.put((byte) bytes.length).put(bytes).array();
    }
}
