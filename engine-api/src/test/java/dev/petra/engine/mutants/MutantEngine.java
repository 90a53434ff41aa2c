// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.TableStore;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.util.Map;
import java.util.function.UnaryOperator;

/** The reference engine with something done to each of its stores. */
class MutantEngine extends ForwardingEngine {
    MutantEngine(UnaryOperator<TableStore> mutation) {
        super(
                StorageEngines.open(MemoryEngineProvider.NAME, new EngineSettings(Map.of())),
                mutation);
    }
}
