// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.format.MalformedFragment;
import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;
import org.rocksdb.AbstractRocksIterator;
import org.rocksdb.EnvOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileWriter;

/** An sst file of a stream, as it is written. */
final class StreamSst implements AutoCloseable {
    /** What the native methods return, by its position; store.h has the same. */
    enum ErrorCode {
        NONE,
        ROCKSDB,
        MALFORMED
    }

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
     * Adds entries one behind the other, behind those that are there: of each the lengths of key
     * and value, four bytes each, little-endian, key and value. Each value is read once more, by
     * the native parser that will merge it.
     *
     * @param entries off the heap, from position 0
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

    /** The names of the native codes in their order, each with a space behind it. */
    static native String errorCodes();

    private void throwIf(int error, @Nullable String[] text) throws RocksDBException {
        switch (ErrorCode.values()[error]) {
            case NONE -> {}
            case MALFORMED -> throw new MalformedFragment(String.valueOf(text[0]));
            case ROCKSDB -> throw failure(String.valueOf(text[0]));
        }
    }

    /**
     * RocksDB's C API gives the text of an error without its code (SaveError in db/c.cc). A file
     * that could not be written keeps its error, and gives it with the code when it is completed.
     */
    private RocksDBException failure(String text) {
        RocksDBException failure = new RocksDBException(text);
        try {
            writer.finish();
        } catch (RocksDBException e) {
            e.addSuppressed(failure);
            return e;
        }
        return failure;
    }

    /**
     * Adds rows that an iterator comes to, up to its end.
     *
     * @param ids what the ids of columns become
     * @throws MalformedFragment if a value is malformed
     */
    void addRows(AbstractRocksIterator<?> from, int[] ids) throws RocksDBException {
        @Nullable String[] text = new String[1];
        int error = copyRows(from.getNativeHandle(), writer.getNativeHandle(), ids, text);
        from.status();
        throwIf(error, text);
    }

    private static native int copyRows(
            long iterator, long writer, int[] ids, @Nullable String[] text);

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
}
