// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.format.MalformedFragment;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import net.jpountz.xxhash.StreamingXXHash64;
import net.jpountz.xxhash.XXHashFactory;
import org.jspecify.annotations.Nullable;
import org.rocksdb.AbstractRocksIterator;
import org.rocksdb.EnvOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileWriter;

/** An sst file of a stream: how it is written, and how it is moved. */
final class StreamSst implements AutoCloseable {
    private static final int CHUNK = 1 << 18;

    // What the native methods give back, as store.h has it; the rest is of RocksDB's.
    private static final int NO_ERROR = 0;
    private static final int MALFORMED = 2;

    private final EnvOptions environment;
    private final SstFileWriter writer;
    private final boolean merges;

    /**
     * Begins a file.
     *
     * @param merges whether entries are merged with what is there, or put in its place
     */
    StreamSst(Options options, String path, boolean merges) throws RocksDBException {
        this.environment = new EnvOptions();
        this.writer = new SstFileWriter(environment, options);
        this.merges = merges;
        try {
            writer.open(path);
        } catch (RocksDBException e) {
            close();
            throw e;
        }
    }

    /** Adds an entry, behind those that are there. */
    void add(byte[] key, byte[] value) throws RocksDBException {
        if (merges) writer.merge(key, value);
        else writer.put(key, value);
    }

    /**
     * Adds entries one behind the other, behind those that are there: of each the length of key and
     * value, four bytes each, key and value.
     *
     * @param ids those that a value may have; null where values are no fragments
     * @throws MalformedFragment if a value is malformed
     */
    void addAll(ByteBuffer entries, int @Nullable [] ids) throws RocksDBException {
        @Nullable String[] text = new String[1];
        throwIf(
                add(writer.getNativeHandle(), merges, entries, entries.remaining(), ids, text),
                text);
    }

    private static native int add(
            long writer,
            boolean merges,
            ByteBuffer entries,
            int bytes,
            int @Nullable [] ids,
            @Nullable String[] text);

    private static void throwIf(int error, @Nullable String[] text) throws RocksDBException {
        switch (error) {
            case NO_ERROR -> {}
            case MALFORMED -> throw new MalformedFragment(String.valueOf(text[0]));
            default -> throw new RocksDBException(text[0]);
        }
    }

    /**
     * Adds what an iterator comes to, and leaves it on the first entry that was not added.
     *
     * @param until key before which to end
     * @param mostBytes of the file, at which to end
     * @param ids what the ids of columns become; null to keep them, and values as they are
     * @return the key of the last entry that was added; null if there was none
     * @throws MalformedFragment if a value is malformed
     */
    byte @Nullable [] addAll(
            AbstractRocksIterator<?> from,
            byte @Nullable [] until,
            long mostBytes,
            int @Nullable [] ids)
            throws RocksDBException {
        byte[][] last = new byte[1][];
        @Nullable String[] text = new String[1];
        int error =
                copy(
                        from.getNativeHandle(),
                        writer.getNativeHandle(),
                        merges,
                        until,
                        mostBytes,
                        ids,
                        last,
                        text);
        from.status();
        throwIf(error, text);
        return last[0];
    }

    private static native int copy(
            long iterator,
            long writer,
            boolean merges,
            byte @Nullable [] until,
            long mostBytes,
            int @Nullable [] ids,
            byte[][] last,
            @Nullable String[] text);

    /** How large it is by now, about. */
    long bytes() throws RocksDBException {
        return writer.fileSize();
    }

    /** Completes the file. */
    void finish() throws RocksDBException {
        writer.finish();
    }

    @Override
    public void close() {
        writer.close();
        environment.close();
    }

    /**
     * Copies so many bytes from one channel to another.
     *
     * @return the checksum of a part
     * @throws EOFException if there are fewer
     */
    static long transfer(ReadableByteChannel from, WritableByteChannel to, long bytes)
            throws IOException {
        ByteBuffer chunk = ByteBuffer.allocate((int) Math.min(CHUNK, Math.max(1, bytes)));
        try (StreamingXXHash64 hash = XXHashFactory.fastestInstance().newStreamingHash64(0)) {
            for (long left = bytes; left > 0; ) {
                chunk.clear().limit((int) Math.min(left, chunk.capacity()));
                if (from.read(chunk) < 0)
                    throw new EOFException(
                            "the data ends at byte " + (bytes - left) + " of " + bytes);
                hash.update(chunk.array(), 0, chunk.position());
                left -= chunk.position();
                chunk.flip();
                while (chunk.hasRemaining()) to.write(chunk);
            }
            return hash.getValue();
        }
    }
}
