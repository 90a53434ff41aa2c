// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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
                .hasMessageContaining(table.resolve("rocksdb") + " is a link to a folder");
        assertThatThrownBy(location::holdsData).isInstanceOf(CorruptStoreException.class);
        assertThatThrownBy(() -> StoreLocation.bringBack(List.of(table)))
                .isInstanceOf(CorruptStoreException.class);

        Files.createDirectories(disk.resolve("1"));
        assertThat(StoreLocation.locate(List.of(temp.resolve("other"), table), Disk.REAL).parent())
                .isEqualTo(table);
        assertThat(location.generations()).containsExactly(1L);
    }
}
