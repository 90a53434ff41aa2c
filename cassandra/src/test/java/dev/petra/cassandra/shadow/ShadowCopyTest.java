// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.hooks.NodetoolHooks;
import dev.petra.cassandra.shadow.DoubledWrites.Doubled;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.AbstractSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.SortedSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleNewTracker;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;
import org.apache.cassandra.io.sstable.metadata.MetadataCollector;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.notifications.MemtableSwitchedNotification;
import org.apache.cassandra.notifications.SSTableAddedNotification;
import org.apache.cassandra.notifications.SSTableListChangedNotification;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.serializers.MarshalException;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a copy concludes from changes of its table's SSTables. */
class ShadowCopyTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c))");
    private static final TableMetadataRef REF = TableMetadataRef.forOfflineTools(TABLE);

    private static final long NOW = FBUtilities.nowInSeconds();

    /** A table whose flush is made up. Only to be made hollow. */
    private static class Table extends ColumnFamilyStore {
        private Runnable flush;

        Table() {
            super(null, "t", null, REF, null, false, false, false);
        }

        @Override
        public CommitLogPosition forceBlockingFlush(FlushReason reason) {
            flush.run();
            return CommitLogPosition.NONE;
        }
    }

    @TempDir Path directory;

    private Tracker tracker;
    private SSTableReader first;
    private Table cfs;
    private LateWrites late;
    private ShadowCopy copy;
    private final AtomicInteger writes = new AtomicInteger();

    @BeforeAll
    static void compactors() {
        DatabaseDescriptor.setConcurrentCompactors(1);
        DatabaseDescriptor.setConcurrentValidations(1);
        DatabaseDescriptor.setConcurrentViewBuilders(1);
    }

    @BeforeEach
    void begin() {
        first = sstable(1);
        tracker = Tracker.newDummyTracker();
        tracker.addInitialSSTables(List.of(first));
        cfs = Hollow.of(Table.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", REF);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        TableStore store =
                (TableStore)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {TableStore.class},
                                (proxy, method, arguments) -> {
                                    if (method.getName().equals("writeUnsynced"))
                                        writes.incrementAndGet();
                                    return null;
                                });
        late = new LateWrites();
        copy = new ShadowCopy(cfs, store, 1, late, () -> new LateWrites.Moment(NOW, 10));
        copy.resume(List.of(), null);
    }

    private SSTableReader sstable(int number) {
        return sstable(number, false);
    }

    /**
     * Writes one.
     *
     * @param early whether it is opened before it is complete, as by a compaction
     */
    private SSTableReader sstable(int number, boolean early) {
        return sstable(number, early, List.of(1));
    }

    /** Of these keys, which are in the order of their tokens. */
    private SSTableReader sstable(int number, boolean early, List<Integer> keys) {
        List<PartitionUpdate> updates = new ArrayList<>();
        for (int key : keys) {
            PartitionUpdate.SimpleBuilder update = PartitionUpdate.simpleBuilder(TABLE, key);
            update.row(1).add("v", 7);
            updates.add(update.build());
        }
        return sstableOf(number, early, updates);
    }

    private SSTableReader sstableOf(int number, boolean early, List<PartitionUpdate> updates) {
        Descriptor descriptor =
                new Descriptor(new File(directory), "ks", "t", new SequenceBasedSSTableId(number));
        try (SSTableWriter writer =
                descriptor
                        .getFormat()
                        .getWriterFactory()
                        .builder(descriptor)
                        .setKeyCount(1)
                        .setRepairedAt(ActiveRepairService.UNREPAIRED_SSTABLE)
                        .setPendingRepair(ActiveRepairService.NO_PENDING_REPAIR)
                        .setTransientSSTable(false)
                        .setTableMetadataRef(REF)
                        .setMetadataCollector(new MetadataCollector(TABLE.comparator))
                        .setSerializationHeader(SerializationHeader.makeWithoutStats(TABLE))
                        .addDefaultComponents(List.of())
                        .setSecondaryIndexGroups(List.of())
                        .build(new Untracked(), null)) {
            for (PartitionUpdate update : updates)
                try (UnfilteredRowIterator partition = update.unfilteredIterator()) {
                    writer.append(partition);
                }
            if (early) writer.openFinalEarly().selfRef().release();
            return writer.finish(true);
        }
    }

    private static final class Untracked implements LifecycleNewTracker {
        @Override
        public void trackNew(SSTable table) {}

        @Override
        public void untrackNew(SSTable table) {}

        @Override
        public OperationType opType() {
            return OperationType.COMPACTION;
        }
    }

    private void changed(
            List<SSTableReader> removed, List<SSTableReader> added, OperationType type) {
        copy.handleNotification(new SSTableListChangedNotification(added, removed, type), tracker);
    }

    @Test
    void aCompactionKeepsIt() {
        changed(List.of(first), List.of(sstable(2)), OperationType.COMPACTION);
        assertThat(copy.isCaughtUp()).isTrue();
    }

    /** As each drain ends those that run. Of its inputs nothing is gone. */
    @Test
    void aCompactionThatIsAbortedKeepsIt() {
        SSTableReader written = sstable(2);
        Hollow.set(written, SSTableReader.class, "openReason", SSTableReader.OpenReason.EARLY);
        changed(List.of(written, first), List.of(first), OperationType.COMPACTION);
        assertThat(copy.isCaughtUp()).isTrue();
    }

    @Test
    void whatCameAndWasCompactedBeforeItWasCopiedEndsIt() {
        changed(List.of(first, sstable(2)), List.of(sstable(3)), OperationType.COMPACTION);
        assertThat(copy.isOver()).isTrue();
    }

    /** The next start would take it for another one, and make the copy anew. */
    @Test
    void whatACompactionHasWrittenIsTheSameForTheNextStart() {
        SSTableReader written = sstable(2, true);
        SSTableReader opened = SSTableReader.openNoValidation(null, written.descriptor, REF);
        assertThat(written.onDiskLength()).isNotEqualTo(opened.onDiskLength());
        assertThat(named(written)).isEqualTo(named(opened)).isNotEqualTo(named(first));
    }

    private SortedSet<String> named(SSTableReader only) {
        tracker.removeUnsafe(cfs.getLiveSSTables());
        tracker.addInitialSSTables(List.of(only));
        return ShadowCopy.names(cfs.getLiveSSTables());
    }

    @ParameterizedTest
    @EnumSource(names = {"CLEANUP", "SCRUB", "UNKNOWN", "P0"})
    void anOperationThatChangesTheContentEndsIt(OperationType type) {
        changed(List.of(first), List.of(sstable(2)), type);
        assertThat(copy.end()).matches(ShadowStore.End::isFault);
    }

    /** Else the next copies would wait ever longer. */
    @ParameterizedTest
    @EnumSource(names = {"CLEANUP", "SCRUB"})
    void whatIsWaitedForIsNoFault(OperationType type) {
        Shadows.shrinkingBegins(copy.cfs);
        changed(List.of(first), List.of(sstable(2)), type);
        Shadows.shrinkingEnds(copy.cfs);
        assertThat(copy.end()).matches(end -> !end.isFault());
    }

    /** Which leave content out of what is read of the table before the copy is told of it. */
    @Test
    void cleanupAndScrubHoldUpComparisons() {
        Shadows.shrinkingBegins(copy.cfs);
        Shadows.shrinkingBegins(copy.cfs);
        assertThat(copy.isCaughtUp()).isFalse();
        assertThat(copy.hasAllSSTables()).isFalse();
        assertThat(copy.arrivalsIfCaughtUp()).isEqualTo(ShadowCopy.NOT_CAUGHT_UP);
        assertThat(copy.position()).isNull();
        Shadows.shrinkingEnds(copy.cfs);
        assertThat(copy.isCaughtUp()).isFalse();
        Shadows.shrinkingEnds(copy.cfs);
        // They have found nothing to remove.
        assertThat(copy.isCaughtUp()).isTrue();
        assertThat(copy.hasAllSSTables()).isTrue();
    }

    @Test
    void nodetoolSaysWhenTheyBeginAndEnd() {
        assertThat(NodetoolHooks.cleanup(copy.cfs)).isNull();
        assertThat(copy.isCaughtUp()).isFalse();
        NodetoolHooks.scrub(copy.cfs);
        NodetoolHooks.cleanupOfOne(copy.cfs);
        NodetoolHooks.afterSSTables(copy.cfs);
        NodetoolHooks.afterSSTables(copy.cfs);
        assertThat(copy.isCaughtUp()).isFalse();
        NodetoolHooks.afterSSTables(copy.cfs);
        assertThat(copy.isCaughtUp()).isTrue();
    }

    /** As by JMX, of which nothing else says when it begins. */
    @Test
    void cleanupOfOneSSTableHoldsUpComparisonsAsWell() {
        NodetoolHooks.cleanupOfOne(copy.cfs);
        assertThat(copy.arrivalsIfCaughtUp()).isEqualTo(ShadowCopy.NOT_CAUGHT_UP);
        changed(List.of(first), List.of(sstable(2)), OperationType.CLEANUP);
        NodetoolHooks.afterSSTables(copy.cfs);
        assertThat(copy.end()).matches(end -> !end.isFault());
        assertThat(Shadows.isShrinking(copy.cfs)).isFalse();
    }

    /** Else what it purges in the table alone would be reported as different. */
    @Test
    void forcecompactHoldsUpComparisonsAndHasTheCopyMadeAnew() {
        // What it says of how the table purges stays for as long as the JVM.
        HollowShadow.become(cfs, TABLE.unbuild().id(TableId.generate()).build());
        Shadow shadow = HollowShadow.of(cfs, false);
        HollowShadow.has(shadow, copy);
        HollowShadow.register(shadow);
        try {
            Set<SSTableReader> before = NodetoolHooks.forceCompact(cfs, new String[] {"1"});
            assertThat(copy.isCaughtUp()).isFalse();
            assertThat(copy.isOver()).isFalse();
            tracker.removeUnsafe(Set.of(first));
            NodetoolHooks.afterForceCompact(cfs, before);
        } finally {
            HollowShadow.unregister(shadow);
        }
        assertThat(copy.end())
                .matches(end -> !end.isFault() && end.reason().startsWith("forcecompact"));
        assertThat(Shadows.isShrinking(cfs)).isFalse();
    }

    /** As of a key that no SSTable has. */
    @Test
    void forcecompactThatHasPurgedNothingKeepsTheCopy() {
        HollowShadow.become(cfs, TABLE.unbuild().id(TableId.generate()).build());
        Shadow shadow = HollowShadow.of(cfs, false);
        HollowShadow.has(shadow, copy);
        HollowShadow.register(shadow);
        try {
            // It is no key of the table at all.
            assertThatThrownBy(() -> NodetoolHooks.forceCompact(cfs, new String[] {"1", "one"}))
                    .isInstanceOf(MarshalException.class);
            assertThat(copy.isCaughtUp()).isTrue();
            assertThat(Shadows.purgeDoubt(cfs.metadata())).isNull();

            Set<SSTableReader> before = NodetoolHooks.forceCompact(cfs, new String[] {"1"});
            assertThat(Shadows.purgeDoubt(cfs.metadata())).startsWith("forcecompact was called");
            NodetoolHooks.afterForceCompact(cfs, before);
            assertThat(copy.isCaughtUp()).isTrue();

            // A compaction that goes on may have purged it, and its end is told later.
            before = NodetoolHooks.forceCompact(cfs, new String[] {"1"});
            LifecycleTransaction compaction = tracker.tryModify(first, OperationType.COMPACTION);
            NodetoolHooks.afterForceCompact(cfs, before);
            compaction.close();
            assertThat(copy.isOver()).isTrue();
        } finally {
            HollowShadow.unregister(shadow);
        }
        assertThat(Shadows.isShrinking(cfs)).isFalse();
    }

    /** One is among the table's before the copy is told of it. */
    @Test
    void anSSTableOfWhichItWasNotToldIsNotThere() {
        assertThat(copy.hasAllSSTables()).isTrue();
        assertThat(copy.hasAllSSTables()).isTrue();
        SSTableReader second = sstable(2);
        tracker.addInitialSSTablesWithoutUpdatingSize(List.of(second));
        assertThat(copy.hasAllSSTables()).isFalse();
        copy.handleNotification(new SSTableAddedNotification(List.of(second), null), tracker);
        assertThat(copy.arrivals()).isEqualTo(1);
        assertThat(copy.arrivalsIfCaughtUp()).isEqualTo(ShadowCopy.NOT_CAUGHT_UP);
        copy.release();
        Hollow.set(copy, ShadowCopy.class, "caughtUp", true);
        assertThat(copy.arrivalsIfCaughtUp()).isEqualTo(1);
        assertThat(copy.hasAllSSTables()).isTrue();
    }

    /** A compaction may have taken all of it before the copy is told of it. */
    @Test
    void whatIsWrittenSoFarOfAnSSTableOfWhichItWasNotToldIsNotThere() {
        SSTableReader second = sstable(2);
        tracker.addInitialSSTablesWithoutUpdatingSize(List.of(second));
        SSTableReader written = sstable(3);
        Hollow.set(written, SSTableReader.class, "openReason", SSTableReader.OpenReason.EARLY);
        LifecycleTransaction compaction = tracker.tryModify(second, OperationType.COMPACTION);
        compaction.update(written, false);
        compaction.obsolete(second);
        compaction.checkpoint();
        assertThat(cfs.getLiveSSTables()).containsExactlyInAnyOrder(first, written);
        assertThat(copy.hasAllSSTables()).isFalse();
        copy.handleNotification(
                new SSTableAddedNotification(List.of(second), noMemtable()), tracker);
        assertThat(copy.hasAllSSTables()).isTrue();
    }

    /** Else there is a moment in which it has caught up and the SSTable counts as copied. */
    @Test
    void whatArrivesIsNotAccountedForBeforeTheCopyHasNotCaughtUp() {
        AtomicInteger early = new AtomicInteger();
        Set<Descriptor> accounted = ConcurrentHashMap.newKeySet();
        Hollow.set(
                copy,
                ShadowCopy.class,
                "accounted",
                new AbstractSet<Descriptor>() {
                    @Override
                    public boolean add(Descriptor descriptor) {
                        if (copy.isCaughtUp()) early.incrementAndGet();
                        return accounted.add(descriptor);
                    }

                    @Override
                    public boolean contains(Object descriptor) {
                        return accounted.contains(descriptor);
                    }

                    @Override
                    public Iterator<Descriptor> iterator() {
                        return accounted.iterator();
                    }

                    @Override
                    public int size() {
                        return accounted.size();
                    }
                });
        copy.handleNotification(new SSTableAddedNotification(List.of(sstable(2)), null), tracker);
        assertThat(accounted).hasSize(1);
        assertThat(early.get()).isZero();
        copy.release();
    }

    @Test
    void whatArrivesIsCopiedFirst() {
        copy.handleNotification(new SSTableAddedNotification(List.of(sstable(2)), null), tracker);
        assertThat(copy.isCaughtUp()).isFalse();
        assertThat(copy.isOver()).isFalse();
        copy.release();
    }

    private ShadowFolder.Left keep(SSTableReader sstable, Set<SSTableReader> live, long stop)
            throws IOException {
        return CopySource.of(sstable.ref(), LateWrites.ALL_NEW).keep(live, stop, Disk.REAL);
    }

    private static ShadowFolder.Left left(Path path, long bytes) {
        return new ShadowFolder.Left(path.toString(), bytes, LateWrites.NOTHING_NEW);
    }

    private boolean isThere(ShadowFolder.Left left) throws IOException {
        return CopySource.isThere(left, List.of(new ShadowFolder(directory, Disk.REAL)));
    }

    /** It would be deleted when it is copied. */
    @Test
    void whatIsInAnotherFolderIsNotTakenForKept() throws IOException {
        ShadowFolder.Left left = keep(sstable(2), Set.of(), 7);
        assertThat(isThere(left)).isTrue();
        Path other = Files.createDirectories(directory.resolve("rocksdb_shadow2/backups/7"));
        Path name = Path.of(left.path()).getFileName();
        for (String component : List.of("Data", "Index"))
            Files.createFile(other.resolve(name + "-" + component + ".db"));
        assertThat(isThere(left(other.resolve(name), 1))).isFalse();
        Path link = directory.resolve("rocksdb_shadow/backups/9");
        Files.createSymbolicLink(link, other);
        assertThat(isThere(left(link.resolve(name), 1))).isFalse();
    }

    private void copyAll(ShadowCopy of) {
        var unused = of.step(() -> true);
        unused = of.step(() -> true);
    }

    /** Also if a compaction has taken them, whose files Cassandra deletes when the node starts. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatIsLeftToCopyIsCopiedAfterARestart(boolean isBegun) throws IOException {
        SSTableReader second = sstable(2, false, keys(2));
        copy.handleNotification(new SSTableAddedNotification(List.of(second), null), tracker);
        ShadowCopy.Position position = copy.position();
        assertThat(position).isNotNull();
        assertThat(position.sstables()).containsExactly(first);
        assertThat(position.toCopy())
                .extracting(CopySource::newFrom)
                .containsExactly(LateWrites.ALL_NEW);
        assertThat(position.nextKey()).isNull();
        ShadowFolder.Left left = position.toCopy().get(0).keep(position.sstables(), 7, Disk.REAL);
        assertThat(left.bytes()).isEqualTo(second.uncompressedLength());
        second.descriptor.getFormat().delete(second.descriptor);

        // At the next stop it is where it was.
        assertThat(CopySource.kept(left).keep(Set.of(), 8, Disk.REAL)).isEqualTo(left);
        assertThat(isThere(left)).isTrue();
        ShadowCopy next = copy(3);
        next.resume(List.of(CopySource.kept(left)), isBegun ? second.getLast() : null);
        assertThat(next.isCaughtUp()).isFalse();
        assertThat(next.bytesLeft()).isEqualTo(left.bytes());
        copyAll(next);
        assertThat(next.isCaughtUp()).isTrue();
        assertThat(writes.get()).isEqualTo(isBegun ? 1 : 2);
        assertThat(new ShadowFolder(directory, Disk.REAL).kept()).isEmptyDirectory();
        assertThat(isThere(left)).isFalse();
        copy.release();
    }

    /** Cassandra gives the number of one that it does not have any more to another. */
    @Test
    void sstablesOfOneNameAreKeptApart() throws IOException {
        SSTableReader before = sstable(2);
        ShadowFolder.Left one = keep(before, Set.of(), 7);
        before.descriptor.getFormat().delete(before.descriptor);
        ShadowFolder.Left other = keep(sstable(2), Set.of(), 8);
        assertThat(one.path()).isNotEqualTo(other.path());
        ShadowCopy next = copy(3);
        next.resume(List.of(CopySource.kept(one), CopySource.kept(other)), null);
        copyAll(next);
        copyAll(next);
        assertThat(next.isCaughtUp()).isTrue();
        assertThat(writes.get()).isEqualTo(2);
    }

    /** Else they would count twice where room is counted by the lengths of files. */
    @Test
    void whatIsTheTablesIsNotLinked() throws IOException {
        ShadowFolder.Left left = keep(first, Set.of(first), 7);
        assertThat(left.path()).isEqualTo(first.descriptor.baseFile().toString());
        assertThat(isThere(left)).isFalse();
        CopySource.of(first.ref(), LateWrites.NOTHING_NEW).release();
        assertThat(first.descriptor.fileFor(SSTableFormat.Components.DATA).exists()).isTrue();
        assertThat(new ShadowFolder(directory, Disk.REAL).kept()).doesNotExist();
    }

    @Test
    void whatAnEarlierStopHasLeftIsDeleted() throws IOException {
        ShadowFolder.Left one = keep(sstable(2), Set.of(), 7);
        ShadowFolder.Left other = keep(sstable(3), Set.of(), 8);
        ShadowFolder folder = new ShadowFolder(directory, Disk.REAL);
        CopySource.deleteOthers(folder, List.of(other));
        assertThat(isThere(one)).isFalse();
        assertThat(isThere(other)).isTrue();
        // What cannot be followed is passed over.
        Path dangling = folder.kept().resolve("1");
        Files.createSymbolicLink(dangling, directory.resolve("nowhere"));
        CopySource.deleteOthers(folder, List.of());
        Files.delete(dangling);
        assertThat(folder.kept()).isEmptyDirectory();
    }

    /** Whatever is wrong with it, the copy ends, and the next one has all. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatCannotBeReadIsNotPassedOver(boolean isDamaged) throws IOException {
        ShadowFolder.Left left = keep(sstable(2), Set.of(), 7);
        Path file = Path.of(left.path() + (isDamaged ? "-Data.db" : "-Statistics.db"));
        byte[] content = Files.readAllBytes(file);
        Files.delete(file);
        content[content.length / 2] ^= 1;
        if (isDamaged) Files.write(file, content);
        ShadowCopy next = copy(3);
        next.resume(List.of(CopySource.kept(left)), null);
        copyAll(next);
        assertThat(next.isCaughtUp()).isFalse();
        assertThat(next.isOver()).isTrue();
        // Which could be without what the restart has kept.
        assertThat(end(next).isFault()).isFalse();
        assertThat(end(next).reason())
                .contains("was kept over the restart of the node, cannot be read: " + left.path());
        next.release();
        assertThat(isThere(left)).isFalse();
    }

    /** Without compression nothing else tells that it was cut off behind a partition. */
    @Test
    void whatHasAnotherLengthIsNotTakenForWhole() throws IOException {
        ShadowFolder.Left left = keep(sstable(2), Set.of(), 7);
        ShadowCopy next = copy(3);
        next.resume(List.of(CopySource.kept(left(Path.of(left.path()), left.bytes() + 1))), null);
        copyAll(next);
        assertThat(next.isCaughtUp()).isFalse();
        assertThat(end(next).reason()).contains("bytes of data, and had " + (left.bytes() + 1));
        next.release();
    }

    private static ShadowStore.End end(ShadowCopy of) {
        return Objects.requireNonNull(of.end());
    }

    private static List<Integer> keys(int count) {
        return IntStream.range(0, count)
                .boxed()
                .sorted(Comparator.comparing(ShadowCopyTest::key))
                .toList();
    }

    private static DecoratedKey key(int key) {
        return TABLE.partitioner.decorateKey(Int32Type.instance.decompose(key));
    }

    /** An index that was damaged while the node was down must not lead past what is left. */
    @ParameterizedTest
    @ValueSource(doubles = {0.25, 0.5, 0.75})
    void anIndexThatWasCutOffHidesNothing(double isLeft) throws IOException {
        List<Integer> keys = keys(4);
        ShadowFolder.Left left = keep(sstable(2, false, keys), Set.of(), 7);
        Path index = Path.of(left.path() + "-Index.db");
        byte[] content = Files.readAllBytes(index);
        // Each entry is as long as the others.
        Files.write(index, Arrays.copyOf(content, (int) (content.length * isLeft)));
        ShadowCopy next = copy(3);
        next.resume(List.of(CopySource.kept(left)), key(keys.get(1)));
        copyAll(next);
        copyAll(next);
        assertThat(next.isCaughtUp()).isTrue();
        // The second is found, or all is copied anew.
        assertThat(writes.get()).isEqualTo(isLeft < 0.5 ? 4 : 3);
    }

    /** Each partition is copied, whatever its index says when a step is over. */
    @ParameterizedTest
    @ValueSource(doubles = {0.1, 0.25, 0.4, 0.5, 0.9, 1})
    void aDamagedIndexHidesNothingBetweenSteps(double isLeft) throws IOException {
        for (boolean isKept : List.of(false, true)) {
            writes.set(0);
            SSTableReader sstable = sstable(isKept ? 3 : 2, false, keys(4));
            Path index = Path.of(sstable.getFilename().replace("-Data.db", "-Index.db"));
            byte[] content = Files.readAllBytes(index);
            byte[] damaged = Arrays.copyOf(content, (int) (content.length * isLeft));
            CopySource source;
            if (isKept) {
                ShadowFolder.Left left = keep(sstable, Set.of(), 7);
                index = Path.of(left.path() + "-Index.db");
                source = CopySource.kept(left);
            } else source = CopySource.of(sstable.selfRef(), LateWrites.NOTHING_NEW);
            ShadowCopy next = copy(3);
            next.step = Duration.ZERO;
            next.resume(List.of(source), null);
            // In place: the table's reader has it open.
            Files.write(index, damaged);
            for (int i = 0; i < 20 && !next.isCaughtUp(); i++) copyAll(next);
            // What was kept may be given up, and all of the table is copied anew.
            assertThat(next.isCaughtUp()).isNotEqualTo(isKept && next.isOver());
            if (next.isCaughtUp()) assertThat(writes.get()).isGreaterThanOrEqualTo(4);
            if (isLeft == 1) assertThat(writes.get()).isEqualTo(4);
        }
    }

    @Test
    void whatIsNotKnownToBeThereIsNoPosition() {
        assertThat(copy.position()).isNotNull();
        copy.queued.incrementAndGet();
        assertThat(copy.position()).isNull();
        copy.queued.decrementAndGet();
        assertThat(copy.position()).isNotNull();
        tracker.addInitialSSTablesWithoutUpdatingSize(List.of(sstable(2)));
        assertThat(copy.position()).isNull();
        assertThat(beginning().position()).isNull();
        copy.end("it is over");
        assertThat(copy.position()).isNull();
    }

    private ShadowCopy copy(int number) {
        return new ShadowCopy(
                cfs, copy.store, number, new LateWrites(), () -> new LateWrites.Moment(0, 0));
    }

    private ShadowCopy beginning() {
        ShadowCopy next = copy(2);
        next.watch();
        return next;
    }

    private void changed(
            ShadowCopy of, SSTableReader removed, SSTableReader added, OperationType type) {
        of.handleNotification(
                new SSTableListChangedNotification(List.of(added), List.of(removed), type),
                tracker);
    }

    /** It may have been purged, with an older deletion that the copy does not find any more. */
    @Test
    void whatIsWrittenWhileACopyBeginsMustNotBeCompacted() {
        ShadowCopy next = beginning();
        SSTableReader flushed = sstable(2);
        next.handleNotification(
                new SSTableAddedNotification(List.of(flushed), noMemtable()), tracker);
        assertThat(next.isOver()).isFalse();
        changed(next, flushed, sstable(4), OperationType.COMPACTION);
        assertThat(end(next))
                .isEqualTo(
                        new ShadowStore.End(
                                "what was written while the copy began was compacted", false));
    }

    @Test
    void whatWasThereBeforeACopyBeginsMayBeCompacted() {
        ShadowCopy next = beginning();
        SSTableReader made = sstable(2);
        changed(next, first, made, OperationType.COMPACTION);
        changed(next, made, sstable(3), OperationType.MAJOR_COMPACTION);
        assertThat(next.isOver()).isFalse();
    }

    @Test
    void whatIsCleanedUpWhileACopyBeginsEndsIt() {
        ShadowCopy next = beginning();
        changed(next, first, sstable(2), OperationType.CLEANUP);
        assertThat(next.isOver()).isTrue();
    }

    @Test
    void beforeAnythingGoesToACopyNothingEndsIt() {
        ShadowCopy next =
                new ShadowCopy(
                        cfs, copy.store, 2, new LateWrites(), () -> new LateWrites.Moment(0, 0));
        changed(next, sstable(3), sstable(4), OperationType.COMPACTION);
        assertThat(next.isOver()).isFalse();
    }

    private static Memtable memtable(Class<? extends Memtable> type, BooleanSupplier isClean) {
        return (Memtable)
                Proxy.newProxyInstance(
                        ShadowCopyTest.class.getClassLoader(),
                        new Class<?>[] {type},
                        (proxy, method, arguments) ->
                                switch (method.getName()) {
                                    case "isClean" -> isClean.getAsBoolean();
                                    case "equals" -> proxy == arguments[0];
                                    case "hashCode" -> 1;
                                    default ->
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                });
    }

    private static Memtable memtable(boolean isClean) {
        return memtable(Memtable.class, () -> isClean);
    }

    /** Has the table have these. */
    private void memtables(List<Memtable> flushing, Memtable current) {
        Hollow.set(tracker.getView(), View.class, "flushingMemtables", flushing);
        Hollow.set(tracker.getView(), View.class, "liveMemtables", List.of(current));
    }

    @Test
    void aCopyBeginsWithWhatWasFlushed() {
        memtables(List.of(memtable(false)), memtable(false));
        cfs.flush = () -> memtables(List.of(), memtable(true));
        ShadowCopy next = beginning();
        next.begin(SeenByCompactions.now(cfs));
        copyAll(next);
        assertThat(next.isCaughtUp()).isTrue();
        assertThat(writes.get()).isEqualTo(1);
    }

    /** The flush that the copy asks for succeeds, and nobody flushes the other one any more. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void noCopyBeginsBesideAMemtableThatCouldNotBeFlushed(boolean isCurrentClean) {
        Memtable failed = memtable(false);
        memtables(List.of(failed), memtable(isCurrentClean));
        cfs.flush = () -> memtables(List.of(failed), memtable(true));
        ShadowCopy next = beginning();
        SeenByCompactions seen = SeenByCompactions.now(cfs);
        assertThatThrownBy(() -> next.begin(seen))
                .hasMessageContaining("could not flush a memtable");
        copyAll(next);
        assertThat(next.isCaughtUp()).isFalse();
    }

    /** It went to both. */
    @Test
    void whatIsWrittenWhileACopyBeginsNeedNotBeFlushed() {
        AtomicBoolean isClean = new AtomicBoolean(true);
        memtables(List.of(), memtable(Memtable.class, isClean::get));
        cfs.flush = () -> isClean.set(false);
        ShadowCopy next = beginning();
        next.begin(SeenByCompactions.now(cfs));
        assertThat(next.hasBegun()).isTrue();
        next.release();
    }

    /** It is there for a moment longer than its migration, which has moved all of it. */
    @Test
    void theMemtableOfAnEngineThatTheTableHasLeftNeedNotBeFlushed() {
        memtables(List.of(memtable(EngineMemtable.class, () -> false)), memtable(true));
        cfs.flush = () -> {};
        ShadowCopy next = beginning();
        next.begin(SeenByCompactions.now(cfs));
        assertThat(next.hasBegun()).isTrue();
        next.release();
    }

    /** Of partition 1, newer than anything, and purged by now if it is this many seconds old. */
    private static PartitionUpdate deletion(int age) {
        return PartitionUpdate.fullPartitionDelete(
                TABLE, ByteBufferUtil.bytes(1), Long.MAX_VALUE - 1, NOW - age);
    }

    private static PartitionUpdate write() {
        PartitionUpdate.SimpleBuilder update = PartitionUpdate.simpleBuilder(TABLE, 1);
        update.row(1).add("v", 7);
        return update.build();
    }

    @Test
    void aWriteOlderThanWhatWasPurgedIsLate() {
        copy.doubled(deletion(10), 0);
        copy.doubled(write(), 0);
        assertThat(late.reason()).isNull();
        copy.doubled(deletion(11), 0);
        assertThat(late.reason()).isNotNull();
        assertThat(copy.isOver()).isFalse();
        assertThat(copy.late()).isSameAs(late);
    }

    @Test
    void anSSTableThatArrivesMayBeLate() {
        copy.doubled(deletion(11), 0);
        copy.handleNotification(new SSTableAddedNotification(List.of(sstable(2)), null), tracker);
        assertThat(late.reason()).isNull();
        var unused = copy.step(() -> true);
        assertThat(late.reason()).isNotNull();
        unused = copy.step(() -> true);
        assertThat(copy.isCaughtUp()).isTrue();
    }

    /**
     * A compaction that began before does not know what came, and may purge the deletion over it.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatCameToARunningCompactionMayBeLate(boolean isCompacting) {
        SSTableReader deleted = sstableOf(2, false, List.of(deletion(11)));
        tracker.addInitialSSTables(List.of(deleted));
        SeenByCompactions seen = SeenByCompactions.now(cfs);
        LifecycleTransaction compaction = tracker.tryModify(deleted, OperationType.COMPACTION);
        if (!isCompacting) compaction.close();
        tracker.addInitialSSTables(List.of(sstable(3)));
        beginAndCopy(seen);
        assertThat(late.reason() != null).isEqualTo(isCompacting);
        if (isCompacting) compaction.close();
    }

    /** What is older than a deletion was there with it, and is not shown when that is purged. */
    @Test
    void whatARunningCompactionKnowsIsNotLate() {
        SSTableReader deleted = sstableOf(2, false, List.of(deletion(11)));
        tracker.addInitialSSTables(List.of(deleted));
        LifecycleTransaction compaction = tracker.tryModify(deleted, OperationType.COMPACTION);
        // The table has the first SSTable as well, and the result of a compaction of that.
        SeenByCompactions seen = SeenByCompactions.now(cfs);
        SSTableReader made = sstable(3);
        compacted(seen, Set.of(first), made);
        beginAndCopy(seen);
        assertThat(writes.get()).isEqualTo(2);
        assertThat(late.reason()).isNull();
        compaction.close();
    }

    private void compacted(SeenByCompactions seen, Set<SSTableReader> read, SSTableReader made) {
        seen.handleNotification(
                new SSTableListChangedNotification(
                        List.of(made), List.copyOf(read), OperationType.COMPACTION),
                tracker);
        tracker.removeUnsafe(read);
        // Which a compaction would not say.
        tracker.addInitialSSTables(List.of(made));
    }

    private static PartitionUpdate write(int row, long timestamp) {
        PartitionUpdate.SimpleBuilder update = PartitionUpdate.simpleBuilder(TABLE, 1);
        update.timestamp(timestamp).row(row).add("v", 7);
        return update.build();
    }

    /** A table that is compacted all the time was late from the beginning of its copy on. */
    @ParameterizedTest
    @ValueSource(longs = {10, 11})
    void ofWhatWasMergedWithWhatCameToARunningCompactionOnlyThatMayBeLate(long timestamp) {
        SSTableReader old = sstableOf(2, false, List.of(write(1, 5)));
        PartitionUpdate deletion =
                PartitionUpdate.fullPartitionDelete(TABLE, ByteBufferUtil.bytes(1), 10, NOW - 11);
        SSTableReader deleted = sstableOf(3, false, List.of(deletion));
        tracker.addInitialSSTables(List.of(old, deleted));
        SeenByCompactions seen = SeenByCompactions.now(cfs);
        LifecycleTransaction compaction = tracker.tryModify(deleted, OperationType.COMPACTION);
        PartitionUpdate brought =
                PartitionUpdate.merge(List.of(write(2, timestamp), write(3, 100)));
        SSTableReader came = sstableOf(4, false, List.of(brought));
        tracker.addInitialSSTables(List.of(came));
        PartitionUpdate merged = PartitionUpdate.merge(List.of(write(1, 5), brought));
        compacted(seen, Set.of(old, came), sstableOf(5, false, List.of(merged)));
        beginAndCopy(seen);
        assertThat(writes.get()).isEqualTo(3);
        assertThat(late.reason() != null).isEqualTo(timestamp == 10);
        compaction.close();
    }

    private void beginAndCopy(SeenByCompactions seen) {
        memtables(List.of(), memtable(true));
        cfs.flush = () -> {};
        ShadowCopy next =
                new ShadowCopy(cfs, copy.store, 2, late, () -> new LateWrites.Moment(NOW, 10));
        next.watch();
        next.begin(seen);
        for (int i = 0; i < 3; i++) copyAll(next);
        assertThat(next.isCaughtUp()).isTrue();
    }

    private static Memtable noMemtable() {
        return (Memtable)
                Proxy.newProxyInstance(
                        ShadowCopyTest.class.getClassLoader(),
                        new Class<?>[] {Memtable.class},
                        (proxy, method, arguments) -> null);
    }

    @Test
    void aWriteIsLookedAtBeforeItGoesToTheTableIfThatIsWanted() {
        copy.doubled(deletion(11), 0);
        Doubled.begin(copy, write()).end();
        assertThat(late.reason()).isNull();
        copy.lookFirst();
        Doubled.begin(copy, write()).end();
        assertThat(late.reason()).isNotNull();
        assertThat(copy.isOver()).isFalse();
    }

    /** In the memtable of before it would show until then, and be hidden afterwards. */
    @Test
    void aLateWriteWaitsForTheSwitchOfTheMemtable() throws Exception {
        copy.doubled(deletion(11), 0);
        copy.lookFirst();
        copy.beginSwitch();
        CompletableFuture<Void> begun =
                CompletableFuture.runAsync(() -> Doubled.begin(copy, write()).end());
        while (late.reason() == null) TimeUnit.MILLISECONDS.sleep(1);
        TimeUnit.MILLISECONDS.sleep(100);
        assertThat(begun).isNotDone();
        copy.endSwitch();
        begun.get(1, TimeUnit.MINUTES);
        assertThat(copy.isOver()).isFalse();
        // Nor does what comes later.
        Doubled.begin(copy, write()).end();
    }

    /** Whoever is to end the switch may wait for a change of the schema meanwhile. */
    @Test
    void aLateWriteWaitsNoLongerThanUntilTheMemtableIsTheEngines() throws Exception {
        copy.doubled(deletion(11), 0);
        copy.lookFirst();
        copy.beginSwitch();
        CompletableFuture<Void> begun =
                CompletableFuture.runAsync(() -> Doubled.begin(copy, write()).end());
        while (late.reason() == null) TimeUnit.MILLISECONDS.sleep(1);
        MemtableSwitchedNotification switched =
                new MemtableSwitchedNotification(noMemtable(), noMemtable());
        memtables(List.of(), memtable(true));
        copy.handleNotification(switched, tracker);
        TimeUnit.MILLISECONDS.sleep(100);
        assertThat(begun).isNotDone();
        memtables(List.of(), memtable(EngineMemtable.class, () -> true));
        copy.handleNotification(switched, tracker);
        // Sooner than it would have waited in vain.
        begun.get(20, TimeUnit.SECONDS);
        assertThat(copy.isOver()).isFalse();
    }

    @Test
    void othersDoNotWaitForTheSwitchOfTheMemtable() {
        copy.lookFirst();
        copy.beginSwitch();
        Doubled.begin(copy, write()).end();
        copy.endSwitch();
        assertThat(late.reason()).isNull();
    }

    @Test
    void onlyWhatHasAllSSTablesIsHandedOver() {
        SSTableReader second = sstable(2);
        assertThat(copy.handOver(Set.of(first, second))).isFalse();
        assertThat(copy.isHandedOver()).isFalse();
        assertThat(copy.accounted(Set.of(first, second))).containsExactly(first);
        copy.handleNotification(
                new SSTableAddedNotification(List.of(second), noMemtable()), tracker);
        assertThat(copy.handOver(Set.of(first, second))).isTrue();
        assertThat(copy.isHandedOver()).isTrue();
        assertThat(copy.accounted(Set.of(first, second))).containsExactlyInAnyOrder(first, second);
    }

    @Test
    void whatIsNotCopiedYetIsNotHandedOver() {
        copy.handleNotification(new SSTableAddedNotification(List.of(sstable(2)), null), tracker);
        assertThat(copy.handOver(Set.of(first))).isFalse();
        copy.release();
    }

    @Test
    void nothingIsHandedOverDuringCleanupOrWhenItIsOver() {
        Shadows.shrinkingBegins(copy.cfs);
        assertThat(copy.handOver(Set.of(first))).isFalse();
        Shadows.shrinkingEnds(copy.cfs);
        copy.end("a test");
        assertThat(copy.handOver(Set.of(first))).isFalse();
    }

    /** It has the former memtable, what is made of what it has, and nothing else that comes. */
    @Test
    void whatComesToWhatIsHandedOverIsNotItsOwn() {
        assertThat(copy.handOver(Set.of(first))).isTrue();
        SSTableReader came = sstable(2);
        copy.handleNotification(new SSTableAddedNotification(List.of(came), null), tracker);
        assertThat(copy.isCaughtUp()).isTrue();
        assertThat(copy.bytesLeft()).isZero();
        SSTableReader flushed = sstable(3);
        copy.handleNotification(
                new SSTableAddedNotification(List.of(flushed), noMemtable()), tracker);
        assertThat(copy.accounted(Set.of(first, came, flushed)))
                .containsExactlyInAnyOrder(first, flushed);
        SSTableReader ofItsOwn = sstable(4);
        changed(List.of(first, flushed), List.of(ofItsOwn), OperationType.COMPACTION);
        assertThat(copy.accounted(Set.of(ofItsOwn, came))).containsExactly(ofItsOwn);
        SSTableReader ofBoth = sstable(5);
        changed(List.of(ofItsOwn, came), List.of(ofBoth), OperationType.COMPACTION);
        assertThat(copy.accounted(Set.of(ofBoth))).isEmpty();
        assertThat(copy.isOver()).isFalse();
    }

    private static List<PartitionUpdate> writtenTo(List<PartitionUpdate> written) {
        synchronized (written) {
            return List.copyOf(written);
        }
    }

    private static TableStore noting(List<PartitionUpdate> written) {
        return (TableStore)
                Proxy.newProxyInstance(
                        ShadowCopyTest.class.getClassLoader(),
                        new Class<?>[] {TableStore.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("writeUnsynced"))
                                synchronized (written) {
                                    written.add((PartitionUpdate) arguments[0]);
                                }
                            return null;
                        });
    }

    @Test
    void aSuccessorGetsWhatIsWrittenBeforeAndAfterItIsOpen() {
        List<PartitionUpdate> written = new ArrayList<>();
        copy.doubled(deletion(1), 0);
        Successor successor = new Successor(copy::isOver);
        writes.set(0);
        copy.successor(successor);
        PartitionUpdate before = write();
        PartitionUpdate after = deletion(2);
        copy.doubled(before, 0);
        assertThat(written).isEmpty();
        successor.open(noting(written), () -> {});
        copy.doubled(after, 0);
        assertThat(writtenTo(written)).containsExactly(before, after);
        assertThat(successor.failure()).isNull();
        // Of which a checkpoint may be under way.
        assertThat(writes.get()).isZero();
    }

    @Test
    void aSuccessorIsNotOpenBeforeItHasWhatWasWritten() throws Exception {
        List<PartitionUpdate> written = new ArrayList<>();
        Successor successor = new Successor(copy::isOver);
        copy.successor(successor);
        AtomicBoolean isOver = new AtomicBoolean();
        AtomicInteger count = new AtomicInteger();
        CompletableFuture<Void> writer =
                CompletableFuture.runAsync(
                        () -> {
                            while (!isOver.get()) {
                                copy.doubled(write(), 0);
                                count.incrementAndGet();
                            }
                        });
        TimeUnit.MILLISECONDS.sleep(20);
        int before = count.get();
        successor.open(noting(written), () -> {});
        assertThat(writtenTo(written)).hasSizeGreaterThanOrEqualTo(before);
        isOver.set(true);
        writer.get(1, TimeUnit.MINUTES);
        assertThat(writtenTo(written)).hasSize(count.get());
    }

    @Test
    void aSuccessorThatCannotBeWrittenLacksSomethingAndTheShadowDoesNot() {
        Successor successor = new Successor(copy::isOver);
        copy.successor(successor);
        TableStore broken =
                (TableStore)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {TableStore.class},
                                (proxy, method, arguments) -> {
                                    throw new IllegalStateException("broken");
                                });
        copy.doubled(write(), 0);
        successor.open(broken, () -> {});
        assertThat(successor.failure()).contains("broken");
        copy.doubled(write(), 0);
        assertThat(copy.isOver()).isFalse();
    }

    /** Its store may purge by then. */
    @Test
    void aSuccessorOfACopyThatIsOverGetsNothing() {
        List<PartitionUpdate> written = new ArrayList<>();
        Successor successor = new Successor(copy::isOver);
        copy.successor(successor);
        successor.open(noting(written), () -> {});
        copy.end("a test");
        copy.doubled(write(), 0);
        assertThat(written).isEmpty();
        assertThat(writes.get()).isZero();
    }

    @Test
    void aSuccessorThatIsNotOpenedKeepsNoMoreThanItMay() {
        Successor successor = new Successor(copy::isOver);
        copy.successor(successor);
        PartitionUpdate.SimpleBuilder large = PartitionUpdate.simpleBuilder(TABLE, 1);
        for (int row = 0; row < 1_000; row++) large.row(row).add("v", 7);
        PartitionUpdate update = large.build();
        long most = Successor.MAX_BYTES / DoubledWrites.heapBytes(update);
        for (long i = 0; i < most; i++) copy.doubled(update, 0);
        assertThat(successor.failure()).isNull();
        copy.doubled(update, 0);
        assertThat(successor.failure()).contains("faster");
        assertThat(copy.isOver()).isFalse();
    }

    /** Nothing in it came to the table later than what is in the others. */
    @Test
    void anSSTableOfTheFirstMomentIsNotLate() {
        copy.resume(List.of(CopySource.of(sstable(2).ref(), LateWrites.NOTHING_NEW)), null);
        copy.doubled(deletion(11), 0);
        writes.set(0);
        var unused = copy.step(() -> true);
        assertThat(writes.get()).isEqualTo(1);
        assertThat(late.reason()).isNull();
    }

    /** Which compactions wait for. */
    @Test
    void whatIsHaltedAsksNothingOfTheLimiter() {
        DatabaseDescriptor.setCompactionThroughputMebibytesPerSec(1);
        ShadowCopy.Progress progress = copy.new Progress();
        progress.stop();
        copy.throttle(1L << 30, progress);
        assertThat(CompactionManager.instance.getRateLimiter().tryAcquire()).isTrue();
    }

    /** Cassandra asks this before each of them, and gives up without a word if something is. */
    @ParameterizedTest
    @EnumSource(
            names = {
                "P0",
                "MAJOR_COMPACTION",
                "CLEANUP",
                "SCRUB",
                "UPGRADE_SSTABLES",
                "GARBAGE_COLLECT",
                "ANTICOMPACTION"
            })
    void copyingIsInNoOperatorsWay(OperationType type) {
        CompactionInfo.Holder progress = copy.new Progress();
        CompactionManager.instance.active.beginCompaction(progress);
        try {
            assertThat(
                            CompactionManager.instance.getCompactionsMatching(
                                    List.of(TABLE), any -> true))
                    .hasSize(1);
            assertThat(
                            CompactionManager.instance.getCompactionsMatching(
                                    List.of(TABLE),
                                    info -> info.getTaskType().priority <= type.priority))
                    .isEmpty();
        } finally {
            CompactionManager.instance.active.finishCompaction(progress);
        }
    }
}
