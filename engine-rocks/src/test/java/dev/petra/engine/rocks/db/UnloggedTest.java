// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.InstanceOfAssertFactories.type;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.SmallDisk;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A store without durability has no log: what it was asked to keep is in its files. */
class UnloggedTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v blob)");

    /** Each of them, in turns: a row in data files, and one of which a blob file has the value. */
    private static final int[] VALUES = {100, 64 << 10};

    @TempDir Path directory;

    private StoreSpec spec(boolean isDurable) {
        StoreSpec spec = Tables.spec(directory.resolve("store"), TABLE);
        return isDurable ? spec : spec.withoutDurability();
    }

    private static void write(TableStore store, int from, int to) {
        for (int k = from; k < to; k++) {
            PartitionUpdate.SimpleBuilder update = Tables.update(TABLE, k);
            update.row().add("v", ByteBuffer.allocate(VALUES[k % VALUES.length]));
            store.write(update.build());
        }
    }

    private static List<Integer> keys(int to) {
        return IntStream.range(0, to).boxed().toList();
    }

    private static List<Integer> keysOf(TableStore store, Path copy) throws Exception {
        Path crashed = Tables.crashed(store, copy);
        try (StorageEngine other = Tables.engine()) {
            return Tables.numbers(other, crashed, TABLE);
        }
    }

    private static long metric(StorageEngine engine, String name) {
        return engine.metrics().getOrDefault(name, -1L);
    }

    /** In a mode where each write is synced, logs are written over, which RocksDB refuses here. */
    @ParameterizedTest
    @EnumSource(WalSync.class)
    void nothingIsLogged(WalSync mode) throws IOException {
        try (StorageEngine engine = Tables.engine()) {
            engine.walSync(mode, Duration.ofMillis(1));
            TableStore store = engine.openStore(spec(false));
            write(store, 0, 10);
            assertThat(metric(engine, "log_syncs")).isZero();
            store.syncLog();
            write(store, 10, 20);
            assertThat(metric(engine, "log_bytes")).isZero();
        }
    }

    @Test
    void whatASyncCoversIsThereAfterAKill() throws Exception {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = engine.openStore(spec(false));
            write(store, 0, 10);
            store.syncLog();
            assertThat(keysOf(store, directory.resolve("first"))).isEqualTo(keys(10));
            write(store, 10, 20);
            // Else this proves nothing: it would be there without.
            assertThat(keysOf(store, directory.resolve("between"))).isEqualTo(keys(10));
            store.syncLog();
            store.syncLog();
            assertThat(keysOf(store, directory.resolve("second"))).isEqualTo(keys(20));
        }
    }

    /** Those that an older version has made have a log, and it reads those of this one. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aStoreMayHaveALogOrNoneFromOneStartToTheNext(boolean isDurable) throws Exception {
        boolean next = isDurable;
        for (int time = 1; time <= 4; time++, next = !next) {
            try (StorageEngine engine = Tables.engine()) {
                engine.walSync(WalSync.BATCH, Duration.ofMillis(1));
                TableStore store = engine.openStore(spec(next));
                write(store, 10 * (time - 1), 10 * time);
                store.syncLog();
                assertThat(keysOf(store, directory.resolve("copy" + time)))
                        .isEqualTo(keys(10 * time));
            }
        }
    }

    @Test
    void aSyncFailsIfItsFlushDoes() throws Exception {
        try (SmallDisk disk =
                        SmallDisk.mount(Files.createDirectory(directory.resolve("d")), "16m");
                StorageEngine engine = Tables.engine()) {
            TableStore store =
                    engine.openStore(
                            Tables.spec(disk.directory().resolve("store"), TABLE)
                                    .withoutDurability());
            write(store, 0, 10);
            Path ballast = disk.directory().resolve("ballast");
            Files.write(
                    ballast,
                    new byte
                            [Math.toIntExact(
                                    Files.getFileStore(disk.directory()).getUsableSpace())]);
            assertThatThrownBy(store::syncLog)
                    .asInstanceOf(type(WriteStallException.class))
                    .returns(true, WriteStallException::isDiskFull);
            assertThatThrownBy(() -> write(store, 10, 11)).isInstanceOf(WriteStallException.class);
            Files.delete(ballast);
            store.drop();
        }
    }

    /** Opened anew it would lack what is in memory, and nobody would know. */
    @Test
    void itIsNotOpenedAnewAfterAFullDisk() throws Exception {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = engine.openStore(spec(false));
            write(store, 0, 10);
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            Database database = reopenable.database();
            assertThat(reopenable.healing.failed(Tables.noSpace()))
                    .isInstanceOf(WriteStallException.class);
            // As soon as one with a log would be opened anew, by whoever writes or by itself.
            Thread.sleep(3_000);
            assertThatThrownBy(() -> write(store, 10, 11))
                    .asInstanceOf(type(WriteStallException.class))
                    .returns(true, WriteStallException::isDiskFull);
            assertThat(reopenable.database()).isSameAs(database);
            assertThat(
                            Tables.text(
                                    store.read(
                                            Tables.key(TABLE, 9),
                                            Slices.ALL,
                                            ColumnFilter.all(TABLE),
                                            false)))
                    .isNotEmpty();
        }
    }

    /** Whoever wants that has it synced before. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void itsEndFlushesNothing(boolean byDrop) {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = engine.openStore(spec(false));
            write(store, 0, 10);
            if (byDrop) store.drop();
            else store.close();
            assertThat(metric(engine, "flushed_bytes")).isZero();
        }
    }
}
