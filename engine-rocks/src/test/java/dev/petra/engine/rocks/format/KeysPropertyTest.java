// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.HostFixture;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.lifecycle.BeforeContainer;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.BufferClusteringBound;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.TupleType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.dht.ByteOrderedPartitioner;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.OrderPreservingPartitioner;
import org.apache.cassandra.dht.RandomPartitioner;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.bytecomparable.ByteSourceInverse;
import org.jspecify.annotations.Nullable;

/**
 * Compares the order of keys with Cassandra's comparators, for every type, ascending and
 * descending. The build says how often each property is tried: {@code -Dpetra.property.tries=}.
 * jqwik prints the seed of a failure; {@code @Property(seed = "…")} reruns it.
 */
class KeysPropertyTest {
    @BeforeContainer
    static void cassandra() {
        DatabaseDescriptor.clientInitialization(false);
    }

    private static ClusteringComparator comparator(Random random) {
        List<AbstractType<?>> types = TypedValues.types();
        AbstractType<?>[] chosen = new AbstractType<?>[1 + random.nextInt(3)];
        for (int i = 0; i < chosen.length; i++) {
            AbstractType<?> type = types.get(random.nextInt(types.size()));
            chosen[i] = random.nextBoolean() ? type : ReversedType.getInstance(type);
        }
        return new ClusteringComparator(chosen);
    }

    private static ByteBuffer[] values(ClusteringComparator comparator, int size, Random random) {
        ByteBuffer[] values = new ByteBuffer[size];
        for (int i = 0; i < size; i++) {
            AbstractType<?> type = comparator.subtype(i);
            AbstractType<?> base =
                    type instanceof ReversedType<?> reversed ? reversed.baseType : type;
            values[i] = TypedValues.value(base, random);
        }
        return values;
    }

    private static byte[] encode(ClusteringKeys keys, ClusteringPrefix<?> prefix) {
        ByteSink sink = new ByteSink();
        keys.put(sink, prefix);
        return sink.copy(0, sink.position());
    }

    /** Two clusterings, the second often sharing components with the first. */
    private static List<ClusteringPrefix<?>> two(ClusteringComparator comparator, Random random) {
        ByteBuffer[] first = values(comparator, comparator.size(), random);
        ByteBuffer[] second = values(comparator, comparator.size(), random);
        for (int i = 0; i < second.length && random.nextBoolean(); i++) second[i] = first[i];
        return List.of(Clustering.make(first), Clustering.make(second));
    }

    private static ClusteringBound<?> bound(ClusteringComparator comparator, Random random) {
        ClusteringPrefix.Kind[] kinds = {
            ClusteringPrefix.Kind.INCL_START_BOUND,
            ClusteringPrefix.Kind.EXCL_START_BOUND,
            ClusteringPrefix.Kind.INCL_END_BOUND,
            ClusteringPrefix.Kind.EXCL_END_BOUND
        };
        int size = random.nextInt(comparator.size() + 1);
        return BufferClusteringBound.create(
                kinds[random.nextInt(4)], values(comparator, size, random));
    }

    /** One that has the values of a clustering, or as many of them as another has. */
    private static ClusteringBound<?> bound(Clustering<?> clustering, ClusteringBound<?> other) {
        ByteBuffer[] values = new ByteBuffer[other.size()];
        for (int i = 0; i < values.length; i++) values[i] = clustering.bufferAt(i);
        return BufferClusteringBound.create(other.kind(), values);
    }

    /** But of tuples with empty fields, for which Cassandra has no form of its own. */
    @Property
    void clusteringKeysAreCassandrasOwnForm(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        byte[] row = encode(keys, two(comparator, random).get(0));
        // Cassandra may encode the several forms of a value differently: compare the decoded one.
        Clustering<?> decoded = keys.getClustering(ByteBuffer.wrap(row));
        if (!hasEmptyField(comparator, decoded))
            assertThat(row).isEqualTo(cassandras(comparator, decoded));
        ClusteringBound<?> bound = bound(comparator, random);
        if (keys.isExact(bound) && !hasEmptyField(comparator, bound))
            assertThat(encode(keys, bound)).isEqualTo(cassandras(comparator, bound));
    }

