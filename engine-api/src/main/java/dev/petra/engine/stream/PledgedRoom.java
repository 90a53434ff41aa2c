// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Room on a disk that is set aside for what a file of a stream takes next: many are written at
 * once, and each alone would find room for itself. Used by one thread.
 */
public final class PledgedRoom implements AutoCloseable {
    private static final ConcurrentMap<FileStore, Disk> DISKS = new ConcurrentHashMap<>();

    private final Path directory;

    /** The file store of that directory: to ask that of one that is gone fails. */
    private final FileStore files;

    private final Disk disk;
    private long bytes;
    private boolean closed;

    /** What is set aside on one. */
    private static final class Disk {
        /** Guarded by this. */
        private long pledged;

        /**
         * Sets more aside.
         *
         * @param free which is asked of a directory that is there: a {@link FileStore} looks at the
         *     one that it was made for
         */
        synchronized boolean add(long free, long more) {
            if (free < pledged + more) return false;
            pledged += more;
            return true;
        }

        synchronized void remove(long less) {
            pledged -= less;
        }
    }

    private PledgedRoom(Path directory, FileStore files, Disk disk) {
        this.directory = directory;
        this.files = files;
        this.disk = disk;
    }

    /**
     * Sets room aside.
     *
     * @throws IOException if there is less than that beside what is set aside already
     */
    public static PledgedRoom of(Path directory, long bytes) throws IOException {
        return of(Files.getFileStore(directory), directory, bytes);
    }

    /**
     * Sets room aside.
     *
     * @param files of that directory
     * @throws IOException if there is less than that beside what is set aside already
     */
    public static PledgedRoom of(FileStore files, Path directory, long bytes) throws IOException {
        Disk disk = DISKS.computeIfAbsent(files, any -> new Disk());
        PledgedRoom room = new PledgedRoom(directory, files, disk);
        room.set(bytes);
        return room;
    }

    /**
     * The file has grown by what was set aside, or less, and as much is set aside again.
     *
     * @throws IOException if there is no room for that
     */
    public void renew() throws IOException {
        set(bytes);
    }

    /**
     * The file has grown, and that much is set aside from here on.
     *
     * @throws IOException if there is no room for that; what was set aside still is
     */
    public void set(long next) throws IOException {
        long free = files.getUsableSpace();
        if (!disk.add(free, next - bytes))
            throw new IOException(
                    "a stream has no room: %d bytes are free in %s, less than the files that streams write now take next"
                            .formatted(free, directory));
        bytes = next;
    }

    /** The file is complete, or gone. Idempotent. */
    @Override
    public void close() {
        if (closed) return;
        closed = true;
        disk.remove(bytes);
    }
}
