// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.loopback;

import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;

/** The reference engine by connections. */
class MemoryEngineLoopbackTest implements LoopbackTests {
    private final EngineUnderTest kit =
            new EngineUnderTest(
                    MemoryEngineProvider.NAME, Map.of(), new Capabilities(true, true, false));

    @Override
    public EngineUnderTest kit() {
        return kit;
    }

    @AfterEach
    void close() {
        kit.close();
    }
}
