// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.streaming.staging.IncomingSlices;
import java.io.IOException;
import org.apache.cassandra.io.util.DataInputPlus;
import org.apache.cassandra.io.util.RebufferingInputStream;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.StreamReceiver;
import org.apache.cassandra.streaming.StreamSession;
import org.jspecify.annotations.Nullable;

/** One slice of what another store sent. Used by one thread at a time. */
final class IncomingSlice implements IncomingStream {
    private final StreamSession session;
    private final TableMetadata table;
    private volatile @Nullable String name;

    /** How many bytes came; -1 before all have. */
    private volatile long bytes = -1;

    IncomingSlice(StreamSession session, TableMetadata table) {
        this.session = session;
        this.table = table;
    }

    @Override
    public void read(DataInputPlus input, int version) throws IOException {
        StreamReceiver receiver = session.getAggregator(table.id);
        if (!(receiver instanceof PetraStreamReceiver ours))
            throw new IOException(
                    "%s came from a storage engine, but the table is in none here."
                            .formatted(getName()));
        if (!(input instanceof RebufferingInputStream buffered))
            throw new IOException("Cassandra reads streams by " + input.getClass());
        SliceProgress[] progress = new SliceProgress[1];
        IncomingSlices.Listener listener =
                (slice, head) -> {
                    String called = SliceProgress.name(table.name, slice, head.stream());
                    name = called;
                    progress[0] =
                            new SliceProgress(
                                    session, called, ProgressInfo.Direction.IN, head.bytes());
                    return progress[0];
                };
        bytes = ours.receive(buffered, listener);
        progress[0].end();
    }

    @Override
    public String getName() {
        String called = name;
        return called == null ? "a slice for " + table : called;
    }

    @Override
    public long getSize() {
        long size = bytes;
        if (size < 0) throw new IllegalStateException("The slice was not read yet.");
        return size;
    }

    @Override
    public int getNumFiles() {
        return 1;
    }

    @Override
    public TableId getTableId() {
        return table.id;
    }

    @Override
    public StreamSession session() {
        return session;
    }
}
