// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.SmallDisk;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.nativelib.Preloaded;
import dev.petra.streaming.ChildJvm;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What {@code syncAcknowledged} has returned for, so that the commit log may say more, is there
 * after a loss of power; in batch and group mode, all that was acknowledged. A process writes and
 * is killed; of each file is left what had been synced ({@code powerloss.cpp}), and of logs any
 * page of what had not.
 */
class PowerLossTest {
    private static final int STORES = 2;
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    /** Of the file system, in which a log is written. */
    private static final int PAGE = 4 << 10;

    private static final Pattern FILE =
            Pattern.compile("([0-9]+) (?:-|\\S+ [0-9:]+\\.([0-9]+) \\S+) (/.*)");

    private static final Pattern PROMISE = Pattern.compile("([0-9]+) ([0-9]+)");

    private static final UUID INDEX = new UUID(0, 1);

    @TempDir static Path libraries;
    private static Path library;

    @TempDir Path directory;
    private int copies;

    @BeforeAll
    static void compile() throws IOException, InterruptedException {
        library = Preloaded.compile("powerloss", libraries);
    }

    private static TableMetadata table(int store) {
        return Tables.table("CREATE TABLE t (k int PRIMARY KEY, v blob)")
                .unbuild()
                .id(TableId.fromString("00000000-0000-0000-0000-00000000000" + store))
                .build();
    }

    private static StorageEngine engine(boolean fills) {
        return Tables.engine(
                Map.of(
                        "memory",
                        "32MiB",
                        "write_buffer",
                        // Where the disk is to be full of the log.
                        fills ? "16MiB" : "256KiB",
                        "large_cell",
                        "4KiB",
                        "direct_reads",
                        Boolean.toString(SEED % 2 == 0)));
    }

    private static ByteBuffer value(int row) {
        Random random = new Random(row);
        byte[] value = new byte[random.nextInt(10) == 0 ? 8_000 : random.nextInt(2_000)];
        random.nextBytes(value);
        return ByteBuffer.wrap(value);
    }

    private static ByteBuffer term(int row) {
        return ByteBufferUtil.bytes(row % 10);
    }

    /** The process. It says which rows of which store the commit log may build upon. */
    static final class Writing {
        private Writing() {}

        /** What it says when there is no room for a store's write. */
        static final String FULL = "full";

        /** Directory, seed, mode, whether it fills its disk. */
        public static void main(String[] args) {
            Random random = new Random(Long.parseLong(args[1]));
            WalSync mode = WalSync.valueOf(args[2]);
            boolean fills = Boolean.parseBoolean(args[3]);
            StorageEngine engine = engine(fills);
            engine.walSync(
                    mode, mode == WalSync.PERIODIC ? Duration.ofHours(1) : Duration.ofMillis(2));
            List<TableStore> stores = new ArrayList<>();
            AtomicIntegerArray acknowledged = new AtomicIntegerArray(STORES);
            for (int s = 0; s < STORES; s++) {
                stores.add(Tables.open(engine, Path.of(args[0], "" + s), table(s)));
                stores.get(s).indexes().define(INDEX);
                int store = s;
                new Thread(() -> write(stores.get(store), acknowledged, store)).start();
            }
            // Who asks while another's sync is under way must not be told that there is nothing.
            new Thread(() -> sync(engine, stores, acknowledged, new Random(1), fills)).start();
            sync(engine, stores, acknowledged, random, fills);
        }

        private static void sync(
                StorageEngine engine,
                List<TableStore> stores,
                AtomicIntegerArray acknowledged,
                Random random,
                boolean fills) {
            while (true) {
                int[] before = IntStream.range(0, STORES).map(acknowledged::get).toArray();
                int only = random.nextInt(2 * STORES);
                try {
                    engine.syncAcknowledged(id -> only >= STORES || id.equals(table(only).id));
                } catch (WriteStallException e) {
                    // The commit log goes on.
                    assertThat(e.isDiskFull()).isTrue();
                }
                for (int s = 0; s < STORES; s++)
                    if (before[s] > 0 && (only >= STORES || only == s))
                        System.out.println(s + " " + before[s]);
                // Nobody kills it where the test was killed, and it would fill the disk.
                if (System.out.checkError()) Runtime.getRuntime().halt(1);
                LockSupport.parkNanos(random.nextInt(fills ? 50_000_000 : 5_000_000));
                if (!fills && random.nextInt(20) == 0) stores.get(random.nextInt(STORES)).flush();
            }
        }

