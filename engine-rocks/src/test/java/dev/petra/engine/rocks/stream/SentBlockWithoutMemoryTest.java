// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.format.LargeBuffers;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.StreamSource;
import dev.petra.streaming.ChildJvm;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A large row that finds no direct memory when it is sent ends its session, and not the node. */
class SentBlockWithoutMemoryTest {
    private static final int MEMORY_MIB = 64;
    private static final int VALUE = 10 << 20;

    @TempDir Path directory;

    /** In a JVM of its own: how much there is is decided when it starts. */
    @Test
    void aSessionFails() throws Exception {
        ChildJvm.run(
                directory,
                Duration.ofMinutes(2),
                List.of(
                        "-XX:MaxDirectMemorySize=" + MEMORY_MIB + "m",
                        Sender.class.getName(),
                        directory.resolve("store").toString()));
    }

    static final class Sender {
        private Sender() {}

        public static void main(String[] arguments) throws Exception {
            TestTable table = TestTable.of("CREATE TABLE t (k int PRIMARY KEY, v text)");
            try (StorageEngine engine = Tables.engine(Map.of("memory", "32MiB"));
                    TableStore store = engine.openStore(table.spec(Path.of(arguments[0])));
                    StreamSource source = source(store, table);
                    SliceReader reader = source.open(0)) {
                List<ByteBuffer> others = takeAllMemory();
                Throwable failure = catchThrowable(() -> largest(reader));
                assertThat(failure)
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("-XX:MaxDirectMemorySize");
                // Cassandra looks for it among the causes, and ends the process.
                assertThat(failure).hasNoCause();
                others.forEach(LargeBuffers.OF_PROCESS::giveBack);
                assertThat(largest(reader)).as("once there is memory").isGreaterThan(VALUE);
            }
            // Cassandra's threads are still there.
            System.exit(0);
        }

        private static StreamSource source(TableStore store, TestTable table) {
            store.write(table.update(1).at(1).row().set("v", "v".repeat(VALUE)).build());
            return store.send(List.of(new SliceRanges(RangeTests.everything(), 0)));
        }

        /** As the slices of other sessions do, which all send such rows at once. */
        private static List<ByteBuffer> takeAllMemory() {
            List<ByteBuffer> taken = new ArrayList<>();
            for (int i = 0; i < MEMORY_MIB; i++)
                try {
                    taken.add(LargeBuffers.OF_PROCESS.lend(VALUE));
                } catch (OutOfMemoryError e) {
                    return taken;
                }
            throw new AssertionError("there is more memory than the JVM was given");
        }

        private static int largest(SliceReader reader) throws IOException {
            int largest = 0;
            for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                largest = Math.max(largest, block.remaining());
            return largest;
        }
    }
}
