// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.rocks.Tables;
import dev.petra.streaming.ChildJvm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeLibraryTest {
    @TempDir Path directory;

    /** A process whose first attempt fails. */
    static final class TwoAttempts {
        private TwoAttempts() {}

        public static void main(String[] args) throws IOException {
            String temporary = System.getProperty("java.io.tmpdir");
            for (int i = 0; i < 2; i++)
                try {
                    NativeLibrary.load(
                            temporary,
                            path -> {
                                throw new IllegalStateException("no room in " + path);
                            });
                } catch (IllegalStateException e) {
                    System.out.println(e.getMessage());
                }
            try (StorageEngine engine = Tables.engine()) {
                System.out.println(engine.name() + " is open");
            }
            long loaded =
                    Files.readAllLines(Path.of("/proc/self/maps")).stream()
                            .filter(line -> line.contains("/libpetra.so"))
                            // Device and inode.
                            .map(line -> line.split(" +", 6)[3] + " " + line.split(" +", 6)[4])
                            .distinct()
                            .count();
            System.out.println("loaded: " + loaded);
        }
    }

    /** Of two, one would lack what it needs of RocksDB, and the node would crash. */
    @Test
    void isLoadedOnceHoweverManyAttemptsFail() throws Exception {
        String said =
                ChildJvm.run(
                        directory, Duration.ofMinutes(2), List.of(TwoAttempts.class.getName()));
        assertThat(said).contains("no room in", "is open", "loaded: 1");
    }
}
