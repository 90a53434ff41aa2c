// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Room that one file has set aside is not there for another. */
class PledgedRoomTest {
    @TempDir Path directory;

    @Test
    void whatIsSetAsideIsNotThereForOthers() throws IOException {
        long most = Files.getFileStore(directory).getUsableSpace() / 10 * 6;
        PledgedRoom first = PledgedRoom.of(directory, most);
        first.renew();
        assertThatThrownBy(() -> PledgedRoom.of(directory, most))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("has no room");
        // What was refused is not counted, and what is given back twice is once.
        first.close();
        first.close();
        try (PledgedRoom second = PledgedRoom.of(directory, most)) {
            second.renew();
            assertThatThrownBy(() -> PledgedRoom.of(directory, most))
                    .isInstanceOf(IOException.class);
        }
    }

    @Test
    void aFileThatHasGrownNeedsLess() throws IOException {
        long most = Files.getFileStore(directory).getUsableSpace() / 10 * 6;
        try (PledgedRoom first = PledgedRoom.of(directory, most)) {
            first.set(most / 6);
            try (PledgedRoom second = PledgedRoom.of(directory, most)) {
                assertThatThrownBy(() -> first.set(most)).isInstanceOf(IOException.class);
                second.renew();
            }
            first.set(most);
        }
    }
}
