// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.TextChecksum;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.HostFixture;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.StoreDirectory;
import dev.petra.engine.rocks.stream.Ingester;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Status;

/** Tables and stores for tests, without a node. */
public final class Tables {
    /** How many times their usual length random tests are: {@code -Dpetra.store.length=4}. */
    public static final int LENGTH = Integer.getInteger("petra.store.length", 1);

    static {
        DatabaseDescriptor.clientInitialization(false);
        if (DatabaseDescriptor.getPartitioner() == null)
            DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
    }

    private Tables() {}

    public static TableMetadata table(String cql) {
        return CreateTableStatement.parse(cql, "ks")
                .id(TableId.fromString("11111111-2222-3333-4444-555555555555"))
                .build();
    }

    /** Writes wait for compaction as long as it takes: who tests that they fail says after what. */
    public static StorageEngine engine(Map<String, String> settings) {
        Map<String, String> all = new HashMap<>(settings);
        all.putIfAbsent("write_stall_timeout", "30s");
        return new RocksEngineProvider().open(new EngineSettings(all));
    }

    public static StorageEngine engine() {
        return engine(Map.of("memory", "32MiB"));
    }

    /** How many files of level 0 have them compacted, writes slowed down, and refused. */
    public static void levelZero(Database database, int compact, int slow, int stop)
            throws RocksDBException {
        database.setOptions(
                database.data,
                Map.of(
                        "level0_file_num_compaction_trigger", "" + compact,
                        "level0_slowdown_writes_trigger", "" + slow,
                        "level0_stop_writes_trigger", "" + stop));
    }

    public static StoreSpec spec(Path directory, TableMetadata table) {
        return new StoreSpec(directory, table.name, 1, HostFixture.ref(table));
    }

    public static TableStore open(StorageEngine engine, Path directory, TableMetadata table) {
        return engine.openStore(spec(directory, table));
    }

    /** Has the file PETRA of a store say something else, with the checksum of that. */
    public static void describe(Path store, String is, String becomes) throws IOException {
        Path file = store.resolve(StoreDescriptor.NAME);
        String text = Objects.requireNonNull(TextChecksum.strip(Files.readString(file)));
        Files.writeString(file, TextChecksum.append(text.replace(is, becomes)));
    }

    /** What reading, writing, compaction and streams of a store have in common. */
    public static StoreContext context(TableStore store) {
        return ((RocksStore) store).context();
    }

    /** Has a store take files. */
    public static Ingester ingester(TableStore store) {
        return ((RocksStore) store).ingester();
    }

    /** What happens every second. */
    public static boolean tick(TableStore store) {
        return ((RocksStore) store).maintenance().tick();
    }

    /** Merges the files of time windows now. */
    public static void compactWindows(TableStore store) {
        ((RocksStore) store).maintenance().compactWindows();
    }

    /** Removes what deletions hide now, if something was noticed, as happens in the background. */
    public static void removeHidden(TableStore store) {
        ((RocksStore) store).maintenance().removeHidden();
    }

    /** What {@link #await} waits for. */
    public interface Condition<E extends Exception> {
        boolean holds() throws E;
    }

    /** Waits until something holds that comes by itself; fails if it does not come. */
    public static <E extends Exception> void await(String what, Condition<E> condition) throws E {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        while (!condition.holds()) {
            if (System.nanoTime() - end > 0) throw new AssertionError(what + " did not come");
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
        }
    }

    /** Waits until no write buffer is being flushed: the files on disk are of one moment then. */
    public static void awaitFlushes(TableStore store) throws RocksDBException {
        Database database = context(store).acquire();
        try {
            for (String busy :
                    List.of("rocksdb.num-running-flushes", "rocksdb.mem-table-flush-pending"))
                await(
                        "the end of flushes",
                        () -> database.db.getLongProperty(database.data, busy) == 0);
        } finally {
            database.release(Database.stripe());
        }
    }

    /** What a write to a full disk fails with. */
    public static RocksDBException noSpace() {
        return new RocksDBException(
                "No space", new Status(Status.Code.IOError, Status.SubCode.NoSpace, ""));
    }

    /** What a merge fails with that comes to a damaged file of a store's indexes. */
    public static RocksDBException damagedIndex(TableStore store) {
        return context(store).database().db.getLiveFilesMetaData().stream()
                .filter(file -> new String(file.columnFamilyName(), UTF_8).equals("index"))
                .map(file -> "block checksum mismatch in " + file.path() + file.fileName())
                .map(Tables::corruption)
                .findFirst()
                .orElseThrow();
    }

    /** What RocksDB fails with that has read something damaged. */
    public static RocksDBException corruption(String message) {
        return new RocksDBException(
                message, new Status(Status.Code.Corruption, Status.SubCode.None, ""));
    }

