// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.stream.SentStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.zip.CRC32C;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Only the MANIFEST names the files that a stream has brought: damage at its end, which RocksDB
 * takes for a torn one, must not lose them.
 */
class ManifestDamageTest {
    private static final TableMetadata TABLE =
            Tables.table(
                    "CREATE TABLE t (k int PRIMARY KEY, v text) WITH compaction = {'class':"
                            + " 'SizeTieredCompactionStrategy', 'enabled': 'false'}");
    private static final int ROWS = 200;
    private static final List<Integer> ALL = IntStream.range(0, ROWS).boxed().toList();

    @TempDir Path directory;

    private StorageEngine engine;
    private TableStore from;
    private TableStore to;
    private int copies;

    @BeforeEach
    void open() throws IOException {
        engine = Tables.engine(Map.of("memory", "32MiB"));
        // Only where a test says so.
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
        from = Tables.open(engine, directory.resolve("from"), TABLE);
        to = Tables.open(engine, directory.resolve("to"), TABLE);
        for (int row = 0; row < ROWS; row++) write(row < ROWS / 2 ? from : to, row);
        to.syncLog();
        SentStream.of(from).ingestedBy(to);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private static void write(TableStore store, int row) {
        var update = Tables.update(TABLE, row);
        update.row().add("v", "x");
        store.write(update.build());
    }

    /** What a process leaves that ends now. */
    private Path crashed() throws Exception {
        Tables.awaitFlushes(to);
        return Tables.crashed(to, directory.resolve("crashed" + ++copies));
    }

    private Path copyOf(Path source) throws IOException {
        return Tables.copy(source, directory.resolve("copy" + ++copies));
    }

    /** All rows are there, or the store is not opened. */
    private void assertNothingLost(Path copy, String what) {
        try {
            assertThat(Tables.numbers(engine, copy, TABLE)).as(what).isEqualTo(ALL);
        } catch (CorruptStoreException e) {
            assertThat(e).hasMessageContaining("Restore it from a snapshot");
        }
    }

    private void assertDamageIsNoticed(Path crashed) throws IOException {
        Path manifest = Manifest.read(crashed).file();
        long length = Files.size(manifest);
        for (long lost : List.of(1L, 20L, 100L)) {
            Path copy = copyOf(crashed);
            try (RandomAccessFile file = opened(copy, manifest)) {
                file.setLength(length - lost);
            }
            assertThatThrownBy(() -> Tables.numbers(engine, copy, TABLE))
                    .isInstanceOf(CorruptStoreException.class)
                    .hasMessageContainingAll(
                            manifest.getFileName().toString(),
                            "was synced up to byte " + length,
                            SyncMark.NAME);
        }
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 40 * Tables.LENGTH; i++) {
            Path copy = copyOf(crashed);
            long at = random.nextLong(length);
            int bit = random.nextInt(8);
            Tables.flip(copy.resolve(manifest.getFileName()), at, bit);
            assertNothingLost(copy, "seed " + seed + ", bit " + bit + " of byte " + at);
        }
    }

    private static RandomAccessFile opened(Path copy, Path manifest) throws IOException {
        return new RandomAccessFile(copy.resolve(manifest.getFileName()).toFile(), "rw");
    }

    @Test
    void behindAnIngest() throws Exception {
        Path crashed = crashed();
        assertThat(Tables.numbers(engine, copyOf(crashed), TABLE)).isEqualTo(ALL);
        assertDamageIsNoticed(crashed);
    }

    /** The lost end of a MANIFEST, and not a full log, is what the test above is about. */
    @Test
    void withoutTheMarkAStreamIsLost() throws Exception {
        Path crashed = crashed();
        Path manifest = Manifest.read(crashed).file();
        try (RandomAccessFile file = opened(crashed, manifest)) {
            file.setLength(file.length() - 1);
        }
        Files.delete(crashed.resolve(SyncMark.NAME));
        assertThat(Tables.numbers(engine, crashed, TABLE)).isEqualTo(ALL.subList(ROWS / 2, ROWS));
    }

