// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.Tables;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreDirectoryTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v int)");

    @TempDir Path directory;

    /** Of a table that is created with the id of a large one that was just dropped. */
    @Test
    void noStoreIsOpenedWhereOneIsBeingDeleted() throws Exception {
        Path store = Files.createDirectory(directory.resolve("1"));
        Files.createFile(store.resolve("000007.sst"));
        try (StorageEngine engine = Tables.engine()) {
            StoreDirectory.deleteStore(
                    store,
                    () -> {
                        assertThatThrownBy(() -> Tables.open(engine, store, TABLE))
                                .isInstanceOf(IllegalStateException.class)
                                .hasMessageContaining("is being deleted");
                        assertThatThrownBy(() -> engine.deleteStore(store))
                                .isInstanceOf(IllegalStateException.class)
                                .hasMessageContaining("is being deleted");
                    });
            assertThat(store).doesNotExist();
            TableStore next = Tables.open(engine, store, TABLE);
            assertThat(StoreDirectory.isBeingDeleted(store)).isFalse();
            next.drop();
            assertThat(store).doesNotExist();
            engine.deleteStore(store);
        }
    }

    /** The late deletion of a former store of the path took the files of the one that came. */
    @Test
    void noStoreIsDeletedWhereOneIsBeingOpened() {
        StoreSpec spec = Tables.spec(directory.resolve("1"), TABLE);
        List<Throwable> refusals = new ArrayList<>();
        try (StorageEngine engine = Tables.engine()) {
            BooleanSupplier askedByTheOpening =
                    () -> {
                        // Later it is asked by whoever follows the table's options.
                        if (refusals.isEmpty())
                            refusals.add(
                                    catchThrowable(() -> engine.deleteStore(spec.directory())));
                        return true;
                    };
            TableStore store =
                    engine.openStore(
                            new StoreSpec(
                                    spec.directory(),
                                    spec.columnFamily(),
                                    spec.generation(),
                                    spec.metadata(),
                                    spec.mayPurge(),
                                    askedByTheOpening));
            assertThat(refusals)
                    .singleElement()
                    .isInstanceOf(IllegalStateException.class)
                    .satisfies(each -> assertThat(each).hasMessageContaining("is being opened"));
            assertThatThrownBy(() -> engine.deleteStore(spec.directory()))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("is open");
            assertThat(store.isEmpty()).isTrue();
        }
    }
}