    /** Opens a database anew that was told of a full disk. */
    public static void heal(ReopenableDatabase database) throws InterruptedException {
        while (!database.isWritable()) {
            try {
                database.healing.heal();
            } catch (WriteStallException e) {
                // Not yet: it is tried once a second.
                Thread.sleep(20);
            }
        }
    }

    /**
     * What a process leaves that ends now, which writes nothing meanwhile. Copied again if a file
     * came or went: RocksDB tidies up some time after a flush.
     */
    public static Path crashed(TableStore store, Path to) throws IOException, RocksDBException {
        Database database = context(store).acquire();
        try {
            database.db.disableFileDeletions();
            Set<String> before;
            do {
                if (Files.exists(to)) StoreDirectory.delete(to);
                Files.createDirectory(to);
                before = names(context(store).directory());
                for (String name : before) {
                    Path file = context(store).directory().resolve(name);
                    try {
                        Files.copy(file, to.resolve(name));
                    } catch (NoSuchFileException e) {
                        // It went meanwhile: all is copied again.
                    }
                }
            } while (!before.equals(names(context(store).directory()))
                    || !before.equals(names(to)));
        } finally {
            database.db.enableFileDeletions();
            database.release(Database.stripe());
        }
        return to;
    }

    /** Copies the files of a store that nobody has open into a directory, which it makes. */
    public static Path copy(Path store, Path to) throws IOException {
        Files.createDirectory(to);
        try (var files = Files.newDirectoryStream(store)) {
            for (Path file : files) Files.copy(file, to.resolve(file.getFileName()));
        }
        return to;
    }

    /** Flips a bit of a file. */
    public static void flip(Path file, long at, int bit) throws IOException {
        try (RandomAccessFile opened = new RandomAccessFile(file.toFile(), "rw")) {
            opened.seek(at);
            int old = opened.read();
            opened.seek(at);
            opened.write(old ^ 1 << bit);
        }
    }

    /**
     * Overwrites some of a data file.
     *
     * @param file its name, with a slash before it
     */
    public static void damage(TableStore store, String file) {
        damage(store, file, 2000);
    }

    /** The same, from some byte on. */
    public static void damage(TableStore store, String file, long from) {
        try (RandomAccessFile out = new RandomAccessFile(context(store).directory() + file, "rw")) {
            out.seek(from);
            out.write(new byte[500]);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The first columns of the keys of a copy of a store, which are numbers, in their order. */
    public static List<Integer> numbers(StorageEngine engine, Path copy, TableMetadata table) {
        List<Integer> numbers = new ArrayList<>();
        try (TableStore opened = open(engine, copy, table);
                UnfilteredPartitionIterator all =
                        opened.scan(
                                DataRange.allData(table.partitioner), ColumnFilter.all(table))) {
            while (all.hasNext())
                try (UnfilteredRowIterator partition = all.next()) {
                    if (partition.hasNext())
                        numbers.add(ByteBufferUtil.toInt(partition.partitionKey().getKey()));
                }
        }
        numbers.sort(null);
        return numbers;
    }

    /** The first stored key of rows. */
    public static byte[] firstKey(TableStore store) {
        Database database = context(store).database();
        try (RocksIterator it = database.db.newIterator(database.data)) {
            it.seekToFirst();
            return it.key();
        }
    }

    private static Set<String> names(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(Files::isRegularFile)
                    .map(file -> String.valueOf(file.getFileName()))
                    .collect(Collectors.toSet());
        }
    }

    public static PartitionUpdate.SimpleBuilder update(TableMetadata table, Object... key) {
        return PartitionUpdate.simpleBuilder(table, key).timestamp(1_000_000).nowInSec(1_000);
    }

    public static DecoratedKey key(TableMetadata table, Object value) {
        ByteBuffer bytes = table.partitionKeyType.decomposeUntyped(value);
        return table.partitioner.decorateKey(bytes);
    }

    /** A partition as text, one line an unfiltered; empty if there is nothing. */
    public static String text(@Nullable UnfilteredRowIterator rows) {
        if (rows == null) return "";
        try (rows) {
            StringBuilder text = new StringBuilder();
            text.append(text(rows.partitionLevelDeletion())).append('\n');
            if (!rows.staticRow().isEmpty())
                text.append(rows.staticRow().toString(rows.metadata(), true)).append('\n');
            while (rows.hasNext())
                text.append(rows.next().toString(rows.metadata(), true)).append('\n');
            return text.toString();
        }
    }

    /** As Cassandra 5.0 writes it; 6.0 has a shorter form for none. */
    private static String text(DeletionTime deletion) {
        return "deletedAt=%d, localDeletion=%d"
                .formatted(deletion.markedForDeleteAt(), deletion.localDeletionTime());
    }
}
