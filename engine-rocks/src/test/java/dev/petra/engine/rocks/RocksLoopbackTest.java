// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.streaming.loopback.LoopbackTests;
import java.util.Map;

/** Parts by Cassandra's streaming connections, without a node. */
class RocksLoopbackTest extends LoopbackTests {
    RocksLoopbackTest() {
        super(
                new EngineUnderTest(
                        RocksEngineProvider.NAME,
                        Map.of("memory", "64MiB"),
                        new Capabilities(true, true, true)));
    }
}
