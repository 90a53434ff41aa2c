// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The engine and Cassandra's memtable agree on everything, whatever is done to them. */
public interface RandomHistoryTests {
    /** Opens an engine of its own, for history after history. */
    EngineUnderTest openKit();

    @Test
    default void randomHistoriesGiveWhatCassandrasMemtableGives() {
        try (Differential differential = new Differential(this::openKit)) {
            assertThat(differential.run(Duration.ofSeconds(5))).isPositive();
        }
    }
}
