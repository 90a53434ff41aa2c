// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import java.util.Map;
import org.apache.cassandra.schema.CompactionParams;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;

class PurgeRulesTest {
    private static final TableMetadata TABLE =
            TestTables.table(
                    "CREATE TABLE t (p int PRIMARY KEY, v int) WITH gc_grace_seconds = 50");

    private final PurgeRules rules = new PurgeRules();

    private static TableMetadata graceOf(int seconds) {
        return TABLE.unbuild().gcGraceSeconds(seconds).build();
    }

    @Test
    void theShortestGraceSinceTheStartCounts() {
        assertThat(rules.grace(TABLE)).isEqualTo(50);
        rules.altered(TABLE, graceOf(70));
        assertThat(rules.grace(graceOf(70))).isEqualTo(50);
        rules.altered(graceOf(70), graceOf(10));
        rules.altered(graceOf(10), graceOf(99));
        assertThat(rules.grace(graceOf(99))).isEqualTo(10);
        // Before anybody was told of it.
        assertThat(rules.grace(graceOf(3))).isEqualTo(3);
        rules.dropped(TABLE.id);
        assertThat(rules.grace(graceOf(99))).isEqualTo(99);
    }

    @Test
    void compactionsThatDropWhatHidesSomething() {
        TableMetadata dropping =
                TABLE.unbuild()
                        .compaction(
                                CompactionParams.fromMap(
                                        Map.of(
                                                "class",
                                                "TimeWindowCompactionStrategy",
                                                "unsafe_aggressive_sstable_expiration",
                                                "true")))
                        .build();
        assertThat(rules.doubt(TABLE)).isNull();
        assertThat(rules.doubt(dropping)).contains("unsafe_aggressive_sstable_expiration");
        rules.altered(dropping, TABLE);
        assertThat(rules.doubt(TABLE)).contains("unsafe_aggressive_sstable_expiration");
    }

    @Test
    void whatAnOperatorHasDoneCountsUntilTheNodeIsRestarted() {
        rules.overridden(TABLE, "forcecompact was called");
        rules.altered(TABLE, graceOf(10));
        assertThat(rules.doubt(graceOf(10))).isEqualTo("forcecompact was called");
        assertThat(rules.grace(graceOf(50))).isEqualTo(10);
    }
}
