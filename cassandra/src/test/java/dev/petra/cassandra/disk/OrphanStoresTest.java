// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ch.qos.logback.classic.Level;
import dev.petra.cassandra.CapturedLog;
import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.config.DurationSpec;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.snapshot.SnapshotManifest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OrphanStoresTest {
    private static final String HEX = "00112233445566778899aabbccddeeff";
    private static final TableId ID = TableId.fromString("00112233-4455-6677-8899-aabbccddeeff");

    @TempDir Path temp;

    private Path table(String name, String live) throws IOException {
        Path table = temp.resolve(name);
        Path rocksdb = Files.createDirectories(table.resolve("rocksdb/1")).getParent();
        Files.writeString(rocksdb.resolve("1/data"), "x");
        Files.writeString(rocksdb.resolve("LIVE"), live + "\n");
        Files.createDirectories(table.resolve("snapshots/s"));
        return table;
    }

    private static void remove(
            Path table, Set<TableId> schema, boolean anyTables, boolean snapshot) {
        remove(table, schema, "none", anyTables, snapshot);
    }

    private static void remove(
            Path table, Set<TableId> schema, String name, boolean anyTables, boolean snapshot) {
        String keyspace = table.getParent().getFileName().toString();
        OrphanStores.remove(
                List.of(table),
                schema::contains,
                (in, named) -> in.equals(keyspace) && named.equals(name),
                anyTables ? null : "of a doubt",
                snapshot ? null : new DurationSpec.IntSecondsBound("7d"),
                Instant.ofEpochMilli(5));
    }

    @Test
    void aTableOfTheSchemaIsNeverTouched() throws IOException {
        Path table = table("t-" + HEX, "1");
        remove(table, Set.of(ID), true, false);
        assertThat(table.resolve("rocksdb/1/data")).exists();
    }

    /** An operator may have restored an old schema: that must not cost the data. */
    @Test
    void withoutAutoSnapshotTheDataBecomesASnapshotThatExpires() throws IOException {
        Path table = table("t-" + HEX, "1");
        remove(table, Set.of(), true, false);
        assertThat(table.resolve("rocksdb")).doesNotExist();
        assertThat(table.resolve("snapshots/s")).exists();
        Path moved = table.resolve("snapshots/dropped-5-t");
        assertThat(moved.resolve("rocksdb/1/data")).exists();
        assertThat(moved.resolve("rocksdb/LIVE")).hasContent("1\n");
        assertThat(
                        SnapshotManifest.deserializeFromJsonFile(
                                new File(moved.resolve("manifest.json"))))
                .satisfies(
                        manifest -> {
                            assertThat(manifest.createdAt).isEqualTo(Instant.ofEpochMilli(5));
                            assertThat(manifest.expiresAt)
                                    .isEqualTo(manifest.createdAt.plus(Duration.ofDays(7)));
                        });
    }

    @Test
    void withAutoSnapshotTheDataBecomesTheSnapshotThatDropWouldHaveTaken() throws IOException {
        Path table = table("t-" + HEX, "1");
        remove(table, Set.of(), true, true);
        assertThat(table.resolve("rocksdb")).doesNotExist();
        assertThat(table.resolve("snapshots/dropped-5-t/rocksdb/1/data")).exists();
        assertThat(table.resolve("snapshots/dropped-5-t/rocksdb/LIVE")).hasContent("1\n");
        assertThat(table.resolve("snapshots/dropped-5-t/manifest.json"))
                .content()
                .doesNotContainPattern("\"expires_at\" *: *\"");
    }

    /** As with snapshots on another disk: a store cannot be renamed into itself either. */
    @Test
    void whatCannotBeMovedAsideLeavesNoEmptySnapshots() throws IOException {
        Path table = table("t-" + HEX, "1");
        Path snapshots = table.resolve("snapshots");
        Files.delete(snapshots.resolve("s"));
        Files.delete(snapshots);
        Path elsewhere = Files.createDirectory(table.resolve("rocksdb/elsewhere"));
        Files.createSymbolicLink(snapshots, elsewhere);
        for (int start = 0; start < 2; start++) {
            remove(table, Set.of(), true, false);
            assertThat(elsewhere).isEmptyDirectory();
            assertThat(table.resolve("rocksdb/1/data")).exists();
        }
    }

    @Test
    void deadGenerationsAreNotWorthASnapshot() throws IOException {
        Path table = table("t-" + HEX, "2");
        remove(table, Set.of(), true, true);
        assertThat(table.resolve("rocksdb")).doesNotExist();
        assertThat(table.resolve("snapshots/dropped-5-t")).doesNotExist();
    }

    @Test
    void nothingIsTouchedWhenTheWholeSchemaIsGone() throws IOException {
        Path table = table("t-" + HEX, "1");
        remove(table, Set.of(), false, false);
        assertThat(table.resolve("rocksdb/1/data")).exists();
    }

    @Test
    void whatAnOperatorMustDecideStays() throws IOException {
        Path table = table("t-" + HEX, "1");
        Files.createFile(table.resolve("rocksdb/KEEP"));
        remove(table, Set.of(), true, false);
        assertThat(table.resolve("rocksdb/1/data")).exists();
    }

    /** The node ended after the data had been moved, and before the mark was removed. */
    @Test
    void whatIsKeptAndHasMovedIntoItsSnapshotIsRemoved() throws IOException {
        Path table = table("t-" + HEX, "1");
        StoreLocation place = new StoreLocation(table, Disk.REAL);
        place.keep("it is to be moved into the snapshot");
        place.moveToSnapshot(1, "dropped");
        assertThat(place.isKept()).isTrue();
        remove(table, Set.of(), true, false);
        assertThat(table.resolve("rocksdb")).doesNotExist();
        assertThat(table.resolve("snapshots/dropped/rocksdb/1/data")).exists();
        assertThat(table.resolve("snapshots/dropped/rocksdb/LIVE")).content().startsWith("1\n");
    }

    @Test
    void aTableWithoutAnIdInItsDirectoryIsKnownByItsName() throws IOException {
        Path table = table("t", "2");
        remove(table, Set.of(), "t", true, false);
        assertThat(table.resolve("rocksdb/1/data")).exists();
    }

    /** A copy that an operator made, as to rescue what TRUNCATE had ended, may be called so. */
    @Test
    void aStoreWithoutAnIdInItsDirectoryIsNamedAndStays() throws IOException {
        for (String live : new String[] {"1", "2"}) {
            Path table = table("rescue" + live, live);
            Path marker = Files.writeString(table.resolve("PETRA_STORE"), "x");
            try (CapturedLog log = new CapturedLog(OrphanStores.class, Level.WARN)) {
                remove(table, Set.of(), true, false);
                assertThat(log.messages())
                        .singleElement()
                        .asString()
                        .contains(table.resolve("rocksdb").toString(), "belongs to no table");
            }
            assertThat(table.resolve("rocksdb/1/data")).exists();
            assertThat(marker).exists();
        }
    }

    @Test
    void aFolderThatIsNoTablesIsNotTouched() throws IOException {
        Path folder = temp.resolve("old");
        Path file = Files.createDirectories(folder.resolve("rocksdb")).resolve("CURRENT");
        Files.writeString(file, "x");
        remove(folder, Set.of(), true, false);
        assertThat(file).exists();
    }

    /** An old schema may have lacked it; the node's peers tell of it, seconds after the start. */
    @Test
    void aTableThatTheSchemaKnowsAgainGetsItsStoreBack() throws IOException {
        Path table = table("t-" + HEX, "1");
        Path other = Files.createDirectory(temp.resolve("other"));
        OrphanStores.bringBack(List.of(other, table));
        remove(table, Set.of(), true, false);
        OrphanStores.bringBack(List.of(other, table));
        assertThat(table.resolve("rocksdb/1/data")).exists();
        assertThat(table.resolve("rocksdb/LIVE")).hasContent("1\n");
        assertThat(table.resolve("snapshots/dropped-5-t")).doesNotExist();
        OrphanStores.bringBack(List.of(other, table));
        assertThat(table.resolve("rocksdb/1/data")).exists();
    }

    @Test
    void aSnapshotThatDropTookIsNoStoreToBringBack() throws IOException {
        Path table = table("t-" + HEX, "1");
        Files.move(table.resolve("rocksdb"), table.resolve("snapshots/s/rocksdb"));
        OrphanStores.bringBack(List.of(table));
        assertThat(table.resolve("rocksdb")).doesNotExist();
        assertThat(table.resolve("snapshots/s/rocksdb/1/data")).exists();
    }

    @Test
    void ofTwoStoresNoneIsBroughtBack() throws IOException {
        Path table = table("t-" + HEX, "1");
        remove(table, Set.of(), true, false);
        Path second = temp.resolve("second");
        Files.move(table, second);
        table("t-" + HEX, "1");
        remove(table, Set.of(), true, false);
        assertThatThrownBy(() -> OrphanStores.bringBack(List.of(table, second)))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("Several stores");
        assertThat(table.resolve("snapshots/dropped-5-t/rocksdb/1/data")).exists();
        assertThat(second.resolve("snapshots/dropped-5-t/rocksdb/1/data")).exists();
    }
}
