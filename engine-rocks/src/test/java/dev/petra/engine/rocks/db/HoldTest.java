// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.Tables;
import dev.petra.streaming.ChildJvm;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** Reading for long: through a drop, and in the way of neither a heal nor a close. */
class HoldTest {
    static final TableMetadata TABLE = Tables.table("CREATE TABLE t (k int PRIMARY KEY, v blob)");
    static final Map<String, String> SETTINGS = Map.of("memory", "32MiB", "large_cell", "1KiB");

    /** Every other row has a cell that lies apart. */
    static final int ROWS = 100;

    private static final long SECONDS = Long.getLong("petra.hold.stress.seconds", 6);
    private static final long SEED = Long.getLong("petra.hold.stress.seed", System.nanoTime());

    @TempDir Path directory;
    private ReadOptions options;
    private StorageEngine engine;
    private TableStore store;
    private ReopenableDatabase reopenable;

    @BeforeEach
    void open() {
        engine = Tables.engine(SETTINGS);
        // The native library is loaded by now.
        options = Database.newReadOptions();
        store = Tables.open(engine, directory.resolve("store"), TABLE);
        reopenable = Tables.context(store).reopenable();
        fill(store);
    }

    @AfterEach
    void close() {
        engine.close();
        options.close();
    }

    static void fill(TableStore store) {
        for (int i = 0; i < ROWS; i++) {
            write(store, i);
            if (i == ROWS / 2) store.flush();
        }
    }

    private static void write(TableStore store, int i) {
        var update = Tables.update(TABLE, i);
        update.row().add("v", ByteBuffer.allocate(i % 2 == 0 ? 2_000 : 500));
        store.write(update.build());
    }

    /** How many there are from where an iterator is; as many as that at most. */
    static int skip(RocksIterator iterator, int most) throws RocksDBException {
        int count = 0;
        for (; count < most && iterator.isValid(); iterator.next()) count++;
        iterator.status();
        return count;
    }

    /** The rows and the large cells that a lease shows; null if it was revoked. */
    static @Nullable List<Integer> counts(Lease lease) throws RocksDBException {
        return lease.read(
                (rows, large) -> {
                    rows.seekToFirst();
                    large.seekToFirst();
                    return List.of(skip(rows, Integer.MAX_VALUE), skip(large, Integer.MAX_VALUE));
                });
    }

    private static List<Integer> of(int rows) {
        return List.of(rows, (rows + 1) / 2);
    }

    @Test
    void aLeaseShowsOneMoment() throws Exception {
        try (Hold hold = reopenable.hold()) {
            Lease before = hold.lease(options);
            write(store, ROWS);
            store.flush();
            assertThat(counts(before)).isEqualTo(of(ROWS));
            try (Lease after = hold.lease(options)) {
                assertThat(counts(after)).isEqualTo(of(ROWS + 1));
            }
            before.close();
            before.close();
            assertThatThrownBy(() -> counts(before)).hasMessageContaining("closed");
        }
    }

    @Test
    void aStoreThatIsDroppedIsThereForThoseWhoHoldItOnly() throws Exception {
        Hold hold = reopenable.hold();
        Hold other = reopenable.hold();
        try (Lease lease = hold.lease(options)) {
            assertThat(lease.<Integer>read((rows, large) -> skip(first(rows), 10)).intValue())
                    .isEqualTo(10);
            assertThatThrownBy(store::drop).hasMessageContaining("2 hold it");

            String closed = "is closed";
            assertThatThrownBy(() -> write(store, 0)).hasMessageContaining(closed);
            assertThatThrownBy(this::readOne).hasMessageContaining(closed);
            assertThatThrownBy(reopenable::hold).hasMessageContaining(closed);
            // It is in the way of neither, and stays.
            store.close();
            reopenable.close(0);

            assertThat(lease.<Integer>read((rows, large) -> skip(rows, ROWS)).intValue())
                    .isEqualTo(ROWS - 10);
            try (Lease next = other.lease(options)) {
                assertThat(counts(next)).isEqualTo(of(ROWS));
            }

            hold.close();
            hold.close();
            assertThatThrownBy(() -> hold.lease(options)).hasMessageContaining(closed);
            assertThatThrownBy(store::drop).hasMessageContaining("1 hold it");
            assertThat(counts(lease)).isEqualTo(of(ROWS));
            assertThat(directory.resolve("store")).isNotEmptyDirectory();
            other.close();
            store.drop();
            assertThat(directory.resolve("store")).doesNotExist();
            assertThat(counts(lease)).isNull();
            assertThatThrownBy(() -> other.lease(options)).hasMessageContaining(closed);
        }
    }

    private static RocksIterator first(RocksIterator iterator) {
        iterator.seekToFirst();
        return iterator;
    }

    private void readOne() {
        var rows = store.read(Tables.key(TABLE, 0), Slices.ALL, ColumnFilter.all(TABLE), false);
        assertThat(rows).isNotNull();
        rows.close();
    }

