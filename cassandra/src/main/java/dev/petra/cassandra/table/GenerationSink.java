// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.util.function.BooleanSupplier;

/**
 * A stream that came for one generation of a table: its files go live only while that generation is
 * what the table holds. Otherwise it throws, and no later file goes live.
 */
public final class GenerationSink implements StreamSink {
    private final Generation generation;
    private final BooleanSupplier stays;
    private final StreamSink sink;

    /**
     * @param generation that they were received for
     * @param stays whether the table is whole in its engine, asked while it cannot begin to leave
     * @param sink of the generation's store; closed with this
     */
    public GenerationSink(Generation generation, BooleanSupplier stays, StreamSink sink) {
        this.generation = generation;
        this.stays = stays;
        this.sink = sink;
    }

    @Override
    public SliceWriter begin(int slice) throws IOException {
        return sink.begin(slice);
    }

    @Override
    public void verify() throws IOException {
        withoutLock(sink::verify);
    }

    /** Not of a table that is truncated meanwhile: its store ends. */
    @Override
    public void prepare() throws IOException {
        withoutLock(sink::prepare);
    }

    private interface Step {
        void run() throws IOException;
    }

    private void withoutLock(Step step) throws IOException {
        requireLive();
        try {
            step.run();
        } catch (IllegalStateException e) {
            // Not under the lock, so that the store may have ended meanwhile.
            requireLive();
            throw e;
        }
    }

    /**
     * The table can neither leave the store nor be truncated meanwhile; between two calls it can.
     */
    @Override
    public boolean ingest() throws IOException {
        synchronized (generation.stores()) {
            requireLive();
            // Before: a step that fails may have taken some.
            generation.stores().countIngest();
            return sink.ingest();
        }
    }

    private void requireLive() throws IOException {
        synchronized (generation.stores()) {
            if (!generation.isLive() || !stays.getAsBoolean())
                throw new IOException(
                        generation.stores().displayName()
                                + " was truncated, dropped or altered while a stream came to it:"
                                + " repeat the operation that streams");
        }
    }

    @Override
    public void close() {
        sink.close();
    }
}