    private static boolean hasEmptyField(
            ClusteringComparator comparator, ClusteringPrefix<?> prefix) {
        for (int i = 0; i < prefix.size(); i++) {
            AbstractType<?> type = comparator.subtype(i);
            AbstractType<?> base =
                    type instanceof ReversedType<?> reversed ? reversed.baseType : type;
            if (TypedValues.hasEmptyField(base, prefix.bufferAt(i))) return true;
        }
        return false;
    }

    private static byte[] cassandras(ClusteringComparator comparator, ClusteringPrefix<?> prefix) {
        return ByteSourceInverse.readBytes(
                comparator.asByteComparable(prefix).asComparableBytes(ComparableSource.VERSION));
    }

    @Property
    void theOrderOfKeysIsTheOrderOfTheComparator(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        List<ClusteringPrefix<?>> prefixes = new ArrayList<>(two(comparator, random));
        prefixes.add(bound(comparator, random));
        for (ClusteringPrefix<?> a : prefixes)
            for (ClusteringPrefix<?> b : prefixes) {
                int wanted = Integer.signum(comparator.compare(a, b));
                if (wanted == 0 && a.kind() != b.kind()) continue;
                int got = Integer.signum(Arrays.compareUnsigned(encode(keys, a), encode(keys, b)));
                assertThat(got).describedAs("%s %s against %s", comparator, a, b).isEqualTo(wanted);
            }
    }

    /** Both had one key, so that of two rows one was lost. */
    @Example
    void anEmptyFieldOfATupleIsNotNull() {
        TupleType inner = new TupleType(List.of(Int32Type.instance, UTF8Type.instance));
        TupleType outer = new TupleType(List.of(inner, UTF8Type.instance));
        ByteBuffer text = ByteBufferUtil.bytes("x");
        ByteBuffer empty = ByteBufferUtil.EMPTY_BYTE_BUFFER;
        List<ByteBuffer> ascending =
                List.of(
                        HostFixture.tuple(null, text),
                        HostFixture.tuple(empty, text),
                        HostFixture.tuple(HostFixture.tuple(null, text), text),
                        HostFixture.tuple(HostFixture.tuple(empty, text), text),
                        HostFixture.tuple(HostFixture.tuple(ByteBufferUtil.bytes(-1), text), text));
        for (AbstractType<?> type : List.of(outer, ReversedType.getInstance(outer))) {
            ClusteringKeys keys = new ClusteringKeys(new ClusteringComparator(type));
            for (int i = 0; i < ascending.size(); i++) {
                Clustering<?> written = Clustering.make(ascending.get(i));
                byte[] key = encode(keys, written);
                assertThat(keys.getClustering(ByteBuffer.wrap(key)).bufferAt(0))
                        .isEqualTo(ascending.get(i));
                if (i == 0) continue;
                byte[] before = encode(keys, Clustering.make(ascending.get(i - 1)));
                assertThat(Arrays.compareUnsigned(before, key) < 0)
                        .describedAs("%s, %s", type, i)
                        .isEqualTo(!type.isReversed());
            }
        }
    }

    /** Two bounds, one after the other, as in the key of a range tombstone. */
    @Property
    void boundsAreSkippedAndComparedAsTheyAreStored(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        ClusteringBound<?> a = bound(comparator, random);
        ClusteringBound<?> b = bound(comparator, random);
        ByteSink sink = new ByteSink();
        keys.put(sink, a);
        int length = sink.position();
        keys.put(sink, b);
        ByteBuffer both = sink.flipped();
        int compared = ClusteringKeys.compareBounds(both, ByteBuffer.wrap(encode(keys, b)));
        assertThat(Integer.signum(compared)).isEqualTo(Integer.signum(comparator.compare(a, b)));
        keys.skipBound(both);
        assertThat(both.position()).describedAs("%s in %s", a, comparator).isEqualTo(length);
        keys.skipBound(both);
        assertThat(both.hasRemaining()).isFalse();
    }

