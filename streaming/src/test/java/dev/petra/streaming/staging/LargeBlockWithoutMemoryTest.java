// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.host.DirectMemory;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.streaming.ChildJvm;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.HeadCodec;
import dev.petra.streaming.wire.HeadCodec.SliceHead;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A block that finds no direct memory ends its session, and not the node. */
class LargeBlockWithoutMemoryTest {
    private static final int MEMORY_MIB = 16;

    @TempDir Path directory;

    /** In a JVM of its own: how much there is is decided when it starts. */
    @Test
    void aSessionFails() throws Exception {
        ChildJvm.run(
                directory,
                Duration.ofMinutes(2),
                List.of("-XX:MaxDirectMemorySize=" + MEMORY_MIB + "m", Receiver.class.getName()));
    }

    static final class Receiver {
        private Receiver() {}

        public static void main(String[] arguments) throws IOException {
            failsForWantOfMemory((MEMORY_MIB + 4) << 20);
            assertThat(catchThrowable(() -> receive((MEMORY_MIB / 4) << 20)))
                    .as("one for which there is memory")
                    .isInstanceOf(EOFException.class);
            ByteBuffer others =
                    ByteBuffer.allocateDirect((MEMORY_MIB << 20) - SliceWriter.BLOCK / 2);
            failsForWantOfMemory(SliceWriter.BLOCK);
            DirectMemory.free(others);
            assertThat(catchThrowable(() -> receive(SliceWriter.BLOCK)))
                    .as("a usual one for which there is memory")
                    .isInstanceOf(EOFException.class);
        }

        private static void failsForWantOfMemory(int blockBytes) {
            Throwable failure = catchThrowable(() -> receive(blockBytes));
            assertThat(failure)
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("-XX:MaxDirectMemorySize");
            // Cassandra looks for it among the causes, and ends the process.
            assertThat(failure).hasNoCause();
        }

        /** The head of a slice and the frame of a block, of which nothing comes. */
        private static void receive(int blockBytes) throws IOException {
            ByteBuffer head =
                    HeadCodec.encode(
                            new SliceHead(
                                    new StreamHead(
                                            "e", 1, TableId.fromUUID(new UUID(1, 2)), "t", 1, 0),
                                    0));
            ByteBuffer packed = ByteBuffer.allocate(Frame.scratch(head.remaining()));
            try (DataOutputBuffer out = new DataOutputBuffer();
                    IncomingSlices session = new IncomingSlices(any -> new Sink())) {
                Frame.pack(Frame.Kind.HEAD, 1, 0, 0, head, packed).write(out);
                out.write(packed);
                new Frame(Frame.Kind.BLOCK, 1, 0, 1, blockBytes, blockBytes, 0).write(out);
                session.receive(
                        new DataInputBuffer(out.toByteArray()), (slice, first) -> bytes -> {});
            }
        }
    }

    private static final class Sink extends OneSliceSink {
        @Override
        public void take(ByteBuffer block) {
            throw new AssertionError("nothing of it came");
        }
    }
}
