// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MigrationMarkTest {
    private static final MigrationMark BEGUN = new MigrationMark("rocks", null);
    private static final MigrationMark HALF_WAY =
            new MigrationMark("rocks", ByteBufferUtil.hexToBytes("00c0ffee"));

    @TempDir Path temp;

    private Path directory() {
        return temp.resolve("rocksdb");
    }

    @Test
    void isAbsentAtFirst() {
        assertThat(MigrationMark.read(directory())).isNull();
    }

    @Test
    void holdsWhatWasWrittenLastUntilItIsRemoved() {
        BEGUN.write(directory(), Disk.REAL);
        assertThat(MigrationMark.read(directory())).isEqualTo(BEGUN);
        HALF_WAY.write(directory(), Disk.REAL);
        assertThat(MigrationMark.read(directory())).isEqualTo(HALF_WAY);
        assertThat(directory().resolve(MigrationMark.NAME))
                .hasContent("configuration=rocks\nafter=00c0ffee\ncrc32c=d354eafe\n");
        MigrationMark.remove(directory(), Disk.REAL);
        MigrationMark.remove(directory(), Disk.REAL);
        assertThat(MigrationMark.read(directory())).isNull();
    }

    /** So that a migration that an earlier version began goes on. */
    @Test
    void isReadWithoutAChecksum() throws IOException {
        Files.createDirectories(directory());
        Files.writeString(
                directory().resolve(MigrationMark.NAME), "configuration=rocks\nafter=00c0ffee\n");
        assertThat(MigrationMark.read(directory())).isEqualTo(HALF_WAY);
    }

    /** Another key had the partitions up to it left behind in the store, which is deleted. */
    @Test
    void aFlippedBitIsNoOtherMark() throws IOException {
        HALF_WAY.write(directory(), Disk.REAL);
        FlippedBits.ofEach(
                directory().resolve(MigrationMark.NAME),
                file ->
                        assertThatThrownBy(() -> MigrationMark.read(directory()))
                                .isInstanceOf(CorruptStoreException.class)
                                .hasMessageContaining(file.toString())
                                .hasMessageContaining("Write these two lines"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "rocks\n",
                "configuration=rocks\n",
                "configuration=rocks\nafter=0\n",
                "configuration=rocks\nafter=xx\n",
                "after=\nconfiguration=rocks\n",
                "configuration=rocks\nafter=00\nmore\n"
            })
    void refusesAnythingElse(String content) throws IOException {
        Files.createDirectory(directory());
        Path file = directory().resolve(MigrationMark.NAME);
        Files.writeString(file, content);
        assertThatThrownBy(() -> MigrationMark.read(directory()))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(file.toString())
                .hasMessageContaining("Write these two lines");
    }

    @Test
    void aCrashAtAnyStepLeavesTheOldMarkOrTheNew() {
        boolean crashed = true;
        int step = 0;
        while (crashed) {
            BEGUN.write(directory(), Disk.REAL);
            crashed = false;
            try {
                HALF_WAY.write(directory(), CrashingDisk.at(step++));
            } catch (FSWriteError e) {
                crashed = true;
            }
            if (crashed) assertThat(MigrationMark.read(directory())).isIn(BEGUN, HALF_WAY);
            else assertThat(MigrationMark.read(directory())).isEqualTo(HALF_WAY);
        }
        assertThat(step).describedAs("steps of one write").isGreaterThan(3);
    }
}
