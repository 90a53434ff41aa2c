// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.Tables;
import java.nio.file.Files;
import java.nio.file.Path;
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
}
