// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.rocks.stream.Peer.Entry;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.cassandra.dht.Murmur3Partitioner;

/**
 * What Jazzer calls with bytes of its own, and watches which branches they take: the columns of a
 * slice, and entries behind them. Whatever they are, they are taken, or refused with a reason;
 * anything else that is thrown ends the process. Keys that lack the position of their partition get
 * one, since no fuzzer finds a token.
 */
final class EntryFuzz {
    private static final TestTable TABLE = Peer.table("");
    private static final PartitionKeys PARTITIONS = new PartitionKeys(Murmur3Partitioner.instance);
    private static final byte[] POSITION = position();

    /** Of an entry: whether its key is whole, and the lengths of what follows. */
    private static final int HEAD = 1 + 1 + Short.BYTES;

    private EntryFuzz() {}

    private static byte[] position() {
        ByteSink sink = new ByteSink();
        PARTITIONS.put(sink, TABLE.key(0));
        return sink.copy(0, sink.position());
    }

    /** Called by Jazzer, which knows it by its name. */
    public static void fuzzerTestOneInput(byte[] input) throws IOException {
        try {
            var unused = take(input);
        } catch (MalformedFragment | EntryCheck.NotTaken refused) {
            check(refused.getMessage() != null, "no reason");
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    /** How many entries were taken. */
    static int take(byte[] input) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(input);
        if (in.remaining() < 1 + Short.BYTES) return 0;
        boolean isData = (in.get() & 1) == 0;
        SliceColumns columns = SliceColumns.decode(ByteBuffer.wrap(bytes(in, in.getShort())));
        check(
                SliceColumns.decode(columns.block("t").position(1)).equals(columns),
                "other columns are written than were read");
        EntryCheck entries = new EntryCheck(TABLE::metadata, PARTITIONS, isData, List.of());
        entries.columns(columns.names());
        entries.block(in);
        int taken = 0;
        for (; in.remaining() >= HEAD; taken++) {
            boolean isWhole = (in.get() & 1) != 0;
            int keyBytes = in.get() & 0xFF;
            int valueBytes = in.getShort() & 0xFFFF;
            byte[] rest = bytes(in, keyBytes);
            byte[] key = isWhole ? rest : concatenated(POSITION, rest);
            int valueAt = in.position();
            entries.look(key, key.length, valueAt, bytes(in, valueBytes).length);
        }
        return taken;
    }

    /** The next bytes, or all that are left. */
    private static byte[] bytes(ByteBuffer in, int length) {
        byte[] bytes = new byte[Math.min(length & 0xFFFF, in.remaining())];
        in.get(bytes);
        return bytes;
    }

    private static byte[] concatenated(byte[] first, byte[] second) {
        return ByteBuffer.allocate(first.length + second.length).put(first).put(second).array();
    }

    /**
     * Where to begin.
     *
     * @param isWhole whether keys stay as they are; otherwise all are of partition 0
     */
    static byte[] seed(boolean isData, SliceColumns columns, boolean isWhole, List<Entry> entries)
            throws IOException {
        ByteArrayOutputStream seed = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(seed);
        byte[] block = columns.block("t").array();
        out.writeByte(isData ? 0 : 1);
        out.writeShort(block.length - 1);
        out.write(block, 1, block.length - 1);
        for (Entry entry : entries) {
            int from = isWhole ? 0 : POSITION.length;
            out.writeByte(isWhole ? 1 : 0);
            out.writeByte(entry.key().length - from);
            out.writeShort(entry.value().length);
            out.write(entry.key(), from, entry.key().length - from);
            out.write(entry.value());
        }
        return seed.toByteArray();
    }
}
