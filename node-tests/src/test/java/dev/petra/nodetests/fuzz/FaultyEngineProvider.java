// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngineProvider;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.mutants.NamedMutations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.function.UnaryOperator;

/** The engine {@code rocks} with a fault, named by {@code -Dfuzz.fault}, in each of its stores. */
public final class FaultyEngineProvider implements StorageEngineProvider {
    @Override
    public String name() {
        return "faulty";
    }

    @Override
    public StorageEngine open(EngineSettings settings) {
        Map<String, String> memory = Map.of("memory", settings.text("memory", "128MiB"));
        StorageEngine rocks = StorageEngines.open("rocks", new EngineSettings(memory));
        return new Faulty(rocks, NamedMutations.of(System.getProperty("fuzz.fault")));
    }

    private record Faulty(StorageEngine rocks, UnaryOperator<TableStore> fault)
            implements StorageEngine {
        @Override
        public String name() {
            return "faulty";
        }

        @Override
        public TableStore openStore(StoreSpec spec) {
            return fault.apply(rocks.openStore(spec));
        }

        @Override
        public void deleteStore(Path directory) {
            rocks.deleteStore(directory);
        }

        @Override
        public void walSync(WalSync mode, Duration interval) {
            rocks.walSync(mode, interval);
        }

        @Override
        public void compactionThroughput(long bytesPerSecond) {
            rocks.compactionThroughput(bytesPerSecond);
        }

        @Override
        public EngineStatistics statistics() {
            return rocks.statistics();
        }

        @Override
        public void close() {
            rocks.close();
        }
    }
}
