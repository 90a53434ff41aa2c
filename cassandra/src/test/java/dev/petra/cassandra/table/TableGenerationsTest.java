// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.fail;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import ch.qos.logback.classic.Level;
import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.CapturedLog;
import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.CrashingDisk;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.StoreGuard;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.disk.SyncOnlyDisk;
import dev.petra.cassandra.table.FileEngine.FileStore;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.FileStatistics;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.schema.Tables;
import org.apache.cassandra.service.snapshot.TableSnapshot;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a table holds after each step of its life, and after a crash at each step. */
class TableGenerationsTest {
    private static final TableMetadataRef TABLE = TestTables.reference();

    @TempDir Path temp;
    private Path table = Path.of("");
    private FileEngine engine = new FileEngine();

    @BeforeEach
    void create() throws IOException {
        table = Files.createDirectory(temp.resolve("t-1"));
    }

    private TableGenerations open() {
        return open(Disk.REAL);
    }

    private TableGenerations open(Disk disk) {
        return TableGenerations.open("t", TABLE, () -> engine, List.of(table), disk);
    }

    /** As after a crash: nothing is closed, and nothing is remembered. What it left is deleted. */
    private TableGenerations reopen() {
        return reopenOn(Disk.REAL);
    }

    private TableGenerations reopenOn(Disk disk) {
        engine = new FileEngine();
        TableGenerations stores = open(disk);
        awaitDisposed(stores);
        return stores;
    }

    private static void awaitDisposed(TableGenerations stores) {
        try {
            assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static void write(Generation generation, String line) {
        ((FileStore) generation.writable()).append(line);
    }

    private static List<String> read(TableGenerations stores) {
        return read(stores.current());
    }

    private static List<String> read(Generation generation) {
        TableStore store = generation.existing();
        return store == null ? List.of() : ((FileStore) store).lines();
    }

    private Path stores() {
        return table.resolve(StoreLocation.NAME);
    }

    @Test
    void aTableWithoutWritesLeavesNothingOnDisk() {
        TableGenerations stores = open();
        assertThat(stores.current().isEmpty()).isTrue();
        assertThat(read(stores)).isEmpty();
        assertThat(stores()).doesNotExist();
    }

    /** Else the disk of one table, if it hangs, stops what is done for all tables. */
    @Test
    void nobodyWaitsForTheLockToAskWhatIsAlive() {
        TableGenerations stores = open();
        Generation live = stores.current();
        synchronized (stores) {
            Generation found = assertTimeoutPreemptively(Duration.ofSeconds(10), stores::current);
            assertThat(found).isSameAs(live);
        }
    }

    /** Exporters read some metrics of the files, and sums over tables, which read each again. */
    @Test
    void filesAreCountedOnceForAllMetrics() {
        Generation generation = open().current();
        write(generation, "a");
        for (int i = 0; i < 12; i++) assertThat(generation.files().files()).isEqualTo(1);
        assertThat(engine.filesCounted).isEqualTo(1);
        generation.filesChanged();
        assertThat(generation.files().files()).isEqualTo(1);
        assertThat(engine.filesCounted).isEqualTo(2);
    }

    /** Exporters read those of all tables in turn, which waited for it, or opened it. */
    @Test
    void theMetricsOfAStoreThatIsOpenedAnewAreNotWaitedFor() {
        Generation generation = open().current();
        write(generation, "a");
        engine.isShut = true;
        assertThat(generation.statistic(StoreStatistics::estimatedKeys)).isZero();
        assertThat(generation.files()).isEqualTo(FileStatistics.NONE);
        assertThat(engine.measured + engine.filesCounted).isZero();
        engine.isShut = false;
        generation.filesChanged();
        generation.statistic(StoreStatistics::estimatedKeys);
        assertThat(engine.measured).isEqualTo(1);
        assertThat(generation.files().files()).isEqualTo(1);
        engine.isShut = true;
        generation.filesChanged();
        assertThat(generation.files().files()).as("as it was before").isEqualTo(1);
    }

    /** The log of a store may take long to replay, and the tables behind it would wait for it. */
    @Test
    void theDiskSpaceOfAStoreThatIsOpenedAnewIsCountedLater() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", TABLE);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        TableRegistry.put(cfs, stores);
        try {
            engine.isShut = true;
            TableRegistry.countDiskSpace(stores.displayName());
            assertThat(engine.measured).isZero();
            engine.isShut = false;
            TableRegistry.countDiskSpace(stores.displayName());
            assertThat(engine.measured).isEqualTo(1);
        } finally {
            TableRegistry.remove(cfs);
        }
    }

    @Test
    void theFirstWriteBeginsGenerationOne() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        assertThat(stores.current().isEmpty()).isFalse();
        assertThat(stores().resolve("LIVE")).content().startsWith("1\n");
        assertThat(read(reopen())).containsExactly("a");
    }

