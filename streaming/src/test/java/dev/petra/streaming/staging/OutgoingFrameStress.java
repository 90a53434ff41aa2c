// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.schema.TableId;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** Two threads finish the same of two parts of a stream: its store stays for the other. */
@JCStressTest
@Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "closed with the last")
@Outcome(expect = Expect.FORBIDDEN, desc = "closed before, never, or more than once")
@State
public class OutgoingFrameStress {
    private static final ByteBuffer KEY = ByteBuffer.allocate(1);
    private static final StreamManifest MANIFEST =
            new StreamManifest(
                    "e",
                    1,
                    TableId.fromUUID(new UUID(1, 2)),
                    "t",
                    List.of(),
                    KEY,
                    List.of(new StreamPart(0, 1, 1, KEY, KEY), new StreamPart(1, 1, 1, KEY, KEY)));

    private final AtomicInteger closed = new AtomicInteger();
    private final List<OutgoingFrame> frames;

    /** For jcstress. */
    public OutgoingFrameStress() {
        try {
            frames = OutgoingFrame.of(new Counted(closed));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private record Counted(AtomicInteger closed) implements OutgoingParts {
        @Override
        public StreamManifest manifest() {
            return MANIFEST;
        }

        @Override
        public long transferTo(int index, WritableByteChannel channel) {
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
        frames.get(0).finish();
    }

    /** Finishes it, too. */
    @Actor
    public void another() {
        frames.get(0).finish();
    }

    /** Whether the store was gone before the second was finished, and after. */
    @Arbiter
    public void result(II_Result result) {
        result.r1 = closed.get();
        frames.get(1).finish();
        result.r2 = closed.get();
    }
}
