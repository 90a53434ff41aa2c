// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.function.UnaryOperator;

/** The reference engine with something done to each of its stores. */
class MutantEngine implements StorageEngine {
    final StorageEngine engine =
            StorageEngines.open(MemoryEngineProvider.NAME, new EngineSettings(Map.of()));
    private final UnaryOperator<TableStore> mutation;

    MutantEngine(UnaryOperator<TableStore> mutation) {
        this.mutation = mutation;
    }

    @Override
    public String name() {
        return engine.name();
    }

    @Override
    public TableStore openStore(StoreSpec spec) {
        return mutation.apply(engine.openStore(spec));
    }

    @Override
    public void deleteStore(Path directory) {
        engine.deleteStore(directory);
    }

    @Override
    public void walSync(WalSync mode, Duration interval) {
        engine.walSync(mode, interval);
    }

    @Override
    public void compactionThroughput(long bytesPerSecond) {
        engine.compactionThroughput(bytesPerSecond);
    }

    @Override
    public EngineStatistics statistics() {
        return engine.statistics();
    }

    @Override
    public void close() {
        engine.close();
    }
}
