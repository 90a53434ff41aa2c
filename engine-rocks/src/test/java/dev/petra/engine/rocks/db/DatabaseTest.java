// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.Tables;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What waits for the uses of a database, in a thread that is interrupted. */
class DatabaseTest {
    @TempDir Path directory;
    private StorageEngine engine;
    private Database database;

    @BeforeEach
    void open() {
        engine = Tables.engine();
        TableMetadata table = Tables.table("CREATE TABLE t (k int PRIMARY KEY, v int)");
        TableStore store = Tables.open(engine, directory.resolve("1"), table);
        database = Tables.context(store).database();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    @Test
    void closingWaitsForUsesWithoutSpinning() throws Exception {
        assertThat(database.acquire()).isTrue();
        int use = Database.stripe();
        Runnable staysOpen =
                () -> {
                    throw new IllegalStateException("It is idle.");
                };
        long patience = TimeUnit.MINUTES.toNanos(1);
        InterruptedThread.waits(
                () ->
                        assertThatThrownBy(() -> database.closeIfIdle(patience, staysOpen))
                                .hasMessage("It is idle."),
                () -> database.release(use));
    }

    @Test
    void aSyncWaitsForTheWriterThatFoundNoRoomWithoutSpinning() throws Exception {
        assertThat(database.acquire()).isTrue();
        int use = Database.stripe();
        try {
            InterruptedThread.waits(() -> assertThat(database.log.isLogFull()).isFalse(), () -> {});
        } finally {
            database.release(use);
        }
    }
}
