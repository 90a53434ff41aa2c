// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.snapshot.SnapshotManifest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreLocationTest {
    @TempDir Path temp;

    /** The table would look empty, and new rows would lie where the disk is mounted later. */
    @Test
    void aLinkToADiskThatIsNotMountedIsNoEmptyTable() throws IOException {
        Path table = Files.createDirectory(temp.resolve("t"));
        Path disk = temp.resolve("disk");
        Files.createSymbolicLink(table.resolve("rocksdb"), disk);
        StoreLocation location = new StoreLocation(table, Disk.REAL);
        assertThatThrownBy(() -> StoreLocation.locate(List.of(table), Disk.REAL))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(table.resolve("rocksdb") + " is a link to a file or folder");
        assertThatThrownBy(location::holdsData).isInstanceOf(CorruptStoreException.class);
        assertThatThrownBy(() -> StoreLocation.bringBack(List.of(table)))
                .isInstanceOf(CorruptStoreException.class);

        Files.createDirectories(disk.resolve("1"));
        assertThat(StoreLocation.locate(List.of(temp.resolve("other"), table), Disk.REAL).parent())
                .isEqualTo(table);
        assertThat(location.generations()).containsExactly(1L);
    }

    /** After a loss of power it would be in neither place. */
    @Test
    void aGenerationStaysUntilTheNameOfWhereItGoesIsDurable() throws IOException {
        Path table = Files.createDirectories(temp.resolve("t"));
        StoreLocation before = new StoreLocation(table, Disk.REAL);
        before.makeLive(1);
        Files.createDirectory(before.generation(1));
        before.markCreated(1);
        StoreLocation location = new StoreLocation(table, CrashingDisk.at(0));
        assertThatThrownBy(() -> location.moveToSnapshot(1, "dropped"))
                .isInstanceOf(IOException.class);
        assertThat(location.generation(1)).isDirectory();
        before.moveToSnapshot(1, "dropped");
        assertThat(before.snapshot("dropped").generations()).containsExactly(1L);
        assertThat(before.generations()).isEmpty();
        assertThat(before.isLost()).isFalse();
    }

    /** The same; and each start would leave one more snapshot with nothing in it. */
    @Test
    void aStoreIsMovedAsideWhenTheNamesOfWhereItGoesAreDurable() throws IOException {
        Path table = Files.createDirectories(temp.resolve("t"));
        StoreLocation location = new StoreLocation(table, Disk.REAL);
        location.makeLive(1);
        Files.createDirectory(location.generation(1));
        List<Path> synced = new ArrayList<>();
        Disk disk = SyncOnlyDisk.noting(synced);
        SnapshotManifest manifest = new SnapshotManifest(List.of(), null, Instant.EPOCH, false);
        assertThatThrownBy(() -> new StoreLocation(table, disk).moveAside("dropped", manifest))
                .hasMessage("crash in rename");
        Path snapshots = table.resolve("snapshots");
        assertThat(synced)
                .containsExactlyInAnyOrder(table, snapshots, snapshots.resolve("dropped"));
        assertThat(location.generations()).containsExactly(1L);
        assertThat(snapshots).isEmptyDirectory();
        assertThat(location.moveAside("dropped", manifest).generations()).containsExactly(1L);
        assertThat(location.generations()).isEmpty();
    }

    /** Such as a generation on a disk of its own. */
    @Test
    void aGenerationThatIsALinkToNothingIsNotMissing() throws IOException {
        Path table = Files.createDirectories(temp.resolve("t"));
        StoreLocation location = new StoreLocation(table, Disk.REAL);
        location.makeLive(1);
        Path disk = temp.resolve("disk");
        Files.createSymbolicLink(location.generation(1), disk);
        assertThatThrownBy(location::generations)
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(location.generation(1).toString());
        Files.createDirectory(disk);
        assertThat(location.generations()).containsExactly(1L);
    }

    /** A link to itself stands for a disk that fails: the system says neither yes nor no. */
    @Test
    void whatCannotBeLookedAtIsNotMissing() throws IOException {
        Path table = Files.createDirectories(temp.resolve("t"));
        StoreLocation location = new StoreLocation(table, Disk.REAL);
        location.makeLive(1);
        Files.createSymbolicLink(location.generation(1), location.generation(1));
        assertThatThrownBy(location::generations).isInstanceOf(FSReadError.class);
        assertThatThrownBy(location::holdsData).isInstanceOf(FSReadError.class);
        Path keep = location.root().resolve(StoreLocation.KEEP);
        Files.createSymbolicLink(keep, keep);
        assertThatThrownBy(location::isKept).isInstanceOf(FSReadError.class);
    }

    /** What a table without Petra's data has in the place of snapshots does not matter. */
    @Test
    void noStoreIsBroughtBackFromWhatIsNoFolderOfSnapshots() throws IOException {
        Path file = Files.createDirectories(temp.resolve("t"));
        Files.createFile(file.resolve("snapshots"));
        Path link = Files.createDirectories(temp.resolve("u"));
        Files.createSymbolicLink(link.resolve("snapshots"), temp.resolve("no"));
        assertThat(StoreLocation.bringBack(List.of(file, link))).isNull();
    }

    @Test
    void aNewStoreIsNotPutWhereNothingCanBeWritten() throws IOException {
        Path first = Files.createDirectories(temp.resolve("first"));
        Path second = Files.createDirectories(temp.resolve("second"));
        assertThat(StoreLocation.locate(List.of(first, second), Disk.REAL).parent())
                .isEqualTo(first);
        DisallowedDirectories.maybeMarkUnwritable(new File(first));
        try {
            assertThat(StoreLocation.locate(List.of(first, second), Disk.REAL).parent())
                    .isEqualTo(second);
            // What is there stays where it is.
            Files.createDirectory(first.resolve("rocksdb"));
            assertThat(StoreLocation.locate(List.of(first, second), Disk.REAL).parent())
                    .isEqualTo(first);
        } finally {
            DisallowedDirectories.clearUnwritableUnsafe();
        }
    }

    /** A guard that fails keeps no table from being used. */
    @Test
    void whereNobodyCanTellTheDiskOfTheFolderItIsMarked() throws IOException {
        Path table = Files.createDirectories(temp.resolve("t"));
        Path root = table.resolve("rocksdb");
        Files.createSymbolicLink(root, root);
        new StoreLocation(table, Disk.REAL)
                .mark(TableId.fromString("11111111-2222-3333-4444-555555555555"));
        assertThat(table.resolve(StoreMarker.NAME)).content().contains("store=" + root);
    }
}
