// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.marshal.ValueAccessor;

/**
 * A growing buffer that encoders write to, big-endian; reused from one call to the next. Off heap,
 * so that RocksDB reads it without a copy. One thread at a time.
 */
public final class ByteSink extends GrowingBuffer {
    private static final int INITIAL = 4 << 10;

    public ByteSink() {
        super(INITIAL);
    }

    /** Starts over. */
    public ByteSink clear() {
        release();
        buffer.clear();
        return this;
    }

    public int position() {
        return buffer.position();
    }

    /** Forgets what was written after a position. */
    public void truncate(int position) {
        buffer.position(position);
    }

    /** What was written, to be read; valid until the next write. */
    public ByteBuffer flipped() {
        buffer.flip();
        return buffer;
    }

    /** Undoes {@link #flipped()}, so that more can be written behind a position. */
    public void resume(int position) {
        buffer.limit(buffer.capacity()).position(position);
    }

    /** The bytes between two positions, copied. */
    public byte[] copy(int from, int to) {
        byte[] bytes = new byte[to - from];
        buffer.get(from, bytes);
        return bytes;
    }

    /** Copies a stretch of this sink into an array. */
    void copyTo(int from, byte[] target, int at, int length) {
        buffer.get(from, target, at, length);
    }

    public void put(int b) {
        room(1).put((byte) b);
    }

    public void putFixed32(int v) {
        room(4).putInt(v);
    }

    public void putFixed64(long v) {
        room(8).putLong(v);
    }

    /** An unsigned number in 1 to 10 bytes, 7 bits each, lowest first (RocksDB's varint64). */
    public void putVarint(long v) {
        ByteBuffer b = room(10);
        while ((v & ~0x7FL) != 0) {
            b.put((byte) (v | 0x80));
            v >>>= 7;
        }
        b.put((byte) v);
    }

    /** A signed number, small ones of either sign short. */
    void putZigzag(long v) {
        putVarint((v << 1) ^ (v >> 63));
    }

    public void put(byte[] bytes) {
        room(bytes.length).put(bytes);
    }

    public void put(byte[] from, int at, int length) {
        room(length).put(from, at, length);
    }

    public void put(ByteBuffer bytes) {
        int length = bytes.remaining();
        ByteBuffer b = room(length);
        b.put(b.position(), bytes, bytes.position(), length);
        b.position(b.position() + length);
    }

    /**
     * A value, whatever backs it. Not by {@code accessor.copyTo}: from an array into a direct
     * buffer, Cassandra 5.0.9 takes the array's content for its address.
     */
    public <V> void put(V value, ValueAccessor<V> accessor) {
        if (value instanceof byte[] bytes) put(bytes);
        else put(accessor.toBuffer(value));
    }

    /** Inserts a varint before what was written since {@code at}. */
    void insertVarint(int at, int v) {
        int size = varintSize(v);
        int length = buffer.position() - at;
        ByteBuffer b = room(size);
        b.put(at + size, b, at, length);
        b.position(at);
        putVarint(v);
        buffer.position(at + size + length);
    }

    static int varintSize(long v) {
        return (70 - Long.numberOfLeadingZeros(v | 1)) / 7;
    }

    private ByteBuffer room(int bytes) {
        if (buffer.remaining() < bytes) grow(Math.addExact(buffer.position(), bytes));
        return buffer;
    }
}
