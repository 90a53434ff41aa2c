// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.db.Database;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.slf4j.LoggerFactory;

/** Malformed entries that merges come to are logged, and that does not keep ticks. */
class MalformedEntriesTest {
    private static final int ENTRIES = 100;
    private static final Logger LOGGER = (Logger) LoggerFactory.getLogger(StoreMaintenance.class);

    @TempDir Path directory;
    private final TestTable table =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
    private StorageEngine engine;
    private TableStore store;

    @BeforeEach
    void open() throws RocksDBException {
        engine = Tables.engine();
        store = Tables.open(engine, directory.resolve("1"), table.metadata());
        for (int c = 0; c < ENTRIES; c++)
            store.write(table.update("k").row(c).set("v", "v").build());
        Database database = Tables.context(store).database();
        List<byte[]> keys = new ArrayList<>();
        try (RocksIterator rows = database.db.newIterator(database.data)) {
            for (rows.seekToFirst(); rows.isValid(); rows.next()) keys.add(rows.key());
        }
        for (byte[] key : keys)
            database.db.merge(database.data, key, new byte[] {0x04, (byte) 0xFF});
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private void meet(int c) {
        assertThatThrownBy(
                        () ->
                                PartitionContent.of(
                                        store.read(
                                                table.key("k"),
                                                table.slices(table.prefix(c)),
                                                table.all(),
                                                false)))
                .isInstanceOf(CorruptStoreException.class);
    }

    /** Does something for each line, on the thread that logs it. */
    private static AppenderBase<ILoggingEvent> logged(Runnable line) {
        AppenderBase<ILoggingEvent> appender =
                new AppenderBase<>() {
                    @Override
                    protected void append(ILoggingEvent event) {
                        if (event.getFormattedMessage().contains("malformed")) line.run();
                    }
                };
        appender.start();
        LOGGER.addAppender(appender);
        return appender;
    }

    /** Each merge of the same bytes, as of each read, was one more line. */
    @Test
    void anEntryIsLoggedOnce() {
        AtomicInteger lines = new AtomicInteger();
        AppenderBase<ILoggingEvent> appender = logged(lines::incrementAndGet);
        try {
            for (int time = 0; time < 5; time++) {
                meet(7);
                Tables.tick(store);
            }
            Tables.await("a line", () -> lines.get() > 0);
        } finally {
            LOGGER.detachAppender(appender);
        }
        assertThat(lines).hasValue(1);
    }

    /**
     * A tick ended only when there were none left: while a compaction met more, that of no table.
     */
    @Test
    void aTickLogsAFewThoughMoreAreMetMeanwhile() {
        Thread ticking = Thread.currentThread();
        AtomicInteger lines = new AtomicInteger();
        AtomicInteger next = new AtomicInteger();
        AppenderBase<ILoggingEvent> appender =
                logged(
                        () -> {
                            if (!Thread.currentThread().equals(ticking)) return;
                            lines.incrementAndGet();
                            if (next.get() < ENTRIES) meet(next.getAndIncrement());
                        });
        try {
            Tables.await(
                    "a tick that logs, which the engine's own may have done",
                    () -> {
                        meet(next.getAndIncrement());
                        Tables.tick(store);
                        return lines.get() > 0;
                    });
        } finally {
            LOGGER.detachAppender(appender);
        }
        assertThat(lines.get()).isLessThanOrEqualTo(16);
    }
}
