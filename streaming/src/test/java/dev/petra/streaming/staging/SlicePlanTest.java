// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.ScanTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.reference.MemoryEngineProvider;
import dev.petra.engine.stream.SliceRanges;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.LongStream;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.dht.ByteOrderedPartitioner;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.RandomPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;

class SlicePlanTest {
    /** Knows how many of some keys are in each range, at 100 bytes a key. */
    private static final class Keys implements Function<List<Range<Token>>, long[]> {
        final List<Token> tokens;
        int asked;

        Keys(List<Token> tokens) {
            this.tokens = tokens;
        }

        @Override
        public long[] apply(List<Range<Token>> ranges) {
            asked++;
            return ranges.stream()
                    .mapToLong(range -> 100 * tokens.stream().filter(range::contains).count())
                    .toArray();
        }
    }

    private static List<Range<Token>> ring(IPartitioner partitioner) {
        return List.of(new Range<>(partitioner.getMinimumToken(), partitioner.getMinimumToken()));
    }

    /** In order, without overlap, and together the ranges. */
    private static void check(
            List<SliceRanges> plan, List<Range<Token>> ranges, Keys keys, int most) {
        assertThatCode(() -> SliceRanges.check(plan)).doesNotThrowAnyException();
        assertThat(plan.size()).isBetween(1, most);
        List<Range<Token>> all = new ArrayList<>();
        for (SliceRanges slice : plan) {
            all.addAll(slice.ranges());
            assertThat(slice.bytes()).isEqualTo(LongStream.of(keys.apply(slice.ranges())).sum());
        }
        assertThat(Range.normalize(all)).isEqualTo(Range.normalize(ranges));
    }

    @Test
    void slicesAreAboutAsLargeAsTheTarget() {
        long seed = System.nanoTime();
        for (IPartitioner partitioner :
                new IPartitioner[] {Murmur3Partitioner.instance, RandomPartitioner.instance}) {
            Random random = new Random(seed);
            List<Token> tokens = new ArrayList<>();
            for (int i = 0; i < 4000; i++) tokens.add(partitioner.getRandomToken(random));
            Keys keys = new Keys(tokens);
            for (long target : new long[] {1, 10_000, 30_000, 399_999, 400_000, 1L << 40}) {
                List<SliceRanges> plan =
                        SlicePlan.of(keys, partitioner, ring(partitioner), target, 16);
                check(plan, ring(partitioner), keys, 16);
                long goal = Math.max(target, 400_000 / 16);
                assertThat(plan)
                        .as("target %d, seed %d", target, seed)
                        .allMatch(slice -> slice.bytes() <= 2 * goal)
                        .hasSizeGreaterThanOrEqualTo(target <= 400_000 / 2 ? 5 : 1);
                if (target >= 400_000) assertThat(plan).hasSize(1);
            }
            assertThat(SlicePlan.of(keys, partitioner, ring(partitioner), 1, 1)).hasSize(1);
        }
    }

    /** As virtual nodes have them, the last one over the end of the ring. */
    @Test
    void neighboursGoTogetherAndGapsStay() {
        List<Token> tokens = new ArrayList<>();
        for (int i = 0; i < 1000; i++) tokens.add(TestTable.token(i));
        Keys keys = new Keys(tokens);
        List<Range<Token>> ranges = new ArrayList<>();
        for (int i = 0; i < 990; i += 10) ranges.addAll(RangeTests.range(i, i + 5));
        List<SliceRanges> plan = SlicePlan.of(keys, Murmur3Partitioner.instance, ranges, 10_000, 8);
        check(plan, ranges, keys, 8);
        assertThat(plan).hasSizeBetween(4, 6).allMatch(slice -> slice.ranges().size() > 5);
    }

    /** All keys under one prefix: what cannot be halved in few steps stays together. */
    @Test
    void tokensThatLieTogetherAreCutAFewTimesOnly() {
        IPartitioner partitioner = ByteOrderedPartitioner.instance;
        List<Token> tokens = new ArrayList<>();
        for (int i = 0; i < 100; i++)
            tokens.add(partitioner.getToken(ByteBuffer.allocate(40).putInt(36, i)));
        Keys keys = new Keys(tokens);
        List<SliceRanges> plan = SlicePlan.of(keys, partitioner, ring(partitioner), 100, 16);
        check(plan, ring(partitioner), keys, 16);
        keys.asked = 0;
        SlicePlan.of(keys, partitioner, ring(partitioner), 100, 16);
        assertThat(keys.asked).isBetween(2, 1 + 4 * 16);
        // One token, which no cut divides.
        Token one = TestTable.token(7);
        Keys alone = new Keys(Collections.nCopies(50, one));
        check(
                SlicePlan.of(alone, Murmur3Partitioner.instance, RangeTests.everything(), 100, 16),
                RangeTests.everything(),
                alone,
                16);
    }

    @Test
    void aLocalTableIsOneSlice() {
        IPartitioner local = new LocalPartitioner(Int32Type.instance);
        Token middle = local.getToken(Int32Type.instance.decompose(5));
        Keys keys = new Keys(List.of(middle, middle));
        assertThat(SlicePlan.of(keys, local, ring(local), 100, 16)).hasSize(1);
    }

    @Test
    void whatHasNothingHasNoSlices() {
        try (EngineUnderTest kit =
                new EngineUnderTest(
                        MemoryEngineProvider.NAME,
                        Map.of(),
                        new Capabilities(true, true, false, true))) {
            TestTable table = ScanTests.table();
            TableStore store = kit.open(table);
            assertThat(SlicePlan.of(store, RangeTests.everything(), 100, 4)).isEmpty();
            store.write(table.update(table.keyWithToken(50, 0)).row(1).liveness().build());
            assertThat(SlicePlan.of(store, RangeTests.range(50, 60), 100, 4)).isEmpty();
            // Wraps; the first half has nothing.
            List<SliceRanges> plan =
                    SlicePlan.of(
                            store,
                            List.of(new Range<>(TestTable.token(100), TestTable.token(50))),
                            1 << 20,
                            4);
            assertThat(plan).hasSize(1);
            assertThat(plan.get(0).ranges()).hasSize(2);
        }
    }
}
