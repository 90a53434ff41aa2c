// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.DirectoryTree;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.stream.Stream;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.EnvOptions;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.IngestExternalFileOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileWriter;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteBufferManager;
import org.rocksdb.WriteOptions;

/**
 * A database for each table, as the engine has it, against one database in which each table has
 * column families of its own: plain RocksDB with the engine's options for logs and files. Each
 * layout and number of tables is measured in a process of its own. {@code mvn -pl engine-rocks -am
 * -P shared-bench verify -DskipTests}
 */
public final class SharedDatabaseBench {
    private static final byte[] CATALOG = bytes("catalog");
    private static final int ROWS = 100;
    private static final int ROUNDS = 200;
    private static final long BUFFER = 16 << 20;
    private static final Random RANDOM = new Random(1);

    private final boolean shared;
    private final Path root;
    private final LRUCache cache = new LRUCache(64 << 20);
    private final WriteBufferManager buffers = new WriteBufferManager(256 << 20, cache);
    private final ColumnFamilyOptions family =
            new ColumnFamilyOptions()
                    .setTableFormatConfig(
                            new BlockBasedTableConfig()
                                    .setBlockCache(cache)
                                    .setCacheIndexAndFilterBlocks(true))
                    .setWriteBufferSize(BUFFER)
                    .setArenaBlockSize(64 << 10)
                    .setMaxWriteBufferNumber(3);
    private final WriteOptions writes = new WriteOptions();
    private final List<Database> databases = new ArrayList<>();

    /** One database and the column families of its tables, in pairs: rows, large cells. */
    private record Database(RocksDB db, DBOptions options, List<ColumnFamilyHandle> families) {}

    /** Where a table's rows are. */
    private record Table(RocksDB db, ColumnFamilyHandle rows, ColumnFamilyHandle large) {}

    private SharedDatabaseBench(boolean shared, Path root) {
        this.shared = shared;
        this.root = root;
    }

