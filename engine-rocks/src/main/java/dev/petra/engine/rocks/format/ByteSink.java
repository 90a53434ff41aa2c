// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.marshal.ValueAccessor;

/**
 * A growing big-endian buffer that encoders write to and that is reused. It is off heap, so that
 * RocksDB reads it without a copy. Not thread-safe.
 */
public final class ByteSink extends GrowingBuffer {
    private static final int INITIAL = 4 << 10;

    public ByteSink() {
        super(INITIAL);
    }

    /** Discards what was written, and gives back a lent buffer. */
    public ByteSink clear() {
        release();
        buffer.clear();
        return this;
    }

    public int position() {
        return buffer.position();
    }

    /** Discards what was written after a position. */
    public void truncate(int position) {
        buffer.position(position);
    }

    /**
     * Returns the buffer itself, ready to be read from the start to what was written last. Call
     * {@link #clear} or {@link #resume} before the next write.
     */
    public ByteBuffer flipped() {
        buffer.flip();
        return buffer;
    }

    /** Makes the sink writable again after {@link #flipped()}, from a position on. */
    public void resume(int position) {
        buffer.limit(buffer.capacity()).position(position);
    }

    /** Copies the bytes between two positions. */
    public byte[] copy(int from, int to) {
        byte[] bytes = new byte[to - from];
        buffer.get(from, bytes);
        return bytes;
    }

    /** Copies bytes from a position of this sink into an array. */
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

    /**
     * Writes an unsigned number in 1 to 10 bytes, 7 bits each, lowest first: RocksDB's varint64.
     */
    public void putVarint(long v) {
        ByteBuffer b = room(10);
        while ((v & ~0x7FL) != 0) {
            b.put((byte) (v | 0x80));
            v >>>= 7;
        }
        b.put((byte) v);
    }

    /** Writes a signed number as varint; numbers near 0, positive or negative, are short. */
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
     * Writes a value. {@code accessor.copyTo} would not do: when Cassandra 5.0.9 copies an array
     * into a direct buffer, it uses the content of the array as a memory address.
     */
    public <V> void put(V value, ValueAccessor<V> accessor) {
        if (value instanceof byte[] bytes) put(bytes);
        else put(accessor.toBuffer(value));
    }

    byte get(int at) {
        return buffer.get(at);
    }

    /** Writes over a byte. */
    void set(int at, int b) {
        buffer.put(at, (byte) b);
    }

    /** Inserts a varint at a position, and moves what was written after it. */
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
