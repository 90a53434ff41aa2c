// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;

/** What a store sent in one slice, kept, so that it can be received more than once. */
public record SentStream(StreamHead head, List<ByteBuffer> blocks) {
    /** Reads it whole. */
    public static SentStream of(TableStore from, List<Range<Token>> ranges) throws IOException {
        try (StreamSource out = from.send(List.of(new SliceRanges(ranges, 0)));
                SliceReader reader = out.open(0)) {
            List<ByteBuffer> blocks = new ArrayList<>();
            for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                blocks.add(ByteBuffer.allocate(block.remaining()).put(block).flip());
            return new SentStream(out.head(), blocks);
        }
    }

    /** Reads all there is. */
    public static SentStream of(TableStore from) throws IOException {
        return of(from, RangeTests.everything());
    }

    /** Puts it into the staging of a store. */
    public void stagedBy(StreamSink in) throws IOException {
        try (SliceWriter slice = in.begin(0)) {
            for (ByteBuffer block : blocks) slice.take(block.duplicate());
            slice.end();
        }
    }

    /** Makes it live in a store. */
    public void ingestedBy(TableStore to, Collection<Range<Token>> owned) throws IOException {
        try (StreamSink in = to.receive(head, owned)) {
            stagedBy(in);
            in.verify();
            while (in.ingest()) in.prepare();
        }
    }

    /** Makes it live in a store that owns all. */
    public void ingestedBy(TableStore to) throws IOException {
        ingestedBy(to, RangeTests.everything());
    }

    /** Of all blocks. */
    public long bytes() {
        return blocks.stream().mapToLong(ByteBuffer::remaining).sum();
    }
}
