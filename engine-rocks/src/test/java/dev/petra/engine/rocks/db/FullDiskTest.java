// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static dev.petra.engine.rocks.Tables.key;
import static dev.petra.engine.rocks.Tables.update;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A disk that fills: writes fail with a message that says so, nothing acknowledged is lost, reads
 * go on, and so do writes once there is room. On a tmpfs of its own, which needs the right to
 * mount.
 */
class FullDiskTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v blob)");
    private static final List<Range<Token>> ALL =
            List.of(
                    new Range<>(
                            TABLE.partitioner.getMinimumToken(),
                            TABLE.partitioner.getMinimumToken()));
    private static final int VALUE = 8 << 10;

    @TempDir Path directory;
    private Path disk;

    @BeforeEach
    void mount() throws IOException, InterruptedException {
        disk = Files.createDirectory(directory.resolve("disk"));
        int status =
                new ProcessBuilder("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk + "")
                        .inheritIO()
                        .start()
                        .waitFor();
        if (status != 0) System.err.println("FullDiskTest SKIPPED: no right to mount a tmpfs");
        assumeTrue(status == 0, "no right to mount a tmpfs");
    }

    @AfterEach
    void unmount() throws IOException, InterruptedException {
        new ProcessBuilder("umount", "-l", disk + "").start().waitFor();
    }

    @Test
    void aFullDiskFailsWritesLosesNothingAndHeals() throws Exception {
        Path ballast = disk.resolve("ballast");
        Files.write(ballast, new byte[20 << 20]);
        int acknowledged = 0;
        try (StorageEngine engine =
                Tables.engine(
                        Map.of(
                                "memory", "32MiB",
                                "write_buffer", "1MiB",
                                "write_stall_timeout", "300ms"))) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            Throwable failure = null;
            while (failure == null && acknowledged < 10_000) {
                failure = write(store, acknowledged);
                if (failure == null) acknowledged++;
            }
            assertThat(failure)
                    .isInstanceOf(WriteStallException.class)
                    .hasMessageContaining("full")
                    .hasMessageContaining(disk.toString());
            for (int i = 0; i < acknowledged; i++) check(store, i);

            Files.delete(ballast);
            // This thread's own iterator must not make the healing wait for it for good.
            try (var scan =
                    store.scan(
                            org.apache.cassandra.db.DataRange.allData(TABLE.partitioner),
                            ColumnFilter.all(TABLE))) {
                assertThat(scan.hasNext()).isTrue();
                Thread.sleep(1_100);
                assertThat(write(store, acknowledged)).isInstanceOf(WriteStallException.class);
                check(store, 0);
                readsGoOn(store, acknowledged);
            }
            long deadline = System.nanoTime() + 120_000_000_000L;
            Throwable last;
            while ((last = write(store, acknowledged)) != null) {
                if (System.nanoTime() - deadline > 0) throw new AssertionError("not healed", last);
                Thread.sleep(100);
            }
            acknowledged++;
            for (int i = 0; i < 100; i++) assertThat(write(store, acknowledged++)).isNull();
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = Tables.open(engine, disk.resolve("store"), TABLE);
            for (int i = 0; i < acknowledged; i++) check(store, i);
        }
    }

    /** Each attempt to heal, while a scan is open, once let all reads wait for a second. */
    private static void readsGoOn(TableStore store, int next) throws InterruptedException {
        AtomicBoolean done = new AtomicBoolean();
        Thread healing =
                new Thread(
                        () -> {
                            while (!done.get()) write(store, next);
                        });
        healing.start();
        try {
            long deadline = System.nanoTime() + 30_000_000_000L;
            for (int i = 0; i < 20_000; i++) {
                check(store, i % next);
                assertThat(System.nanoTime()).describedAs("after %d reads", i).isLessThan(deadline);
            }
        } finally {
            done.set(true);
            healing.join();
        }
    }

    /** At its beginning, in its middle, and at the sender. */
    @Test
    void aStreamThatFindsNoRoomLeavesTheStoreAsItWas() throws Exception {
        int rows = 1_000;
        Path ballast = disk.resolve("ballast");
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", "32MiB", "stream_part", "1MiB"))) {
            TableStore from = Tables.open(engine, directory.resolve("from"), TABLE);
            for (int i = 0; i < rows; i++) assertThat(write(from, i)).isNull();
            TableStore to = Tables.open(engine, disk.resolve("store"), TABLE);
            assertThat(write(to, rows)).isNull();
            to.flush();
            try (OutgoingParts out = from.streamOut(ALL)) {
                StreamManifest manifest = out.manifest();
                assertThat(manifest.totalBytes()).isGreaterThan((long) rows * VALUE);
                fill(ballast);
                assertThatThrownBy(() -> to.streamIn(manifest, ALL))
                        .hasMessageContaining("has no room");
                Files.delete(ballast);
                try (IncomingParts in = to.streamIn(manifest, ALL)) {
                    fill(ballast);
                    assertThatThrownBy(() -> receive(out, in))
                            .hasMessageContaining("No space left");
                }
                assertThat(streams()).isEmpty();
                check(to, rows);
                Files.delete(ballast);
                try (IncomingParts in = to.streamIn(manifest, ALL)) {
                    receive(out, in);
                    while (in.ingest()) in.awaitRoom();
                }
                for (int i = 0; i <= rows; i++) check(to, i);
            }
            fill(ballast);
            assertThatThrownBy(() -> to.streamOut(ALL)).hasMessageContaining("No space left");
            assertThat(streams()).isEmpty();
            Files.delete(ballast);
            try (OutgoingParts out = to.streamOut(ALL)) {
                assertThat(out.manifest().totalBytes()).isGreaterThan((long) rows * VALUE);
            }
            assertThat(write(to, rows + 1)).isNull();
            for (int i = 0; i <= rows + 1; i++) check(to, i);
        }
    }

    private static void receive(OutgoingParts out, IncomingParts in) throws IOException {
        for (StreamPart part : out.manifest().parts())
            try (FileChannel sent = FileChannel.open(out.file(part.index()))) {
                in.receive(part.index(), sent);
            }
    }

    /** Leaves 2 MiB. */
    private void fill(Path ballast) throws IOException {
        Files.deleteIfExists(ballast);
        long free = Files.getFileStore(disk).getUsableSpace();
        Files.write(ballast, new byte[Math.toIntExact(free - (2 << 20))]);
    }

    private List<Path> streams() throws IOException {
        Path streams = disk.resolve("store").resolve(StoreDescriptor.STREAMS);
        if (!Files.exists(streams)) return List.of();
        try (var left = Files.list(streams)) {
            return left.toList();
        }
    }

    private static Throwable write(TableStore store, int i) {
        byte[] value = new byte[VALUE];
        new SplittableRandom(i).nextBytes(value);
        var update = update(TABLE, i);
        update.row().add("v", java.nio.ByteBuffer.wrap(value));
        return catchThrowable(() -> store.write(update.build()));
    }

    private static void check(TableStore store, int i) {
        byte[] value = new byte[VALUE];
        new SplittableRandom(i).nextBytes(value);
        try (var rows = store.read(key(TABLE, i), Slices.ALL, ColumnFilter.all(TABLE), false)) {
            assertThat(rows).describedAs("row %d", i).isNotNull();
            var row = (org.apache.cassandra.db.rows.Row) rows.next();
            assertThat(row.cells().iterator().next().buffer())
                    .isEqualTo(java.nio.ByteBuffer.wrap(value));
        }
    }
}
