// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;

/** All files are read, by whoever asks, until somebody wants it to end. */
class VerificationTest {
    private static final int FILES = 40;
    private static final UUID INDEX = new UUID(0, 1);

    @TempDir Path directory;
    private final StorageEngine engine = Tables.engine(Map.of("memory", "32MiB"));
    private final TestTable table =
            TestTable.of(
                    "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH compaction ="
                            + " {'class': 'UnifiedCompactionStrategy', 'enabled': 'false'}");
    private TableStore store;

    @BeforeEach
    void fill() {
        store = engine.openStore(table.spec(directory.resolve("1")));
        for (int i = 0; i < FILES; i++) write(i);
    }

    private void write(int key) {
        for (int row = 0; row < 500; row++)
            store.write(table.update(key).at(1).row(row).set("v", "value " + row).build());
        store.flush();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private Database database() {
        return Tables.context(store).database();
    }

    @Test
    void theDamagedFileIsNamed() throws IOException {
        assertThatCode(store::verify).doesNotThrowAnyException();
        LiveFileMetaData last = database().dataFiles().get(FILES - 1);
        try (RandomAccessFile file = new RandomAccessFile(last.path() + last.fileName(), "rw")) {
            file.seek(100);
            int before = file.read();
            file.seek(100);
            file.write(before ^ 1);
        }
        assertThatThrownBy(store::verify)
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(last.fileName().substring(1));
    }

    @Test
    void itEndsBetweenTwoFiles() {
        // On a busy machine it may be over before the other thread has its turn.
        Throwable ended = null;
        for (int i = 0; i < 100 && ended == null; i++) {
            CompletableFuture<Void> verified = CompletableFuture.runAsync(store::verify);
            while (!verified.isDone()) store.stopCompactions();
            ended = verified.handle((nothing, error) -> error).join();
        }
        assertThat(ended)
                .isInstanceOf(CompletionException.class)
                .cause()
                .hasMessage("The verification of ks.t was stopped.");
        assertThatCode(store::verify).doesNotThrowAnyException();
    }

    @Test
    void filesMayGoMeanwhile() {
        CompletableFuture<Void> compacted =
                CompletableFuture.runAsync(
                        () -> {
                            for (int i = 0; i < 5; i++) {
                                write(i);
                                store.compact(List.of());
                            }
                        });
        do store.verify();
        while (!compacted.isDone());
        compacted.join();
        assertThat(database().dataFiles()).hasSizeLessThan(FILES);
    }

    /** Else all indexes would be dropped, where one is looked for that is damaged. */
    @Test
    void aFileThatIsGoneIsNotDamaged() throws Exception {
        List<LiveFileMetaData> before = database().dataFiles();
        store.compact(List.of());
        try (TableOptions.ForSst how = Tables.context(store).reopenable().sstOptions()) {
            for (LiveFileMetaData file : before) {
                Tables.await(
                        "the end of the file",
                        () -> !Files.exists(Path.of(file.path() + file.fileName())));
                Verification.verifyIfLive(database(), how, file);
            }
            LiveFileMetaData live = database().dataFiles().get(0);
            Tables.damage(store, live.fileName());
            assertThatThrownBy(() -> Verification.verifyIfLive(database(), how, live))
                    .isInstanceOf(RocksDBException.class);
        }
    }

    /** RocksDB names no file in some of its errors: then all files of indexes are read. */
    @Test
    void filesOfIndexesMayGoWhileADamagedOneIsLookedFor() {
        store.indexes().define(INDEX);
        StoreContext context = Tables.context(store);
        ReopenableDatabase reopenable = context.reopenable();
        StoreSpec spec = context.spec();
        StoreOpening opening =
                new StoreOpening(
                        reopenable.resources(), spec, context.room(), context.reconciler());
        CompletableFuture<Void> compacted =
                CompletableFuture.runAsync(
                        () -> {
                            for (int round = 0; round < 10; round++) {
                                for (int i = 0; i < 5; i++) index(i);
                                reopenable.maintain(
                                        database ->
                                                database.compactions.compact(
                                                        Objects.requireNonNull(database.index()),
                                                        null,
                                                        null,
                                                        BottommostLevelCompaction.kForce));
                            }
                        });
        do {
            IndexFamily family = new IndexFamily(opening, spec, context.room());
            assertThat(
                            reopenable.ifOpen(
                                    present -> assertThat(family.isAnyDamaged(present)).isFalse()))
                    .isTrue();
        } while (!compacted.isDone());
        compacted.join();
        assertThat(database().indexFiles()).hasSize(1);
    }

    private void index(int row) {
        List<TermEntry> entries = new ArrayList<>();
        for (int term = 0; term < 500; term++)
            entries.add(
                    new TermEntry(
                            INDEX, ByteBufferUtil.bytes("value " + term), table.clustering(row)));
        store.indexes().add(table.key(1), entries);
        store.flush();
    }
}