    /** Each start begins another MANIFEST. */
    @Test
    void behindAStart() throws Exception {
        to.close();
        to = Tables.open(engine, directory.resolve("to"), TABLE);
        assertDamageIsNoticed(crashed());
    }

    /** They were deleted before the damage was noticed: the MANIFEST names nothing behind it. */
    @Test
    void stagedFilesStayUntilTheManifestIsMended() throws Exception {
        Path crashed = crashed();
        Path manifest = Manifest.read(crashed).file();
        long length = Files.size(manifest);
        long number =
                Manifest.dataFiles(crashed).stream()
                        .max(Comparator.comparingLong(Manifest.DataFile::number))
                        .orElseThrow()
                        .number();
        // What a process leaves that ended behind the failed ingest of a file that is named.
        Path streams = crashed.resolve(StoreDescriptor.STREAMS);
        Path staged = streams.resolve("1").resolve("0-0.sst");
        Files.createDirectories(staged.getParent());
        Files.move(crashed.resolve("%06d.sst".formatted(number)), staged);
        for (long at : List.of(10L, length / 2, length - 1)) {
            Tables.flip(manifest, at, 3);
            assertThatThrownBy(() -> Tables.numbers(engine, crashed, TABLE))
                    .isInstanceOf(CorruptStoreException.class)
                    .hasMessageContaining("Nothing was changed");
            assertThat(staged).as("damage of byte " + at).exists();
            Tables.flip(manifest, at, 3);
        }
        assertThat(Tables.numbers(engine, crashed, TABLE)).isEqualTo(ALL);
        assertThat(streams).doesNotExist();
    }

    /** RocksDB logs a batch without entries under a number that an ingest takes, too. */
    @Test
    void aCleanupThatRemovesNothingIsNoDamage() throws Exception {
        to.flush();
        to.retainRanges(RangeTests.everything());
        SentStream.of(from).ingestedBy(to);
        assertThat(Tables.numbers(engine, crashed(), TABLE)).isEqualTo(ALL);
    }

    /** What is read of a MANIFEST begins where it ended before. */
    @Test
    void theEndIsFoundBehindManyChanges() throws Exception {
        TableMetadata table =
                Tables.table(
                        "CREATE TABLE t (k text PRIMARY KEY, v int) WITH compaction = {'class':"
                                + " 'SizeTieredCompactionStrategy', 'enabled': 'false'}");
        TableStore source = Tables.open(engine, directory.resolve("source"), table);
        TableStore store = Tables.open(engine, directory.resolve("store"), table);
        Random random = new Random(1);
        // Keys are in the MANIFEST: several blocks of 32 KiB of them.
        for (int round = 0; round < 12; round++) {
            for (TableStore each : List.of(source, store)) {
                var update = Tables.update(table, "k".repeat(1 + random.nextInt(3_000)));
                update.row().add("v", round);
                each.write(update.build());
            }
            store.flush();
            SentStream.of(source).ingestedBy(store);
            Path of = directory.resolve("store");
            SyncMark.Known known = SyncMark.read(of);
            assertThat(known).isNotNull();
            assertThat(known.manifest()).isEqualTo(Manifest.read(of).end());
        }
        assertThat(Manifest.read(directory.resolve("store")).end().bytes()).isGreaterThan(64 << 10);
    }

    /** As 0.1.0 wrote it. */
    @Test
    void aMarkWithoutTheManifestIsRead() throws Exception {
        ByteBuffer slot = ByteBuffer.allocate(100).order(ByteOrder.LITTLE_ENDIAN);
        slot.putInt(0x53594e31).putLong(7).putLong(1_000).putLong(3).putInt(1);
        slot.putLong(4).putLong(12);
        CRC32C crc = new CRC32C();
        crc.update(slot.duplicate().flip());
        slot.putInt((int) crc.getValue());
        Files.write(directory.resolve(SyncMark.NAME), slot.array());
        SyncMark.Known known = SyncMark.read(directory);
        assertThat(known)
                .isEqualTo(
                        new SyncMark.Known(
                                7,
                                1_000,
                                3,
                                List.of(new SyncMark.Log(4, 12)),
                                Manifest.End.UNKNOWN));
    }
}