    @Property
    void noKeyIsAPrefixOfAnother(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        byte[] a = encode(keys, two(comparator, random).get(0));
        byte[] b = encode(keys, two(comparator, random).get(1));
        byte[] c = encode(keys, bound(comparator, random));
        assertThat(isProperPrefix(a, b) || isProperPrefix(b, a)).isFalse();
        assertThat(isProperPrefix(a, c) || isProperPrefix(c, a)).isFalse();
    }

    /** The key of a large cell is that of its row and any bytes; bounds of rows hold for both. */
    @Property
    void whatLiesApartIsOnThatSideOfABoundWhereItsRowIs(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        Clustering<?> clustering = (Clustering<?>) two(comparator, random).get(0);
        byte[] row = encode(keys, clustering);
        ClusteringBound<?> any = bound(comparator, random);
        for (ClusteringBound<?> bound : List.of(any, bound(clustering, any))) {
            byte[] encoded = encode(keys, bound);
            int side = Integer.signum(Arrays.compareUnsigned(row, encoded));
            assertThat(side).isNotZero();
            for (int fill : new int[] {0, 0xFF}) {
                byte[] apart = Arrays.copyOf(row, row.length + LargeCells.SUFFIX);
                Arrays.fill(apart, row.length, apart.length, (byte) fill);
                assertThat(Integer.signum(Arrays.compareUnsigned(apart, encoded)))
                        .describedAs("%s, %s, %s", comparator, clustering, bound)
                        .isEqualTo(side);
            }
        }
    }

    private static boolean isProperPrefix(byte[] a, byte[] b) {
        return a.length < b.length && Arrays.equals(a, 0, a.length, b, 0, a.length);
    }

    @Property
    void clusteringsComeBackByteForByteOrAreSaidToBeInexact(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        Clustering<?> written = (Clustering<?>) two(comparator, random).get(0);
        ByteBuffer key = ByteBuffer.wrap(encode(keys, written));
        Clustering<?> read = keys.getClustering(key);
        assertThat(key.hasRemaining()).isFalse();
        assertThat(comparator.compare(written, read)).isZero();
        boolean same = true;
        for (int i = 0; i < written.size(); i++)
            same &= written.bufferAt(i).equals(read.bufferAt(i));
        if (hasEmptyField(comparator, written)) assertThat(same || !keys.isExact(written)).isTrue();
        else assertThat(keys.isExact(written)).isEqualTo(same);
    }

    @Property
    void boundsComeBack(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        ClusteringBound<?> written = bound(comparator, random);
        ByteBuffer key = ByteBuffer.wrap(encode(keys, written));
        ClusteringBound<?> read = keys.getBound(key, written.isEnd());
        assertThat(key.hasRemaining()).isFalse();
        assertThat(read.kind()).isEqualTo(written.kind());
        assertThat(comparator.compare(written, (ClusteringPrefix<?>) read)).isZero();
    }

    /** What reads report as damage; anything else would end them without a key. */
    @Property
    void aDamagedKeyIsSaidToBeOne(@ForAll Random random) {
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys keys = new ClusteringKeys(comparator);
        byte[] row = encode(keys, two(comparator, random).get(0));
        byte[] bound = encode(keys, bound(comparator, random));
        for (byte[] key : List.of(row, bound)) {
            key[random.nextInt(key.length)] ^= (byte) (1 << random.nextInt(8));
            ByteBuffer damaged = ByteBuffer.wrap(key, 0, 1 + random.nextInt(key.length));
            try {
                var unused = keys.getClustering(damaged.duplicate());
            } catch (IllegalArgumentException
                    | IndexOutOfBoundsException
                    | BufferUnderflowException e) {
                // As it should.
            }
            try {
                var unused = keys.getBound(damaged.duplicate(), random.nextBoolean());
            } catch (IllegalArgumentException
                    | IndexOutOfBoundsException
                    | BufferUnderflowException e) {
                // As it should.
            }
        }
    }

