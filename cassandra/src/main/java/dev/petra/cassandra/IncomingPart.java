// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import org.apache.cassandra.io.util.DataInputPlus;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.StreamReceiver;
import org.apache.cassandra.streaming.StreamSession;
import org.jspecify.annotations.Nullable;

/** One part of what another store sent. Used by one thread at a time. */
final class IncomingPart implements IncomingStream {
    private final StreamSession session;
    private final TableId table;
    private volatile @Nullable PartHeader header;

    IncomingPart(StreamSession session, TableId table) {
        this.session = session;
        this.table = table;
    }

    @Override
    public void read(DataInputPlus input, int version) throws IOException {
        PartHeader read = PartHeader.read(input);
        header = read;
        StreamReceiver receiver = session.getAggregator(table);
        if (!(receiver instanceof ArrivingReceiver ours))
            throw new IOException(
                    "%s came as a part of storage engine %s, but the table is in none here."
                            .formatted(read.name(), read.manifest().engine()));
        ours.parts(read).receive(read.index(), new Counted(session, read, input));
    }

    /** The bytes of the part, of which the session is told. */
    private static final class Counted implements ReadableByteChannel, BorrowedChannel {
        private final StreamSession session;
        private final PartHeader header;
        private final DataInputPlus input;
        private final byte[] chunk = new byte[1 << 16];
        private long position;

        Counted(StreamSession session, PartHeader header, DataInputPlus input) {
            this.session = session;
            this.header = header;
            this.input = input;
        }

        @Override
        public int read(ByteBuffer to) throws IOException {
            long size = header.part().bytes();
            int count = (int) Math.min(Math.min(to.remaining(), chunk.length), size - position);
            if (count == 0) return position == size ? -1 : 0;
            try {
                input.readFully(chunk, 0, count);
            } catch (EOFException e) {
                throw new EOFException(header.name() + " ends after byte " + position);
            }
            to.put(chunk, 0, count);
            position += count;
            session.progress(header.name(), ProgressInfo.Direction.IN, position, count, size);
            return count;
        }
    }

    @Override
    public String getName() {
        PartHeader read = header;
        return read == null ? "a part for " + table : read.name();
    }

    @Override
    public long getSize() {
        PartHeader read = header;
        if (read == null) throw new IllegalStateException("It was not read yet.");
        return read.part().bytes();
    }

    @Override
    public int getNumFiles() {
        return 1;
    }

    @Override
    public TableId getTableId() {
        return table;
    }

    @Override
    public StreamSession session() {
        return session;
    }
}
