// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.junit.jupiter.api.Test;

class StoreIndexBuilderTest {
    /** {@code nodetool stop INDEX_BUILD}, TRUNCATE and Cassandra's own interrupts. */
    @Test
    @SuppressWarnings("NullAway") // of no table
    void whoStopsABuildStopsThatOfItsSSTables() {
        SecondaryIndexBuilder first =
                new SecondaryIndexBuilder() {
                    @Override
                    public void build() {}

                    @Override
                    public CompactionInfo getCompactionInfo() {
                        throw new UnsupportedOperationException();
                    }
                };
        new StoreIndexBuilder(null, List.of(), true, first).stop();
        assertThat(first.isStopRequested()).isTrue();
    }
}