    /** Without arguments all, else one layout with so many tables. */
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            for (int round = 0; round < 2; round++)
                for (int tables : new int[] {1, 50, 500})
                    for (String layout : new String[] {"own", "shared"})
                        fork(layout, Integer.toString(tables));
            return;
        }
        RocksDB.loadLibrary();
        Path root = Files.createTempDirectory("shared-bench");
        try {
            new SharedDatabaseBench(arguments[0].equals("shared"), root)
                    .run(Integer.parseInt(arguments[1]));
        } finally {
            DirectoryTree.delete(root);
        }
    }

    private static void fork(String... arguments) throws Exception {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-Xms256m",
                                "-Xmx256m",
                                "-XX:+AlwaysPreTouch",
                                "-XX:+UseSerialGC",
                                "-cp",
                                System.getProperty("java.class.path"),
                                SharedDatabaseBench.class.getName()));
        command.addAll(List.of(arguments));
        ProcessBuilder child = new ProcessBuilder(command).inheritIO();
        child.environment().put("MALLOC_ARENA_MAX", "2");
        if (child.start().waitFor() != 0) throw new IllegalStateException("" + command);
    }

    private void run(int count) throws Exception {
        String what = (shared ? "shared" : "own") + " " + count;
        long began = System.nanoTime();
        List<Table> tables = create(count);
        say(what, "create, ms a table", millis(began) / count);
        for (Table table : tables) for (int i = 0; i < ROWS; i++) put(table, i, 200);
        began = System.nanoTime();
        for (Database database : databases) database.db.syncWal();
        say(what, "sync of all tables, ms", millis(began));
        say(what, "logs with rows, reopen, ms a table", reopen() / count);
        // Opening wrote the rows to files.
        say(what, "all flushed, reopen, ms a table", reopen() / count);
        say(what, "resident, KiB", status("VmRSS"));
        say(what, "disk, KiB", du());
        say(what, "descriptors", (double) files(Path.of("/proc/self/fd")));
        tables = tables();
        if (count > 1) {
            batches(what, tables);
            idle(what, tables);
            ingest(what, tables);
            drop(what);
        }
        close();
    }

    // What is compared

    /** A write of each of eight tables, and then durable. */
    private void batches(String what, List<Table> tables) throws RocksDBException {
        int several = Math.min(8, tables.size());
        double[] millis = new double[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            long began = System.nanoTime();
            if (shared) {
                try (WriteBatch batch = new WriteBatch();
                        WriteOptions sync = new WriteOptions().setSync(true)) {
                    for (int t = 0; t < several; t++)
                        batch.put(tables.get(t).rows, key(round), value(200));
                    tables.get(0).db.write(sync, batch);
                }
            } else
                for (int t = 0; t < several; t++) {
                    put(tables.get(t), round, 200);
                    tables.get(t).db.syncWal();
                }
            millis[round] = millis(began);
        }
        Arrays.sort(millis);
        say(what, "a durable write of " + several + " tables, P50 ms", millis[ROUNDS / 2]);
    }

    /** One table is written, the others hold a row each that is in no file. */
    private void idle(String what, List<Table> tables) throws Exception {
        for (Table table : tables) put(table, 1_000_000, 200);
        long before = files(root);
        for (int i = 0; i < 8 * BUFFER / 4096; i++) put(tables.get(0), i, 4000);
        say(what, "128 MB into one table: logs kept, MiB", logs() / 1048576.0);
        long idle = 0;
        for (Table table : tables.subList(1, tables.size()))
            if (!table.db
                    .getProperty(table.rows, "rocksdb.num-entries-active-mem-table")
                    .equals("0")) idle++;
        say(what, "idle tables that were not flushed for it", (double) idle);
        say(what, "files more", (double) (files(root) - before));
    }

    /** Files are ingested into one table while another is written. */
    private void ingest(String what, List<Table> tables) throws Exception {
        Table to = tables.get(0);
        Table other = tables.get(1);
        boolean[] ends = new boolean[1];
        List<Double> waits = new ArrayList<>();
        Thread writer =
                new Thread(
                        () -> {
                            try {
                                for (int i = 0; ; i++) {
                                    synchronized (ends) {
                                        if (ends[0]) return;
                                    }
                                    long began = System.nanoTime();
                                    put(other, i, 200);
                                    waits.add(millis(began));
                                }
                            } catch (RocksDBException e) {
                                throw new IllegalStateException(e);
                            }
                        });
        writer.start();
        for (int i = 0; i < 20; i++) {
            // Overlaps what is in the write buffer, which is flushed first.
            put(to, 5, 200);
            Path file = root.resolve("in" + i + ".sst");
            try (EnvOptions env = new EnvOptions();
                    Options options = new Options();
                    SstFileWriter out = new SstFileWriter(env, options);
                    IngestExternalFileOptions how =
                            new IngestExternalFileOptions().setMoveFiles(true)) {
                out.open(file.toString());
                for (int k = 0; k < 2000; k++) out.put(key(k), value(400));
                out.finish();
                to.db.ingestExternalFile(to.rows, List.of(file.toString()), how);
            }
        }
        synchronized (ends) {
            ends[0] = true;
        }
        writer.join();
        double[] sorted = waits.stream().mapToDouble(wait -> wait).sorted().toArray();
        say(what, "20 ingests: longest write to another table, ms", sorted[sorted.length - 1]);
        say(what, "20 ingests: its 21st longest write, ms", sorted[sorted.length - 21]);
    }

    /** Half of the tables. */
    private void drop(String what) throws Exception {
        long began = System.nanoTime();
        int dropped = 0;
        if (shared) {
            Database all = databases.get(0);
            List<ColumnFamilyHandle> families = all.families;
            dropped = (families.size() - 2) / 4;
            for (int t = 0; t < dropped; t++)
                for (int i = 0; i < 2; i++) {
                    ColumnFamilyHandle one = families.remove(families.size() - 1);
                    all.db.dropColumnFamily(one);
                    one.close();
                }
        } else {
            dropped = databases.size() / 2;
            for (int t = 0; t < dropped; t++) {
                Database one = databases.remove(databases.size() - 1);
                close(one);
                try (Options any = new Options()) {
                    RocksDB.destroyDB(root.resolve("" + databases.size()).toString(), any);
                }
            }
        }
        say(what, "drop, ms a table", millis(began) / Math.max(1, dropped));
    }

    // Both layouts

    private List<Table> create(int count) throws RocksDBException {
        if (!shared)
            for (int t = 0; t < count; t++) {
                databases.add(open(root.resolve("" + t)));
                add(databases.get(t));
            }
        else {
            databases.add(open(root.resolve("all")));
            for (int t = 0; t < count; t++) add(databases.get(0));
        }
        return tables();
    }

    private void add(Database database) throws RocksDBException {
        for (String kind : new String[] {"rows", "large"})
            database.families.add(
                    database.db.createColumnFamily(
                            new ColumnFamilyDescriptor(
                                    bytes(kind + database.families.size()), family)));
    }

    private List<Table> tables() {
        List<Table> tables = new ArrayList<>();
        for (Database database : databases)
            for (int i = 2; i < database.families.size(); i += 2)
                tables.add(
                        new Table(
                                database.db,
                                database.families.get(i),
                                database.families.get(i + 1)));
        return tables;
    }

    /** In milliseconds, without the closing. */
    private double reopen() throws RocksDBException {
        int count = databases.size();
        close();
        long began = System.nanoTime();
        for (int t = 0; t < count; t++) databases.add(open(root.resolve(shared ? "all" : "" + t)));
        return millis(began);
    }

    private Database open(Path directory) throws RocksDBException {
        DBOptions options =
                new DBOptions()
                        .setCreateIfMissing(true)
                        .setCreateMissingColumnFamilies(true)
                        .setWriteBufferManager(buffers)
                        .setMaxOpenFiles(-1)
                        .setRecycleLogFileNum(1)
                        .setAllowFAllocate(false)
                        .setMaxFileOpeningThreads(1)
                        .setMaxTotalWalSize(4 * BUFFER)
                        .setStatsDumpPeriodSec(0)
                        .setStatsPersistPeriodSec(0)
                        // The engine has a logger of its own.
                        .setInfoLogLevel(InfoLogLevel.FATAL_LEVEL);
        List<byte[]> names;
        try (Options any = new Options()) {
            names = RocksDB.listColumnFamilies(any, directory.toString());
        }
        if (names.isEmpty()) names = List.of(RocksDB.DEFAULT_COLUMN_FAMILY, CATALOG);
        List<ColumnFamilyHandle> families = new ArrayList<>();
        RocksDB db =
                RocksDB.open(
                        options,
                        directory.toString(),
                        names.stream()
                                .map(name -> new ColumnFamilyDescriptor(name, family))
                                .toList(),
                        families);
        return new Database(db, options, families);
    }

    private void close() {
        databases.forEach(SharedDatabaseBench::close);
        databases.clear();
    }

    private static void close(Database database) {
        database.families.forEach(ColumnFamilyHandle::close);
        database.db.close();
        database.options.close();
    }

    private void put(Table table, int key, int bytes) throws RocksDBException {
        table.db.put(table.rows, writes, key(key), value(bytes));
    }

    private static byte[] key(int number) {
        return ByteBuffer.allocate(8).putLong(number).array();
    }

    private static byte[] value(int bytes) {
        byte[] value = new byte[bytes];
        RANDOM.nextBytes(value);
        return value;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    // What the system says

    private static double millis(long since) {
        return (System.nanoTime() - since) / 1e6;
    }

    private static double status(String field) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status")))
            if (line.startsWith(field + ":")) return Double.parseDouble(line.replaceAll("\\D", ""));
        throw new IllegalStateException("no " + field);
    }

    private static long files(Path directory) throws IOException {
        try (Stream<Path> all = Files.walk(directory)) {
            return all.filter(file -> !Files.isDirectory(file)).count();
        }
    }

    private long logs() throws IOException {
        try (Stream<Path> all = Files.walk(root)) {
            return all.filter(file -> file.toString().endsWith(".log"))
                    .mapToLong(file -> file.toFile().length())
                    .sum();
        }
    }

    private double du() throws IOException {
        Process du = new ProcessBuilder("du", "-s", "--block-size=1024", root.toString()).start();
        String said = new String(du.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return Double.parseDouble(said.split("\\s", 2)[0]);
    }

    private static void say(String what, String metric, double value) {
        System.out.printf(Locale.ROOT, "%-12s %-55s %12.2f%n", what, metric, value);
    }
}
