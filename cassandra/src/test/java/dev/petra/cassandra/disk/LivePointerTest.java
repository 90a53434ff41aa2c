// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import org.apache.cassandra.io.FSWriteError;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LivePointerTest {
    @TempDir Path temp;

    private Path directory() {
        return temp.resolve("rocksdb");
    }

    private LivePointer pointer() {
        return new LivePointer(directory(), Disk.REAL);
    }

    @Test
    void isAbsentAtFirst() {
        assertThat(pointer().read()).isEmpty();
    }

    @Test
    void holdsWhatWasWrittenLast() {
        pointer().write(1);
        pointer().write(12);
        assertThat(pointer().read()).hasValue(12);
        assertThat(directory().resolve(LivePointer.NAME)).hasContent("12\ncrc32c=582abdcf\n");
    }

    /** "13" that became "1" had a dead generation 1, not deleted yet, come back. */
    @Test
    void aNumberThatWasCutOffIsNoOtherNumber() throws IOException {
        pointer().write(13);
        byte[] whole = Files.readAllBytes(directory().resolve(LivePointer.NAME));
        for (int length = 0; length < whole.length; length++) {
            Files.write(
                    directory().resolve(LivePointer.NAME), java.util.Arrays.copyOf(whole, length));
            // A line of its own is what earlier versions wrote.
            if (length == "13\n".length() || length == whole.length - 1)
                assertThat(pointer().read()).hasValue(13);
            else
                assertThatThrownBy(() -> pointer().read())
                        .as("%d bytes", length)
                        .isInstanceOf(CorruptStoreException.class)
                        .hasMessageContaining("Write the number");
        }
    }

    /** So that a table of an earlier version opens, and an operator can write the file. */
    @Test
    void isReadWithoutAChecksum() throws IOException {
        Files.createDirectory(directory());
        Files.writeString(directory().resolve(LivePointer.NAME), "7\n");
        assertThat(pointer().read()).hasValue(7);
    }

    /** "1" that became "3" had the live generation deleted as garbage. */
    @Test
    void aFlippedBitIsNoOtherNumber() throws IOException {
        pointer().write(1);
        FlippedBits.ofEach(
                directory().resolve(LivePointer.NAME),
                file ->
                        assertThatThrownBy(() -> pointer().read())
                                .isInstanceOf(CorruptStoreException.class)
                                .hasMessageContaining(file.toString())
                                .hasMessageContaining("Write the number"));
        assertThat(pointer().read()).hasValue(1);
    }

    @Test
    void aLinkToNothingIsNotTheSameAsNoFile() throws IOException {
        Files.createDirectory(directory());
        Files.createSymbolicLink(directory().resolve(LivePointer.NAME), temp.resolve("no"));
        assertThatThrownBy(() -> pointer().read()).isInstanceOf(CorruptStoreException.class);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "\n", "seven\n", "0\n", "-1\n", "01\n", "1 2\n", "1\n\n", " 1\n"})
    void refusesAnythingButANumber(String content) throws IOException {
        Files.createDirectory(directory());
        Path file = directory().resolve(LivePointer.NAME);
        Files.writeString(file, content);
        assertThatThrownBy(() -> pointer().read())
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(file.toString())
                .hasMessageContaining("Write the number");
    }

    @Test
    void aCrashAtAnyStepLeavesTheOldNumberOrTheNew() {
        int step = 0;
        boolean crashed = true;
        while (crashed) {
            pointer().write(3);
            CrashingDisk disk = CrashingDisk.at(step++);
            crashed = false;
            try {
                new LivePointer(directory(), disk).write(4);
            } catch (FSWriteError e) {
                crashed = true;
            }
            OptionalLong found = pointer().read();
            if (crashed) assertThat(found.orElseThrow()).isIn(3L, 4L);
            else assertThat(found).hasValue(4);
        }
        assertThat(step).describedAs("steps of one write").isGreaterThan(3);
    }

    @Test
    void aCrashAtAnyStepOfTheFirstWriteLeavesNothingOrTheNumber() {
        for (int step = 0; step < 5; step++) {
            Path table = temp.resolve("table" + step);
            table.toFile().mkdir();
            Path directory = table.resolve("rocksdb");
            CrashingDisk disk = CrashingDisk.at(step);
            assertThatThrownBy(() -> new LivePointer(directory, disk).write(1))
                    .isInstanceOf(FSWriteError.class);
            assertThat(new LivePointer(directory, Disk.REAL).read().orElse(1)).isEqualTo(1);
        }
    }
}
