// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.sstable.SSTableExport;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Supplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableId;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.net.AsyncStreamingOutputPlus;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.StreamOperation;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a peer that takes no slices waits for. */
class SSTableSliceTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v blob, PRIMARY KEY (p, c))");

    private static final List<Range<Token>> ALL =
            List.of(
                    new Range<>(
                            TABLE.partitioner.getMinimumToken(),
                            TABLE.partitioner.getMinimumToken()));

    /** Above that, the engine has its own settings. */
    private static final int SMALL = 256;

    private static final int ROWS = 10;
    private static final int ROW_BYTES = 1_000;

    private final TableMetadataRef reference = TableMetadataRef.forOfflineTools(TABLE);
    private final Random random = new Random(1);

    /** A store with a partition, of which all may be sent. */
    private final class Sender implements AutoCloseable {
        private final StorageEngine engine =
                StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")));
        private final StreamGuards guards = new StreamGuards(() -> 1000);
        private final StreamGuards.Guard guard = guards.begin(ALL, () -> false);
        private final TableStore store;

        Sender(Path directory) {
            store = engine.openStore(new StoreSpec(directory.resolve("store"), "t", 1, reference));
            store.write(partition(1));
        }

        /** All of it, in one SSTable, as this store or what stands for it has it. */
        SSTableSlice slice(ColumnFamilyStore cfs, TableStore of) {
            List<OutgoingStream> streams =
                    SSTableSlice.of(
                            cfs,
                            engine,
                            Hollow.of(Generation.class),
                            of,
                            StreamOperation.BOOTSTRAP,
                            ALL,
                            guard);
            assertThat(streams).hasSize(1);
            return (SSTableSlice) streams.get(0);
        }

        @Override
        public void close() {
            guard.close();
            store.close();
            engine.close();
        }
    }

    /** Nothing of it is sent: an SSTable that is not whole looks like one that is. */
    @Test
    void aCleanupFailsItBeforeItsFirstByte(@TempDir Path directory) {
        try (Sender sender = new Sender(directory)) {
            SSTableSlice slice = sender.slice(table(), sender.store);
            sender.guards.cleanup(List.of(), () -> {});
            // It would write to it, and find no node's table.
            StreamingDataOutputPlus output = Hollow.of(AsyncStreamingOutputPlus.class);
            assertThatThrownBy(() -> slice.write(new TestSession(), output, 12))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("cleanup");
        }
    }

    private ColumnFamilyStore table() {
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", reference);
        return cfs;
    }

    /** Else {@code disk_failure_policy} would stop the node for a stream. */
    @Test
    void onlyTheSessionFailsIfTheDiskIsFull(@TempDir Path directory) {
        KeyspaceMetadata metadata = Hollow.of(KeyspaceMetadata.class);
        Hollow.set(metadata, KeyspaceMetadata.class, "name", "ks");
        Keyspace keyspace = Hollow.of(Keyspace.class);
        Hollow.set(keyspace, Keyspace.class, "metadata", metadata);
        ColumnFamilyStore cfs = table();
        Hollow.set(cfs, ColumnFamilyStore.class, "keyspace", keyspace);
        Supplier<SSTableId> ids = () -> new SequenceBasedSSTableId(1);
        Hollow.set(cfs, ColumnFamilyStore.class, "sstableIdGenerator", ids);
        try (Sender sender = new Sender(directory)) {
            for (String reason :
                    List.of(
                            "No space left on device",
                            "Disk quota exceeded",
                            "Input/output error")) {
                FSWriteError error = new FSWriteError(new IOException(reason), "nb-1-Data.db");
                TableStore failing =
                        Hollow.proxy(
                                TableStore.class,
                                (self, method, arguments) -> {
                                    if (method.getName().equals("scanAside")) throw error;
                                    return method.invoke(sender.store, arguments);
                                });
                SSTableSlice slice = sender.slice(cfs, failing);
                ThrowingCallable export = () -> slice.export(new TestSession(), ALL, directory);
                if (reason.equals("Input/output error")) assertThatThrownBy(export).isSameAs(error);
                else
                    assertThatThrownBy(export)
                            .isInstanceOf(IOException.class)
                            .hasMessageContainingAll(slice.getName(), "nb-1-Data.db", reason)
                            // Cassandra looks among the causes.
                            .hasNoCause();
            }
        }
    }

    private PartitionUpdate partition(int key) {
        PartitionUpdate.SimpleBuilder update =
                PartitionUpdate.simpleBuilder(TABLE, key).timestamp(5).nowInSec(1);
        for (int c = 0; c < ROWS; c++) {
            byte[] value = new byte[ROW_BYTES];
            for (int b = 0; b < ROW_BYTES / 2; b++) value[b] = (byte) random.nextInt();
            update.row(c).add("v", ByteBuffer.wrap(value));
        }
        return update.build();
    }

    /**
     * An SSTable is not sent before it is complete: Cassandra's header of it says which sections of
     * the file come. How large it becomes has a bound, but for the largest of tables.
     */
    @Test
    void whatIsWrittenBeforeTheFirstByteDoesNotGrowWithTheTable(@TempDir Path directory)
            throws IOException {
        int most = Integer.getInteger("petra.export.mib", 16);
        Map<String, String> settings =
                most > SMALL
                        ? Map.of("memory", "256MiB")
                        : Map.of("memory", "64MiB", "stream_part", "64KiB");
        try (StorageEngine engine = StorageEngines.open("rocks", new EngineSettings(settings));
                TableStore store =
                        engine.openStore(
                                new StoreSpec(directory.resolve("store"), "t", 1, reference))) {
            int partitions = 0;
            for (int mebibytes : new int[] {most / 4, most}) {
                for (; (long) partitions * ROWS * ROW_BYTES < (long) mebibytes << 20; partitions++)
                    store.write(partition(partitions));
                store.flush();
                List<SliceRanges> plan = SSTableSlice.plan(engine, store, ALL);
                Path target = Files.createDirectory(directory.resolve("export" + mebibytes));
                long began = System.nanoTime();
                SSTableReader sstable =
                        requireNonNull(
                                SSTableExport.write(
                                        reference,
                                        store,
                                        Range.normalize(plan.get(0).ranges()),
                                        new Descriptor(
                                                new File(target),
                                                "ks",
                                                "t",
                                                new SequenceBasedSSTableId(1)),
                                        null,
                                        written -> {}));
                System.out.printf(
                        "SSTableSliceTest: of %d MiB in %d SSTables the first, of %d bytes, was"
                                + " written after %d ms%n",
                        mebibytes,
                        plan.size(),
                        sstable.onDiskLength(),
                        (System.nanoTime() - began) / 1_000_000);
                assertThat(plan).hasSizeGreaterThan(2);
                assertThat(sstable.onDiskLength())
                        .isBetween(engine.sliceBytes() / 16, engine.sliceBytes() / 2);
                sstable.selfRef().release();
            }
        }
    }
}
