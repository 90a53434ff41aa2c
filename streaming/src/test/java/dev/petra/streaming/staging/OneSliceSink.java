// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;

/** For tests that look at what comes, block by block, and keep nothing. */
abstract class OneSliceSink implements StreamSink, SliceWriter {
    @Override
    public SliceWriter begin(int slice) {
        return this;
    }

    @Override
    public void end() {}

    @Override
    public void verify() {}

    @Override
    public boolean ingest() {
        return false;
    }

    @Override
    public void prepare() {}

    @Override
    public void close() {}
}
