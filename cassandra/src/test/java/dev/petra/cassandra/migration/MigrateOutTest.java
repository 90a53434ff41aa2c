// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.shadow.PromotedShadow;
import dev.petra.cassandra.table.TableGenerations;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a migration out of an engine does before it writes anything. */
class MigrateOutTest {
    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final TableMetadataRef metadata = TestTables.reference();
    @TempDir Path table;

    MigrateOutTest() {
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", Tracker.newDummyTracker());
    }

    /**
     * That of a table whose way out began at a later attempt than with the ALTER stayed until the
     * next ALTER or restart.
     */
    @Test
    void aShadowThatHasBecomeTheStoreEndsWithTheFirstStep() {
        TableGenerations stores =
                TableGenerations.open(
                        "t",
                        metadata,
                        () -> {
                            throw new UnsupportedOperationException();
                        },
                        List.of(table),
                        Disk.REAL);
        MigrateOut altered = out(stores);
        MigrateOut present = out(stores);
        try (PromotedShadow shadow = new PromotedShadow(cfs)) {
            // It was altered back, and that migration has the shadow.
            assertThat(altered.takeStep()).isNull();
            assertThat(shadow.isOver()).isFalse();

            assertThat(present.takeStep()).isEqualTo(Migration.SOON);
            assertThat(shadow.isOver()).isTrue();
        }
    }

    /** One that waits for the build of an index. */
    private MigrateOut out(TableGenerations stores) {
        long number = stores.migration().begin("rocks");
        MigrateOut migration =
                new MigrateOut(cfs, stores, number, HollowMemtable.of(stores, number));
        Build build = new Build();
        Hollow.set(build, Build.class, "running", new CompletableFuture<Void>());
        Hollow.set(migration, MigrateOut.class, "build", build);
        return migration;
    }
}
