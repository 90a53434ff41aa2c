// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import dev.petra.engine.index.TermCursor;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.ExcludingBounds;
import org.apache.cassandra.dht.IncludingExcludingBounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.index.sai.iterators.KeyRangeIntersectionIterator;
import org.apache.cassandra.index.sai.iterators.KeyRangeIterator;
import org.apache.cassandra.index.sai.iterators.KeyRangeUnionIterator;
import org.apache.cassandra.index.sai.utils.PrimaryKey;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FastByteOperations;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What iterators over entries give, against what SAI's iterator over a sorted set of the same keys
 * does: the keys in strict order; a skip leaves out those before the target, of which the static
 * row compares as equal to each row of its partition.
 */
class KeyBatchesTest {
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    private static final TableMetadata WIDE =
            TestTables.table(
                    "CREATE TABLE t (p int, c int, s int static, v int, PRIMARY KEY (p, c))"
                            + " WITH CLUSTERING ORDER BY (c DESC)");

    private static final TableMetadata SKINNY =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");

    private record Entry(ByteBuffer term, PrimaryKey key) implements Comparable<Entry> {
        @Override
        public int compareTo(Entry other) {
            int terms = FastByteOperations.compareUnsigned(term, other.term);
            return terms != 0 ? terms : key.compareTo(other.key, true);
        }
    }

    private final SplittableRandom random = new SplittableRandom(SEED);
    private final AtomicInteger open = new AtomicInteger();

    /** Over a sorted list, bounds inclusive. */
    private final class ListCursor implements TermCursor {
        private final List<Entry> entries;
        private int position = -1;
        private boolean isOpen = true;

        ListCursor(Collection<Entry> all) {
            entries = List.copyOf(all);
            open.incrementAndGet();
        }

        @Override
        public boolean next() {
            position = Math.min(position + 1, entries.size());
            return position < entries.size();
        }

        @Override
        public boolean seek(
                ByteBuffer term, PartitionPosition partition, @Nullable Clustering<?> clustering) {
            for (position = 0; position < entries.size(); position++)
                if (isAtOrBehind(entries.get(position), term, partition, clustering)) return true;
            return false;
        }

        private boolean isAtOrBehind(
                Entry entry,
                ByteBuffer term,
                PartitionPosition partition,
                @Nullable Clustering<?> clustering) {
            int order = FastByteOperations.compareUnsigned(entry.term(), term);
            if (order == 0) order = entry.key().partitionKey().compareTo(partition);
            if (order == 0 && clustering != null && entry.key().kind() != PrimaryKey.Kind.SKINNY)
                order =
                        entry.key()
                                .compareTo(
                                        keys(WIDE).create(entry.key().partitionKey(), clustering),
                                        true);
            return order >= 0;
        }

        @Override
        public ByteBuffer term() {
            return entries.get(position).term();
        }

        @Override
        public DecoratedKey key() {
            return entries.get(position).key().partitionKey();
        }

        @Override
        public Clustering<?> clustering() {
            PrimaryKey key = entries.get(position).key();
            return key.kind() == PrimaryKey.Kind.SKINNY ? Clustering.EMPTY : key.clustering();
        }

        @Override
        public void close() {
            if (isOpen) open.decrementAndGet();
            isOpen = false;
        }
    }

    private static PrimaryKey.Factory keys(TableMetadata table) {
        return new PrimaryKey.Factory(table.partitioner, table.comparator);
    }

    private static DecoratedKey partition(int p) {
        return WIDE.partitioner.decorateKey(ByteBufferUtil.bytes(p));
    }

    private PrimaryKey randomKey(TableMetadata table, boolean statics, int partitions) {
        DecoratedKey partition = partition(random.nextInt(partitions));
        if (table.clusteringColumns().isEmpty()) return keys(table).create(partition);
        if (statics && random.nextInt(4) == 0)
            return keys(table).create(partition, Clustering.STATIC_CLUSTERING);
        return keys(table)
                .create(partition, Clustering.make(ByteBufferUtil.bytes(random.nextInt(20))));
    }

