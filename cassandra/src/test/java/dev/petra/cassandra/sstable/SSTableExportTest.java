// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.collect.Iterables;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.ExportDirectory;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.TableStore;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ActiveRepairService;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What happens to a table while an SSTable is made of it. */
class SSTableExportTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c))");
    private static final List<Range<Token>> ALL =
            List.of(
                    new Range<>(
                            TABLE.partitioner.getMinimumToken(),
                            TABLE.partitioner.getMinimumToken()));
    private static final int ROWS = 10;

    @TempDir Path temp;

    private final StorageEngine engine =
            StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")));
    private final TableMetadataRef reference = TableMetadataRef.forOfflineTools(TABLE);
    private Path root = Path.of("");

    @BeforeEach
    void begin() {
        root = temp.resolve("rocksdb");
    }

    @AfterEach
    void end() {
        engine.close();
    }

    private TableGenerations open() {
        return TableGenerations.open("t", reference, () -> engine, List.of(temp), Disk.REAL);
    }

    private TableGenerations filled() {
        TableGenerations stores = open();
        for (int c = 0; c < ROWS; c++) {
            PartitionUpdate.SimpleBuilder update =
                    PartitionUpdate.simpleBuilder(TABLE, 1).timestamp(5).nowInSec(1);
            update.row(c).add("v", 7);
            stores.current().writable().write(update.build());
        }
        return stores;
    }

    private @Nullable SSTableReader export(
            TableStore store, Path directory, SSTableExport.Watch watch) throws IOException {
        Descriptor descriptor =
                new Descriptor(new File(directory), "ks", "t", new SequenceBasedSSTableId(1));
        return SSTableExport.write(reference, store, ALL, descriptor, null, watch);
    }

    /** The store, whose scans do something before they begin and when they are over. */
    private static TableStore withHooks(TableStore store, Runnable before, Runnable after) {
        return proxy(
                TableStore.class,
                store,
                "scanAside",
                before,
                scan ->
                        proxy(
                                UnfilteredPartitionIterator.class,
                                (UnfilteredPartitionIterator) scan,
                                "close",
                                () -> {},
                                nothing -> {
                                    after.run();
                                    return nothing;
                                }));
    }

    private static <T> T proxy(
            Class<T> type,
            T object,
            String name,
            Runnable before,
            UnaryOperator<@Nullable Object> after) {
        return type.cast(
                Proxy.newProxyInstance(
                        type.getClassLoader(),
                        new Class<?>[] {type},
                        (proxy, method, arguments) -> {
                            boolean hooked = method.getName().equals(name);
                            if (hooked) before.run();
                            try {
                                Object result = method.invoke(object, arguments);
                                return hooked ? after.apply(result) : result;
                            } catch (InvocationTargetException e) {
                                throw e.getCause();
                            }
                        }));
    }

    private void alter(TableMetadata table) {
        try {
            // Which only a node's schema does.
            Method set = TableMetadataRef.class.getDeclaredMethod("set", TableMetadata.class);
            set.setAccessible(true);
            set.invoke(reference, table);
        } catch (ReflectiveOperationException e) {
            throw new LinkageError(e.getMessage(), e);
        }
    }

    private static void drop(TableGenerations stores) {
        Generation old = stores.current();
        stores.drop();
        dispose(stores, old);
    }

    private static void dispose(TableGenerations stores, Generation old) {
        old.discard();
        try {
            assertThat(stores.awaitDisposed(Duration.ofMinutes(1))).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** What Cassandra writes first must not be what finds that out: the node might stop. */
    @Test
    void aDiskThatTakesNothingIsFoundBeforeCassandraBeginsTheSSTable() throws IOException {
        TableGenerations stores = filled();
        Path directory = Files.createDirectories(temp.resolve("export"));
        // In the way of what is written to try.
        Files.createDirectory(directory.resolve("probe"));
        assertThatThrownBy(() -> export(stores.current().writable(), directory, written -> {}))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("cannot be begun in " + directory)
                .hasMessageContaining("Free space");
        // No log of Cassandra's.
        assertThat(directory).isEmptyDirectory();
    }

    /** Else Cassandra would write to a folder that is gone, and take the disk for broken. */
    @Test
    void theFolderOfATableThatIsDroppedStaysUntilItsSSTableIsSent() throws IOException {
        TableGenerations stores = filled();
        TableStore store = withHooks(stores.current().writable(), () -> {}, () -> drop(stores));
        ExportDirectory other = stores.beginExport();
        try (ExportDirectory directory = stores.beginExport()) {
            SSTableReader sstable = export(store, directory.path(), written -> {});
            assertThat(sstable).isNotNull();
            sstable.selfRef().release();
            other.close();
            assertThat(directory.path()).exists();
            assertThat(root.resolve("1")).doesNotExist();
        }
        assertThat(root).doesNotExist();
        assertThatThrownBy(stores::beginExport).isInstanceOf(IllegalStateException.class);
        assertThat(root).doesNotExist();
    }

    /** It comes back into its engine while what was begun before is still sent, and is dropped. */
    @Test
    void theFolderStaysForAnSSTableOfATableThatWasThereBefore() throws IOException {
        TableGenerations before = filled();
        ExportDirectory export = before.beginExport();
        Generation old = before.current();
        before.retire(old);
        dispose(before, old);
        before.deleteDirectory();
        assertThat(export.path()).exists();
        TableGenerations after = open();
        assertThat(export.path()).exists();
        ExportDirectory next = after.beginExport();
        assertThat(next.path()).isNotEqualTo(export.path());
        next.close();
        drop(after);
        assertThat(export.path()).exists();
        export.close();
        assertThat(root).doesNotExist();
    }

    @Test
    void whatACrashLeftIsDeleted() throws IOException {
        TableGenerations stores = filled();
        Path left = Files.createDirectories(root.resolve("streams/7"));
        stores.close();
        open();
        assertThat(left.getParent()).doesNotExist();
    }

    @Test
    void anSSTableIsGivenUpWithinAPartition() throws IOException {
        TableGenerations stores = filled();
        AtomicInteger asked = new AtomicInteger();
        try (ExportDirectory directory = stores.beginExport()) {
            assertThatThrownBy(
                            () ->
                                    export(
                                            stores.current().writable(),
                                            directory.path(),
                                            written -> {
                                                if (asked.incrementAndGet() == ROWS / 2)
                                                    throw new EOFException("on purpose");
                                            }))
                    .isInstanceOf(EOFException.class)
                    .hasMessage("on purpose");
            assertThat(asked).hasValue(ROWS / 2);
            assertThat(directory.path()).isEmptyDirectory();
        }
        assertThat(root.resolve("streams")).doesNotExist();
    }

    @Test
    void aColumnThatIsAddedMeanwhileIsLeftOut() throws IOException {
        TableGenerations stores = filled();
        TableStore store = stores.current().writable();
        TableMetadata altered =
                TABLE.unbuild().addRegularColumn("added", Int32Type.instance).build();
        Runnable alter =
                () -> {
                    alter(altered);
                    PartitionUpdate.SimpleBuilder update =
                            PartitionUpdate.simpleBuilder(altered, 1).timestamp(6).nowInSec(1);
                    update.row(0).add("added", 8);
                    store.write(update.build());
                };
        try (ExportDirectory directory = stores.beginExport()) {
            SSTableReader sstable =
                    export(withHooks(store, alter, () -> {}), directory.path(), written -> {});
            assertThat(sstable).isNotNull();
            assertThat(sstable.getTotalRows()).isEqualTo(ROWS);
            assertThat(sstable.header.columns()).isEqualTo(TABLE.regularAndStaticColumns());
            sstable.selfRef().release();
        }
    }

    /** nodetool stop, DROP and a shutdown wait for it, and compaction_throughput is for it too. */
    @Test
    void aMigrationIsHaltedAndThrottledWithinAPartition() throws IOException {
        PartitionUpdate update = partition(100_000);
        AtomicInteger read = new AtomicInteger();
        AtomicLong told = new AtomicLong();
        try (UnfilteredPartitionIterator rest = counted(update, read);
                SSTableTxnWriter writer = writer()) {
            assertThat(SSTableExport.writeNext(writer, rest, told::addAndGet, () -> read.get() > 0))
                    .isNull();
            assertThat(told).hasPositiveValue();
            assertThat(writer.getFilePointer()).isGreaterThanOrEqualTo(told.get());
        }
        assertThat(read).hasValueLessThan(1_000);
        assertThat(temp).isEmptyDirectory();
    }

    @Test
    void allBytesOfAMigrationAreTold() throws IOException {
        PartitionUpdate update = partition(10_000);
        AtomicLong told = new AtomicLong();
        try (UnfilteredPartitionIterator rest = counted(update, new AtomicInteger());
                SSTableTxnWriter writer = writer()) {
            SSTableExport.Step step =
                    SSTableExport.writeNext(writer, rest, told::addAndGet, () -> false);
            SSTableReader sstable = Iterables.getOnlyElement(requireNonNull(step).sstables());
            assertThat(sstable.getTotalRows()).isEqualTo(10_000);
            assertThat(told).hasValue(sstable.uncompressedLength());
            sstable.selfRef().release();
        }
    }

    private static PartitionUpdate partition(int rows) {
        PartitionUpdate.SimpleBuilder update =
                PartitionUpdate.simpleBuilder(TABLE, 1).timestamp(5).nowInSec(1);
        for (int c = 0; c < rows; c++) update.row(c).add("v", 7);
        return update.build();
    }

    private SSTableTxnWriter writer() {
        return SSTableTxnWriter.create(
                reference,
                new Descriptor(new File(temp), "ks", "t", new SequenceBasedSSTableId(1)),
                1,
                ActiveRepairService.UNREPAIRED_SSTABLE,
                ActiveRepairService.NO_PENDING_REPAIR,
                false,
                SerializationHeader.makeWithoutStats(TABLE),
                List.of(),
                null);
    }

    private static UnfilteredPartitionIterator counted(PartitionUpdate update, AtomicInteger rows) {
        return new SingletonUnfilteredPartitionIterator(
                Transformation.apply(
                        update.unfilteredIterator(),
                        new Transformation<>() {
                            @Override
                            protected Row applyToRow(Row row) {
                                rows.incrementAndGet();
                                return row;
                            }
                        }));
    }
}
