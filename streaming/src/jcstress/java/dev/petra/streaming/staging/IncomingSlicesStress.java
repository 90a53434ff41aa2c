// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.HeadCodec;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.schema.TableId;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;

/**
 * A session ends while the store is opened that its slices are for, or before or after that: what
 * was opened is closed, once.
 */
@JCStressTest
@Outcome(
        id = {"0, 0, 0", "1, 1, 0", "1, 1, 1", "1, 1, 2"},
        expect = Expect.ACCEPTABLE,
        desc = "not opened; or opened and closed once, whatever had come")
@Outcome(expect = Expect.FORBIDDEN, desc = "opened or closed twice, or left open")
@State
public class IncomingSlicesStress {
    private static final byte[][] SLICES = {slice(0), slice(1)};

    private final AtomicInteger opened = new AtomicInteger();
    private final AtomicInteger closed = new AtomicInteger();
    private final AtomicInteger ended = new AtomicInteger();
    private final IncomingSlices session = new IncomingSlices(this::open);

    private static byte[] slice(int slice) {
        StreamHead head = new StreamHead("e", 1, TableId.fromUUID(new UUID(1, 2)), "t", 2, 0);
        ByteBuffer encoded = HeadCodec.encode(new HeadCodec.SliceHead(head, 0));
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            Frame.asItIs(Frame.Kind.HEAD, 1, slice, 0, encoded).write(out);
            out.write(encoded.duplicate());
            Frame.asItIs(Frame.Kind.END, 1, slice, 1, ByteBuffer.allocate(0)).write(out);
            return out.toByteArray();
        } catch (IOException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private StreamSink open(StreamHead head) {
        opened.incrementAndGet();
        return new Counted();
    }

    /** Counts what is done with it. */
    private final class Counted implements StreamSink {
        @Override
        public SliceWriter begin(int slice) {
            return new SliceWriter() {
                @Override
                public void take(ByteBuffer block) {
                    throw new AssertionError("there is none");
                }

                @Override
                public void end() {
                    ended.incrementAndGet();
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public void verify() {}

        @Override
        public boolean ingest() {
            return false;
        }

        @Override
        public void prepare() {}

        @Override
        public void close() {
            closed.incrementAndGet();
        }
    }

    /** Receives one of two slices, each without a block. */
    static void receive(IncomingSlices session, int slice) {
        try (DataInputBuffer in = new DataInputBuffer(SLICES[slice])) {
            session.receive(in, (number, head) -> bytes -> {});
        } catch (IOException e) {
            // The session was over: what has come is seen by what was done with it.
            if (!String.valueOf(e.getMessage()).contains("over")
                    && !String.valueOf(e.getMessage()).contains("cannot be taken"))
                throw new AssertionError(e);
        }
    }

    /** Receives both slices. */
    @Actor
    public void receiver() {
        receive(session, 0);
        receive(session, 1);
    }

    /** Ends the session. */
    @Actor
    public void closer() {
        session.close();
    }

    /** What was done with the store. */
    @Arbiter
    public void result(III_Result result) {
        result.r1 = opened.get();
        result.r2 = closed.get();
        result.r3 = ended.get();
    }
}
