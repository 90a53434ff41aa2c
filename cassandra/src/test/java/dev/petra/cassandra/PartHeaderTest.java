// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.UUID;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.Test;

class PartHeaderTest {
    private static final StreamManifest MANIFEST =
            new StreamManifest(
                    "rocks",
                    2,
                    TableId.fromUUID(new UUID(1, 2)),
                    "t",
                    List.of(),
                    ByteBuffer.wrap(new byte[] {7, 8}),
                    List.of(part(0, 10), part(1, 20)));

    private static StreamPart part(int index, long bytes) {
        ByteBuffer key = ByteBuffer.wrap(new byte[] {(byte) index, 1, 2});
        return new StreamPart(index, bytes, bytes * 3, key, key.duplicate());
    }

    private static byte[] written(PartHeader header) throws IOException {
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            header.write(out);
            return out.toByteArray();
        }
    }

    @Test
    void whatIsWrittenIsRead() throws IOException {
        for (PartHeader sent : PartHeader.of(MANIFEST)) {
            byte[] bytes = written(sent);
            try (DataInputBuffer in = new DataInputBuffer(bytes)) {
                PartHeader read = PartHeader.read(in);
                assertThat(read).isEqualTo(sent);
                assertThat(read.part().bytes()).isEqualTo(10 + 10 * sent.index());
                assertThat(in.available()).isZero();
            }
        }
    }

    @Test
    void aChangedByteIsNoticed() throws IOException {
        byte[] bytes = written(PartHeader.of(MANIFEST).get(1));
        for (int place = 0; place < bytes.length; place++) {
            byte[] damaged = bytes.clone();
            damaged[place] ^= 1;
            try (DataInputBuffer in = new DataInputBuffer(damaged)) {
                assertThatThrownBy(() -> PartHeader.read(in))
                        .as("byte %d", place)
                        .isInstanceOf(IOException.class);
            }
        }
    }

    /** A peer that lies makes the digest fit. */
    @Test
    void lengthsThatLieTakeNoMemory() throws IOException {
        byte[] bytes = written(PartHeader.of(MANIFEST).get(0));
        int size = ByteBuffer.wrap(bytes).getInt(4);
        for (int place = 8; place < 8 + size - 3; place++) {
            ByteBuffer lies = ByteBuffer.wrap(bytes.clone());
            lies.putInt(place, Integer.MAX_VALUE - 16);
            long digest = XXHashFactory.fastestInstance().hash64().hash(lies.array(), 8, size, 0);
            lies.putLong(8 + size + 4, digest ^ lies.getInt(8 + size));
            try (DataInputBuffer in = new DataInputBuffer(lies.array())) {
                PartHeader.read(in);
            } catch (IOException refused) {
                assertThat(refused.getMessage()).as("byte %d", place).isNotBlank();
            }
        }
    }
}
