// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import com.google.common.math.LongMath;
import dev.petra.engine.stream.PledgedRoom;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Room for an SSTable that is written to be sent: at first for what it may become, and as it grows
 * for what is left of that. An estimate of the store is of compressed bytes, or of none, so that
 * the SSTable may become larger; then room is set aside as it grows. Used by one thread.
 */
final class ExportRoom implements AutoCloseable {
    /** After so many bytes the disk is asked again, and for twice as many. */
    static final long STEP = 8L << 20;

    /** Bytes of an SSTable at the most, for each that is estimated of the store. */
    private static final int MOST_GROWTH = 3;

    private final String name;
    private final long most;
    private final PledgedRoom room;
    private long next = STEP;

    /**
     * @param name of the SSTable, for messages
     * @param estimate of the store, in bytes
     * @throws IOException if there is no room; not an error of the disk, at which a node may stop
     */
    ExportRoom(Path directory, String name, long estimate) throws IOException {
        this(Files.getFileStore(directory), directory, name, estimate);
    }

    /**
     * @param files of that directory
     */
    ExportRoom(FileStore files, Path directory, String name, long estimate) throws IOException {
        this.name = name;
        this.most = LongMath.saturatedMultiply(MOST_GROWTH, estimate);
        try {
            this.room = PledgedRoom.of(files, directory, wanted(0));
        } catch (IOException e) {
            throw noRoom(e, 0);
        }
    }

    private long wanted(long written) {
        return Math.max(2 * STEP, most - written);
    }

    /**
     * @param written bytes until now
     * @throws IOException if the disk has no room for more
     */
    void check(long written) throws IOException {
        if (written < next) return;
        next = written + STEP;
        try {
            room.set(wanted(written));
        } catch (IOException e) {
            throw noRoom(e, written);
        }
    }

    private IOException noRoom(IOException e, long written) {
        return new IOException(
                "%s cannot be written to be sent: %s; it has %d bytes and may get %d more"
                        .formatted(name, e.getMessage(), written, wanted(written)),
                e);
    }

    @Override
    public void close() {
        room.close();
    }
}
