// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.io.FSReadError;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.RocksDBException;

/** A damaged file of indexes: they are lost, no row is, and writes go on. */
class DamagedIndexTest extends IndexFixture {
    /** Where a scan of it meets the damage. */
    @Test
    void aDamagedIndexIsUndefinedAndTheTableIsWell() throws Exception {
        fillAndDamage();
        assertThatThrownBy(() -> indexed(store)).isInstanceOf(DamagedIndexException.class);
        assertThat(store.indexes().states()).isEmpty();
        assertThat(store.indexes().lost()).containsExactly(INDEX);
        store.indexes().define(LATER);
        store.indexes().drop(LATER);
        assertThat(store.indexes().lost()).containsExactly(INDEX);
        write(store, 1_000);
        assertRowsAndNewIndex(1_001);
    }

    /** It meets the damage first, and RocksDB refuses all writes from then on. */
    @Test
    void aCompactionThatMeetsADamagedIndexEndsNoWrites() throws Exception {
        fillAndDamage();
        store.indexes().define(LATER);
        for (int i = 1_000; i < 1_100; i++) write(store, i);
        assertThatThrownBy(() -> store.compact(List.of())).isInstanceOf(WriteStallException.class);
        for (int i = 1_100; i < 1_200; i++) writeOnceTaken(store, i);
        assertThat(store.indexes().states()).isEmpty();
        assertThat(store.indexes().lost()).containsExactlyInAnyOrder(INDEX, LATER);
        store.indexes().define(LATER);
        assertThat(store.indexes().lost()).containsExactly(INDEX);
        store.compact(List.of());
        assertRowsAndNewIndex(1_200);
    }

    /** Writes are refused for a moment if files were being merged when the damage was met. */
    private static void writeOnceTaken(TableStore to, int row) {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
        while (true) {
            try {
                write(to, row);
                return;
            } catch (WriteStallException e) {
                if (System.nanoTime() - deadline > 0) throw e;
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
            }
        }
    }

    /** The first look found all files of indexes well, and there was none after that. */
    @Test
    void aDamagedIndexIsFoundThoughAFileOfRowsWasDamagedBefore() throws Exception {
        fill();
        Path rows = file(false);
        byte[] whole = Files.readAllBytes(rows);
        damage(rows);
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        assertThatThrownBy(() -> store.verify()).isInstanceOf(CorruptStoreException.class);
        assertThat(store.indexes().states()).containsKey(INDEX);
        Files.write(rows, whole);
        damage(file(true));
        for (int i = 1_000; i < 1_100; i++) write(store, i);
        assertThatThrownBy(() -> store.compact(List.of())).isInstanceOf(WriteStallException.class);
        for (int i = 1_100; i < 1_200; i++) writeOnceTaken(store, i);
        assertThat(store.indexes().lost()).containsExactly(INDEX);
        assertRowsAndNewIndex(1_200);
    }

    /** The store is closed before anything has met the damage. */
    @Test
    void aDamagedIndexIsFoundAfterARestart() throws Exception {
        fillAndDamage();
        assertThatThrownBy(() -> indexed(store)).isInstanceOf(DamagedIndexException.class);
        store = reopened();
        assertThat(store.indexes().states()).isEmpty();
        assertRowsAndNewIndex(1_000);
    }

    /** A file of rows that is damaged, too, is said to be one of rows; the store stays readable. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aDamagedFileOfRowsIsNotTakenForOneOfTheIndexes(boolean isGone) throws Exception {
        fill();
        Path rows = file(false);
        damage(file(true));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        assertThatThrownBy(() -> indexed(store)).isInstanceOf(DamagedIndexException.class);
        if (isGone) Files.delete(rows);
        else damageEnd(rows);
        for (int time = 0; time < 2; time++) {
            assertThatThrownBy(() -> store.verify())
                    .isInstanceOf(CorruptStoreException.class)
                    .hasMessageContaining(rows.getFileName().toString());
            write(store, 1_000);
            assertThat(has(store, 500)).isTrue();
        }
    }

    /** It is closed to be opened without its indexes, and cannot be opened any more. */
    @Test
    void aStoreThatCannotBeOpenedAnewIsSaidToBeDamaged() throws Exception {
        fill();
        Path rows = file(false);
        damage(file(true));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        assertThatThrownBy(() -> indexed(store)).isInstanceOf(DamagedIndexException.class);
        damageEnd(rows);
        write(store, 999);
        for (int time = 0; time < 3; time++) {
            assertIsDamaged(() -> store.indexes().define(INDEX));
            assertIsDamaged(() -> has(store, 500));
            assertIsDamaged(() -> write(store, 1_000));
            // It was synced before it was closed: the commit log may go on.
            engine.syncAcknowledged(id -> true);
        }
        // A write from before that found no room: room would not mend it.
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        assertThat(reopenable.healing.failed(Tables.noSpace())).isNotNull();
        assertIsDamaged(reopenable.healing::checkNotFull);
        store.close();
    }