    /** A power loss took the table's directory, and all that was synced in it. */
    @Test
    void theNamesOfATablesDirectoriesAreDurableBeforeItsFirstWrite() throws IOException {
        Path keyspace = Files.createDirectory(temp.resolve("ks"));
        table = Files.createDirectory(keyspace.resolve("t-2"));
        List<Path> synced = new ArrayList<>();
        Disk disk =
                Hollow.proxy(
                        Disk.class,
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("syncDirectory"))
                                synced.add((Path) arguments[0]);
                            return method.invoke(Disk.REAL, arguments);
                        });
        TableGenerations stores = open(disk);
        write(stores.current(), "a");
        assertThat(synced).containsSubsequence(table, keyspace, temp, stores());
        synced.clear();
        write(stores.successor(), "b");
        assertThat(synced).as("once").contains(stores()).doesNotContain(keyspace, temp);
    }

    /** One thread asks this for all tables of the node, every second. */
    @Test
    void nobodyWaitsForAKeyspaceThatIsBeingLoadedToAskWhatMayBePurged() throws Exception {
        TableStore store = open().current().writable();
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(1);
        Thread loading =
                new Thread(
                        () ->
                                assertThatThrownBy(
                                                () ->
                                                        Schema.instance.maybeAddKeyspaceInstance(
                                                                "ks",
                                                                () -> {
                                                                    begun.countDown();
                                                                    Uninterruptibles
                                                                            .awaitUninterruptibly(
                                                                                    over);
                                                                    throw new IllegalStateException(
                                                                            "over");
                                                                }))
                                        .hasMessage("over"));
        loading.start();
        schema(
                Keyspaces.of(
                        KeyspaceMetadata.create(
                                "ks", KeyspaceParams.simple(1), Tables.of(TABLE.get()))));
        try {
            assertThat(begun.await(1, TimeUnit.MINUTES)).isTrue();
            boolean mayPurge =
                    assertTimeoutPreemptively(
                            Duration.ofSeconds(10), () -> store.spec().mayPurge().getAsBoolean());
            assertThat(mayPurge).isFalse();
        } finally {
            over.countDown();
            loading.join();
            schema(Keyspaces.none());
        }
    }

    private static void schema(Keyspaces keyspaces) {
        Hollow.set(Schema.instance, Schema.class, "distributedKeyspaces", keyspaces);
    }

    @Test
    void truncateLeavesTheOldGenerationReadableUntilItIsDiscarded() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        Generation next = stores.successor();
        write(old, "b, written before the switch");
        write(next, "c");
        assertThat(read(old)).containsExactly("a", "b, written before the switch");
        assertThat(read(stores)).containsExactly("c");
        dispose(stores, old);
        assertThat(stores().resolve("1")).doesNotExist();
        assertThat(read(stores)).containsExactly("c");
        old.discard();
        assertThat(read(reopen())).containsExactly("c");
    }

    @Test
    void aCrashAfterTruncateFindsTheTableEmptyAndRemovesTheGarbage() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        stores.successor();
        TableGenerations after = reopen();
        assertThat(read(after)).isEmpty();
        assertThat(after.current().isEmpty()).isTrue();
        assertThat(after.current().number()).isEqualTo(2);
        assertThat(stores().resolve("1")).doesNotExist();
        write(after.current(), "b");
        assertThat(read(reopen())).containsExactly("b");
    }

    /** petra uninstall deletes the guards of tables without data; Petra may be installed again. */
    @Test
    void aStoreThatIsMadeAfterTruncateHasAGuard() throws Exception {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        stores.successor();
        dispose(stores, old);
        Files.delete(stores().resolve(StoreGuard.NAME));
        write(reopen().current(), "b");
        assertThat(stores().resolve(StoreGuard.NAME)).exists();
    }

    @Test
    void truncateOfATableWithoutWrites() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(stores.successor(), "a");
        dispose(stores, old);
        assertThat(read(reopen())).containsExactly("a");
    }

    @Test
    void aWriteThatCreatesTheOldGenerationDuringTheSwitchIsTruncatedToo() {
        TableGenerations stores = open();
        Generation old = stores.current();
        Generation next = stores.successor();
        write(old, "late");
        write(next, "new");
        assertThat(read(reopen())).containsExactly("new");
    }

    @Test
    void aCrashAtAnyStepOfTruncateLeavesAllRowsOrNone() throws IOException {
        int failures = 0;
        for (int step = 0; step < 6; step++) {
            table = Files.createDirectory(temp.resolve("crash" + step));
            engine = new FileEngine();
            write(open().current(), "a");
            engine = new FileEngine();
            TableGenerations stores = open(CrashingDisk.at(step));
            try {
                stores.successor();
            } catch (FSWriteError e) {
                failures++;
            }
            TableGenerations after = reopen();
            assertThat(read(after)).isIn(List.of("a"), List.of());
            assertThat(after.current().failure()).isNull();
        }
        assertThat(failures).isPositive();
    }

    @Test
    void whatIsAcknowledgedAfterAFailedTruncateSurvives() throws IOException {
        for (int step = 0; step < 3; step++) {
            table = Files.createDirectory(temp.resolve("failed" + step));
            engine = new FileEngine();
            write(open().current(), "a");
            engine = new FileEngine();
            TableGenerations stores = open(CrashingDisk.onceAt(step));
            assertThatThrownBy(stores::successor).isInstanceOf(FSWriteError.class);
            write(stores.current(), "b");
            assertThat(read(reopen())).containsExactly("a", "b");
        }
    }

    @Test
    void nothingIsAcknowledgedWhenItIsNotKnownWhetherTheTableIsTruncated() throws IOException {
        // Step 2 syncs the directory behind the rename, and the attempt to go back fails as well.
        write(open().current(), "a");
        engine = new FileEngine();
        TableGenerations stores = open(CrashingDisk.at(2));
        assertThatThrownBy(stores::successor).isInstanceOf(FSWriteError.class);
        assertThatThrownBy(() -> write(stores.current(), "b"))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("ks.t");
        assertThatThrownBy(() -> read(stores)).isInstanceOf(UnavailableStoreException.class);
    }

    @Test
    void aFailedCreationIsTriedAgainByTheNextWrite() {
        TableGenerations stores = open();
        engine.failOpen = true;
        assertThatThrownBy(() -> write(stores.current(), "a")).hasMessageContaining("cannot open");
        engine.failOpen = false;
        write(stores.current(), "b");
        assertThat(read(reopen())).containsExactly("b");
    }

    @Test
    void aStoreThatDoesNotOpenFailsEachUseWithItsReason() {
        write(open().current(), "a");
        engine = new FileEngine();
        engine.failOpen = true;
        Generation generation = open().current();
        assertThat(generation.isEmpty()).isFalse();
        assertThatThrownBy(() -> read(generation))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("Table ks.t")
                .hasMessageContaining("cannot open");
        assertThatThrownBy(() -> write(generation, "b"))
                .isInstanceOf(UnavailableStoreException.class);
        assertThat(read(reopen())).containsExactly("a");
    }

    @Test
    void truncateMendsAStoreThatDoesNotOpen() throws InterruptedException {
        write(open().current(), "a");
        engine = new FileEngine();
        engine.failOpen = true;
        TableGenerations stores = open();
        Generation broken = stores.current();
        engine.failOpen = false;
        write(stores.successor(), "b");
        dispose(stores, broken);
        assertThat(stores().resolve("1")).doesNotExist();
        assertThat(read(reopen())).containsExactly("b");
    }

    @ParameterizedTest
    @ValueSource(strings = {"absent", "seven\n"})
    void withoutAPointerTheDataIsNotGuessed(String pointer) throws IOException {
        write(open().current(), "a");
        if (pointer.equals("absent")) Files.delete(stores().resolve("LIVE"));
        else Files.writeString(stores().resolve("LIVE"), pointer);
        TableGenerations stores = reopen();
        assertThatThrownBy(() -> read(stores))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("LIVE");
        assertThatThrownBy(() -> write(stores.current(), "b"))
                .isInstanceOf(UnavailableStoreException.class);
        assertThatThrownBy(stores::successor).isInstanceOf(UnavailableStoreException.class);
        assertThat(stores().resolve("1/lines")).hasContent("a\n");
    }

    @Test
    void aDirectoryThatAppearsUnderATableInUseIsNotItsData() throws IOException {
        write(open().current(), "a");
        TableGenerations stores = reopen();
        stores.successor();
        Files.createDirectory(stores().resolve("2"));
        assertThatThrownBy(() -> write(stores.current(), "b")).hasMessageContaining("appeared");
        assertThat(stores().resolve("2")).exists();
    }

    /** Such as a disk of its own that is not mounted; a write there would be lost with it. */
    @Test
    void aGenerationThatIsALinkToNothingIsNoEmptyTable() throws IOException {
        write(open().current(), "a");
        Files.move(stores().resolve("1"), temp.resolve("moved"));
        Files.createSymbolicLink(stores().resolve("1"), temp.resolve("disk"));
        TableGenerations stores = reopen();
        assertThatThrownBy(() -> read(stores)).isInstanceOf(UnavailableStoreException.class);
        Files.move(temp.resolve("moved"), temp.resolve("disk"));
        assertThat(read(reopen())).containsExactly("a");
    }

    /** Deleted by hand, or a disk of its own, of which only the place is there. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aGenerationThatIsGoneIsNoEmptyTable(boolean isPlaceThere) throws IOException {
        write(open().current(), "a");
        Path first = stores().resolve("1");
        Path away = Files.move(first, temp.resolve("away"));
        if (isPlaceThere) Files.createDirectory(first);
        TableGenerations stores = reopen();
        assertThat(stores.current().isEmpty()).isFalse();
        assertThatThrownBy(() -> read(stores))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("says that it is in " + first)
                .hasMessageContaining("echo 2 > " + stores().resolve("LIVE"));
        assertThatThrownBy(() -> write(stores.current(), "b"))
                .isInstanceOf(UnavailableStoreException.class);
        assertThat(new StoreLocation(table, Disk.REAL).holdsData()).isTrue();
        Files.deleteIfExists(first);
        Files.move(away, first);
        assertThat(read(reopen())).containsExactly("a");

        Files.move(first, away);
        Files.delete(stores().resolve("LIVE"));
        assertThatThrownBy(() -> read(reopen()))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("there was 1, so the next number is 2) but no file LIVE");
        // LIVE of a backup, or of whoever wrote it by hand.
        Files.writeString(stores().resolve("CREATED"), "3\n");
        for (int live = 1; live <= 3; live++) {
            Files.writeString(stores().resolve("LIVE"), live + "\n");
            assertThatThrownBy(() -> read(reopen()))
                    .isInstanceOf(UnavailableStoreException.class)
                    .hasMessageContaining("echo 4 > " + stores().resolve("LIVE"));
        }
        Files.writeString(stores().resolve("CREATED"), "1\n");
        // As the message says, to begin without that data.
        Files.writeString(stores().resolve("LIVE"), "2\n");
        TableGenerations empty = reopen();
        assertThat(empty.current().failure()).isNull();
        assertThat(read(empty)).isEmpty();
        write(empty.current(), "b");
        assertThat(read(reopen())).containsExactly("b");
    }

    /** Which the start deletes only when it knows what is alive. */
    @Test
    void garbageBesideWhatIsGoneIsNotAll() throws IOException {
        write(open().current(), "a");
        TableGenerations stores = reopen();
        stores.successor();
        write(stores.current(), "b");
        Files.createDirectories(stores().resolve("1"));
        Files.move(stores().resolve("2"), temp.resolve("away"));
        assertThat(new StoreLocation(table, Disk.REAL).holdsData()).isTrue();
    }

    /** An empty snapshot would be restored as an empty table. */
    @Test
    void noSnapshotIsMadeOfThePlaceOfWhatIsGone() throws Exception {
        write(open().current(), "a");
        Files.move(stores().resolve("1"), temp.resolve("away"));
        Files.createDirectory(stores().resolve("1"));
        TableGenerations stores = reopen();
        Generation lost = stores.current();
        stores.keepInsteadOfDeleting(lost, "dropped-1-t");
        stores.drop();
        dispose(stores, lost);
        assertThat(table.resolve("snapshots")).doesNotExist();
    }

    @Test
    void truncateMendsATableOfWhichAGenerationIsGone() throws IOException {
        write(open().current(), "a");
        Files.move(stores().resolve("1"), temp.resolve("away"));
        var unused = reopen().successor();
        TableGenerations stores = reopen();
        assertThat(stores.current().failure()).isNull();
        write(stores.current(), "b");
        assertThat(read(reopen())).containsExactly("b");
    }

    @Test
    void dropOfATableOfWhichAGenerationIsGoneLeavesNothing() throws Exception {
        write(open().current(), "a");
        Files.move(stores().resolve("1"), temp.resolve("away"));
        TableGenerations stores = reopen();
        Generation lost = stores.current();
        stores.drop();
        assertThat(new StoreLocation(table, Disk.REAL).holdsData()).isFalse();
        dispose(stores, lost);
        assertThat(stores()).doesNotExist();
    }

    /** What an earlier version has made, or an earlier version's snapshot. */
    @Test
    void eachStartSaysThatThereIsAGenerationIfNothingDoes() throws IOException {
        write(open().current(), "a");
        Path created = stores().resolve("CREATED");
        Files.delete(created);
        assertThat(read(reopen())).containsExactly("a");
        assertThat(created).content().startsWith("1\n");
        Files.writeString(created, "damaged");
        assertThat(read(reopen())).containsExactly("a");
        assertThat(created).content().startsWith("1\n");
    }

    @Test
    void aCrashAtAnyStepOfAFirstWriteLeavesNothingThatIsMissed() throws IOException {
        int failures = 0;
        for (int step = 0; step < 24; step++) {
            table = Files.createDirectory(temp.resolve("created" + step));
            engine = new FileEngine();
            engine.failOpen = step % 2 == 0;
            TableGenerations stores = open(CrashingDisk.at(step / 2));
            try {
                write(stores.current(), "a");
            } catch (FSWriteError | CorruptStoreException e) {
                failures++;
            }
            TableGenerations after = reopen();
            assertThat(after.current().failure()).describedAs("step %d", step).isNull();
            // Nor is what comes after TRUNCATE.
            var unused = after.successor();
            after = reopen();
            assertThat(after.current().failure()).describedAs("step %d", step).isNull();
            write(after.current(), "b");
            assertThat(read(reopen())).containsExactly("b");
        }
        assertThat(failures).isGreaterThan(8);
    }

    /** A link to itself stands for a disk that fails: the system says neither yes nor no. */
    @Test
    void whatCannotBeLookedAtIsNotReplacedByANewStoreAndNotDeleted() throws IOException {
        write(open().current(), "a");
        TableGenerations stores = reopen();
        stores.successor();
        Path next = stores().resolve("2");
        Files.createSymbolicLink(next, next);
        assertThatThrownBy(() -> write(stores.current(), "b")).isInstanceOf(FSReadError.class);
        assertThat(engine.deleted).doesNotContain(next);
        assertThat(Files.isSymbolicLink(next)).isTrue();
    }

    /** Somebody makes the directory of a generation when LIVE has just named it. */
    private static final class Interfering implements Disk {
        @Override
        public void createDirectory(Path directory) throws IOException {
            REAL.createDirectory(directory);
        }

        @Override
        public void write(Path file, byte[] content) throws IOException {
            REAL.write(file, content);
        }

        @Override
        public void rename(Path from, Path to) throws IOException {
            REAL.rename(from, to);
            Files.createDirectory(to.resolveSibling("1"));
        }

        @Override
        public void syncDirectory(Path directory) throws IOException {
            REAL.syncDirectory(directory);
        }

        @Override
        public void delete(Path tree) {
            REAL.delete(tree);
        }
    }

    /** Between the look and the creation. */
    @Test
    void aFailedCreationDeletesOnlyWhatItHasCreated() throws IOException {
        TableGenerations stores = open();
        engine.failOpen = true;
        assertThatThrownBy(() -> write(stores.current(), "a")).hasMessageContaining("cannot open");
        assertThat(engine.deleted).containsExactly(stores().resolve("1"));

        table = Files.createDirectory(temp.resolve("t-2"));
        engine = new FileEngine();
        engine.failOpen = true;
        TableGenerations others = open(new Interfering());
        assertThatThrownBy(() -> write(others.current(), "a")).hasMessageContaining("appeared");
        assertThat(engine.deleted).isEmpty();
        assertThat(stores().resolve("1")).exists();
    }

    /** The deletion of a folder goes on at the next start, which finds no half of a table. */
    @Test
    void aCrashAtAnyStepOfTheDeletionOfAllLeavesTheTableOrNothingOfIt() throws IOException {
        int step = 0;
        boolean crashed = true;
        while (crashed) {
            table = Files.createDirectory(temp.resolve("deleted" + step));
            engine = new FileEngine();
            TableGenerations stores = open();
            write(stores.current(), "a");
            stores.migration().begin("rocks");
            Files.createDirectories(stores().resolve("streams/1"));
            crashed = false;
            try {
                new StoreLocation(table, CrashingDisk.at(step)).delete();
            } catch (FSWriteError e) {
                crashed = true;
            }
            if (crashed) {
                // No half of a store counts as one.
                if (new StoreLocation(table, Disk.REAL).holdsData())
                    assertThat(stores().resolve("1/lines")).hasContent("a\n");
                TableGenerations after = reopen();
                assertThat(after.current().failure()).describedAs("after step %d", step).isNull();
                // The pointer is written, renamed and synced.
                if (step < 3) assertThat(read(after)).isIn(List.of("a"), List.of());
                else assertThat(read(after)).isEmpty();
                // By this the start knows that there is something to go on with.
                if (Files.exists(stores().resolve("LIVE")))
                    assertThat(after.migration().isUnderWay()).isTrue();
                after.close();
                after.deleteDirectory();
            }
            assertThat(stores()).doesNotExist();
            step++;
        }
        assertThat(step).describedAs("steps").isGreaterThan(8);
    }

    /** The table's data is in SSTables: the node must start. */
    @Test
    void aFolderThatCannotBeDeletedIsLeftToTheNextStart() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        long out = stores.migration().begin("rocks");
        assertThat(stores.migration().departed(out)).isTrue();
        stores.close();
        // The generation is garbage and goes; nothing else can be deleted.
        TableGenerations after = reopenOn(CrashingDisk.at(0));
        assertThat(after.current().isEmpty()).isTrue();
        after.close();
        after.deleteDirectory();
        assertThat(stores().resolve("MOVING")).exists();
        TableGenerations again = reopen();
        assertThat(again.current().failure()).isNull();
        assertThat(again.current().isEmpty()).isTrue();
        again.close();
        again.deleteDirectory();
        assertThat(stores()).doesNotExist();
    }

    @Test
    void generationsThatAreDeletedAtStartAreNamedInTheLog() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        stores.successor();
        try (CapturedLog log = new CapturedLog(TableGenerations.class, Level.WARN)) {
            reopen();
            assertThat(log.messages())
                    .singleElement()
                    .asString()
                    .startsWith(stores().resolve("1") + " is deleted: LIVE says that generation 2");
        }
    }

    /** The pointer named 13, which nothing was written to yet; 1 could not be deleted. */
    @Test
    void aPointerThatWasCutOffBringsNothingBack() throws IOException {
        write(open().current(), "a");
        Files.writeString(stores().resolve("LIVE"), "1");
        TableGenerations stores = reopen();
        assertThatThrownBy(() -> read(stores))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("must end with a line feed");
        assertThatThrownBy(() -> write(stores.current(), "b"))
                .isInstanceOf(UnavailableStoreException.class);
        assertThat(stores().resolve("1/lines")).hasContent("a\n");
    }

    @Test
    void aGenerationAboveThePointerIsRefused() throws IOException {
        write(open().current(), "a");
        Files.createDirectory(stores().resolve("2"));
        TableGenerations stores = reopen();
        assertThatThrownBy(stores::successor).isInstanceOf(UnavailableStoreException.class);
        assertThatThrownBy(() -> read(stores))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("[1, 2]");
    }

    @Test
    void storesInTwoDataDirectoriesAreRefused() throws IOException {
        write(open().current(), "a");
        Path other = Files.createDirectory(temp.resolve("other"));
        Files.createDirectory(other.resolve(StoreLocation.NAME));
        TableGenerations stores =
                TableGenerations.open("t", TABLE, () -> engine, List.of(table, other), Disk.REAL);
        assertThatThrownBy(() -> read(stores))
                .isInstanceOf(UnavailableStoreException.class)
                .hasMessageContaining("several places");
        assertThatThrownBy(stores::successor).isInstanceOf(UnavailableStoreException.class);
    }

    @Test
    void theSecondDataDirectoryIsUsedIfTheStoresAreThere() throws IOException {
        write(open().current(), "a");
        engine = new FileEngine();
        Path first = Files.createDirectory(temp.resolve("first"));
        TableGenerations stores =
                TableGenerations.open("t", TABLE, () -> engine, List.of(first, table), Disk.REAL);
        assertThat(read(stores)).containsExactly("a");
    }

    @Test
    void dropRemovesEverythingAndRefusesLaterUse() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        Generation rest = stores.drop();
        assertThat(old.isLive()).isFalse();
        assertThat(rest.isLive()).isFalse();
        assertThat(stores.awaitDisposed(Duration.ofMillis(1))).isFalse();
        old.discard();
        assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        assertThat(stores()).doesNotExist();
        assertThatThrownBy(() -> write(rest, "b")).hasMessageContaining("dropped");
    }

    /** Who ends a store ends the memory of other tables as well, and DROP holds up the schema. */
    @Test
    void aReaderThatOutlivesADropKeepsNobodyWaiting() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        stores.drop();
        engine.isRead = true;
        assertTimeoutPreemptively(Duration.ofMinutes(1), old::discard);
        assertThat(stores.awaitDisposed(Duration.ofDays(1))).isFalse();
        assertThat(stores().resolve("1")).exists();

        TableGenerations again = open();
        assertThat(read(again)).isEmpty();
        write(again.current(), "b");
        engine.isRead = false;
        while (Files.exists(stores().resolve("1"))) Thread.sleep(10);
        assertThat(read(again)).containsExactly("b");
        assertThat(read(reopen())).containsExactly("b");
    }

    /** Has the deletion of the table's store wait for the latch that it returns. */
    private CountDownLatch leaveSlowly(TableGenerations stores) throws InterruptedException {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch deletion = new CountDownLatch(1);
        engine.closing =
                () -> {
                    begun.countDown();
                    Uninterruptibles.awaitUninterruptibly(deletion);
                };
        leave(stores);
        assertThat(begun.await(1, TimeUnit.MINUTES)).isTrue();
        engine.closing = () -> {};
        return deletion;
    }

    private static void leave(TableGenerations stores) {
        Generation old = stores.current();
        stores.retire(old);
        old.discard();
        stores.deleteDirectory();
    }

    /** Altered out, in, out and in again: the new store had the path of one that was open. */
    @Test
    void aLaterOwnerOfTheFolderDoesNotDeleteItUnderAFormerOne() throws InterruptedException {
        TableGenerations first = open();
        write(first.current(), "a");
        CountDownLatch deletion = leaveSlowly(first);
        TableGenerations second = open();
        write(second.current(), "b");
        leave(second);
        awaitDisposed(second);
        assertThat(stores().resolve("1/lines")).hasContent("a\n");
        assertThat(stores().resolve("2")).doesNotExist();
        TableGenerations third = open();
        assertThat(third.current().number()).isEqualTo(3);
        write(third.current(), "c");
        awaitDisposed(third);
        deletion.countDown();
        awaitDisposed(first);
        assertThat(stores().resolve("1")).doesNotExist();
        assertThat(read(third)).containsExactly("c");
        assertThat(read(reopen())).containsExactly("c");
    }

    @Test
    void theFolderGoesWithTheLastStoreInItAlsoOfAFormerOwner() throws InterruptedException {
        TableGenerations first = open();
        write(first.current(), "a");
        CountDownLatch deletion = leaveSlowly(first);
        TableGenerations second = open();
        write(second.current(), "b");
        leave(second);
        awaitDisposed(second);
        assertThat(stores().resolve("LIVE")).exists();
        deletion.countDown();
        awaitDisposed(first);
        boolean isThere = TableRegistry.exclusively(() -> Files.exists(stores()));
        assertThat(isThere).isFalse();
    }

    /** TRUNCATE of a large table, and a crash: the start waited until its files were deleted. */
    @Test
    void noTableWaitsForTheDeletionOfWhatACrashLeft() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        write(stores.successor(), "b");
        CountDownLatch deletion = new CountDownLatch(1);
        engine = new FileEngine();
        engine.deleting = () -> Uninterruptibles.awaitUninterruptibly(deletion);
        TableGenerations after = assertTimeoutPreemptively(Duration.ofSeconds(10), () -> open());
        write(after.current(), "c");
        assertThat(read(after)).containsExactly("b", "c");
        assertThat(stores().resolve("1")).exists();
        deletion.countDown();
        awaitDisposed(after);
        assertThat(stores().resolve("1")).doesNotExist();
        assertThat(read(reopen())).containsExactly("b", "c");
    }

    /** The folder went with LIVE, so that the deletion found the table's data by that number. */
    @Test
    void aDeletionThatIsLateFindsNoLaterGenerationOfItsNumber() throws InterruptedException {
        TableGenerations stores = open();
        write(stores.current(), "a");
        var unused = stores.successor();
        stores.close();
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch deletion = new CountDownLatch(1);
        engine = new FileEngine();
        engine.deleting =
                () -> {
                    begun.countDown();
                    Uninterruptibles.awaitUninterruptibly(deletion);
                };
        TableGenerations first = open();
        assertThat(begun.await(1, TimeUnit.MINUTES)).isTrue();
        engine.deleting = () -> {};
        first.close();
        TableGenerations second = open();
        awaitDisposed(second);
        assertThat(stores().resolve("1")).doesNotExist();
        leave(second);
        awaitDisposed(second);
        TableGenerations third = open();
        write(third.current(), "b");
        assertThat(third.current().number()).isEqualTo(3);
        deletion.countDown();
        awaitDisposed(first);
        assertThat(read(third)).containsExactly("b");
        assertThat(read(reopen())).containsExactly("b");
    }

    /** DROP of it leaves LIVE as it is, so that the table that is created next has its number. */
    @Test
    void aDeletionThatIsLateOfATableWithoutDataFindsNoneOfTheNext() {
        TableGenerations first = open();
        Generation old = first.current();
        first.drop();
        TableGenerations second = open();
        assertThat(second.current().number()).isEqualTo(old.number());
        write(second.current(), "a");
        // As when the table is opened anew: the engine knows no reason to refuse.
        second.close();
        old.discard();
        awaitDisposed(first);
        assertThat(engine.deleted).isEmpty();
        assertThat(read(open())).containsExactly("a");
    }

    /** It stayed until the next start: nobody deletes what the former owner has closed. */
    @Test
    void theFolderGoesWhenAFormerOwnerWithAStoreInItIsClosed() {
        TableGenerations first = open();
        write(first.current(), "a");
        var unused = first.successor();
        TableGenerations second = open();
        awaitDisposed(second);
        leave(second);
        awaitDisposed(second);
        assertThat(stores().resolve("LIVE")).exists();
        first.close();
        assertThat(stores()).doesNotExist();
    }

    /** The next write took it for a directory that somebody had put there. */
    @Test
    void aDirectoryWhoseStoreCannotBeOpenedYetIsNotLeft() {
        TableGenerations stores = open();
        Path first = stores().resolve("1");
        engine.open.add(first);
        for (int i = 0; i < 2; i++) {
            assertThatThrownBy(() -> write(stores.current(), "a")).hasMessage(first + " is open");
            assertThat(first).doesNotExist();
        }
        engine.open.remove(first);
        write(stores.current(), "b");
        assertThat(read(reopen())).containsExactly("b");
    }

    /** TRUNCATE of 16,000 files: Cassandra frees the memory of all memtables on one thread. */
    @Test
    void theDeletionOfALargeStoreKeepsNobodyWaiting() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        write(stores.successor(), "b");
        CountDownLatch deletion = new CountDownLatch(1);
        engine.closing = () -> Uninterruptibles.awaitUninterruptibly(deletion);
        assertTimeoutPreemptively(Duration.ofSeconds(10), old::discard);
        assertThat(stores.awaitDisposed(Duration.ZERO)).isFalse();
        assertThat(read(stores)).containsExactly("b");
        assertThat(stores().resolve("1")).exists();
        deletion.countDown();
        assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        assertThat(stores().resolve("1")).doesNotExist();
    }

    /** Half of its folder would be there, and its markers without it. */
    @Test
    void noTableIsOpenedWhileTheFolderOfADroppedOneIsDeleted() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        stores.drop();
        boolean isDeleted =
                TableRegistry.exclusively(
                        () -> {
                            old.discard();
                            // Of this generation; its folder waits.
                            while (Files.exists(stores().resolve("1"))) Thread.onSpinWait();
                            Uninterruptibles.sleepUninterruptibly(Duration.ofMillis(100));
                            return Files.notExists(stores());
                        });
        assertThat(isDeleted).isFalse();
        assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        assertThat(stores()).doesNotExist();
    }

    @Test
    void aDropWhoseReadersOutliveTheNodeIsFinishedAtTheNextStart() {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        stores.drop();
        engine.isRead = true;
        assertTimeoutPreemptively(Duration.ofMinutes(1), old::discard);
        assertThat(new StoreLocation(table, Disk.REAL).holdsData()).isFalse();
        assertThat(read(reopen())).isEmpty();
        assertThat(stores().resolve("1")).doesNotExist();
    }

    @Test
    void dropOfATableWithoutWrites() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        stores.drop();
        dispose(stores, old);
        assertThat(stores()).doesNotExist();
    }

    @Test
    void aFailedDeletionIsRepeatedAtTheNextStart() throws InterruptedException {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        stores.successor();
        engine.failDrop = true;
        dispose(stores, old);
        assertThat(stores().resolve("1")).exists();
        assertThat(read(reopen())).isEmpty();
        assertThat(stores().resolve("1")).doesNotExist();
    }

    @Test
    void aSnapshotIsAStoreDirectoryOfItsOwn() throws IOException {
        TableGenerations stores = open();
        write(stores.current(), "a");
        stores.successor();
        write(stores.current(), "b");
        stores.snapshot(stores.current(), "s");
        write(stores.current(), "c");
        Path restored = Files.createDirectories(temp.resolve("restored"));
        Files.move(table.resolve("snapshots/s/rocksdb"), restored.resolve("rocksdb"));
        TableGenerations copy =
                TableGenerations.open("t", TABLE, () -> engine, List.of(restored), Disk.REAL);
        assertThat(read(copy)).containsExactly("b");
    }

    /** Else a power loss takes it as a whole, though all in it is synced. */
    @Test
    void theNamesOfASnapshotAreDurable() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        List<Path> synced = new ArrayList<>();
        Disk disk = SyncOnlyDisk.noting(synced);
        new StoreSnapshot("ks.t", new StoreLocation(table, Disk.REAL), "s", disk)
                .take(Objects.requireNonNull(stores.current().existing()), 1, () -> null);
        assertThat(synced)
                .containsExactlyInAnyOrder(
                        table, table.resolve("snapshots"), table.resolve("snapshots/s"));
    }

    /** What Cassandra would delete when it expires, and where its own files are. */
    private TableSnapshot taken(Path... directories) {
        Set<File> all = new HashSet<>();
        for (Path directory : directories) all.add(new File(directory));
        return new TableSnapshot("ks", "t", UUID.randomUUID(), "s", null, null, all, false);
    }

    @Test
    void aSnapshotIsWholeOnTheDiskOfTheStore() throws IOException {
        TableGenerations stores = open();
        write(stores.current(), "a");
        stores.snapshot(stores.current(), "s");
        Path copy = table.resolve("snapshots/s");
        Path second = Files.createDirectories(temp.resolve("second"));
        Files.writeString(second.resolve("manifest.json"), "{}");
        Path third = Files.createDirectories(temp.resolve("third"));
        Files.writeString(third.resolve("schema.cql"), "CREATE TABLE");
        TableSnapshot taken = taken(second, third);
        stores.completeSnapshot(taken);
        assertThat(taken.getDirectories())
                .containsExactlyInAnyOrder(new File(copy), new File(second), new File(third));
        assertThat(copy.resolve("manifest.json")).hasContent("{}");
        assertThat(copy.resolve("schema.cql")).hasContent("CREATE TABLE");
        // As where there is one disk.
        taken = taken(copy);
        stores.completeSnapshot(taken);
        assertThat(taken.getDirectories()).containsExactly(new File(copy));
    }

    @Test
    void aSnapshotWithoutACopyOfAStoreIsLeftAsItIs() {
        TableGenerations stores = open();
        TableSnapshot taken = taken(temp);
        stores.completeSnapshot(taken);
        assertThat(taken.getDirectories()).containsExactly(new File(temp));
        assertThat(table.resolve("snapshots")).doesNotExist();
    }

    /** A DROP goes on. */
    @Test
    void aDiskThatFailsAfterASnapshotDoesNotKeepItFromExpiring() throws IOException {
        TableGenerations stores = open();
        write(stores.current(), "a");
        stores.snapshot(stores.current(), "s");
        Path second = Files.createDirectories(temp.resolve("second"));
        Files.writeString(second.resolve("manifest.json"), "{}");
        // Nothing is there, and yet nothing can be written there.
        Path copy = table.resolve("snapshots/s");
        Files.createSymbolicLink(copy.resolve("manifest.json"), temp.resolve("no/such/folder"));
        TableSnapshot taken = taken(second);
        stores.completeSnapshot(taken);
        assertThat(taken.getDirectories()).contains(new File(copy));
    }

    @Test
    void aFailedSnapshotLeavesNothing() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        engine.failCheckpoint = true;
        assertThatThrownBy(() -> stores.snapshot(stores.current(), "s"))
                .isInstanceOf(IllegalStateException.class)
                .hasNoCause()
                .hasMessageContaining("'s' of ks.t")
                .hasMessageContaining("no checkpoint today");
        assertThat(table.resolve("snapshots/s")).doesNotExist();
        engine.failCheckpoint = false;
        stores.snapshot(stores.current(), "s");
        assertThat(table.resolve("snapshots/s/rocksdb/1/lines")).exists();
        assertThatThrownBy(() -> stores.snapshot(stores.current(), "s"))
                .hasMessageContaining("already there");
        assertThat(table.resolve("snapshots/s/rocksdb/1/lines")).exists();
    }

    @Test
    void dropMovesTheDataAsideIfItsSnapshotFailed() throws Exception {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        stores.keepInsteadOfDeleting(old, "dropped-1-t");
        stores.drop();
        dispose(stores, old);
        assertThat(stores()).doesNotExist();
        Path snapshot = table.resolve("snapshots/dropped-1-t/rocksdb");
        assertThat(snapshot.resolve("1/lines")).hasContent("a\n");
        assertThat(snapshot.resolve("LIVE")).content().startsWith("1\n");
        assertThat(snapshot.resolve("CREATED")).content().startsWith("1\n");
    }

    @Test
    void dropLeavesTheDataInPlaceIfItCannotBeMovedAside() throws Exception {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        stores.keepInsteadOfDeleting(old, "dropped-1-t");
        Files.writeString(table.resolve("snapshots"), "a file in the way");
        stores.drop();
        dispose(stores, old);
        assertThat(stores().resolve("1/lines")).hasContent("a\n");
        // As the table's failure says to, if it is its data.
        Files.delete(stores().resolve(StoreLocation.KEEP));
        assertThat(read(reopen())).containsExactly("a");
    }

    private static void dispose(TableGenerations stores, Generation old)
            throws InterruptedException {
        old.discard();
        assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
    }

    /** Closing waits long for a reader that leaked: nothing else does. */
    @Test
    void whatDropKeepsIsNotATablesThatIsCreatedWithTheSameIdMeanwhile() throws Exception {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        CountDownLatch read = new CountDownLatch(1);
        engine.closing = () -> Uninterruptibles.awaitUninterruptibly(read);
        stores.keepInsteadOfDeleting(old, "dropped-1-t");
        stores.drop();
        assertTimeoutPreemptively(Duration.ofMinutes(1), old::discard);
        assertThat(stores.awaitDisposed(Duration.ZERO)).isFalse();
        TableGenerations next = reopen();
        assertThat(next.current().failure()).hasMessageContaining("KEEP says why");
        Generation unusable = next.current();
        next.drop();
        dispose(next, unusable);
        assertThat(stores().resolve("1/lines")).hasContent("a\n");
        read.countDown();
        assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        assertThat(table.resolve("snapshots/dropped-1-t/rocksdb/1/lines")).hasContent("a\n");
        assertThat(read(reopen())).isEmpty();
    }

    @Test
    void dropLeavesEverythingInPlaceIfItIsNotKnownWhatIsAlive() throws Exception {
        write(open().current(), "a");
        Files.writeString(stores().resolve("LIVE"), "seven\n");
        TableGenerations stores = reopen();
        Generation broken = stores.current();
        stores.keepInsteadOfDeleting(broken, "dropped-1-t");
        stores.drop();
        dispose(stores, broken);
        assertThat(stores().resolve("1/lines")).hasContent("a\n");
        assertThat(stores().resolve(StoreLocation.KEEP)).exists();
    }

    @Test
    void aTableObjectThatIsMadeAgainFindsTheSameData() {
        TableGenerations first = open();
        write(first.current(), "a");
        first.close();
        TableGenerations second = open();
        assertThat(read(second)).containsExactly("a");
        assertThat(second.current().number()).isEqualTo(1);
    }

    @Test
    void retiringWithoutASuccessorKillsTheGenerationOnDisk() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        stores.retire(stores.current());
        assertThat(read(reopen())).isEmpty();
    }

    @Test
    void retiringAfterASuccessorChangesNothing() {
        TableGenerations stores = open();
        Generation old = stores.current();
        write(old, "a");
        write(stores.successor(), "b");
        stores.retire(old);
        assertThat(read(reopen())).containsExactly("b");
    }

    @Test
    void metricsOfAClosedStoreAreZeroAndItIsNotTakenForEmpty() {
        TableGenerations stores = open();
        Generation generation = stores.current();
        write(generation, "a");
        assertThat(generation.statistic(s -> s.estimatedPartitions())).isEqualTo(1);
        engine.close();
        assertThat(generation.statistic(s -> s.estimatedPartitions())).isZero();
        assertThat(generation.isEmpty()).isFalse();
    }

    /** A compaction of SSTables would purge what hides what comes. */
    @Test
    void aStoreThatOthersWriteToIsNotTakenForEmpty() {
        TableGenerations stores = open();
        Generation generation = stores.current();
        assertThat(generation.writable()).isNotNull();
        assertThat(generation.isEmpty()).isTrue();
        AtomicBoolean isOver = new AtomicBoolean();
        stores.writtenUntil(isOver::get);
        assertThat(stores.isWrittenByOthers()).isTrue();
        assertThat(generation.isEmpty()).isFalse();
        isOver.set(true);
        assertThat(generation.isEmpty()).isTrue();
        assertThat(stores.isWrittenByOthers()).isFalse();
    }

    /** Metrics of all tables are read one after the other. */
    @Test
    void metricsOfAStoreThatIsClosedForAFullDiskAreZero() {
        Generation generation = open().current();
        write(generation, "a");
        assertThat(
                        generation.<Integer>measure(
                                store -> {
                                    throw new WriteStallException("full", true);
                                },
                                7))
                .isEqualTo(7);
        assertThat(
                        generation.<Integer>measure(
                                store -> {
                                    throw new FSReadError(new IOException(), "store");
                                },
                                7))
                .isEqualTo(7);
    }

    @Test
    void aTruncateThatAFullDiskStopsLeavesTheTableInUse() throws IOException {
        write(open().current(), "a");
        engine = new FileEngine();
        TableGenerations stores = open(CrashingDisk.at(0));
        assertThatThrownBy(stores::successor).isInstanceOf(FSWriteError.class);
        write(stores.current(), "b");
        assertThat(read(reopen())).containsExactly("a", "b");
    }

    // Migration into the engine and out of it

    @Test
    void aMigrationLastsOverRestartsUntilItIsOver() {
        TableGenerations stores = open();
        assertThat(stores.migration().isUnderWay()).isFalse();
        long in = stores.migration().begin("rocks");
        write(stores.current(), "a");
        stores = reopen();
        assertThat(stores.migration().isUnderWay()).isTrue();
        assertThat(stores.migration().isCurrent(in)).isFalse();
        in = stores.migration().resume();
        assertThat(stores.migration().arrived(in)).isTrue();
        assertThat(stores.migration().arrived(in)).isFalse();
        assertThat(stores.migration().isUnderWay()).isFalse();
        assertThat(reopen().migration().isUnderWay()).isFalse();
        assertThat(read(reopen())).containsExactly("a");
    }

    @Test
    void aTableThatLeftIsDeadAndOneHalfWayIsNot() throws InterruptedException {
        TableGenerations stores = open();
        write(stores.current(), "a");
        long out = stores.migration().begin("rocks");
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("01"));
        stores = reopen();
        assertThat(stores.migration().migratedUpTo()).isEqualTo(ByteBufferUtil.hexToBytes("01"));
        assertThat(read(stores)).containsExactly("a");
        out = stores.migration().resume();
        Generation left = stores.current();
        assertThat(stores.migration().departed(out)).isTrue();
        assertThat(read(left)).containsExactly("a");
        dispose(stores, left);
        stores = reopen();
        assertThat(stores.current().isEmpty()).isTrue();
        stores.deleteDirectory();
        assertThat(stores()).doesNotExist();
    }

    /** Else its rows would come back that were deleted in the SSTables since. */
    @Test
    void aTableThatLeftIsDeadBeforeItsReadersLetItGo() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        long out = stores.migration().begin("rocks");
        assertThat(stores.migration().departed(out)).isTrue();
        stores = reopen();
        assertThat(stores.current().isEmpty()).isTrue();
    }

    @Test
    void onlyTheLatestMigrationTakesSteps() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        long out = stores.migration().begin("rocks");
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("01"));
        long in = stores.migration().begin("rocks");
        assertThat(stores.migration().migratedUpTo()).describedAs("begins anew").isNull();
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("02"));
        assertThat(stores.migration().migratedUpTo()).isNull();
        assertThat(stores.migration().departed(out)).isFalse();
        assertThat(stores.migration().step(out, () -> fail("the migration is over"))).isFalse();
        assertThat(stores.migration().isCurrent(in)).isTrue();
        stores.drop();
        assertThat(stores.migration().arrived(in)).isFalse();
    }

    /** What a deletion in the store hides may be in an SSTable, in either direction. */
    @Test
    void nothingIsPurgedWhileATableIsOnItsWay() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        assertThat(stores.mayPurge(() -> true)).isTrue();
        assertThat(stores.mayPurge(() -> false)).isFalse();
        stores.migration().begin("rocks");
        assertThat(stores.mayPurge(() -> true)).isFalse();
        stores = reopen();
        assertThat(stores.mayPurge(() -> true)).as("after a restart").isFalse();
        long in = stores.migration().resume();
        assertThat(stores.migration().arrived(in)).isTrue();
        assertThat(stores.mayPurge(() -> true)).isTrue();
        long out = stores.migration().begin("rocks");
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("01"));
        assertThat(stores.mayPurge(() -> true)).isFalse();
        StreamGuards.Guard sent = stores.streams().begin(List.of(), () -> false);
        assertThat(stores.migration().departed(out)).isTrue();
        assertThat(stores.mayPurge(() -> true)).as("SSTables are sent").isFalse();
        sent.close();
        assertThat(stores.mayPurge(() -> true)).isTrue();
    }

    @Test
    void aMigrationThatCannotBeNotedDoesNotBegin() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        for (int step = 0; step < 3; step++) {
            TableGenerations failing = open(CrashingDisk.at(step));
            assertThatThrownBy(() -> failing.migration().begin("rocks"))
                    .isInstanceOf(FSWriteError.class);
            assertThat(failing.migration().isUnderWay()).isFalse();
        }
    }

    /** The disk of SSTables that it wrote has failed. */
    @Test
    void aMigrationOutCanBeginAnew() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        long out = stores.migration().begin("rocks");
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("01"));
        assertThat(stores.migration().beginAnew(out)).isTrue();
        assertThat(stores.migration().migratedUpTo()).isNull();
        TableMigration after = reopen().migration();
        assertThat(after.isUnderWay()).isTrue();
        assertThat(after.migratedUpTo()).isNull();
        stores.migration().begin("rocks");
        assertThat(stores.migration().beginAnew(out)).isFalse();
    }

    @Test
    void aSnapshotTakenOnTheWaySaysSo() {
        TableGenerations stores = open();
        write(stores.current(), "a");
        long out = stores.migration().begin("rocks");
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("01"));
        stores.snapshot(stores.current(), "tag");
        assertThat(table.resolve("snapshots/tag/rocksdb/MOVING"))
                .content()
                .startsWith("configuration=rocks\nafter=\n");
    }

    // Streams

    /** A stream that came for a generation, and what was done with it. */
    private static final class Stream implements StreamSink {
        private final Runnable whileVerified;
        private final List<String> done = new ArrayList<>();

        Stream(Runnable whileVerified) {
            this.whileVerified = whileVerified;
        }

        @Override
        public SliceWriter begin(int slice) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void verify() {
            done.add("verify");
            whileVerified.run();
        }

        @Override
        public boolean ingest() {
            done.add("ingest");
            return false;
        }

        @Override
        public void prepare() {
            done.add("prepare");
            whileVerified.run();
        }

        @Override
        public void close() {}
    }

    /** They were verified with what the dropped store had freed. */
    @Test
    void aStreamForAGenerationThatIsDeadIsNotEvenVerified() throws IOException {
        List<Consumer<TableGenerations>> ends =
                List.of(TableGenerations::successor, TableGenerations::drop);
        for (Consumer<TableGenerations> end : ends) {
            table = Files.createDirectory(temp.resolve("t-" + System.nanoTime()));
            TableGenerations stores = open();
            Generation generation = stores.current();
            write(generation, "a");
            Stream stream = new Stream(() -> {});
            new GenerationSink(generation, () -> true, stream).verify();
            assertThat(stores.ingests()).isZero();
            new GenerationSink(generation, () -> true, stream).ingest();
            assertThat(stores.ingests()).isEqualTo(1);
            assertThat(stream.done).containsExactly("verify", "ingest");
            for (boolean stays : new boolean[] {false, true}) {
                if (stays) end.accept(stores);
                assertThatThrownBy(
                                () -> new GenerationSink(generation, () -> stays, stream).verify())
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("was truncated, dropped or altered");
                assertThatThrownBy(
                                () -> new GenerationSink(generation, () -> stays, stream).ingest())
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("was truncated, dropped or altered");
            }
            assertThat(stream.done).hasSize(2);
            assertThat(stores.ingests()).isEqualTo(1);
        }
    }

    /** It derives the index entries of 512 MiB of rows, while others alter the table. */
    @Test
    void theTableIsNotHeldWhileAStreamIsPrepared() throws Exception {
        TableGenerations stores = open();
        Generation generation = stores.current();
        write(generation, "a");
        Stream stream = new Stream(() -> assertThat(Thread.holdsLock(stores)).isFalse());
        new GenerationSink(generation, () -> true, stream).prepare();
        Stream ended =
                new Stream(
                        () -> {
                            stores.successor();
                            throw new IllegalStateException("The store is closed.");
                        });
        assertThatThrownBy(() -> new GenerationSink(generation, () -> true, ended).prepare())
                .isInstanceOf(IOException.class)
                .hasMessageContaining("was truncated, dropped or altered");
        assertThatThrownBy(() -> new GenerationSink(generation, () -> true, stream).prepare())
                .isInstanceOf(IOException.class);
        assertThat(stream.done).containsExactly("prepare");
    }

    @Test
    void aTruncateWhileAStreamIsVerifiedIsWhatIsSaidToHaveStoppedIt() throws InterruptedException {
        TableGenerations stores = open();
        Generation generation = stores.current();
        write(generation, "a");
        Stream stream =
                new Stream(
                        () -> {
                            stores.successor();
                            generation.discard();
                            throw new IllegalStateException("The store is closed.");
                        });
        assertThatThrownBy(() -> new GenerationSink(generation, () -> true, stream).verify())
                .isInstanceOf(IOException.class)
                .hasMessageContaining("was truncated, dropped or altered");
        Stream failing =
                new Stream(
                        () -> {
                            throw new IllegalStateException("for another reason");
                        });
        assertThatThrownBy(() -> new GenerationSink(stores.current(), () -> true, failing).verify())
                .hasMessage("for another reason");
        assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
    }
}