        private static void write(TableStore to, AtomicIntegerArray acknowledged, int store) {
            for (int row = 0; row < 100_000; row++) {
                PartitionUpdate.SimpleBuilder update = Tables.update(table(store), row);
                update.row().add("v", value(row));
                try {
                    to.write(
                            update.build(),
                            List.of(new TermEntry(INDEX, term(row), Clustering.EMPTY)));
                } catch (WriteStallException e) {
                    assertThat(e.isDiskFull()).isTrue();
                    System.out.println(FULL);
                    return;
                }
                acknowledged.set(store, row + 1);
                LockSupport.parkNanos(50_000);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(WalSync.class)
    void whatWasSaidToBeSyncedIsThereAfterALossOfPower(WalSync mode) throws Exception {
        Random random = new Random(SEED);
        int kept = 0;
        int lost = 0;
        for (int round = 0; round < 2; round++) {
            Path disk = Files.createDirectories(directory.resolve(mode + "" + round + "/disk"));
            Path synced = Files.createDirectory(disk.resolveSibling("synced"));
            int[] promised = run(disk.toRealPath(), synced, mode, random, false);
            for (int s = 0; s < STORES; s++) {
                String what = "seed " + SEED + ", round " + round + ", store " + s;
                lost += lost(disk.resolve("" + s), synced, s, promised[s], what, random);
                kept += promised[s];
            }
        }
        assertThat(kept).as("seed %d", SEED).isPositive();
        // Or it would say nothing that the rest is there.
        if (mode == WalSync.PERIODIC) assertThat(lost).as("seed %d", SEED).isPositive();
    }

    /** A log that a write found no room in is synced no more by RocksDB. */
    @Test
    void andWhereTheDiskIsFull() throws Exception {
        Random random = new Random(SEED);
        Path synced = Files.createDirectory(directory.resolve("synced"));
        Path mounted = Files.createDirectory(directory.resolve("disk"));
        try (SmallDisk small = SmallDisk.mount(mounted, "12m")) {
            Path disk = small.directory().toRealPath();
            int[] promised = run(disk, synced, WalSync.PERIODIC, random, true);
            for (int s = 0; s < STORES; s++) {
                String what = "seed " + SEED + ", store " + s;
                assertThat(promised[s]).as(what).isPositive();
                // All but the write that found no room.
                assertThat(lost(disk.resolve("" + s), synced, s, promised[s], what, random))
                        .as(what)
                        .isLessThanOrEqualTo(1);
            }
        }
    }

    /** How many rows that were written a loss of power may take. */
    private int lost(Path store, Path synced, int number, int promised, String what, Random random)
            throws Exception {
        int written = rows(left(store, synced, Left.ALL, random), number, what);
        int least = rows(left(store, synced, Left.SYNCED, random), number, what);
        assertThat(least).as(what).isBetween(promised, written);
        for (int i = 0; i < 2; i++)
            assertThat(rows(left(store, synced, Left.TORN, random), number, what))
                    .as(what)
                    .isBetween(promised, written);
        return written - least;
    }

    /**
     * Kills it in the midst, or when its disk has been full for a while; returns how many rows of
     * each store must be there.
     */
    private int[] run(Path disk, Path synced, WalSync mode, Random random, boolean fills)
            throws Exception {
        List<String> command =
                ChildJvm.command(
                        List.of(
                                Writing.class.getName(),
                                disk.toString(),
                                "" + random.nextLong(),
                                mode.name(),
                                "" + fills));
        File said = directory.resolve("said").toFile();
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(said);
        builder.environment().put("LD_PRELOAD", library.toString());
        builder.environment().put("PETRA_DISK", disk.toString());
        builder.environment().put("PETRA_SYNCED", synced.toString());
        int[] promised = new int[STORES];
        int lines = fills ? Integer.MAX_VALUE : 30 + random.nextInt(100);
        int full = 0;
        Process writing = builder.start();
        try (BufferedReader out = writing.inputReader()) {
            String line;
            while ((line = out.readLine()) != null) {
                if (line.equals(Writing.FULL) && ++full == STORES) lines = 20;
                Matcher promise = PROMISE.matcher(line);
                if (!promise.matches()) continue;
                int store = Integer.parseInt(promise.group(1));
                promised[store] = Math.max(promised[store], Integer.parseInt(promise.group(2)));
                // Its stream stays open: it is read to its end.
                if (--lines == 0) writing.toHandle().destroyForcibly();
            }
        } finally {
            writing.destroyForcibly().waitFor();
        }
        assertThat(lines).as(Files.readString(said.toPath())).isNotPositive();
        return promised;
    }

    /** What a loss of power leaves of a file. */
    private enum Left {
        ALL,
        SYNCED,
        /** Of a log, each page as it was synced or as it was written last. */
        TORN
    }

    private Path left(Path store, Path synced, Left left, Random random) throws Exception {
        Path copy = directory.resolve("left" + ++copies);
        Files.createDirectory(copy);
        List<String> command = new ArrayList<>(List.of("stat", "-c", "%i %w %n"));
        try (var files = Files.list(store)) {
            files.filter(Files::isRegularFile).forEach(file -> command.add(file.toString()));
        }
        Process stat = new ProcessBuilder(command).start();
        try (BufferedReader out = stat.inputReader()) {
            for (String line = out.readLine(); line != null; line = out.readLine()) {
                Matcher file = FILE.matcher(line);
                assertThat(file.matches()).as(line).isTrue();
                Path path = Path.of(file.group(3));
                String birth = file.group(2) == null ? "0" : file.group(2);
                Path kept = synced.resolve(file.group(1) + "-" + Integer.parseInt(birth));
                byte[] all = Files.readAllBytes(path);
                byte[] old = Files.exists(kept) ? Files.readAllBytes(kept) : new byte[0];
                String name = String.valueOf(path.getFileName());
                byte[] bytes =
                        switch (left) {
                            case ALL -> all;
                            case SYNCED -> old;
                            case TORN ->
                                    name.endsWith(".log") || name.equals(SyncMark.NAME)
                                            ? torn(old, all, random)
                                            : old;
                        };
                Files.write(copy.resolve(name), bytes);
            }
        }
        assertThat(stat.waitFor()).isZero();
        return copy;
    }

    private static byte[] torn(byte[] old, byte[] all, Random random) {
        byte[] torn = Arrays.copyOf(old, random.nextBoolean() ? old.length : all.length);
        for (int at = 0; at < Math.min(torn.length, all.length); at += PAGE)
            if (random.nextBoolean())
                System.arraycopy(
                        all, at, torn, at, Math.min(PAGE, Math.min(torn.length, all.length) - at));
        return torn;
    }

    private static Set<Integer> indexed(TableStore store) {
        Set<Integer> rows = new HashSet<>();
        if (store.indexes().states().isEmpty()) return rows;
        try (TermCursor entries = store.indexes().scan(INDEX, null, true, null, true)) {
            while (entries.next()) {
                int row = ByteBufferUtil.toInt(entries.key().getKey());
                assertThat(entries.term()).isEqualTo(term(row));
                rows.add(row);
            }
        }
        return rows;
    }

    /** How many there are, which must be the first ones, whole, and all in the index. */
    private static int rows(Path disk, int store, String what) {
        TableMetadata table = table(store);
        List<Integer> numbers = new ArrayList<>();
        try (StorageEngine engine = engine(false);
                TableStore opened = Tables.open(engine, disk, table);
                UnfilteredPartitionIterator all =
                        opened.scan(
                                DataRange.allData(table.partitioner), ColumnFilter.all(table))) {
            while (all.hasNext())
                try (UnfilteredRowIterator partition = all.next()) {
                    int number = ByteBufferUtil.toInt(partition.partitionKey().getKey());
                    Row row = (Row) partition.next();
                    assertThat(row.cells().iterator().next().buffer())
                            .as("%s, row %d", what, number)
                            .isEqualTo(value(number));
                    numbers.add(number);
                }
            assertThat(indexed(opened)).as(what).isEqualTo(Set.copyOf(numbers));
        }
        numbers.sort(null);
        for (int i = 0; i < numbers.size(); i++) assertThat(numbers.get(i)).as(what).isEqualTo(i);
        return numbers.size();
    }
}
