// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.engine.EngineSettings;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.schema.CompactionParams;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.Tables;
import org.apache.cassandra.service.ClientWarn;
import org.junit.jupiter.api.Test;

class SchemaGateTest {
    private static final EngineKey ENGINE = new EngineKey("rocks", new EngineSettings(Map.of()));

    private static TableMetadata table(String strategy) {
        return TestTables.table("CREATE TABLE t (p int PRIMARY KEY)")
                .unbuild()
                .compaction(CompactionParams.fromMap(Map.of("class", strategy)))
                .build();
    }

    private static TableMetadata inEngine(TableMetadata table) {
        MemtableParams params = Hollow.of(MemtableParams.class);
        Hollow.set(params, MemtableParams.class, "factory", new PetraMemtableFactory(ENGINE));
        Hollow.set(params, MemtableParams.class, "configurationKey", "rocks");
        return table.unbuild().memtable(params).build();
    }

    private static Keyspaces with(TableMetadata table) {
        return Keyspaces.of(
                KeyspaceMetadata.create("ks", KeyspaceParams.simple(1), Tables.of(table)));
    }

    /** What who alters the table is told. */
    private static List<String> warnings(TableMetadata before, TableMetadata after) {
        ClientWarn.instance.captureWarnings();
        try {
            SchemaGate.check(Keyspaces.diff(with(before), with(after)));
            List<String> warnings = ClientWarn.instance.getWarnings();
            return warnings == null ? List.of() : warnings;
        } finally {
            ClientWarn.instance.resetWarnings();
        }
    }

    /** Each SSTable has data of all windows, so that Cassandra drops none for long. */
    @Test
    void whoAltersATableWithTimeWindowsOutOfItsEngineIsWarned() {
        TableMetadata windows = table("TimeWindowCompactionStrategy");
        assertThat(warnings(inEngine(windows), windows))
                .singleElement()
                .asString()
                .contains("ks.t", "time windows", "TimeWindowCompactionStrategy");
    }

    @Test
    void whereThereAreNoTimeWindowsOrTheTableWasInNoEngineNobodyIsWarned() {
        TableMetadata tiers = table("SizeTieredCompactionStrategy");
        TableMetadata windows = table("TimeWindowCompactionStrategy");
        assertThat(warnings(inEngine(tiers), tiers)).isEmpty();
        assertThat(warnings(inEngine(windows), tiers)).isEmpty();
        assertThat(warnings(tiers, windows)).isEmpty();
    }
}
