// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.Logged;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * An interrupt of the thread that writes it closed the file, which was logged as an error of the
 * disk, and what was synced was not noted.
 */
class SyncMarkTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v int)");

    @TempDir Path directory;
    private StorageEngine engine;
    private Database database;
    private SyncMark mark;

    @BeforeEach
    void open() {
        engine = Tables.engine();
        // The store has a mark of its own, which is not to be written.
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
        TableStore store = Tables.open(engine, directory.resolve("1"), TABLE);
        var update = Tables.update(TABLE, 1);
        update.row().add("v", 1);
        store.write(update.build());
        database = Tables.context(store).database();
        mark = new SyncMark(directory.resolve("1"));
    }

    @AfterEach
    void close() {
        mark.close();
        engine.close();
    }

    private SyncMark.Known known() throws IOException {
        return Objects.requireNonNull(SyncMark.read(directory.resolve("1")));
    }

    /** What is logged while a thread that is interrupted does something; it stays interrupted. */
    private static List<String> interrupted(Runnable work) {
        return Logged.by(
                SyncMark.class,
                () -> {
                    Thread.currentThread().interrupt();
                    try {
                        work.run();
                    } finally {
                        assertThat(Thread.interrupted()).as("it stays interrupted").isTrue();
                    }
                });
    }

    private boolean set(long sequence) {
        return mark.set(database.db, database.families(), sequence, true);
    }

    @Test
    void aThreadThatIsInterruptedWritesIt() throws IOException {
        assertThat(interrupted(mark::opened)).isEmpty();
        assertThat(known().manifest()).isNotEqualTo(Manifest.End.UNKNOWN);
        for (long sequence = 1; sequence < 4; sequence++) {
            long now = sequence;
            assertThat(interrupted(() -> assertThat(set(now)).isTrue())).isEmpty();
            assertThat(known().sequence()).isEqualTo(now);
        }
        assertThat(set(4)).isTrue();
        assertThat(interrupted(mark::close)).isEmpty();
        assertThat(known().sequence()).isEqualTo(4);
        assertThat(set(5)).as("it is closed").isFalse();
    }

    @Test
    void interruptsWhileItIsWrittenLoseNothing() throws Exception {
        Thread writer = Thread.currentThread();
        Thread interrupts =
                new Thread(
                        () -> {
                            for (int i = 0; i < 300; i++) {
                                LockSupport.parkNanos(i * 7_919L % 1_000_000);
                                writer.interrupt();
                            }
                        });
        long[] written = {0};
        List<String> logged =
                Logged.by(
                        SyncMark.class,
                        () -> {
                            interrupts.start();
                            while (interrupts.isAlive()) {
                                // With the MANIFEST, and durably.
                                mark.ingested(database.db, database.families(), ++written[0]);
                                var unused = Thread.interrupted();
                            }
                        });
        // The last may have come behind that.
        var unused = Thread.interrupted();
        assertThat(logged).isEmpty();
        assertThat(mark.covers(written[0])).isTrue();
        assertThat(known().sequence()).isEqualTo(written[0]);
    }
}
