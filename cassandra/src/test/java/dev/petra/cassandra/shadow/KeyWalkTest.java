// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * The keys of a table in SSTables that overlap, and of a shadow that has some of them and others.
 */
class KeyWalkTest {
    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
    private static final Token MINIMUM = Murmur3Partitioner.instance.getMinimumToken();

    private static final int SSTABLES = 200;

    @TempDir Path directory;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final Tracker tracker = Tracker.newDummyTracker();
    private final TableMetadataRef reference = TableMetadataRef.forOfflineTools(TABLE.metadata());
    private final StorageEngine engine =
            new MemoryEngineProvider().open(new EngineSettings(Map.of()));
    private final TreeSet<DecoratedKey> all = new TreeSet<>();

    @SuppressWarnings("NullAway.Init")
    private TableStore store;

    @BeforeEach
    void open() {
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", reference);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(cfs, ColumnFamilyStore.class, "readOrdering", new OpOrder());
        store = engine.openStore(TABLE.spec(directory.resolve("store")));
    }

    @AfterEach
    void close() {
        tracker.getView().liveSSTables().forEach(each -> each.selfRef().release());
        engine.close();
    }

    private SSTableReader sstable(int number, int from, int to) {
        return sstable(number, keys(from, to));
    }

    private static SortedSet<DecoratedKey> keys(int from, int to) {
        TreeSet<DecoratedKey> keys = new TreeSet<>();
        for (int i = from; i < to; i++) keys.add(TABLE.key("k" + i));
        return keys;
    }

    private SSTableReader sstable(int number, SortedSet<DecoratedKey> keys) {
        all.addAll(keys);
        return sstable(directory, reference, number, keys);
    }

    /** An SSTable with a row in each of some partitions, of a table as that of this test. */
    static SSTableReader sstable(
            Path directory, TableMetadataRef reference, int number, SortedSet<DecoratedKey> keys) {
        return sstable(directory, reference, number, keys, 1);
    }

    /** The same, with this timestamp, and another that is higher. */
    static SSTableReader sstable(
            Path directory,
            TableMetadataRef reference,
            int number,
            SortedSet<DecoratedKey> keys,
            long timestamp) {
        Descriptor descriptor =
                new Descriptor(new File(directory), "ks", "t", new SequenceBasedSSTableId(number));
        try (SSTableTxnWriter writer =
                SSTableTxnWriter.create(
                        reference,
                        descriptor,
                        keys.size(),
                        ActiveRepairService.UNREPAIRED_SSTABLE,
                        ActiveRepairService.NO_PENDING_REPAIR,
                        false,
                        SerializationHeader.makeWithoutStats(TABLE.metadata()),
                        List.of(),
                        null)) {
            for (DecoratedKey key : keys)
                try (UnfilteredRowIterator partition =
                        TABLE.update(TABLE.metadata().partitionKeyType.getString(key.getKey()))
                                .at(timestamp)
                                .row(1)
                                .set("v", "x")
                                .end()
                                .at(Math.max(timestamp, timestamp + 2))
                                .row(2)
                                .set("v", "x")
                                .end()
                                .build()
                                .unfilteredIterator()) {
                    writer.append(partition);
                }
            return writer.finish(true).iterator().next();
        }
    }

    private void write(int from, int to) {
        for (int i = from; i < to; i++) {
            store.write(TABLE.update("k" + i).row(1).set("v", "x").end().build());
            all.add(TABLE.key("k" + i));
        }
    }

    private List<DecoratedKey> walk(Collection<Range<Token>> ranges) {
        List<DecoratedKey> found = new ArrayList<>();
        for (Range<Token> range : ranges) {
            KeyWalk walk = new KeyWalk(cfs, store, range, () -> {});
            while (!walk.isOver()) found.addAll(walk.next());
            assertThat(walk.token()).isEqualTo(range.right);
        }
        return found;
    }

    @Test
    void eachKeyOfEitherSideIsFoundOnceInOrder() {
        tracker.addInitialSSTables(List.of(sstable(1, 0, 7_000), sstable(2, 6_000, 9_000)));
        write(3_000, 5_000);
        write(8_500, 15_000);
        assertThat(walk(List.of(new Range<>(MINIMUM, MINIMUM)))).containsExactlyElementsOf(all);
    }

    @Test
    void aTableOfManySSTablesIsNotOpenedWholeEachTime() {
        List<DecoratedKey> keys = new ArrayList<>(keys(0, 50 * SSTABLES));
        List<SSTableReader> sstables = new ArrayList<>();
        for (int i = 0; i < SSTABLES; i++)
            sstables.add(sstable(i, new TreeSet<>(keys.subList(50 * i, 50 * (i + 1)))));
        tracker.addInitialSSTables(sstables);
        KeyWalk walk = new KeyWalk(cfs, store, new Range<>(MINIMUM, MINIMUM), () -> {});
        List<DecoratedKey> found = new ArrayList<>();
        int opened = 0;
        int times = 0;
        for (; !walk.isOver(); times++) {
            found.addAll(walk.next());
            opened += walk.opened();
        }
        assertThat(found).containsExactlyElementsOf(all);
        assertThat(times).isEqualTo(3);
        // One or two that the next call begins with were opened before.
        assertThat(opened).isBetween(SSTABLES, SSTABLES + 2 * times);
    }

    @Test
    @Timeout(60)
    void whereItMayNotGoOnNothingStaysOpen() {
        tracker.addInitialSSTables(List.of(sstable(1, 0, 10), sstable(2, 5, 20)));
        for (int at = 1; at <= 4; at++) {
            AtomicInteger left = new AtomicInteger(at);
            KeyWalk walk =
                    new KeyWalk(
                            cfs,
                            store,
                            new Range<>(MINIMUM, MINIMUM),
                            () -> Timed.check(() -> left.decrementAndGet() > 0));
            if (at < 4) assertThatThrownBy(walk::next).isInstanceOf(Timed.TooLong.class);
            else assertThat(walk.next()).containsExactlyElementsOf(all);
        }
        // Would wait for a reader.
        OpOrder.Barrier barrier = cfs.readOrdering.newBarrier();
        barrier.issue();
        barrier.await();
        for (SSTableReader each : tracker.getView().liveSSTables())
            assertThat(each.selfRef().globalCount()).isEqualTo(1);
    }

    @Test
    void oneSideMayBeEmpty() {
        assertThat(walk(List.of(new Range<>(MINIMUM, MINIMUM)))).isEmpty();
        write(0, 600);
        assertThat(walk(List.of(new Range<>(MINIMUM, MINIMUM)))).containsExactlyElementsOf(all);
        store.drop();
        store = engine.openStore(TABLE.spec(directory.resolve("other")));
        tracker.addInitialSSTables(List.of(sstable(1, 0, 600)));
        assertThat(walk(List.of(new Range<>(MINIMUM, MINIMUM)))).containsExactlyElementsOf(all);
    }

    @Test
    void aRangeThatWraps() {
        tracker.addInitialSSTables(List.of(sstable(1, 0, 400)));
        write(300, 800);
        List<DecoratedKey> sorted = new ArrayList<>(all);
        Token left = sorted.get(500).getToken();
        Token right = sorted.get(100).getToken();
        List<DecoratedKey> wanted = new ArrayList<>(sorted.subList(0, 101));
        wanted.addAll(sorted.subList(501, sorted.size()));
        assertThat(walk(new Range<>(left, right).unwrap()))
                .containsExactlyInAnyOrderElementsOf(wanted);
    }
}
