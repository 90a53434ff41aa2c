// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.sstable.SnapshotFiles;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSErrorHandler;
import org.apache.cassandra.io.sstable.CorruptSSTableException;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.io.util.FileUtils;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.service.snapshot.SnapshotManifest;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Snapshots in files, and a store that has what is in them, or not. */
@Timeout(60)
class SnapshotComparisonTest {
    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
    private static final Token MINIMUM = Murmur3Partitioner.instance.getMinimumToken();
    private static final String TAG = "before";

    /** Counts what reaches {@code disk_failure_policy}. */
    private static final class Policy implements FSErrorHandler {
        final AtomicInteger called = new AtomicInteger();

        @Override
        public void handleCorruptSSTable(CorruptSSTableException e) {
            called.incrementAndGet();
        }

        @Override
        public void handleFSError(FSError e) {
            called.incrementAndGet();
        }
    }

    @TempDir Path directory;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final StorageEngine engine =
            new MemoryEngineProvider().open(new EngineSettings(Map.of()));
    private final Policy policy = new Policy();
    private final List<String> files = new ArrayList<>();

    @SuppressWarnings("NullAway.Init")
    private TableStore store;

    @SuppressWarnings("NullAway.Init")
    private Path folder;

    private @Nullable String end;
    private Runnable onFirstRead = () -> {};
    private Runnable onSecondRead = () -> {};
    private int sstables;
    private String format = "big";

    @BeforeEach
    void open() throws IOException {
        Hollow.set(
                cfs,
                ColumnFamilyStore.class,
                "metadata",
                TableMetadataRef.forOfflineTools(TABLE.metadata()));
        store = engine.openStore(TABLE.spec(directory.resolve("store")));
        folder = directory.resolve("snapshots").resolve(TAG);
        Files.createDirectories(folder);
        FileUtils.setFSErrorHandler(policy);
    }

    @AfterEach
    void close() {
        engine.close();
        FileUtils.setFSErrorHandler(null);
        assertThat(policy.called).hasValue(0);
    }

    private static PartitionUpdate row(int k, int c, String v) {
        return TABLE.update("k" + k).at(5).row(c).liveness().set("v", v).end().build();
    }

    /** Writes an SSTable of the snapshot, and to the store. */
    private void write(PartitionUpdate... updates) {
        sstable(updates);
        for (PartitionUpdate update : updates) store.write(update);
    }

    private void sstable(PartitionUpdate... updates) {
        TreeMap<DecoratedKey, PartitionUpdate> sorted = new TreeMap<>();
        for (PartitionUpdate update : updates) sorted.put(update.partitionKey(), update);
        Descriptor descriptor =
                new Descriptor(
                        new File(folder),
                        "ks",
                        "t",
                        new SequenceBasedSSTableId(++sstables),
                        Objects.requireNonNull(DatabaseDescriptor.getSSTableFormats().get(format)));
        try (SSTableTxnWriter writer =
                SSTableTxnWriter.create(
                        TABLE.ref(),
                        descriptor,
                        updates.length,
                        ActiveRepairService.UNREPAIRED_SSTABLE,
                        ActiveRepairService.NO_PENDING_REPAIR,
                        false,
                        SerializationHeader.makeWithoutStats(TABLE.metadata()),
                        List.of(),
                        null)) {
            for (PartitionUpdate update : sorted.values())
                try (UnfilteredRowIterator partition = update.unfilteredIterator()) {
                    writer.append(partition);
                }
            writer.finish(true).forEach(each -> each.selfRef().release());
        }
        files.add(String.valueOf(data(sstables).getFileName()));
    }

    private Path data(int number) {
        return file(number, "Data.db");
    }

