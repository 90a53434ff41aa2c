// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSource;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.schema.TableId;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** Two threads finish the same of two slices of a stream: its store stays for the other. */
@JCStressTest
@Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "closed with the last")
@Outcome(expect = Expect.FORBIDDEN, desc = "closed before, never, or more than once")
@State
public class OutgoingSliceStress {
    private static final StreamHead HEAD =
            new StreamHead("e", 1, TableId.fromUUID(new UUID(1, 2)), "t", 2, 0);

    private static final List<SliceRanges> SLICES = List.of(slice(0, 1), slice(1, 2));

    private final AtomicInteger closed = new AtomicInteger();
    private final List<OutgoingSlice> slices;

    /** For jcstress. */
    public OutgoingSliceStress() {
        slices = OutgoingSlice.of(new Counted(closed), SLICES);
    }

    private static SliceRanges slice(long left, long right) {
        return new SliceRanges(
                List.of(
                        new Range<>(
                                new Murmur3Partitioner.LongToken(left),
                                new Murmur3Partitioner.LongToken(right))),
                0);
    }

    private record Counted(AtomicInteger closed) implements StreamSource {
        @Override
        public StreamHead head() {
            return HEAD;
        }

        @Override
        public SliceReader open(int slice) {
            throw new UnsupportedOperationException("nothing is sent");
        }

        @Override
        public void close() {
            closed.incrementAndGet();
        }
    }

    /** Finishes the first. */
    @Actor
    public void oneThread() {
        slices.get(0).finish();
    }

    /** Finishes it, too. */
    @Actor
    public void another() {
        slices.get(0).finish();
    }

    /** Whether the store was gone before the second was finished, and after. */
    @Arbiter
    public void result(II_Result result) {
        result.r1 = closed.get();
        slices.get(1).finish();
        result.r2 = closed.get();
    }
}
