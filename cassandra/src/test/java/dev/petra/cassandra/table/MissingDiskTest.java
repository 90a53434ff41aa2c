// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.CrashingDisk;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.OrphanStores;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.disk.StoreMarker;
import dev.petra.cassandra.table.FileEngine.FileStore;
import dev.petra.engine.DirectoryTree;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A table's store is on one of several disks, and that disk is missing at a start. */
class MissingDiskTest {
    private static final TableMetadataRef TABLE = TestTables.reference();
    private static final String DIRECTORY = "t-11111111222233334444555555555555";
    private static final int MOST_STEPS = 40;

    @TempDir Path temp;
    private Path disks = Path.of("");

    @BeforeEach
    void create() throws IOException {
        mount("disks");
    }

    /** Three empty disks with the table's directories, as Cassandra makes them. */
    private void mount(String name) throws IOException {
        disks = temp.resolve(name);
        for (Path table : tables()) Files.createDirectories(table);
    }

    private List<Path> tables() {
        return Stream.of("a", "b", "c")
                .map(disk -> disks.resolve(disk).resolve(DIRECTORY))
                .toList();
    }

    private Path marker(String disk) {
        return disks.resolve(disk).resolve(DIRECTORY).resolve(StoreMarker.NAME);
    }

    /** As after a crash: nothing was closed, and nothing is remembered. */
    private TableGenerations open(Disk disk) {
        return open(tables(), disk);
    }

    private TableGenerations open() {
        return open(Disk.REAL);
    }

    private static TableGenerations open(List<Path> tables, Disk disk) {
        FileEngine engine = new FileEngine();
        return TableGenerations.open("t", TABLE, () -> engine, tables, disk);
    }

    private static void write(TableGenerations stores, String line) {
        ((FileStore) stores.current().writable()).append(line);
    }

    private static List<String> read(TableGenerations stores) {
        TableStore store = stores.current().existing();
        return store == null ? List.of() : ((FileStore) store).lines();
    }

    private Path unmount() throws IOException {
        Path away = disks.resolve("away");
        Files.move(disks.resolve("a"), away);
        Files.createDirectories(disks.resolve("a").resolve(DIRECTORY));
        return away;
    }

    private void mountAgain(Path away) throws IOException {
        Files.delete(disks.resolve("a").resolve(DIRECTORY));
        Files.delete(disks.resolve("a"));
        Files.move(away, disks.resolve("a"));
    }

    @Test
    void aTableWithoutWritesLeavesNoMarker() {
        assertThat(open().current().isEmpty()).isTrue();
        for (Path table : tables()) assertThat(table).isEmptyDirectory();
    }

    @Test
    void theOtherDisksSayWhereTheStoreIs() {
        write(open(), "x");
        assertThat(marker("a")).doesNotExist();
        assertThat(marker("b")).hasSameTextualContentAs(marker("c"));
        assertThat(marker("b"))
                .content()
                .startsWith(
                        "version=1\ntable_id=11111111-2222-3333-4444-555555555555\nstore="
                                + tables().get(0).resolve(StoreLocation.NAME)
                                + "\ncrc32c=");
    }

    @Test
    void withoutItsDiskTheTableIsRefusedAndNotEmpty() throws IOException {
        write(open(), "x");
        Path away = unmount();
        TableGenerations stores = open();
        assertThat(stores.failure())
                .hasMessageContaining("The data of table ks.t is missing")
                .hasMessageContaining(tables().get(0).resolve(StoreLocation.NAME).toString())
                .hasMessageContaining("mount the disk")
                .hasMessageContaining("rm -f " + marker("a") + " " + marker("b"));
        assertThatThrownBy(() -> write(stores, "y")).hasMessageContaining("not available");
        for (Path table : tables()) assertThat(table.resolve(StoreLocation.NAME)).doesNotExist();
        mountAgain(away);
        assertThat(read(open())).containsExactly("x");
    }