    private AbstractBounds<PartitionPosition> randomRange(int partitions) {
        PartitionPosition minimum = WIDE.partitioner.getMinimumToken().minKeyBound();
        PartitionPosition left = randomPosition(partitions);
        PartitionPosition right = randomPosition(partitions);
        if (left.compareTo(right) > 0) {
            PartitionPosition swapped = left;
            left = right;
            right = swapped;
        }
        return switch (random.nextInt(7)) {
            case 0 -> new Range<>(minimum, minimum);
            case 1 -> new Bounds<>(left, right);
            case 2 -> left.equals(right) ? new Bounds<>(left, right) : new Range<>(left, right);
            case 3 ->
                    left.equals(right)
                            ? new Bounds<>(left, right)
                            : new IncludingExcludingBounds<>(left, right);
            case 4 ->
                    left.equals(right)
                            ? new Bounds<>(left, right)
                            : new ExcludingBounds<>(left, right);
            case 5 -> new Range<>(left, minimum);
            default -> new Bounds<>(left, left);
        };
    }

    private PartitionPosition randomPosition(int partitions) {
        DecoratedKey key = partition(random.nextInt(partitions));
        return switch (random.nextInt(3)) {
            case 0 -> key.getToken().minKeyBound();
            case 1 -> key.getToken().maxKeyBound();
            default -> key;
        };
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void givesWhatIteratorsOverSortedKeysGive(boolean oneTerm) {
        System.out.println("KeyBatchesTest: -Dpetra.seed=" + SEED);
        for (int round = 0; round < 3_000; round++) {
            TableMetadata table = random.nextInt(4) == 0 ? SKINNY : WIDE;
            boolean statics = random.nextBoolean();
            int partitions = 1 + random.nextInt(12);
            TreeSet<Entry> entries = new TreeSet<>();
            for (int e = random.nextInt(120); e > 0; e--)
                entries.add(
                        new Entry(
                                oneTerm ? term(7) : term(random.nextInt(30)),
                                randomKey(table, statics, partitions)));
            AbstractBounds<PartitionPosition> range = randomRange(partitions);
            TermSearch search =
                    new TermSearch(
                            () -> new ListCursor(entries),
                            keys(table),
                            range,
                            statics,
                            // Of a few keys.
                            random.nextLong(2_000),
                            () -> {});
            TreeSet<PrimaryKey> wanted = new TreeSet<>();
            for (Entry entry : entries)
                if (range.contains(entry.key().partitionKey())) wanted.add(entry.key());
            int smallest = 1 + random.nextInt(6);
            try (KeyRangeIterator found =
                    KeyBatches.open(
                            oneTerm ? search.inOneTerm(term(7)) : search.inManyTerms(),
                            entries::size,
                            random.nextBoolean(),
                            smallest,
                            smallest + random.nextInt(10),
                            keys(table))) {
                assertThat(found.getMaxKeys()).isGreaterThanOrEqualTo(wanted.size());
                if (wanted.isEmpty()) assertThat(found.getMaxKeys()).isZero();
                else assertThat(found.getMinimum()).isEqualTo(wanted.first());
                walk(found, new ArrayList<>(wanted), table, statics, partitions);
            }
            assertThat(open).hasValue(0);
        }
    }

    /** Now the next, now a skip, now only a look at the next. */
    private void walk(
            KeyRangeIterator found,
            List<PrimaryKey> wanted,
            TableMetadata table,
            boolean statics,
            int partitions) {
        int skips = random.nextInt(4);
        PrimaryKey skipped = null;
        PrimaryKey last = wanted.isEmpty() ? null : wanted.get(wanted.size() - 1);
        while (true) {
            if (skips > 0 && random.nextInt(8) < skips) {
                PrimaryKey target = randomKey(table, statics, partitions);
                if (random.nextInt(4) == 0) target = keys(table).create(target.token());
                found.skipTo(target);
                if (skipped == null || isFurther(target, skipped)) skipped = target;
                while (!wanted.isEmpty() && wanted.get(0).compareTo(target, false) < 0)
                    wanted.remove(0);
                if (random.nextBoolean()) continue;
            }
            // SAI ends an iterator that is skipped behind its last key, whatever static row is
            // left.
            if (last != null
                    && skipped != null
                    && last.compareTo(skipped, false) < 0
                    && !found.hasNext()) return;
            // Behind a static row that compares as equal, rows before the target may come or not.
            while (skipped != null
                    && !wanted.isEmpty()
                    && wanted.get(0).compareTo(skipped, false) < 0
                    && !(found.hasNext() && found.peek().compareTo(wanted.get(0), true) == 0))
                wanted.remove(0);
            assertThat(found.hasNext()).isEqualTo(!wanted.isEmpty());
            if (wanted.isEmpty()) return;
            assertThat(found.peek().compareTo(wanted.get(0), true))
                    .as("%s, not %s, behind %s", found.peek(), wanted, skipped)
                    .isZero();
            if (random.nextBoolean()) {
                assertThat(found.next().compareTo(wanted.get(0), true)).isZero();
                wanted.remove(0);
            }
        }
    }

    /** A token equals each key that has it. */
    private static boolean isFurther(PrimaryKey target, PrimaryKey skipped) {
        int order = target.compareTo(skipped, true);
        return order > 0 || (order == 0 && skipped.kind() == PrimaryKey.Kind.TOKEN);
    }

    /** What an index of an SSTable gives: it knows its last key. */
    private static final class KeyList extends KeyRangeIterator {
        private final List<PrimaryKey> keys;
        private int position;

        KeyList(List<PrimaryKey> keys) {
            super(keys.get(0), keys.get(keys.size() - 1), keys.size());
            this.keys = keys;
        }

        @Override
        protected PrimaryKey computeNext() {
            return position == keys.size() ? endOfData() : keys.get(position++);
        }

        @Override
        protected void performSkipTo(PrimaryKey target) {
            while (position < keys.size() && keys.get(position).compareTo(target, false) < 0)
                position++;
        }

        @Override
        public void close() {}
    }

    /** The first rows of a partition are in an SSTable, its last ones in the store. */
    private KeyRangeIterator partlyInAnSSTable(List<PrimaryKey> rows) {
        TreeSet<Entry> entries = new TreeSet<>();
        for (PrimaryKey row : rows.subList(5, rows.size())) entries.add(new Entry(term(7), row));
        PartitionPosition only = rows.get(0).partitionKey();
        TermSearch search =
                new TermSearch(
                        () -> new ListCursor(entries),
                        keys(WIDE),
                        new Bounds<>(only, only),
                        false,
                        10_000,
                        () -> {});
        return KeyRangeUnionIterator.build(
                List.of(
                        KeyBatches.open(
                                search.inOneTerm(term(7)), entries::size, false, 2, 4, keys(WIDE)),
                        new KeyList(rows.subList(0, 5))),
                () -> {});
    }

    private static List<PrimaryKey> rowsOfAPartition() {
        return IntStream.range(0, 20)
                .mapToObj(
                        c ->
                                keys(WIDE)
                                        .create(
                                                partition(1),
                                                Clustering.make(ByteBufferUtil.bytes(20 - c))))
                .toList();
    }

    /** The order of the clauses decided which of the two was left out of an intersection. */
    @Test
    void whatReadsAllEntriesForEachBatchCountsAsMore() {
        List<PrimaryKey> one = List.of(keys(SKINNY).create(partition(1)));
        KeySource many = (after, target, limit) -> new KeySource.Keys(one, false);
        for (long entries : new long[] {0, 3, 1_000, Long.MAX_VALUE})
            try (var range = KeyBatches.open(many, () -> entries, true, 1, 2, keys(SKINNY));
                    var equality =
                            KeyBatches.open(many, () -> entries, false, 1, 2, keys(SKINNY))) {
                // More than the first batch has.
                assertThat(equality.getMaxKeys()).isGreaterThanOrEqualTo(2);
                assertThat(range.getMaxKeys()).isGreaterThan(equality.getMaxKeys());
                assertThat(2 * range.getMaxKeys()).isPositive();
            }
    }

    /**
     * Of terms with more rows than a batch, which were left out was by the order of the clauses.
     */
    @Test
    void anIntersectionKeepsTheTwoThatHaveTheFewestEntries() {
        List<PrimaryKey> all =
                IntStream.range(0, 200)
                        .mapToObj(p -> keys(SKINNY).create(partition(p)))
                        .sorted()
                        .toList();
        List<Integer> sizes = List.of(1_000_000, 300, 900_000, 200);
        List<AtomicInteger> batches = new ArrayList<>();
        KeyRangeIterator.Builder four = KeyRangeIntersectionIterator.builder(4, 2, () -> {});
        for (int entries : sizes) {
            AtomicInteger read = new AtomicInteger();
            batches.add(read);
            KeySource source =
                    (after, target, limit) -> {
                        read.incrementAndGet();
                        int from = after == null ? 0 : all.indexOf(after) + 1;
                        int to = Math.min(all.size(), from + limit);
                        return new KeySource.Keys(all.subList(from, to), to == all.size());
                    };
            four.add(KeyBatches.open(source, () -> entries, false, 10, 10, keys(SKINNY)));
        }
        try (KeyRangeIterator found = four.build()) {
            assertThat(found.getMaxKeys()).isEqualTo(200);
            assertThat(found).toIterable().isEqualTo(all);
        }
        assertThat(batches).extracting(AtomicInteger::get).containsExactly(1, 20, 1, 20);
    }

    @Test
    void whatIsReadInOneBatchIsCountedAndNotEstimated() {
        List<PrimaryKey> one = List.of(keys(SKINNY).create(partition(1)));
        KeySource last = (after, target, limit) -> new KeySource.Keys(one, true);
        LongSupplier none =
                () -> {
                    throw new AssertionError("it is asked");
                };
        for (boolean readsAll : new boolean[] {true, false})
            try (var found = KeyBatches.open(last, none, readsAll, 1, 2, keys(SKINNY))) {
                assertThat(found.getMaxKeys()).isOne();
            }
    }

    @Test
    void aPageBehindTheLastRowOfAnSSTableIsNotEmpty() {
        List<PrimaryKey> rows = rowsOfAPartition();
        try (KeyRangeIterator all = partlyInAnSSTable(rows)) {
            all.skipTo(rows.get(12));
            assertThat(all).toIterable().isEqualTo(rows.subList(12, 20));
        }
    }

    @Test
    void anIntersectionGoesOnBehindTheLastRowOfAnSSTable() {
        List<PrimaryKey> rows = rowsOfAPartition();
        KeyRangeIterator.Builder both = KeyRangeIntersectionIterator.builder(2, () -> {});
        both.add(partlyInAnSSTable(rows));
        both.add(new KeyList(rows));
        try (KeyRangeIterator all = both.build()) {
            assertThat(all).toIterable().isEqualTo(rows);
        }
    }

    @Test
    void anEndlessSearchCanBeEnded() {
        TreeSet<Entry> entries = new TreeSet<>();
        for (int e = 0; e < 2_000; e++)
            entries.add(new Entry(term(e), keys(SKINNY).create(partition(e))));
        AtomicInteger checks = new AtomicInteger();
        TermSearch search = skinny(entries, Long.MAX_VALUE, checks::incrementAndGet);
        assertThat(search.inManyTerms().next(null, null, 10).keys()).hasSize(10);
        assertThat(checks).hasValueGreaterThan(5);
        assertThat(open).hasValue(0);
    }

    /** A key may have 64 KiB, the objects of a small one take more than its bytes. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aBatchIsBoundedByItsBytes(boolean oneTerm) {
        TreeSet<Entry> entries = new TreeSet<>();
        for (int e = 0; e < 2_000; e++)
            entries.add(new Entry(oneTerm ? term(7) : term(e), keys(SKINNY).create(partition(e))));
        TermSearch search = skinny(entries, 10 * (256 + Integer.BYTES), () -> {});
        KeySource source = oneTerm ? search.inOneTerm(term(7)) : search.inManyTerms();
        KeySource.Keys first = source.next(null, null, 1_000);
        assertThat(first.keys()).hasSizeBetween(10, 11);
        assertThat(first.areLast()).isFalse();
    }

    /** A query over a range of terms had two of the largest at a time. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aBatchIsGoneWhileTheNextOneIsRead(boolean skips) {
        List<PrimaryKey> all =
                IntStream.range(0, 4)
                        .mapToObj(p -> keys(SKINNY).create(partition(p)))
                        .sorted()
                        .toList();
        AtomicReference<WeakReference<List<PrimaryKey>>> before = new AtomicReference<>();
        KeySource source =
                (after, target, limit) -> {
                    int from = after == null ? 0 : 2;
                    if (after != null) {
                        assertThat(after).isEqualTo(all.get(1));
                        assertThat(isCollected(before.get())).isTrue();
                    }
                    List<PrimaryKey> batch = new ArrayList<>(all.subList(from, from + 2));
                    before.set(new WeakReference<>(batch));
                    return new KeySource.Keys(batch, after != null);
                };
        try (KeyRangeIterator found = KeyBatches.open(source, () -> 4, true, 2, 2, keys(SKINNY))) {
            if (skips) found.skipTo(all.get(2));
            assertThat(found).toIterable().isEqualTo(all.subList(skips ? 2 : 0, 4));
        }
    }

    private static boolean isCollected(WeakReference<?> reference) {
        for (int i = 0; i < 100 && !reference.refersTo(null); i++) System.gc();
        return reference.refersTo(null);
    }

    /**
     * Each batch of a range of terms is a pass over the range. It was of the smallest size after
     * each skip, as where another index has few of the rows.
     */
    @Test
    void skipsOverManyTermsTakeFewPasses() {
        TreeSet<Entry> entries = new TreeSet<>();
        for (int e = 0; e < 4_000; e++)
            entries.add(new Entry(term(e), keys(SKINNY).create(partition(e))));
        TermSearch search = skinny(entries, Long.MAX_VALUE, () -> {});
        AtomicInteger passes = new AtomicInteger();
        KeySource counted =
                (after, target, limit) -> {
                    passes.incrementAndGet();
                    return search.inManyTerms().next(after, target, limit);
                };
        List<PrimaryKey> all = entries.stream().map(Entry::key).sorted().toList();
        try (KeyRangeIterator found =
                KeyBatches.open(counted, entries::size, true, 16, 512, keys(SKINNY))) {
            for (int i = 0; i < all.size(); i += 40) {
                found.skipTo(all.get(i));
                assertThat(found.next()).isEqualTo(all.get(i));
            }
        }
        // 16, 32, 64, 128, 256, and then 512 keys, from one wanted key on.
        assertThat(passes).hasValueLessThanOrEqualTo(5 + 8);
    }

    /** Each skip was followed by a batch of the smallest size, of which one key was wanted. */
    @ParameterizedTest
    @ValueSource(ints = {1, 3, 10, 100, 1_000})
    void skipsOverOneTermReadLittleMoreThanIsWanted(int apart) {
        TreeSet<Entry> entries = new TreeSet<>();
        for (int e = 0; e < 20_000; e++)
            entries.add(new Entry(term(7), keys(SKINNY).create(partition(e))));
        List<PrimaryKey> all = entries.stream().map(Entry::key).sorted().toList();
        AtomicInteger batches = new AtomicInteger();
        AtomicInteger read = new AtomicInteger();
        KeySource counted =
                (after, target, limit) -> {
                    batches.incrementAndGet();
                    PrimaryKey least = target == null ? after : target;
                    int from = least == null ? 0 : Collections.binarySearch(all, least);
                    List<PrimaryKey> keys =
                            all.subList(
                                    target == null && after != null ? from + 1 : from,
                                    Math.min(all.size(), from + limit));
                    read.addAndGet(keys.size());
                    return new KeySource.Keys(keys, from + limit >= all.size());
                };
        int wanted = 0;
        try (KeyRangeIterator found =
                KeyBatches.open(counted, entries::size, false, 64, 4_096, keys(SKINNY))) {
            for (int i = 0; i < all.size(); i += apart, wanted++) {
                found.skipTo(all.get(i));
                assertThat(found.next()).isEqualTo(all.get(i));
            }
        }
        // As if a batch cost as much as ten entries.
        int cost = 10 * batches.get() + read.get();
        assertThat(cost)
                .as("%d batches, %d entries", batches.get(), read.get())
                .isLessThan(100 + wanted * Math.min(20, 2 * apart + 1));
    }

    private TermSearch skinny(Set<Entry> entries, long mostBytes, Runnable checkpoint) {
        PartitionPosition minimum = SKINNY.partitioner.getMinimumToken().minKeyBound();
        return new TermSearch(
                () -> new ListCursor(entries),
                keys(SKINNY),
                new Range<>(minimum, minimum),
                false,
                mostBytes,
                checkpoint);
    }

    private static ByteBuffer term(int value) {
        // Of several lengths, some the begin of others.
        byte[] bytes = new byte[1 + value % 3];
        bytes[0] = (byte) (value * 9);
        if (bytes.length > 1) bytes[bytes.length - 1] = (byte) (value >> 5);
        return ByteBuffer.wrap(bytes);
    }
}