    private Path file(int number, String component) {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(each -> each.toString().endsWith("-" + component))
                    .filter(each -> each.toString().contains("-" + number + "-" + format + "-"))
                    .findAny()
                    .orElseThrow();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void manifest(Instant takenAt) throws IOException {
        new SnapshotManifest(files, null, takenAt, false)
                .serializeToJsonFile(new File(folder.resolve("manifest.json")));
    }

    private SnapshotFiles find() {
        return SnapshotFiles.find(TABLE.metadata(), List.of(directory), TAG);
    }

    private SnapshotComparison comparison(SnapshotFiles snapshot, Predicate<Token> isOwned) {
        return new SnapshotComparison(
                cfs,
                new SnapshotComparison.Store() {
                    @Override
                    public @Nullable TableStore existing() {
                        onSecondRead.run();
                        onFirstRead.run();
                        onFirstRead = () -> {};
                        return store;
                    }

                    @Override
                    public @Nullable String end() {
                        return end;
                    }
                },
                TAG,
                snapshot,
                isOwned,
                "",
                List.of(new Range<>(MINIMUM, MINIMUM)));
    }

    private SnapshotComparison run() {
        SnapshotComparison comparison = comparison(find(), any -> true);
        comparison.run();
        return comparison;
    }

    private static void isWhole(SnapshotComparison comparison, long equal) {
        assertThat(comparison.state()).isEqualTo("complete");
        assertThat(comparison.isComplete()).isTrue();
        assertThat(comparison.compared()).isEqualTo(equal);
        assertThat(comparison.equal()).isEqualTo(equal);
        assertThat(comparison.different()).isZero();
        assertThat(comparison.differences()).isEmpty();
    }

    @Test
    void allThatIsInTheSnapshotIsLookedFor() throws IOException {
        write(row(1, 1, "a"), row(2, 1, "b"), row(3, 1, "c"));
        write(row(1, 2, "d"), row(4, 1, "e"));
        manifest(Instant.now());
        isWhole(run(), 4);
        // What the store has besides.
        store.write(row(9, 1, "z"));
        store.write(TABLE.update("k1").at(6).deletePartition().build());
        store.write(TABLE.update("k2").at(6).row(1).set("v", "n").end().build());
        isWhole(run(), 4);

        sstable(row(4, 7, "lost"));
        sstable(row(5, 1, "lost"));
        SnapshotComparison comparison = run();
        assertThat(comparison.state()).isEqualTo("complete");
        assertThat(comparison.compared()).isEqualTo(5);
        assertThat(comparison.equal()).isEqualTo(3);
        assertThat(comparison.different()).isEqualTo(2);
        assertThat(comparison.notComparable()).isZero();
        assertThat(comparison.tokensDone()).isEqualTo(1);
        assertThat(comparison.differences().split("\n", -1))
                .containsExactlyInAnyOrder(
                        "partition k4, row c=7: the snapshot has, and the store lacks: row @5, v ="
                                + " 0x6c6f7374 @5",
                        "partition k5, row c=1: the snapshot has, and the store lacks: row @5, v ="
                                + " 0x6c6f7374 @5");
    }

    @Test
    void manyDifferencesAreCountedAndSomeShown() throws IOException {
        PartitionUpdate[] rows = new PartitionUpdate[50];
        Arrays.setAll(rows, k -> row(k, 1, "a"));
        sstable(rows);
        manifest(Instant.now());
        SnapshotComparison comparison = run();
        assertThat(comparison.different()).isEqualTo(50);
        assertThat(comparison.differences().split("\n", -1)).hasSize(10);
    }

    @Test
    void aStoreToWhichNothingWasWrittenLacksAll() throws IOException {
        sstable(row(1, 1, "a"));
        manifest(Instant.now());
        SnapshotComparison comparison =
                new SnapshotComparison(
                        cfs,
                        new SnapshotComparison.Store() {
                            @Override
                            public @Nullable TableStore existing() {
                                return null;
                            }

                            @Override
                            public @Nullable String end() {
                                return null;
                            }
                        },
                        TAG,
                        find(),
                        any -> true,
                        "",
                        List.of(new Range<>(MINIMUM, MINIMUM)));
        comparison.run();
        assertThat(comparison.different()).isEqualTo(1);
    }

    /** In pieces of 1 MiB, with range deletions over their ends. */
    @Test
    void aLargePartition() throws IOException {
        String value = "v".repeat(10_000);
        for (int i = 0; i < 2; i++) {
            var rows = TABLE.update("k").at(5 + i);
            for (int c = i; c < 600; c += 2) rows.row(c).liveness().set("v", value).end();
            write(rows.build());
        }
        write(TABLE.update("k").at(4).deleteRange(TABLE.from(-5), TABLE.to(1_000)).build());
        manifest(Instant.now());
        isWhole(run(), 1);
        sstable(TABLE.update("k").at(9).row(599).set("v", "w").end().build());
        SnapshotComparison comparison = run();
        assertThat(comparison.different()).isEqualTo(1);
        assertThat(comparison.differences())
                .contains("partition k, row c=599")
                .doesNotContain("\n");
    }

    /** Rows that a deletion hides are passed over, however many they are. */
    @Test
    void aPieceGoesOnUntilThereIsAPlace() throws IOException {
        var rows = TABLE.update("k").at(5);
        String value = "v".repeat(10_000);
        for (int c = 0; c < 300; c++) rows.row(c).liveness().set("v", value).end();
        sstable(rows.build());
        PartitionUpdate deletion =
                TABLE.update("k").at(6).deleteRange(TABLE.from(0), TABLE.before(299)).build();
        sstable(deletion);
        manifest(Instant.now());
        store.write(deletion);
        SnapshotComparison comparison = run();
        assertThat(comparison.differences()).contains("row c=299");
        assertThat(comparison.different()).isEqualTo(1);
    }

    /** What hid it may have been purged, and the snapshot does not have that. */
    @Test
    void anOldSnapshotDoesNotTellALossFromAPurge() throws IOException {
        sstable(row(1, 1, "a"));
        long grace = TABLE.metadata().params.gcGraceSeconds;
        manifest(Instant.now().minusSeconds(grace - 60));
        assertThat(run().different()).isEqualTo(1);
        manifest(Instant.now().minusSeconds(grace));
        isPurgedOrMissing(run());
        Files.delete(folder.resolve("manifest.json"));
        isPurgedOrMissing(run());
        store.write(row(1, 1, "a"));
        isWhole(run(), 1);
    }

    private static void isPurgedOrMissing(SnapshotComparison comparison) {
        assertThat(comparison.isComplete()).isTrue();
        assertThat(comparison.compared()).isEqualTo(1);
        assertThat(comparison.different()).isZero();
        assertThat(comparison.notComparable()).isEqualTo(1);
        assertThat(comparison.notComparableBecause())
                .startsWith("1 lack something that is missing or was purged since")
                .endsWith("; partition keys: k1");
        assertThat(comparison.differences()).contains("partition k1, row c=1");
    }

    @Test
    void whatTheNodeDoesNotOwnAnyMoreIsLeftOut() throws IOException {
        write(row(1, 1, "a"));
        sstable(row(2, 1, "b"));
        manifest(Instant.now());
        Token gone = TABLE.key("k2").getToken();
        SnapshotComparison comparison = comparison(find(), token -> !token.equals(gone));
        comparison.run();
        assertThat(comparison.state())
                .isEqualTo(
                        "complete; left out: 1 partitions that this node does not own any more and"
                                + " does not have");
        assertThat(comparison.compared()).isEqualTo(1);
        assertThat(comparison.equal()).isEqualTo(1);
    }

    @Test
    void itIsReadToTheEndIfTheSnapshotIsDeleted() throws IOException {
        write(row(1, 1, "a"), row(2, 1, "b"));
        manifest(Instant.now());
        onFirstRead = () -> new File(folder).deleteRecursive();
        isWhole(run(), 2);
        assertThat(folder).doesNotExist();
    }

    @Test
    void itEndsIfTheSnapshotIsDeletedBefore() throws IOException {
        write(row(1, 1, "a"));
        manifest(Instant.now());
        SnapshotComparison comparison = comparison(find(), any -> true);
        new File(folder).deleteRecursive();
        comparison.run();
        assertThat(comparison.state()).startsWith("ended: the snapshot cannot be read: ");
        assertThat(comparison.isComplete()).isFalse();
    }

    @Test
    void theOtherFormat() throws IOException {
        format = "bti";
        write(row(1, 1, "a"), row(2, 1, "b"));
        sstable(row(2, 7, "lost"));
        manifest(Instant.now());
        List<Path> files = list();
        SnapshotComparison comparison = run();
        assertThat(comparison.state()).isEqualTo("complete");
        assertThat(comparison.equal()).isEqualTo(1);
        assertThat(comparison.differences()).contains("partition k2, row c=7");
        assertThat(list()).isEqualTo(files);
    }

    /** As if it had purged something by a clock that was later than what counted as now. */
    @Test
    void whatTookLongIsReadAgain() throws IOException {
        TableStore whole = store;
        write(row(1, 1, "a"));
        manifest(Instant.now());
        store = engine.openStore(TABLE.spec(directory.resolve("empty")));
        onFirstRead =
                () -> {
                    try {
                        TimeUnit.SECONDS.sleep(7);
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                    onSecondRead = () -> store = whole;
                };
        SnapshotComparison comparison = run();
        assertThat(comparison.equal()).isEqualTo(1);
        assertThat(comparison.different()).isZero();
    }

    @ParameterizedTest
    @CsvSource({
        "big, Data.db",
        "big, Statistics.db",
        "big, CompressionInfo.db",
        "big, Index.db",
        "bti, Data.db",
        "bti, Statistics.db",
        "bti, Partitions.db"
    })
    void aDamagedFileEndsIt(String of, String component) throws IOException {
        format = of;
        write(row(1, 1, "a".repeat(1_000)), row(2, 1, "b"));
        manifest(Instant.now());
        Path file = file(1, component);
        byte[] content = Files.readAllBytes(file);
        for (int i = 0; i < content.length; i++) content[i] ^= 0x55;
        Files.write(file, content);
        SnapshotComparison comparison = run();
        assertThat(comparison.state()).startsWith("ended: the snapshot cannot be read: ");
        assertThat(comparison.isComplete()).isFalse();
        assertThat(comparison.different()).isZero();
    }

    /** One byte, also where the table looks at few checksums. */
    @Test
    void aWrongByteEndsIt() throws IOException {
        Hollow.set(
                cfs,
                ColumnFamilyStore.class,
                "metadata",
                TableMetadataRef.forOfflineTools(
                        TABLE.metadata().unbuild().crcCheckChance(0).build()));
        write(row(1, 1, "a".repeat(1_000)));
        manifest(Instant.now());
        byte[] content = Files.readAllBytes(data(1));
        content[content.length - 6] ^= 1;
        Files.write(data(1), content);
        assertThat(run().state()).startsWith("ended: the snapshot cannot be read: ");
    }

    /**
     * Of the files that have no checksum: whatever a bit of them hides, all partitions are looked
     * at or the comparison says that it was not whole.
     */
    @ParameterizedTest
    @CsvSource({"big, Index.db", "big, Summary.db", "bti, Partitions.db", "bti, Rows.db"})
    void aFlippedBitOfAnIndexHidesNothing(String of, String component) throws IOException {
        format = of;
        int keys = 5_000;
        PartitionUpdate[] rows = new PartitionUpdate[keys];
        for (int k = 0; k < keys; k++) rows[k] = row(k, 1, "v");
        write(rows);
        manifest(Instant.now());
        Path file = file(1, component);
        byte[] content = Files.readAllBytes(file);
        // Of some bits of a trie, one in some hundreds, Cassandra reads until its heap is full.
        long seed = of.equals("bti") ? 1 : System.nanoTime();
        SplittableRandom random = new SplittableRandom(seed);
        for (int i = 0; i < 12 && content.length > 0; i++) {
            int at = random.nextInt(content.length);
            int bit = 1 << random.nextInt(8);
            content[at] ^= (byte) bit;
            Files.write(file, content);
            SnapshotComparison comparison = run();
            if (comparison.isComplete())
                assertThat(comparison.equal())
                        .as("seed %s: bit %s of byte %s", seed, bit, at)
                        .isEqualTo(keys);
            else assertThat(comparison.state()).startsWith("ended: the snapshot cannot be read: ");
            assertThat(comparison.different()).isZero();
            content[at] ^= (byte) bit;
        }
    }

    @Test
    void anIndexThatWasCutOffEndsIt() throws IOException {
        write(row(1, 1, "a"), row(2, 1, "b"), row(3, 1, "c"));
        manifest(Instant.now());
        Path file = file(1, "Index.db");
        byte[] content = Files.readAllBytes(file);
        // Each entry is as long as the others, so the cut is behind the second.
        Files.write(file, Arrays.copyOf(content, content.length / 3 * 2));
        assertThat(run().state())
                .startsWith("ended: the snapshot cannot be read: ")
                .contains("it has 2 partitions, and by its statistics there are 3");
    }

    @Test
    void aGraceThatBecomesShorterMeanwhileLeavesItOpenWhetherItWasPurged() throws IOException {
        sstable(row(1, 1, "a"));
        manifest(Instant.now().minusSeconds(100));
        onFirstRead =
                () ->
                        Hollow.set(
                                cfs,
                                ColumnFamilyStore.class,
                                "metadata",
                                TableMetadataRef.forOfflineTools(
                                        TABLE.metadata().unbuild().gcGraceSeconds(0).build()));
        isPurgedOrMissing(run());
    }

    /** Cassandra would delete it, and write another one. */
    @Test
    void aSummaryThatDoesNotFitIsLeftThere() throws IOException {
        write(row(1, 1, "a"), row(2, 1, "b"));
        manifest(Instant.now());
        TableMetadata other = TABLE.metadata().unbuild().minIndexInterval(64).build();
        Hollow.set(
                cfs, ColumnFamilyStore.class, "metadata", TableMetadataRef.forOfflineTools(other));
        Path summary = file(1, "Summary.db");
        byte[] before = Files.readAllBytes(summary);
        List<Path> files = list();
        isWhole(run(), 2);
        assertThat(Files.readAllBytes(summary)).isEqualTo(before);
        Files.delete(summary);
        isWhole(run(), 2);
        files.remove(summary);
        assertThat(list()).isEqualTo(files);
    }

    private List<Path> list() throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return new ArrayList<>(all.sorted().toList());
        }
    }