    @Test
    void aDataDirectoryThatWasTakenOutOfTheConfigurationIsMissedToo() {
        write(open(), "x");
        assertThat(open(tables().subList(1, 3), Disk.REAL).failure())
                .hasMessageContaining("is missing");
    }

    /** A disk is mounted on the folder itself, or the folder is a link to where one is mounted. */
    @Test
    void aFolderWithoutAStoreIsNoneWhereTheMarkersSayThatThereIsOne() throws IOException {
        write(open(), "x");
        Path root = tables().get(0).resolve(StoreLocation.NAME);
        Path away = Files.move(root, disks.resolve("away"));
        Path empty = Files.createDirectories(root.resolve("lost+found"));
        assertThat(open().failure()).hasMessageContaining("is missing");
        Files.delete(empty);
        assertThat(open().failure()).hasMessageContaining("is missing");
        Files.delete(root);
        Files.move(away, root);
        assertThat(read(open())).containsExactly("x");
    }

    @Test
    void aDiskOfItsOwnIsMissedWhereThereIsOneDataDirectory() throws IOException {
        Path memory = Path.of("/dev/shm");
        assumeTrue(
                Files.isWritable(memory)
                        && !Files.getFileStore(memory).equals(Files.getFileStore(disks)),
                "no second disk");
        List<Path> one = tables().subList(0, 1);
        Path root = one.get(0).resolve(StoreLocation.NAME);
        Path own = Files.createTempDirectory(memory, "petra");
        try {
            Files.createSymbolicLink(root, own);
            write(open(one, Disk.REAL), "x");
            assertThat(marker("a")).content().contains("store=" + root);
            Files.delete(root);
            Files.createSymbolicLink(root, Files.createDirectory(disks.resolve("empty")));
            assertThat(open(one, Disk.REAL).failure())
                    .hasMessageContaining("is missing")
                    .hasMessageContaining("rm -f " + marker("a"));
            Files.delete(root);
            Files.createSymbolicLink(root, own);
            assertThat(read(open(one, Disk.REAL))).containsExactly("x");
        } finally {
            DirectoryTree.delete(own);
        }
    }

    /** Directories as Cassandra before 2.1 made them, which it uses as soon as there is one. */
    private List<Path> withoutId() throws IOException {
        List<Path> made = new ArrayList<>();
        for (Path table : tables()) made.add(Files.createDirectories(table.resolveSibling("t")));
        return made;
    }

    /** After the next start it would have looked empty, and got a second store. */
    @Test
    void aStoreInADirectoryThatCassandraPassesOverIsRefusedAndNotEmpty() throws IOException {
        List<Path> without = withoutId();
        assertThat(open(without, Disk.REAL).failure()).isNull();
        write(open(), "x");
        TableGenerations stores = open(without, Disk.REAL);
        assertThat(stores.failure())
                .hasMessageContaining("table ks.t")
                .hasMessageContaining(tables().toString())
                .hasMessageContaining(without.toString());
        assertThatThrownBy(() -> write(stores, "y")).hasMessageContaining("not available");
        for (Path table : without) assertThat(table).isEmptyDirectory();
        assertThat(read(open())).containsExactly("x");
    }

    @Test
    void theMarkersInSuchDirectoriesAreSeenToo() throws IOException {
        write(open(), "x");
        unmount();
        assertThat(open(withoutId(), Disk.REAL).failure())
                .hasMessageContaining(tables().subList(1, 3).toString());
    }

    /** It is brought back only to where it was. */
    @Test
    void aStoreThatWasMovedAsideInSuchADirectoryIsSeenToo() throws IOException {
        write(open(), "x");
        OrphanStores.remove(
                tables(), id -> false, (keyspace, name) -> false, null, null, Instant.EPOCH);
        assertThat(tables().get(0).resolve(StoreLocation.NAME)).doesNotExist();
        assertThat(open(withoutId(), Disk.REAL).failure())
                .hasMessageContaining(tables().get(0).toString());
        assertThat(read(open())).containsExactly("x");
    }

