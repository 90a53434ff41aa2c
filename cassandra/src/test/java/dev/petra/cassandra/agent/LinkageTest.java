// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/**
 * The plugin is compiled with one Cassandra release and runs in others: each must have all classes,
 * methods and fields that the plugin refers to.
 */
class LinkageTest {
    private static final String MEMTABLE_INDEX_OF_5_0_6 =
            "5.0.6 MemtableIndex.<init>(StorageAttachedIndex, Memtable)";

    private static final String CELLS_OF_INDEXES_OF_5_0_6 = "5.0.6 class CellSourceIdentifier";

    private static final String LOOKING_INTO_SOURCES_OF_5_0_6 =
            "5.0.6 UnfilteredRowIterator SinglePartitionReadCommand.queryMemtableAndDisk("
                    + "ColumnFamilyStore, ColumnFamilyStore.ViewFragment, Function,"
                    + " ReadExecutionController)";

    @Test
    void everyKnownReleaseHasWhatThePluginCallsAndAsksForNothingElse() throws IOException {
        List<String> all = new ArrayList<>();
        for (Map.Entry<String, Path> release : KnownReleases.jars().entrySet())
            for (String each : Linkage.lacking(release.getValue()).keySet())
                all.add(release.getKey() + " " + each);
        // 5.0.6 lacks these; IndexSupport refuses indexes on it.
        assertThat(all.remove(CELLS_OF_INDEXES_OF_5_0_6)).isTrue();
        assertThat(all.remove(MEMTABLE_INDEX_OF_5_0_6)).isTrue();
        // Attempt does without it there.
        assertThat(all.remove(LOOKING_INTO_SOURCES_OF_5_0_6)).isTrue();
        assertThat(all).isEmpty();
    }
}