    @Test
    void aHoldThatHasEndedOpensNothingAndALeaseOfItIsReadOn() throws Exception {
        Hold hold = reopenable.hold();
        try (Lease lease = hold.lease(options)) {
            hold.close();
            assertThatThrownBy(() -> hold.lease(options)).hasMessageContaining("not held any more");
            assertThat(counts(lease)).isEqualTo(of(ROWS));
        }
        readOne();
        store.drop();
        assertThat(directory.resolve("store")).doesNotExist();
    }

    @Test
    void closingBreaksHolds() throws Exception {
        try (Hold hold = reopenable.hold();
                Lease lease = hold.lease(options)) {
            store.close();
            assertThat(counts(lease)).isNull();
            assertThatThrownBy(() -> hold.lease(options)).hasMessageContaining("is closed");
        }
        store = Tables.open(engine, directory.resolve("store"), TABLE);
        readOne();
    }

    @Test
    void closingThatFailsForAReaderBreaksHoldsAllTheSame() throws Exception {
        Database read = reopenable.acquire();
        try (Hold hold = reopenable.hold();
                Lease lease = hold.lease(options)) {
            assertThatThrownBy(() -> reopenable.close(0)).hasMessageContaining("have not ended");
            assertThat(counts(lease)).isNull();
            assertThatThrownBy(() -> hold.lease(options)).hasMessageContaining("is closed");
        } finally {
            read.release(Database.stripe());
        }
        store.drop();
        assertThat(directory.resolve("store")).doesNotExist();
    }

    @Test
    void aDatabaseIsOpenedAnewWhileItIsHeld() throws Exception {
        try (Hold hold = reopenable.hold();
                Lease lease = hold.lease(options)) {
            assertThat(reopenable.healing.failed(Tables.noSpace()))
                    .isInstanceOf(WriteStallException.class);
            Database read = reopenable.acquire();
            try {
                Thread.sleep(1_100);
                assertThatThrownBy(reopenable.healing::heal)
                        .isInstanceOf(WriteStallException.class);
                // It was not to be: nothing is revoked.
                assertThat(counts(lease)).isEqualTo(of(ROWS));
            } finally {
                read.release(Database.stripe());
            }
            Tables.heal(reopenable);
            write(store, ROWS);
            assertThat(counts(lease)).isNull();
            try (Lease next = hold.lease(options)) {
                assertThat(counts(next)).isEqualTo(of(ROWS + 1));
                assertThatThrownBy(store::drop).hasMessageContaining("1 hold it");
                assertThat(counts(next)).isEqualTo(of(ROWS + 1));
            }
        }
        store.drop();
    }

    /** Somebody made room by it: there is no directory whose room could be asked for. */
    @Test
    void aStoreThatWasDroppedWhileItsDiskWasFullIsNotOpenedAnew() throws Exception {
        assertThat(reopenable.healing.failed(Tables.noSpace()))
                .isInstanceOf(WriteStallException.class);
        store.drop();
        assertThat(directory.resolve("store")).doesNotExist();
        // As soon as it may be tried again.
        Thread.sleep(1_100);
        reopenable.healing.heal();
        assertThat(reopenable.isWritable()).isFalse();
    }

    @Test
    void whoHoldsADatabaseThatCouldNotBeOpenedAnewIsToldWhy() throws Exception {
        try (Hold hold = reopenable.hold();
                Lease lease = hold.lease(options)) {
            Path current = directory.resolve("store").resolve("CURRENT");
            failToHeal(current);
            assertThat(counts(lease)).isNull();
            assertThatThrownBy(() -> hold.lease(options))
                    .isInstanceOf(WriteStallException.class)
                    .hasMessageContaining("could not be opened anew")
                    .hasMessageContaining("CURRENT: does not exist");
            try (Hold later = reopenable.hold()) {
                assertThatThrownBy(() -> later.lease(options))
                        .isInstanceOf(WriteStallException.class);
            }
            Files.move(moved(current), current);
            Tables.heal(reopenable);
            try (Lease next = hold.lease(options)) {
                assertThat(counts(next)).isEqualTo(of(ROWS));
            }
            failToHeal(current);
            assertThatThrownBy(store::drop).hasMessageContaining("1 hold it");
            assertThatThrownBy(() -> hold.lease(options)).hasMessageContaining("is closed");
        }
        store.drop();
        assertThat(directory.resolve("store")).doesNotExist();
    }

    private static Path moved(Path file) {
        return file.resolveSibling("moved");
    }

    private void failToHeal(Path current) throws IOException, InterruptedException {
        assertThat(reopenable.healing.failed(Tables.noSpace()))
                .isInstanceOf(WriteStallException.class);
        Files.move(current, moved(current));
        // It returns only once it has healed, and throws for a store that is damaged, as this is.
        assertThat(catchThrowable(() -> Tables.heal(reopenable))).isNotNull();
        assertThat(reopenable.isWritable()).isFalse();
    }

    /** In a JVM of its own, which ends if one is. */
    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void noIteratorIsReadOnceItsDatabaseIsFreed() throws Exception {
        ChildJvm.run(
                directory,
                Duration.ofSeconds(SECONDS + 180),
                List.of(
                        HoldStress.class.getName(),
                        directory.resolve("stores").toString(),
                        // Said when it fails.
                        Long.toString(SEED),
                        Long.toString(SECONDS)));
    }
}
