// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.stream.Peer.Entry;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.rocksdb.RocksDBException;

/** A peer that can lie: slices of what blocks it likes. */
final class PeerBlocks {
    private PeerBlocks() {}

    static StreamHead head(TestTable table, int slices) {
        return new StreamHead(
                StoreDescriptor.ENGINE,
                StoreDescriptor.FORMAT,
                table.metadata().id,
                table.metadata().name,
                slices,
                0);
    }

    /** The first block of a slice. */
    static byte[] columns(TableStore store) throws RocksDBException, IOException {
        return columns(SliceColumns.of(Tables.context(store).catalog().columns()));
    }

    static byte[] columns(SliceColumns columns) throws IOException {
        return columns.block("t").array();
    }

    static byte[] entries(byte kind, List<Entry> entries) {
        int bytes = 1;
        for (Entry entry : entries) bytes += 8 + entry.key().length + entry.value().length;
        ByteBuffer block = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN).put(kind);
        for (Entry entry : entries)
            block.putInt(entry.key().length)
                    .putInt(entry.value().length)
                    .put(entry.key())
                    .put(entry.value());
        return block.array();
    }

    static byte[] rows(List<Entry> entries) {
        return entries(BlockKind.ROWS, entries);
    }

    static byte[] large(List<Entry> entries) {
        return entries(BlockKind.LARGE, entries);
    }

    /** Of rows and large cells, in blocks of a few entries. */
    static List<byte[]> slice(TableStore of, List<Entry> rows, List<Entry> large)
            throws RocksDBException, IOException {
        List<byte[]> blocks = new ArrayList<>();
        blocks.add(columns(of));
        for (int i = 0; i < rows.size(); i += 7)
            blocks.add(rows(rows.subList(i, Math.min(i + 7, rows.size()))));
        for (int i = 0; i < large.size(); i += 7)
            blocks.add(large(large.subList(i, Math.min(i + 7, large.size()))));
        return blocks;
    }

    static void take(StreamSink in, int slice, List<byte[]> blocks) throws IOException {
        try (SliceWriter writer = in.begin(slice)) {
            for (byte[] block : blocks) writer.take(ByteBuffer.wrap(block));
            writer.end();
        }
    }

    /** Sends slices whole, and makes them live. */
    static void send(
            TestTable table, List<Range<Token>> owned, TableStore to, List<List<byte[]>> slices)
            throws IOException {
        try (StreamSink in = to.receive(head(table, slices.size()), owned)) {
            for (int i = 0; i < slices.size(); i++) take(in, i, slices.get(i));
            in.verify();
            while (in.ingest()) in.prepare();
        }
    }
}
