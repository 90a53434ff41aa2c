// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.loopback;

import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.util.Map;

/** With the reference engine. */
class MemoryEngineLoopbackTest extends LoopbackTests {
    MemoryEngineLoopbackTest() {
        super(
                new EngineUnderTest(
                        MemoryEngineProvider.NAME,
                        Map.of(),
                        new Capabilities(true, true, false, true)));
    }
}
