// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.streaming.loopback.LoopbackTests;
import java.util.Map;

/** Slices by Cassandra's streaming connections, without a node. */
class RocksLoopbackTest extends LoopbackTests {
    RocksLoopbackTest() {
        super(
                new EngineUnderTest(
                        StoreDescriptor.ENGINE, Map.of("memory", "64MiB"), Capabilities.ALL));
    }
}