    @Test
    void itEndsWithTheStore() throws IOException {
        write(row(1, 1, "a"));
        manifest(Instant.now());
        SnapshotComparison waiting = comparison(find(), any -> true);
        end = "table ks.t was truncated, dropped or migrated";
        assertThat(waiting.isOver()).isTrue();
        assertThat(waiting.state())
                .isEqualTo("ended: table ks.t was truncated, dropped or migrated");
        end = null;
        SnapshotComparison altered = comparison(find(), any -> true);
        Hollow.set(
                cfs,
                ColumnFamilyStore.class,
                "metadata",
                TableMetadataRef.forOfflineTools(
                        TABLE.metadata()
                                .unbuild()
                                .removeRegularOrStaticColumn(TABLE.column("v").name)
                                .build()));
        altered.run();
        assertThat(altered.state())
                .isEqualTo("ended: the table's columns were altered; begin it again");
    }

    // What is refused

    private void refused(String reason) {
        assertThatThrownBy(this::find)
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(reason);
    }

    @Test
    void snapshotsThatCannotBeCompared() throws IOException {
        sstable(row(1, 1, "a"));
        manifest(Instant.now());
        Files.move(data(1), folder.resolve("gone"));
        refused("lacks SSTables that its manifest.json names: ");
        Files.move(folder.resolve("gone"), folder.resolve(files.get(0)));
        Path old = folder.resolve("jb-7-big-Data.db");
        Files.createFile(old);
        refused("jb-7-big-Data.db");
        Files.delete(old);
        Files.createDirectory(folder.resolve("rocksdb"));
        refused("is a store. Only a snapshot of SSTables alone can be compared");
        Files.delete(folder.resolve("rocksdb"));
        var unused = find();
        assertThatThrownBy(
                        () -> SnapshotFiles.find(TABLE.metadata(), List.of(directory), "another"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("there is no snapshot 'another' of table");
        assertThatThrownBy(
                        () -> SnapshotFiles.find(TABLE.metadata(), List.of(directory), "../" + TAG))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void anSSTableWithoutItsIndexEndsIt() throws IOException {
        sstable(row(1, 1, "a"));
        manifest(Instant.now());
        Files.delete(file(1, "Index.db"));
        assertThat(run().state())
                .startsWith("ended: the snapshot cannot be read: ")
                .contains("lacks some of its files");
    }

    @Test
    void itIsStopped() throws IOException {
        sstable(row(1, 1, "a"));
        manifest(Instant.now().minus(Duration.ofDays(1)));
        SnapshotComparison comparison = comparison(find(), any -> true);
        comparison.stop();
        comparison.run();
        assertThat(comparison.state()).isEqualTo("ended by nodetool stop");
        assertThat(comparison.compared()).isZero();
    }
}
