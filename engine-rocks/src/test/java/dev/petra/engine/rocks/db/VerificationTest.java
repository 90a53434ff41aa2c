// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.LiveFileMetaData;

/** All files are read, by whoever asks, until somebody wants it to end. */
class VerificationTest {
    private static final int FILES = 40;

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
}