    /** The parts of an index entry. */
    private record IndexEntry(ByteBuffer term, DecoratedKey key, Clustering<?> clustering) {
        static IndexEntry of(
                IPartitioner partitioner,
                ClusteringComparator comparator,
                Random random,
                @Nullable IndexEntry other) {
            boolean same = other != null && random.nextBoolean();
            boolean sameKey = same && random.nextBoolean();
            Clustering<?> clustering =
                    random.nextInt(4) == 0
                            ? Clustering.STATIC_CLUSTERING
                            : (Clustering<?>) two(comparator, random).get(1);
            return new IndexEntry(
                    same ? other.term : bytes(random, 0),
                    sameKey ? other.key : partitioner.decorateKey(bytes(random, 1)),
                    clustering);
        }

        private static ByteBuffer bytes(Random random, int least) {
            byte[] any = {0, 0, 1, 0x20, 0x38, 0x40, 0x60, 'a', (byte) 0xFE, (byte) 0xFF};
            byte[] bytes = new byte[least + random.nextInt(4)];
            for (int i = 0; i < bytes.length; i++) bytes[i] = any[random.nextInt(any.length)];
            return ByteBuffer.wrap(bytes);
        }

        byte[] encoded(PartitionKeys partitions, ClusteringKeys clusterings) {
            ByteSink position = new ByteSink();
            partitions.put(position, key);
            ByteSink sink = new ByteSink();
            IndexKeys.put(sink, 7, term, position.flipped(), clusterings, clustering);
            return sink.copy(0, sink.position());
        }

        int compare(IndexEntry other, ClusteringComparator comparator) {
            int order = ByteBufferUtil.compareUnsigned(term, other.term);
            if (order == 0) order = key.compareTo(other.key);
            boolean isStatic = clustering == Clustering.STATIC_CLUSTERING;
            boolean otherIsStatic = other.clustering == Clustering.STATIC_CLUSTERING;
            if (order == 0) order = Boolean.compare(otherIsStatic, isStatic);
            if (order == 0 && !isStatic) order = comparator.compare(clustering, other.clustering);
            return Integer.signum(order);
        }
    }

    private static byte[] indexBound(ByteBuffer term, boolean behind) {
        ByteSink sink = new ByteSink();
        IndexKeys.putBound(sink, 7, term, behind);
        return sink.copy(0, sink.position());
    }

    /** With terms that end in zeros, all partitioners, and clusterings of several byte forms. */
    @Property
    void indexEntriesAreInOrderAndComeBack(@ForAll Random random) {
        IPartitioner partitioner = PARTITIONERS.get(random.nextInt(PARTITIONERS.size()));
        PartitionKeys partitions = new PartitionKeys(partitioner);
        ClusteringComparator comparator = comparator(random);
        ClusteringKeys clusterings = new ClusteringKeys(comparator);
        IndexEntry a = IndexEntry.of(partitioner, comparator, random, null);
        IndexEntry b = IndexEntry.of(partitioner, comparator, random, a);
        byte[] encoded = a.encoded(partitions, clusterings);
        byte[] other = b.encoded(partitions, clusterings);
        assertThat(Integer.signum(Arrays.compareUnsigned(encoded, other)))
                .describedAs("%s %s against %s", comparator, a, b)
                .isEqualTo(a.compare(b, comparator));
        int terms = Integer.signum(ByteBufferUtil.compareUnsigned(a.term, b.term));
        assertThat(Arrays.compareUnsigned(encoded, indexBound(b.term, false)) < 0)
                .isEqualTo(terms < 0);
        assertThat(Arrays.compareUnsigned(encoded, indexBound(b.term, true)) < 0)
                .isEqualTo(terms <= 0);

        ByteSink value = new ByteSink();
        IndexKeys.putValue(value, clusterings, a.clustering);
        ByteBuffer in = ByteBuffer.wrap(encoded);
        assertThat(ByteBuffer.wrap(IndexKeys.getTerm(in))).isEqualTo(a.term);
        int behind = in.position();
        IndexKeys.skipTerm(in);
        assertThat(in.position()).isEqualTo(behind);
        assertThat(IndexKeys.isTermEnd(encoded[behind])).isTrue();
        assertThat(partitions.get(in).getKey()).isEqualTo(a.key.getKey());
        Clustering<?> read =
                IndexKeys.getClustering(
                        in, value.copy(0, value.position()), clusterings, comparator.size());
        assertThat(in.hasRemaining()).isFalse();
        assertThat(read.kind()).isEqualTo(a.clustering.kind());
        for (int i = 0; i < read.size(); i++)
            assertThat(read.bufferAt(i)).isEqualTo(a.clustering.bufferAt(i));
    }

