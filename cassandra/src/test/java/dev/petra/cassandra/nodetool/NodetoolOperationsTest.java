// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.nodetool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NodetoolOperationsTest {
    private static final TableMetadataRef TABLE = TestTables.reference();

    private static void truncate(TableGenerations stores) {
        Generation old = stores.current();
        var unused = stores.successor();
        old.discard();
        try {
            assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Which takes hours: TRUNCATE does not wait for it, and it brings nothing back. */
    @Test
    void aTableIsTruncatedWhileItsGarbageIsCollected(@TempDir Path table) {
        try (StorageEngine engine =
                StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")))) {
            TableGenerations stores =
                    TableGenerations.open("t", TABLE, () -> engine, List.of(table), Disk.REAL);
            PartitionUpdate.SimpleBuilder row =
                    PartitionUpdate.simpleBuilder(TABLE.get(), 1).timestamp(5).nowInSec(1);
            row.row().add("v", 7);
            stores.current().writable().write(row.build());
            NodetoolOperations.garbageCollect(HollowMemtable.of(stores, 0), () -> truncate(stores));
            assertThat(stores.current().number()).isEqualTo(2);
            assertThat(stores.current().isEmpty()).isTrue();
            stores.close();
            assertThat(
                            TableGenerations.open(
                                            "t", TABLE, () -> engine, List.of(table), Disk.REAL)
                                    .current()
                                    .isEmpty())
                    .isTrue();
        }
    }
}