    @Test
    void suchADirectoryThatIsALinkToNothingIsNotMissing() throws IOException {
        Path table = tables().get(0);
        Files.delete(table);
        Files.createSymbolicLink(table, disks.resolve("away"));
        assertThat(open(withoutId(), Disk.REAL).failure())
                .hasMessageContaining(table + " is a link to a file or folder");
    }

    /** After TRUNCATE the store has no generation, but it is a second one that would be created. */
    @Test
    void truncateKeepsTheMarkers() throws IOException {
        TableGenerations stores = open();
        write(stores, "x");
        var unused = stores.successor();
        unmount();
        assertThat(open().failure()).hasMessageContaining("is missing");
    }

    @Test
    void withoutTheMarkersTheTableBeginsEmpty() throws IOException {
        write(open(), "x");
        unmount();
        Files.delete(marker("b"));
        assertThat(open().failure()).hasMessageContaining(marker("c").toString());
        Files.delete(marker("c"));
        TableGenerations stores = open();
        assertThat(stores.failure()).isNull();
        write(stores, "y");
        assertThat(read(open())).containsExactly("y");
    }

    /** A store of an earlier version, a new data directory, and data directories by new names. */
    @Test
    void eachStartWritesTheMarkersThatAreMissingOrSaySomethingElse() throws IOException {
        write(open(), "x");
        Files.delete(marker("b"));
        Files.writeString(marker("c"), "half a li");
        Path former = disks;
        disks = temp.resolve("renamed");
        Files.move(former, disks);
        assertThat(read(open())).containsExactly("x");
        assertThat(marker("b")).content().contains("store=" + tables().get(0));
        assertThat(marker("c")).hasSameTextualContentAs(marker("b"));
    }

    /** As in a directory that was copied from another table's. */
    @Test
    void theMarkerOfAnotherTableSaysNothing() throws IOException {
        Files.writeString(marker("b"), "version=1\ntable_id=" + new java.util.UUID(1, 1) + "\n");
        assertThat(open().failure()).isNull();
    }

    @Test
    void aDamagedMarkerCountsAsOneWhereThereIsNoStore() throws IOException {
        write(open(), "x");
        unmount();
        for (String disk : List.of("b", "c"))
            Files.writeString(
                    marker(disk), Files.readString(marker(disk)).replace("version", "wersion"));
        assertThat(open().failure())
                .hasMessageContaining("is damaged")
                .hasMessageContaining("rm -f");
    }

    @Test
    void aDiskThatCannotBeWrittenLacksTheMarkerAndStopsNoWrite() throws IOException {
        Files.createDirectory(marker("b").resolveSibling("PETRA_STORE.next"));
        write(open(), "x");
        assertThat(marker("b")).doesNotExist();
        assertThat(marker("c")).isRegularFile();
        assertThat(read(open())).containsExactly("x");
    }

    @Test
    void aTableThatLeavesTakesItsMarkersAlong() throws InterruptedException {
        TableGenerations stores = open();
        write(stores, "x");
        stores.endCurrent();
        stores.current().discard();
        stores.deleteDirectory();
        assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        for (Path table : tables()) assertThat(table).isEmptyDirectory();
    }

    @Test
    void dropWithoutTheDiskDeletesTheMarkers() throws IOException {
        write(open(), "x");
        unmount();
        var unused = open().drop();
        assertThat(open().failure()).isNull();
    }

    @Test
    void theMarkersOfATableThatTheSchemaDoesNotKnowGoAtStart() throws IOException {
        write(open(), "x");
        unmount();
        OrphanStores.remove(
                tables(),
                id -> false,
                (keyspace, name) -> false,
                "of a doubt",
                null,
                Instant.EPOCH);
        assertThat(marker("b")).exists();
        OrphanStores.remove(
                tables(), id -> true, (keyspace, name) -> true, null, null, Instant.EPOCH);
        assertThat(marker("b")).exists();
        OrphanStores.remove(
                tables(), id -> false, (keyspace, name) -> false, null, null, Instant.EPOCH);
        assertThat(marker("b")).doesNotExist();
        assertThat(marker("c")).doesNotExist();
    }