    private static final List<IPartitioner> PARTITIONERS =
            List.of(
                    Murmur3Partitioner.instance,
                    RandomPartitioner.instance,
                    ByteOrderedPartitioner.instance,
                    new LocalPartitioner(org.apache.cassandra.db.marshal.BytesType.instance));

    @Property
    void partitionKeysComeBackByteForByteInCassandrasOwnForm(@ForAll Random random) {
        List<IPartitioner> partitioners =
                List.of(
                        Murmur3Partitioner.instance,
                        RandomPartitioner.instance,
                        ByteOrderedPartitioner.instance,
                        OrderPreservingPartitioner.instance,
                        new LocalPartitioner(org.apache.cassandra.db.marshal.IntegerType.instance));
        IPartitioner partitioner = partitioners.get(random.nextInt(partitioners.size()));
        AbstractType<?> type =
                partitioner instanceof LocalPartitioner
                        ? org.apache.cassandra.db.marshal.IntegerType.instance
                        : org.apache.cassandra.db.marshal.UTF8Type.instance;
        PartitionKeys keys = new PartitionKeys(partitioner);
        DecoratedKey a = key(partitioner, type, random);
        DecoratedKey b = random.nextInt(4) == 0 ? a : key(partitioner, type, random);
        byte[] encodedA = encode(keys, a);
        byte[] encodedB = encode(keys, b);

        // Cassandra's encoding fails for some varints, which a local token may be.
        if (!(partitioner instanceof LocalPartitioner))
            assertThat(encodedA)
                    .isEqualTo(
                            ByteSourceInverse.readBytes(
                                    a.asComparableBytes(ComparableSource.VERSION)));
        assertThat(Integer.signum(Arrays.compareUnsigned(encodedA, encodedB)))
                .isEqualTo(Integer.signum(a.compareTo(b)));
        assertThat(isProperPrefix(encodedA, encodedB)).isFalse();

        ByteBuffer buffer = ByteBuffer.wrap(Arrays.copyOf(encodedA, encodedA.length + 1));
        DecoratedKey read = keys.get(buffer);
        assertThat(read).isEqualTo(a);
        assertThat(read.getKey()).isEqualTo(a.getKey());
        assertThat(buffer.remaining()).isEqualTo(1);
    }

    private static DecoratedKey key(IPartitioner partitioner, AbstractType<?> type, Random random) {
        ByteBuffer value = TypedValues.value(type, random);
        // An empty partition key is refused by CQL, and the empty token is the ring's minimum.
        while (!value.hasRemaining()) value = TypedValues.value(type, random);
        return partitioner.decorateKey(value);
    }

    private static byte[] encode(PartitionKeys keys, DecoratedKey key) {
        ByteSink sink = new ByteSink();
        keys.put(sink, key);
        return sink.copy(0, sink.position());
    }

    @Property
    void escapingGivesBackAnyBytes(@ForAll byte[] bytes, @ForAll boolean reversed) {
        int mask = reversed ? 0xFF : 0;
        ByteSink sink = new ByteSink();
        Escapes.put(sink, ByteBuffer.wrap(bytes), ByteBufferAccessor.instance, mask);
        int end = sink.position();
        sink.put(0x38);
        ByteBuffer in = ByteBuffer.wrap(sink.copy(0, end + 1));
        assertThat(Escapes.get(in, mask)).isEqualTo(bytes);
        assertThat(in.position()).isEqualTo(end);
    }
}
