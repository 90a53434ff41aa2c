// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngineProvider;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.mutants.ForwardingEngine;
import dev.petra.engine.mutants.NamedMutations;
import java.util.Map;

/**
 * The engine {@code rocks} with a fault, named by its setting {@code fault} or by {@code
 * -Dfuzz.fault}.
 */
public final class FaultyEngineProvider implements StorageEngineProvider {
    @Override
    public String name() {
        return "faulty";
    }

    @Override
    public StorageEngine open(EngineSettings settings) {
        Map<String, String> passedOn =
                Map.of(
                        "memory", settings.text("memory", "128MiB"),
                        "direct_reads", settings.text("direct_reads", "auto"),
                        "write_stall_timeout", settings.text("write_stall_timeout", "2s"));
        StorageEngine rocks = StorageEngines.open("rocks", new EngineSettings(passedOn));
        String fault = settings.text("fault", System.getProperty("fuzz.fault"));
        return new ForwardingEngine(NamedMutations.of(fault).apply(rocks), store -> store) {
            @Override
            public String name() {
                return "faulty";
            }

            /** A fault of rows is to be found by rows. */
            @Override
            public boolean hasIndexes() {
                return !NamedMutations.ofRows().contains(fault);
            }
        };
    }
}
