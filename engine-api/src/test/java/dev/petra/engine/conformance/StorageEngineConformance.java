// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;

/**
 * Every rule of the storage-engine SPI, as a test. An engine's test extends this and names the
 * engine; the tests are in the interfaces, by theme.
 */
@TestInstance(TestInstance.Lifecycle.PER_METHOD)
public abstract class StorageEngineConformance
        implements WriteTests,
                RangeTombstoneTests,
                CounterTests,
                TypeTests,
                SliceTests,
                ColumnFilterTests,
                AlterTests,
                ScanTests,
                LifecycleTests,
                RangeTests,
                StreamTests,
                SettingsTests,
                PurgeTests,
                IndexTests,
                ConcurrencyTests,
                RandomHistoryTests {
    private EngineUnderTest kit;

    /** The engine's name, as {@link dev.petra.engine.StorageEngineProvider#name} says it. */
    protected abstract String engineName();

    /** Settings to open it with. */
    protected Map<String, String> settings() {
        return Map.of();
    }

    /** Settings that it must refuse: names that it knows, with values that they cannot have. */
    @Override
    public Map<String, String> illFormedSettings() {
        return Map.of();
    }

    /** Whether it sends and receives streams. If not, it must refuse by name. */
    protected boolean supportsStreams() {
        return true;
    }

    /** Whether it removes what lies outside some ranges. If not, it must refuse by name. */
    protected boolean supportsRetainRanges() {
        return true;
    }

    /** Whether it notices a changed byte in its data files. */
    protected boolean findsDamage() {
        return true;
    }

    /** Whether it has indexes by term. If not, it must refuse by name. */
    protected boolean supportsIndexes() {
        return true;
    }

    @Override
    public final EngineUnderTest kit() {
        return kit;
    }

    @Override
    public final EngineUnderTest openKit() {
        return new EngineUnderTest(
                engineName(),
                settings(),
                new Capabilities(
                        supportsStreams(),
                        supportsRetainRanges(),
                        findsDamage(),
                        supportsIndexes()));
    }

    @BeforeEach
    final void openEngine() {
        kit = openKit();
    }

    /** Waits for readers, and so would wait for ever for one that a failing test left open. */
    @AfterEach
    @Timeout(value = 240, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    final void closeEngine() {
        kit.close();
    }
}
