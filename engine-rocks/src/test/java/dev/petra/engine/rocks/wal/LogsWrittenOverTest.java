// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreLog;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;
import org.slf4j.LoggerFactory;

/**
 * An old log that is written over still has its old records behind the new ones. After a crash they
 * must neither come back nor hide what is missing, and a snapshot must not change by it.
 */
class LogsWrittenOverTest {
    private static final TableMetadata TABLE =
            Tables.table(
                    "CREATE TABLE t (k int PRIMARY KEY, v text) WITH compaction = {'class':"
                            + " 'SizeTieredCompactionStrategy', 'enabled': 'false'}");
    private static final int VALUE = 2_000;

    private static final Logger LOGGER = (Logger) LoggerFactory.getLogger(StoreLog.class);

    @TempDir Path directory;

    /** By RocksDB. */
    private final ListAppender<ILoggingEvent> told = new ListAppender<>();

    private StorageEngine engine;
    private TableStore store;
    private int written;

    @BeforeEach
    void open() {
        told.start();
        LOGGER.setLevel(Level.DEBUG);
        LOGGER.setAdditive(false);
        LOGGER.addAppender(told);
        engine = Tables.engine(Map.of("memory", "32MiB", "write_buffer", "256KiB"));
        // A store that is opened in this mode writes over old logs.
        engine.walSync(WalSync.BATCH, Duration.ZERO);
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        // Of a synced log less would be damage, and no end.
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
    }

    @AfterEach
    void close() {
        engine.close();
        LOGGER.detachAppender(told);
        LOGGER.setAdditive(true);
        LOGGER.setLevel(null);
    }

    private void write(int count) {
        for (int end = written + count; written < end; written++) {
            var update = Tables.update(TABLE, written);
            update.row()
                    .add(
                            "v",
                            (written + " ")
                                    .repeat(VALUE / (1 + Integer.toString(written).length())));
            store.write(update.build());
        }
    }

    /** What a process leaves that ends now. */
    private Path crashed(String name) throws RocksDBException, IOException {
        Tables.awaitFlushes(store);
        return Tables.crashed(store, directory.resolve(name));
    }

    /** The numbers that a store has, in their order. */
    private List<Integer> numbers(Path copy) {
        return Tables.numbers(engine, copy, TABLE);
    }

    private static void assertPrefix(List<Integer> numbers, int least, int most) {
        assertThat(numbers).hasSizeBetween(least, most);
        for (int i = 0; i < numbers.size(); i++) assertThat(numbers.get(i)).isEqualTo(i);
    }

    /** The log that is written to; of a database at rest the one with the greatest number. */
    private static Path log(Path copy) throws IOException {
        try (var files = Files.newDirectoryStream(copy, "*.log")) {
            Path newest = null;
            for (Path file : files) if (newest == null || file.compareTo(newest) > 0) newest = file;
            assertThat(newest).isNotNull();
            return newest;
        }
    }

    private void assertLogsAreWrittenOver() {
        List<ILoggingEvent> lines;
        // What appends holds this, too, and RocksDB's threads still run.
        synchronized (told) {
            lines = List.copyOf(told.list);
        }
        assertThat(lines)
                .extracting(ILoggingEvent::getFormattedMessage)
                .anyMatch(line -> line.contains("reusing log"));
    }

    @Test
    void aCrashLosesNothingAndBringsNothingBack() throws Exception {
        Random random = new Random(1);
        write(1_000);
        for (int crash = 0; crash < 12; crash++) {
            write(1 + random.nextInt(300));
            assertPrefix(numbers(crashed("crash" + crash)), written, written);
        }
        assertLogsAreWrittenOver();
    }

    /** What the disk did not keep of the log ends what is recovered; nothing behind it counts. */
    @Test
    void damageInTheLogEndsRecoveryThere() throws Exception {
        Random random = new Random(2);
        write(1_000);
        for (int crash = 0; crash < 20; crash++) {
            Tables.awaitFlushes(store);
            store.flush();
            int flushed = written;
            write(60);
            Path copy = crashed("damaged" + crash);
            Path log = log(copy);
            // The 60 records are at its beginning, with 7 to 11 bytes before each.
            int at = random.nextInt(60 * VALUE);
            try (RandomAccessFile file = new RandomAccessFile(log.toFile(), "rw")) {
                file.seek(at);
                int old = file.read();
                file.seek(at);
                file.write(old ^ 0x10);
            }
            assertPrefix(numbers(copy), flushed, written);
            assertThat(numbers(copy).size()).isLessThan(written);
        }
        assertLogsAreWrittenOver();
    }

    @Test
    void aSnapshotStaysAsItWas() throws Exception {
        write(1_000);
        Map<Path, Integer> snapshots = new LinkedHashMap<>();
        for (int i = 0; i < 6; i++) {
            write(70);
            Path target = directory.resolve("snapshot" + i);
            store.checkpoint(target);
            snapshots.put(target, written);
            write(600);
        }
        for (var snapshot : snapshots.entrySet())
            assertPrefix(numbers(snapshot.getKey()), snapshot.getValue(), snapshot.getValue());
        assertLogsAreWrittenOver();
    }
}
