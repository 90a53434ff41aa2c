// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.streaming.loopback.LoopbackTests;
import dev.petra.streaming.wire.Frame;
import java.util.Map;
import org.apache.cassandra.utils.memory.BufferPool;
import org.junit.jupiter.api.Test;

/** Slices by Cassandra's streaming connections, without a node. */
class RocksLoopbackTest extends LoopbackTests {
    RocksLoopbackTest() {
        super(
                new EngineUnderTest(
                        StoreDescriptor.ENGINE, Map.of("memory", "64MiB"), Capabilities.ALL));
    }

    /** Cassandra allocates a larger one for each block. */
    @Test
    void aBlockFitsInABufferThatCassandraKeeps() {
        assertThat(Frame.BYTES + Frame.scratch(SliceCursor.BLOCK))
                .isLessThanOrEqualTo(BufferPool.NORMAL_CHUNK_SIZE);
    }
}
