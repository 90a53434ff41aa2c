// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.nio.file.Path;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RunningBuildsTest {
    private static final UUID ONE = new UUID(1, 1);
    private static final UUID TWO = new UUID(2, 2);

    @TempDir Path directory;

    private final RunningBuilds running = new RunningBuilds();
    private TableStore store;

    @BeforeEach
    void open() {
        StorageEngine engine = new MemoryEngineProvider().open(new EngineSettings(Map.of()));
        TestTable table = TestTable.of("CREATE TABLE t (k int PRIMARY KEY)");
        store = engine.openStore(table.spec(directory.resolve("store")));
    }

    @Test
    void aBuildYieldsToThoseThatBeganLaterAndRun() {
        running.begins(store, ONE, 1, 1);
        assertThat(running.yieldsTo(store, ONE, 1)).isZero();
        running.begins(store, ONE, 2, 2);
        running.begins(store, TWO, 3, 3);
        assertThat(running.yieldsTo(store, ONE, 1)).isEqualTo(2);
        assertThat(running.yieldsTo(store, ONE, 2)).isZero();
        running.ends(store, ONE, 2);
        assertThat(running.yieldsTo(store, ONE, 1)).isZero();
    }

    /** Otherwise each would yield to the other in turn. */
    @Test
    void aFurtherRoundMakesABuildNoLater() {
        running.begins(store, ONE, 1, 1);
        running.begins(store, ONE, 2, 2);
        running.begins(store, ONE, 1, 4);
        assertThat(running.yieldsTo(store, ONE, 2)).isZero();
        running.begins(store, ONE, 2, 5);
        assertThat(running.yieldsTo(store, ONE, 1)).isEqualTo(5);
    }
}
