// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.engine.EngineSettings;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.CompactionParams;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.Tables;
import org.apache.cassandra.service.ClientWarn;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SchemaGateTest {
    @TempDir Path temp;

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

    /** Its ID, or that Cassandra before 2.1 gave none: then the new table has the directory too. */
    @ParameterizedTest
    @ValueSource(strings = {"t-11111111222233334444555555555555", "t"})
    void aTableIsNotCreatedOverDataThatItWouldNotShow(String directory) throws IOException {
        Path data = temp.resolve("data");
        Path store = Files.createDirectories(data.resolve("ks").resolve(directory + "/rocksdb"));
        Files.createDirectory(store.resolve("1"));
        Config config = DatabaseDescriptor.getRawConfig();
        String[] usual = config.data_file_directories;
        Keyspaces created = with(table("SizeTieredCompactionStrategy"));
        config.data_file_directories = new String[] {data.toString()};
        try {
            assertThatThrownBy(() -> SchemaGate.check(Keyspaces.diff(Keyspaces.none(), created)))
                    .isInstanceOf(InvalidRequestException.class)
                    .hasMessageContaining("would not show the data in " + store);
        } finally {
            config.data_file_directories = usual;
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
