// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.rocks.Tables;
import dev.petra.streaming.ChildJvm;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

@EnabledIfSystemProperty(named = "os.arch", matches = "amd64|x86_64")
class Crc32cTest {
    private static final String USED = "RocksDB uses the instruction";
    private static final int WORD = 8;
    private static final int MOST = 300;

    @TempDir Path directory;

    /** Of all lengths and alignments, in two parts. */
    @Test
    void isThatOfJava() {
        try (StorageEngine engine = Tables.engine()) {
            assertThat(engine.name()).isNotEmpty();
            byte[] random = new byte[MOST];
            new Random(1).nextBytes(random);
            ByteBuffer bytes = ByteBuffer.allocateDirect(MOST).put(random);
            for (int from = 0; from < WORD; from++)
                for (int to = from; to <= MOST; to++) {
                    CRC32C expected = new CRC32C();
                    expected.update(random, from, to - from);
                    int middle = from + (to - from) / 3;
                    int first = Crc32c.extend(0, bytes, from, middle);
                    assertThat(Crc32c.extend(first, bytes, middle, to))
                            .as("%d to %d", from, to)
                            .isEqualTo((int) expected.getValue());
                }
        }
    }

    /** The process. */
    static final class Loading {
        private Loading() {}

        public static void main(String[] args) {
            // Its self-test writes to a log.
            try (StorageEngine engine = Tables.engine()) {
                if (Crc32c.isUsed()) System.out.println(USED + " in " + engine.name());
            }
        }
    }

    /** In a process where no other test has loaded RocksDB before. */
    @Test
    void isInRocksDbsLogs() throws Exception {
        String said =
                ChildJvm.run(directory, Duration.ofMinutes(2), List.of(Loading.class.getName()));
        assertThat(said).contains(USED);
    }
}
