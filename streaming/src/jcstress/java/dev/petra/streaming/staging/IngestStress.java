// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;

/**
 * What has come goes live in two steps while the session is ended by another thread: success is
 * said only of all of it, and the rest is given up once.
 */
@JCStressTest
@Outcome(
        id = {"0, 0, 1", "0, 1, 1", "1, 2, 1"},
        expect = Expect.ACCEPTABLE,
        desc = "failed before a step or between two; or all is live")
@Outcome(expect = Expect.FORBIDDEN, desc = "success without all, or closed twice or never")
@State
public class IngestStress {
    private final Steps steps = new Steps();
    private final IncomingSlices session = new IncomingSlices(head -> steps);

    /** Both slices come. */
    public IngestStress() {
        IncomingSlicesStress.receive(session, 0);
        IncomingSlicesStress.receive(session, 1);
    }

    /** Goes live in two steps, none of them once it is closed. */
    private static final class Steps implements StreamSink {
        private int taken;
        private int closed;

        @Override
        public SliceWriter begin(int slice) {
            return new SliceWriter() {
                @Override
                public void take(ByteBuffer block) {
                    throw new AssertionError("there is none");
                }

                @Override
                public void end() {}

                @Override
                public void close() {}
            };
        }

        private void checkOpen() {
            if (closed > 0) throw new IllegalStateException("This stream is closed.");
        }

        @Override
        public synchronized void verify() {
            checkOpen();
        }

        @Override
        public synchronized void prepare() {
            checkOpen();
        }

        @Override
        public synchronized boolean ingest() {
            checkOpen();
            return ++taken < 2;
        }

        @Override
        public synchronized void close() {
            closed++;
        }
    }

    /** Makes all live. */
    @Actor
    public void ingests(III_Result result) {
        try {
            session.ingest();
            result.r1 = 1;
        } catch (IOException | IllegalStateException e) {
            result.r1 = 0;
        }
    }

    /** Ends the session. */
    @Actor
    public void closes() {
        session.close();
    }

    /** What was done with the store. */
    @Arbiter
    public void result(III_Result result) {
        result.r2 = steps.taken;
        result.r3 = steps.closed;
    }
}