    /** Halfway out of the engine. */
    private void migrateHalf() {
        TableGenerations stores = open();
        write(stores, "x");
        long out = stores.migration().begin("rocks");
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("01"));
        assertThat(open().migration().migratedUpTo()).isEqualTo(ByteBufferUtil.hexToBytes("01"));
    }

    private void replace(String disk) throws IOException {
        DirectoryTree.delete(disks.resolve(disk));
        Files.createDirectories(disks.resolve(disk).resolve(DIRECTORY));
    }

    /** What had been migrated to it was lost: the migration went on, and the store was deleted. */
    @Test
    void aMigrationOutBeginsAnewIfADiskWasReplaced() throws IOException {
        migrateHalf();
        replace("b");
        for (int start = 0; start < 2; start++) {
            TableGenerations stores = open();
            assertThat(stores.migration().isUnderWay()).isTrue();
            assertThat(stores.migration().migratedUpTo()).isNull();
            assertThat(read(stores)).containsExactly("x");
        }
        TableGenerations stores = open();
        long out = stores.migration().resume();
        stores.migration().migratedUpTo(out, ByteBufferUtil.hexToBytes("02"));
        assertThat(open().migration().migratedUpTo()).isNotNull();
    }

    @Test
    void aCrashAtAnyStepOfAStartWithAReplacedDiskLosesNothing() throws IOException {
        int crashes = 0;
        for (int step = 0; step < MOST_STEPS; step++) {
            mount("replaced" + step);
            migrateHalf();
            replace("b");
            if (open(CrashingDisk.at(step)).failure() != null) crashes++;
            TableGenerations after = open();
            assertThat(after.failure()).isNull();
            assertThat(after.migration().migratedUpTo()).describedAs("step %d", step).isNull();
        }
        assertThat(crashes).isBetween(2, MOST_STEPS - 1);
    }

    /** A store with data has its markers on disk already when its first generation appears. */
    @Test
    void aCrashAtAnyStepOfTheFirstWriteLeavesNoUnmarkedData() throws IOException {
        int crashes = 0;
        for (int step = 0; step < MOST_STEPS; step++) {
            mount("first" + step);
            CrashingDisk disk = CrashingDisk.at(step);
            TableGenerations stores = open(disk);
            try {
                write(stores, "x");
            } catch (FSError e) {
                crashes++;
                for (Path table : tables())
                    assertThat(table.resolve(StoreLocation.NAME).resolve("1")).doesNotExist();
                assertThat(marker("b")).doesNotExist();
            }
            TableGenerations after = open();
            assertThat(after.failure()).isNull();
            write(after, "y");
            unmount();
            assertThat(open().failure()).hasMessageContaining("is missing");
        }
        assertThat(crashes).isBetween(3, MOST_STEPS - 1);
    }

    /** What a crash leaves of a table that leaves the engine is deleted whole by the next start. */
    @Test
    void aCrashAtAnyStepOfTheDeletionLeavesAFolderOrNothingThatRefuses() throws IOException {
        int crashes = 0;
        for (int step = 0; step < MOST_STEPS; step++) {
            mount("last" + step);
            write(open(), "x");
            StoreLocation place = StoreLocation.locate(tables(), CrashingDisk.at(step));
            try {
                place.delete();
            } catch (FSError e) {
                crashes++;
            }
            Path root = tables().get(0).resolve(StoreLocation.NAME);
            boolean data = Files.exists(root.resolve("1"));
            // As long as there is data its markers are there.
            if (data) {
                assertThat(marker("b")).exists();
                assertThat(marker("c")).exists();
            }
            if (Files.notExists(root.resolve("LIVE"))) {
                assertThat(marker("b")).doesNotExist();
                assertThat(marker("c")).doesNotExist();
            }
            TableGenerations after = open();
            assertThat(after.failure()).isNull();
            if (step > 0 && !data) assertThat(after.current().isEmpty()).isTrue();
        }
        assertThat(crashes).isBetween(5, MOST_STEPS - 1);
    }
}
