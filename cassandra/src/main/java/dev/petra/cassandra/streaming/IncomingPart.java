// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.streaming.wire.Frame;
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

/** One part of what another store sent, and what came before it. Used by one thread at a time. */
final class IncomingPart implements IncomingStream {
    private final StreamSession session;
    private final TableMetadata table;
    private volatile @Nullable Frame frame;

    IncomingPart(StreamSession session, TableMetadata table) {
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
        frame =
                ours.receive(
                        buffered,
                        (part, bytes, delta) ->
                                session.progress(
                                        name(table.name, table.id, part),
                                        ProgressInfo.Direction.IN,
                                        bytes,
                                        delta,
                                        part.bytes()));
    }

    /** How a part is called in what operators see. */
    static String name(String columnFamily, TableId table, Frame frame) {
        return "%s-%s part %d of %d"
                .formatted(columnFamily, table, frame.number() + 1, frame.count());
    }

    @Override
    public String getName() {
        Frame read = frame;
        return read == null ? "a part for " + table : name(table.name, table.id, read);
    }

    @Override
    public long getSize() {
        Frame read = frame;
        if (read == null) throw new IllegalStateException("It was not read yet.");
        return read.bytes();
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
