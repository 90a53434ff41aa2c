// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LogDirectoryTest {
    @TempDir Path directory;

    private void log(String name) throws IOException {
        Files.createFile(directory.resolve(name));
    }

    @Test
    void itIsSyncedOnceForEachLog() throws IOException {
        log("000007.log");
        try (LogDirectory names = new LogDirectory(directory)) {
            for (int sync = 0; sync < 10; sync++) names.force(1);
            assertThat(names.forces()).isEqualTo(1);
            names.force(2);
            assertThat(names.forces()).as("something else has changed").isEqualTo(1);
            log("000009.log");
            for (int sync = 0; sync < 10; sync++) names.force(3);
            assertThat(names.forces()).isEqualTo(2);
            Files.delete(directory.resolve("000007.log"));
            names.force(4);
            assertThat(names.forces()).isEqualTo(2);
        }
    }

    @Test
    void anInterruptDoesNotEndIt() throws IOException {
        log("000001.log");
        try (LogDirectory names = new LogDirectory(directory)) {
            for (int number = 2; number < 5; number++) {
                Thread.currentThread().interrupt();
                log("00000" + number + ".log");
                names.force(number);
                assertThat(Thread.interrupted()).isTrue();
                assertThat(names.forces()).isEqualTo(number - 1);
                // One to go on with if the next interrupt keeps an error from being told.
                assertThat(descriptors()).isEqualTo(2);
            }
        }
        assertThat(descriptors()).isZero();
    }

    private long descriptors() throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
            return all.filter(this::isOfDirectory).count();
        }
    }

    private boolean isOfDirectory(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).equals(directory.toRealPath());
        } catch (IOException e) {
            // That of this listing.
            return false;
        }
    }
}
