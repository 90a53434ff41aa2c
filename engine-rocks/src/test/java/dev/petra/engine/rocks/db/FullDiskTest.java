// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static dev.petra.engine.rocks.Tables.key;
import static dev.petra.engine.rocks.Tables.update;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.DirectoryTree;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.SmallDisk;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.stream.SentStream;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

/**
 * A disk that fills: writes fail with a message that says so, nothing acknowledged is lost, reads
 * go on, and so do writes once there is room. On a tmpfs of its own, which needs the right to
 * mount.
 */
@Tag("slow")
class FullDiskTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v blob)");
    private static final int VALUE = 8 << 10;
    private static final UUID INDEX = new UUID(0, 1);

    @TempDir Path directory;
    private Path disk;
    private @Nullable SmallDisk small;

    @BeforeEach
    void mount() throws IOException {
        disk = Files.createDirectory(directory.resolve("disk"));
        small = SmallDisk.mount(disk, "32m");
    }

    @AfterEach
    void unmount() throws IOException {
        if (small != null) small.close();
    }

    private static StorageEngine engine(String writeBuffer) {
        return Tables.engine(
                Map.of(
                        "memory", "32MiB",
                        "write_buffer", writeBuffer,
                        "write_stall_timeout", "300ms"));
    }

    /** Returns how many writes were acknowledged. */
    private static int writeUntilFull(TableStore store) {
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        int acknowledged = 0;
        while (reopenable.isWritable() && acknowledged < 10_000)
            if (write(store, acknowledged) == null) acknowledged++;
        assertThat(reopenable.isWritable()).isFalse();
        return acknowledged;
    }

    @Test
    void aFullDiskFailsWritesLosesNothingAndHeals() throws Exception {
        Path ballast = disk.resolve("ballast");
        Files.write(ballast, new byte[20 << 20]);
        int acknowledged = 0;
        try (StorageEngine engine = engine("1MiB")) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            store.indexes().define(INDEX);
            Throwable failure = null;
            while (failure == null && acknowledged < 10_000) {
                failure = write(store, acknowledged);
                if (failure == null) acknowledged++;
                // A flush was late; the disk is not full yet.
                else if (Tables.context(store).reopenable().isWritable()) failure = null;
            }
            assertThat(failure)
                    .isInstanceOf(WriteStallException.class)
                    .hasMessageContaining("full")
                    .hasMessageContaining(disk.toString());
            for (int i = 0; i < acknowledged; i++) check(store, i);

            Files.delete(ballast);
            // This thread's own iterator must not make the healing wait for it for good.
            try (var scan =
                    store.scan(
                            org.apache.cassandra.db.DataRange.allData(TABLE.partitioner),
                            ColumnFilter.all(TABLE))) {
                assertThat(scan.hasNext()).isTrue();
                Thread.sleep(1_100);
                assertThat(write(store, acknowledged)).isInstanceOf(WriteStallException.class);
                check(store, 0);
                readsGoOn(store, acknowledged);
            }
            int healed = acknowledged++;
            Tables.await("the healing", () -> write(store, healed) == null);
            for (int i = 0; i < 100; i++) writeOn(store, acknowledged++);
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
    }

    /** It is opened anew without them, which needs room. */
    @Test
    void aFullDiskIsFoundWhenDamagedIndexesAreToGo() throws Exception {
        Path ballast = disk.resolve("ballast");
        try (StorageEngine engine = engine("1MiB")) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            store.indexes().define(INDEX);
            writeOn(store, 0);
            store.flush();
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            RocksDBException damage = Tables.damagedIndex(store);
            fill(ballast, 1);
            reopenable.maintain(
                    database ->
                            assertThat(reopenable.healing.failed(damage))
                                    .hasMessageContaining("A file of the indexes"));
            for (int time = 0; time < 2; time++)
                assertThatThrownBy(reopenable.healing::heal)
                        .isInstanceOf(WriteStallException.class)
                        .hasMessageContaining("is full")
                        .hasMessageContaining("no room to open it anew");
            Files.delete(ballast);
            Tables.heal(reopenable);
            assertThat(store.indexes().lost()).containsExactly(INDEX);
            writeOn(store, 1);
            for (int i = 0; i < 2; i++) check(store, i);
        }
    }

    /** It was closed to be opened without its indexes, and room would not mend it. */
    @Test
    void aFullDiskDoesNotHideThatAStoreIsDamaged() throws Exception {
        try (StorageEngine engine = engine("1MiB")) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            store.indexes().define(INDEX);
            writeOn(store, 0);
            store.flush();
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            RocksDBException damage = Tables.damagedIndex(store);
            LiveFileMetaData rows = Tables.context(store).database().dataFiles().get(0);
            reopenable.maintain(
                    database -> {
                        assertThat(reopenable.healing.failed(damage)).isNotNull();
                        Files.write(Path.of(rows.path() + rows.fileName()), new byte[100]);
                    });
            Tables.await(
                    "the damage",
                    () ->
                            catchThrowable(reopenable.healing::heal)
                                    instanceof CorruptStoreException);
            fill(disk.resolve("ballast"), 1);
            // Until it was tried again.
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5);
            while (System.nanoTime() - end < 0) {
                assertThatThrownBy(reopenable.healing::heal)
                        .isInstanceOf(CorruptStoreException.class);
                TimeUnit.MILLISECONDS.sleep(1);
            }
        }
    }

    /** Until then it can be neither flushed nor copied into a snapshot. */
    @Test
    void aFullStoreThatNobodyWritesToHealsByItself() throws Exception {
        Path ballast = disk.resolve("ballast");
        Files.write(ballast, new byte[24 << 20]);
        try (StorageEngine engine = engine("1MiB")) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            int acknowledged = writeUntilFull(store);
            Files.delete(ballast);
            Tables.await("the healing", reopenable::isWritable);
            store.flush();
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
    }

    /**
     * It would fill the disk, fail, and begin again. Only this test merges: what is merged in the
     * background was chosen when less was written and there was more room.
     */
    @Test
    void aWindowIsNotMergedWithoutRoomForIt() throws Exception {
        TableMetadata windows =
                Tables.table(
                        "CREATE TABLE t (k int PRIMARY KEY, v blob) WITH compression = {'enabled':"
                            + " 'false'} AND compaction = {'class': 'TimeWindowCompactionStrategy',"
                            + " 'compaction_window_unit': 'MINUTES', 'compaction_window_size': '1',"
                            + " 'enabled': 'false'}");
        Path ballast = disk.resolve("ballast");
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", "32MiB", "write_buffer", "1MiB"))) {
            Files.write(ballast, new byte[12 << 20]);
            TableStore store = Tables.open(engine, disk.resolve("store"), windows);
            SplittableRandom random = new SplittableRandom(1);
            for (int file = 0; file < 3; file++) {
                for (int k = 0; k < (file < 2 ? 700 : 1); k++) {
                    byte[] value = new byte[VALUE];
                    random.nextBytes(value);
                    var update =
                            update(windows, k)
                                    .timestamp(TimeUnit.MINUTES.toMicros(file < 2 ? 1 : 3));
                    update.row().add("v", ByteBuffer.wrap(value));
                    store.write(update.build());
                }
                store.flush();
            }
            List<LiveFileMetaData> all = Tables.context(store).database().dataFiles();
            // The newest window has one; all others, no more than one merge takes, are of one over.
            assertThat(all).hasSizeBetween(3, 33);
            long merged = all.stream().skip(1).mapToLong(LiveFileMetaData::size).sum();
            assertThat(merged).isGreaterThan(Files.getFileStore(disk).getUsableSpace());
            List<String> files = names(store);
            Tables.compactWindows(store);
            assertThat(names(store)).isEqualTo(files);
            Files.delete(ballast);
            Tables.compactWindows(store);
            assertThat(names(store)).hasSize(2);
        }
    }

    private static List<String> names(TableStore store) {
        return Tables.context(store).database().dataFiles().stream()
                .map(LiveFileMetaData::fileName)
                .toList();
    }

    /** There is room, but no file can be made: neither the next log nor a data file. */
    @Test
    void aLogThatCannotBeMadeFailsWritesLosesNothingAndHeals() throws Exception {
        int acknowledged = 0;
        List<Path> taken = new ArrayList<>();
        try (StorageEngine engine = engine("256KiB")) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            for (; acknowledged < 10; acknowledged++) writeOn(store, acknowledged);
            run("mount", "-o", "remount,nr_inodes=200", disk.toString());
            takeAllInodes(taken);
            Throwable failure = null;
            while (failure == null && acknowledged < 1_000) {
                failure = write(store, acknowledged);
                if (failure == null) acknowledged++;
                // A flush was late; the disk is not full yet.
                else if (Tables.context(store).reopenable().isWritable()) failure = null;
            }
            assertThat(failure)
                    .isInstanceOf(WriteStallException.class)
                    .hasMessageContaining("full")
                    .hasMessageContaining(disk.toString());
            for (int i = 0; i < acknowledged; i++) check(store, i);

            for (Path file : taken) Files.delete(file);
            int healed = acknowledged++;
            Tables.await("the healing", () -> write(store, healed) == null);
            for (int i = 0; i < 100; i++) writeOn(store, acknowledged++);
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
    }

    /**
     * The disk says that it has room, and a store that is closed to be opened anew is not read: so
     * it is where a quota is used up, or the inodes are.
     */
    @ParameterizedTest
    @ValueSource(strings = {"Disk quota exceeded", "No space left on device"})
    void aStoreStaysOpenUntilTheDiskTakesFilesAgain(String why) throws Exception {
        String said = "While appending to file: /x/000010.sst: " + why;
        RocksDBException full =
                new RocksDBException(
                        said, new Status(Status.Code.IOError, Status.SubCode.None, said));
        List<Path> taken = new ArrayList<>();
        try (StorageEngine engine = engine("1MiB")) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            writeOn(store, 0);
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            Database before = reopenable.database();
            // It takes nothing though there are free bytes.
            run("mount", "-o", "remount,nr_inodes=200", disk.toString());
            takeAllInodes(taken);
            reopenable.maintain(
                    database ->
                            assertThat(reopenable.healing.failed(full))
                                    .hasMessageContaining("is full"));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(4);
            while (System.nanoTime() - end < 0) {
                assertThatThrownBy(reopenable.healing::heal)
                        .isInstanceOf(WriteStallException.class);
                assertThat(reopenable.database()).isSameAs(before);
                check(store, 0);
                TimeUnit.MILLISECONDS.sleep(10);
            }
            for (Path file : taken) Files.delete(file);
            Tables.heal(reopenable);
            assertThat(reopenable.database()).isNotSameAs(before);
            writeOn(store, 1);
            for (int i = 0; i < 2; i++) check(store, i);
        }
    }

    private void takeAllInodes(List<Path> taken) {
        Path files = disk.resolve("taken");
        try {
            Files.createDirectory(files);
            while (true) taken.add(Files.createFile(files.resolve("" + taken.size())));
        } catch (IOException e) {
            assertThat(e).hasMessageContaining("No space left");
        }
    }

    @Test
    void aDiskHealsWhileAStoreIsHeldAndRead() throws Exception {
        Path ballast = disk.resolve("ballast");
        Files.write(ballast, new byte[20 << 20]);
        try (StorageEngine engine = engine("1MiB");
                ReadOptions options = Database.newReadOptions()) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            int acknowledged = writeUntilFull(store);
            try (Hold hold = Tables.context(store).reopenable().hold();
                    Lease lease = hold.lease(options)) {
                assertThat(HoldTest.counts(lease)).first().isEqualTo(acknowledged);
                Files.delete(ballast);
                long deadline = System.nanoTime() + 120_000_000_000L;
                Throwable last;
                while ((last = write(store, acknowledged)) != null) {
                    if (System.nanoTime() - deadline > 0)
                        throw new AssertionError("not healed", last);
                    Thread.sleep(100);
                }
                acknowledged++;
                assertThat(HoldTest.counts(lease)).isNull();
                try (Lease next = hold.lease(options)) {
                    assertThat(HoldTest.counts(next)).first().isEqualTo(acknowledged);
                    for (int i = 0; i < 100; i++) writeOn(store, acknowledged++);
                }
            }
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
    }

    /**
     * Each attempt to heal, while a scan is open, once let all reads wait for a second, which is as
     * long as attempts are apart. Now reads would wait at few of the moments that are looked at.
     */
    private static void readsGoOn(TableStore store, int next) throws InterruptedException {
        ReopenableDatabase database = Tables.context(store).reopenable();
        AtomicBoolean done = new AtomicBoolean();
        Thread healing =
                new Thread(
                        () -> {
                            while (!done.get()) {
                                write(store, next);
                                LockSupport.parkNanos(100_000);
                            }
                        });
        healing.start();
        int shut = 0;
        try {
            Tables.await("an attempt", database::isShut);
            for (int moment = 0; moment < 3_000; moment++) {
                if (database.isShut()) shut++;
                TimeUnit.MILLISECONDS.sleep(1);
            }
            check(store, 0);
        } finally {
            done.set(true);
            healing.join();
        }
        assertThat(shut).isLessThan(1_000);
    }

    /** At its beginning, in its middle, and at the sender. */
    @Test
    void aStreamThatFindsNoRoomLeavesTheStoreAsItWas() throws Exception {
        int rows = 1_000;
        Path ballast = disk.resolve("ballast");
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", "32MiB", "stream_part", "1MiB"))) {
            TableStore from = Tables.open(engine, directory.resolve("from"), TABLE);
            for (int i = 0; i < rows; i++) assertThat(write(from, i)).isNull();
            TableStore to = Tables.open(engine, disk.resolve("store"), TABLE);
            assertThat(write(to, rows)).isNull();
            to.flush();
            SentStream sent = SentStream.of(from);
            assertThat(sent.bytes()).isGreaterThan((long) rows * VALUE);
            // Not even for a directory.
            fill(ballast, 0);
            try (StreamSink in = to.receive(sent.head(), RangeTests.everything())) {
                assertThatThrownBy(() -> sent.stagedBy(in)).isInstanceOf(IOException.class);
            }
            assertThat(streams()).isEmpty();
            // Enough for the file that is begun, and gone before it is written.
            fill(ballast, 3);
            Path more = disk.resolve("more");
            try (StreamSink in = to.receive(sent.head(), RangeTests.everything());
                    SliceWriter slice = in.begin(0)) {
                for (int i = 0; i < 2; i++) slice.take(sent.blocks().get(i).duplicate());
                // What the one may take still is not there for another.
                try (StreamSink other = to.receive(sent.head(), RangeTests.everything())) {
                    assertThatThrownBy(() -> sent.stagedBy(other))
                            .isInstanceOf(IOException.class)
                            .hasMessageContaining("has no room");
                }
                fill(more, 0);
                assertThatThrownBy(
                                () -> {
                                    for (ByteBuffer block : sent.blocks().subList(2, 20))
                                        slice.take(block.duplicate());
                                })
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("has no room");
            }
            Files.delete(more);
            assertThat(streams()).isEmpty();
            check(to, rows);
            Files.delete(ballast);
            sent.ingestedBy(to);
            for (int i = 0; i <= rows; i++) check(to, i);
            // To send takes no room at all.
            fill(ballast, 0);
            assertThat(SentStream.of(to).bytes()).isGreaterThan((long) rows * VALUE);
            assertThat(streams()).isEmpty();
            Files.delete(ballast);
            assertThat(write(to, rows + 1)).isNull();
            for (int i = 0; i <= rows + 1; i++) check(to, i);
        }
    }

    /** RocksDB's errors differ by what it was about to write: log, manifest, options. */
    @Test
    void aStoreThatFindsNoRoomWhenItIsCreatedSaysSoWhateverIsWritten() throws Exception {
        List<String> failures = new ArrayList<>();
        try (StorageEngine engine = Tables.engine()) {
            boolean opened = false;
            for (int kib = 4; !opened; kib += 4) {
                run("mount", "-o", "remount,size=" + kib + "k", disk.toString());
                Path store = disk.resolve("store");
                try (TableStore created = Tables.open(engine, store, TABLE)) {
                    opened = write(created, 1) == null;
                } catch (WriteStallException e) {
                    failures.add(e.getMessage());
                } catch (FSWriteError e) {
                    // Of a file that is not RocksDB's.
                    assertThat(e).hasStackTraceContaining("No space left");
                }
                if (Files.exists(store)) DirectoryTree.delete(store);
            }
        }
        assertThat(failures)
                .allMatch(failure -> failure.contains("is full"))
                .anyMatch(failure -> failure.contains("Unable to persist"))
                .anyMatch(failure -> !failure.contains("Unable to persist"));
    }

    private static void run(String... command) throws IOException, InterruptedException {
        assertThat(new ProcessBuilder(command).inheritIO().start().waitFor()).isZero();
    }

    /** Leaves so many MiB. */
    private void fill(Path ballast, int mebibytes) throws IOException {
        Files.deleteIfExists(ballast);
        long free = Files.getFileStore(disk).getUsableSpace();
        Files.write(ballast, new byte[Math.toIntExact(free - ((long) mebibytes << 20))]);
    }

    private List<Path> streams() throws IOException {
        Path streams = disk.resolve("store").resolve(StoreDescriptor.STREAMS);
        if (!Files.exists(streams)) return List.of();
        try (var left = Files.list(streams)) {
            return left.toList();
        }
    }

    private static Throwable write(TableStore store, int i) {
        byte[] value = new byte[VALUE];
        new SplittableRandom(i).nextBytes(value);
        var update = update(TABLE, i);
        update.row().add("v", java.nio.ByteBuffer.wrap(value));
        return catchThrowable(() -> store.write(update.build(), entries(store, i)));
    }

    /** As often as a flush is late: the disk is not full, and no other failure is one to repeat. */
    private static void writeOn(TableStore store, int i) {
        Tables.await(
                "row " + i,
                () -> {
                    Throwable failure = write(store, i);
                    if (failure != null)
                        assertThat(failure).hasMessageContaining("write_stall_timeout");
                    return failure == null;
                });
    }

    /** None where the store has no index. */
    private static List<TermEntry> entries(TableStore store, int i) {
        return store.indexes().states().isEmpty()
                ? List.of()
                : List.of(new TermEntry(INDEX, ByteBufferUtil.bytes(i), Clustering.EMPTY));
    }

    private static void check(TableStore store, int i) {
        for (TermEntry entry : entries(store, i))
            try (TermCursor found =
                    store.indexes().scan(INDEX, entry.term(), true, entry.term(), true)) {
                assertThat(found.next()).describedAs("entry %d", i).isTrue();
                assertThat(found.key()).isEqualTo(key(TABLE, i));
            }
        byte[] value = new byte[VALUE];
        new SplittableRandom(i).nextBytes(value);
        try (var rows = store.read(key(TABLE, i), Slices.ALL, ColumnFilter.all(TABLE), false)) {
            assertThat(rows).describedAs("row %d", i).isNotNull();
            var row = (org.apache.cassandra.db.rows.Row) rows.next();
            assertThat(row.cells().iterator().next().buffer())
                    .isEqualTo(java.nio.ByteBuffer.wrap(value));
        }
    }
}
