// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.stream.BlockMemory;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.HeadCodec;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.UUID;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.schema.TableId;

/**
 * A session that is sent any bytes, as slices one after the other: they are received and go live,
 * or are refused; the store is called as it must be, and nothing of it stays open.
 */
public final class SlicesFuzz {
    /** Of a frame: docs/FORMAT.md has them. */
    private static final int BEGINNING = 6;

    private static final int PACKED_AT = 28;
    private static final int CHECKSUM_AT = 32;
    private static final int OWN_CHECKSUM_AT = Frame.BYTES - Long.BYTES;

    private static final byte[] VALID = valid();

    private SlicesFuzz() {}

    /** Receives all slices that some bytes have, once the checksums of their frames fit. */
    public static void receive(byte[] bytes) throws IOException {
        seal(bytes);
        List<Sink> opened = new ArrayList<>();
        IncomingSlices.Target target =
                head -> {
                    Sink sink = new Sink(head);
                    opened.add(sink);
                    return sink;
                };
        try (IncomingSlices session =
                        new IncomingSlices(
                                "a peer",
                                "a table",
                                new IdleLimit(Duration.ZERO),
                                target,
                                new BlockMemory(4, Duration.ZERO));
                DataInputBuffer in = new DataInputBuffer(bytes)) {
            while (in.available() > 0) {
                int before = in.available();
                long[] told = new long[1];
                long read = session.receive(in, (slice, head) -> moved -> told[0] += moved);
                check(read == before - in.available() && read == told[0], "bytes are counted");
            }
            session.ingest();
            for (Sink sink : opened) check(sink.live, "it is live after an ingest");
        } finally {
            for (Sink sink : opened) check(sink.open == 0 && sink.closed, "nothing stays open");
        }
    }

    /** No fuzzer finds a checksum, and few a magic number. */
    private static void seal(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        for (long at = 0; at + Frame.BYTES <= bytes.length; ) {
            int frame = (int) at;
            in.put(frame, VALID, 0, BEGINNING);
            int packed = in.getInt(frame + PACKED_AT);
            int content = frame + Frame.BYTES;
            int length = Math.max(0, Math.min(packed, bytes.length - content));
            in.putLong(frame + CHECKSUM_AT, hash(bytes, content, length));
            in.putLong(frame + OWN_CHECKSUM_AT, hash(bytes, frame, OWN_CHECKSUM_AT));
            at = content + (long) length;
        }
    }

    private static long hash(byte[] bytes, int from, int length) {
        return XXHashFactory.fastestInstance().hash64().hash(bytes, from, length, 0);
    }

    /** A stream of two slices, one of which can be packed. */
    public static byte[] seed() {
        return VALID.clone();
    }

    private static byte[] valid() {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        StreamHead head = new StreamHead("e", 1, TableId.fromUUID(new UUID(1, 2)), "t", 2, 9);
        ByteBuffer encoded = HeadCodec.encode(new HeadCodec.SliceHead(head, 5));
        for (int slice = 0; slice < 2; slice++) {
            add(all, Frame.Kind.HEAD, slice, 0, encoded.duplicate());
            add(all, Frame.Kind.BLOCK, slice, 1, ByteBuffer.wrap(new byte[] {1, 2, 3}));
            add(all, Frame.Kind.BLOCK, slice, 2, ByteBuffer.allocate(100));
            add(all, Frame.Kind.END, slice, 3, ByteBuffer.allocate(0));
        }
        return all.toByteArray();
    }

    private static void add(
            ByteArrayOutputStream to, Frame.Kind kind, int slice, int number, ByteBuffer content) {
        ByteBuffer packed = ByteBuffer.allocate(Frame.scratch(content.remaining()));
        try (DataOutputStream out = new DataOutputStream(to)) {
            Frame.pack(kind, 7, slice, number, content, packed).write(out);
            out.write(Arrays.copyOf(packed.array(), packed.limit()));
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError("not so: " + what);
    }

    /** Checks how it is called. */
    private static final class Sink implements StreamSink {
        private final StreamHead head;
        private final BitSet begun = new BitSet();
        private final BitSet ended = new BitSet();
        private int open;
        private boolean verified;
        private boolean live;
        private boolean closed;

        Sink(StreamHead head) {
            this.head = head;
        }

        @Override
        public SliceWriter begin(int slice) {
            check(!closed && !live, "a slice begins while a sink is open");
            check(slice < head.slices() && !begun.get(slice), "a slice of the stream comes once");
            begun.set(slice);
            open++;
            return new SliceWriter() {
                private boolean over;

                @Override
                public void take(ByteBuffer block) {
                    int bytes = block.remaining();
                    check(!over && bytes > 0 && bytes <= MAX_BLOCK, "a block is of a usual size");
                    block.position(block.limit());
                }

                @Override
                public void end() {
                    check(!over, "a slice ends once");
                    over = true;
                    ended.set(slice);
                }

                @Override
                public void close() {
                    over = true;
                    open--;
                }
            };
        }

        @Override
        public void verify() throws IOException {
            check(!closed, "an open sink is verified");
            if (ended.cardinality() < head.slices()) throw new IOException("slices are missing");
            verified = true;
        }

        @Override
        public void prepare() {
            check(verified, "a sink is verified first");
        }

        @Override
        public boolean ingest() {
            check(verified && !live && !closed, "a verified sink goes live once");
            live = true;
            return false;
        }

        @Override
        public void close() {
            closed = true;
        }
    }
}