    /** As where too many files are open. Each attempt replays the log, and reads wait for it. */
    @Test
    void aStoreThatCannotBeOpenedForNowIsTriedEverMoreRarely() throws Exception {
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        RocksDBException damage = damageOfIndexed(1);
        write(store, 2);
        engine.syncAcknowledged(id -> true);
        // It is read before a database is opened, and that it cannot be says nothing of the data.
        Path mark = directory.resolve("1").resolve("SYNCED");
        Files.delete(mark);
        Files.createDirectory(mark);
        reopenable.maintain(database -> assertThat(reopenable.healing.failed(damage)).isNotNull());
        Tables.await(
                "the first attempt",
                () -> catchThrowable(reopenable.healing::heal) instanceof FSReadError);
        int attempts = 0;
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(6);
        while (System.nanoTime() - end < 0) {
            // The engine itself tries once a second, and hardly ever just in this pause.
            LockSupport.parkNanos(200_000);
            Throwable failure = catchThrowable(() -> has(store, 2));
            if (failure instanceof FSReadError) attempts++;
            else
                assertThat(failure)
                        .isInstanceOf(WriteStallException.class)
                        .hasMessageContaining("could not be opened anew")
                        .hasMessageContaining("Is a directory");
        }
        assertThat(attempts).as("after 1 s, and 2 s later").isBetween(1, 2);
        Files.delete(mark);
        Tables.heal(reopenable);
        assertThat(has(store, 2)).isTrue();
        write(store, 3);
        assertThat(store.indexes().lost()).containsExactly(INDEX);
    }

    private static void assertIsDamaged(ThrowingCallable use) {
        assertThatThrownBy(use)
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("The store of ks.t in")
                .hasMessageContaining("is damaged: Bad table magic number");
    }

    /** An error that names no file: those of indexes are read. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whichFileIsDamagedIsFoundOut(boolean isOfIndexes) throws Exception {
        fill();
        if (isOfIndexes) damage(file(true));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        reopenable.maintain(
                database ->
                        assertThat(reopenable.healing.failed(Tables.corruption("mismatch")))
                                .isInstanceOf(WriteStallException.class)
                                .hasMessageContaining("is damaged (mismatch)"));
        Tables.await(
                "the end of the search",
                () ->
                        isOfIndexes
                                ? !reopenable.isWritable()
                                : reopenable.measure(
                                                database ->
                                                        reopenable.healing.failed(
                                                                Tables.corruption("mismatch")))
                                        instanceof CorruptStoreException);
        Tables.heal(reopenable);
        write(store, 1_000);
        assertThat(store.indexes().states().keySet())
                .isEqualTo(isOfIndexes ? Set.of() : Set.of(INDEX));
    }

    /** What a merge would fail with that comes to the file with this row's entry. */
    private RocksDBException damageOfIndexed(int row) {
        store.indexes().define(INDEX);
        write(store, row);
        store.flush();
        return Tables.damagedIndex(store);
    }

    /** The first one's makes writes refused, and is no damage of the store to the others. */
    @Test
    void allWritersThatMeetADamagedIndexAreToldSo() throws Exception {
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        RocksDBException damage = damageOfIndexed(1);
        reopenable.maintain(
                database -> {
                    for (int writer = 0; writer < 2; writer++)
                        assertThat(reopenable.healing.failed(damage))
                                .isInstanceOf(WriteStallException.class)
                                .hasMessageContaining("A file of the indexes of ks.t is damaged");
                });
        Tables.heal(reopenable);
        assertThat(store.indexes().lost()).containsExactly(INDEX);
        RocksDBException again = damageOfIndexed(2);
        reopenable.maintain(
                database -> {
                    assertThat(reopenable.healing.failed(Tables.noSpace()))
                            .hasMessageContaining("full");
                    assertThat(reopenable.healing.failed(again))
                            .isInstanceOf(WriteStallException.class)
                            .hasMessageContaining("full");
                });
        Tables.heal(reopenable);
        assertThat(store.indexes().lost()).as("behind a full disk").containsExactly(INDEX);
    }

    /** As one that asks for a failed sync does. */
    @Test
    void aCheckThatFailsKeepsTheStoreOpen() throws Exception {
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        RocksDBException damage = damageOfIndexed(1);
        Database before = Tables.context(store).database();
        assertThatThrownBy(() -> before.closeIfIdle(1, () -> failSync())).hasMessage("not synced");
        assertThat(reopenable.isShut()).isFalse();
        write(store, 2);
        engine.syncAcknowledged(id -> true);
        assertThat(has(store, 2)).isTrue();
        reopenable.maintain(database -> assertThat(reopenable.healing.failed(damage)).isNotNull());
        Tables.heal(reopenable);
        assertThat(has(store, 2)).isTrue();
    }

    private static void failSync() {
        throw new IllegalStateException("not synced");
    }

    private void assertRowsAndNewIndex(int rows) {
        store.indexes().define(INDEX);
        assertThat(indexed(store)).isEmpty();
        write(store, 5);
        assertThat(indexed(store)).containsExactly(5);
        store.verify();
        store.compact(List.of());
        store = reopened();
        store.verify();
        assertThat(indexed(store)).containsExactly(5);
        for (int i = 0; i < rows; i++) assertThat(has(store, i)).isTrue();
    }

    private void fillAndDamage() throws Exception {
        fill();
        damage(file(true));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
    }

    /** The store is closed then. */
    private void fill() {
        store.indexes().define(INDEX);
        for (int i = 0; i < 1_000; i++) write(store, i);
        store.flush();
        store.close();
    }

    private Path file(boolean ofIndex) throws Exception {
        try (var files = Files.newDirectoryStream(directory.resolve("1"), "*.sst")) {
            for (Path file : files)
                if (familyOf(file).equals(ofIndex ? "index" : "default")) return file;
        }
        throw new AssertionError("There is no such file.");
    }

    private static void damage(Path file) throws IOException {
        try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
            open.seek(100);
            open.write(new byte[100]);
        }
    }

    /** The file cannot be opened any more. */
    private static void damageEnd(Path file) throws IOException {
        try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
            open.seek(open.length() - 20);
            open.write(new byte[20]);
        }
    }
}
