// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.FullDisk;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/** Whether the disk of a store has room for its database to be opened anew. */
final class DiskRoom {
    private static final long LEAST = 4 << 20;

    /** As many files as it takes at least to open a store: a MANIFEST, logs, options, data. */
    private static final int TRIAL_FILES = 8;

    private final StoreOpening opening;
    private final Path directory;

    DiskRoom(StoreOpening opening, Path directory) {
        this.opening = opening;
        this.directory = directory;
    }

    /**
     * Whether it may be closed to be opened anew: else it could not be read. Replay writes what is
     * in the log once more, as a data file.
     */
    boolean isEnough() throws IOException {
        long needed = LEAST;
        for (Path file : opening.files("*.log")) needed += size(file);
        return Files.getFileStore(directory).getUsableSpace() > needed && takesFiles();
    }

    /**
     * Whether the disk takes new files. One without inodes, or whose quota is used up, has free
     * bytes all the same.
     */
    private boolean takesFiles() throws IOException {
        byte[] part = new byte[(int) LEAST / TRIAL_FILES];
        // Of zeros, a file system may store nothing.
        ThreadLocalRandom.current().nextBytes(part);
        List<SeekableByteChannel> files = new ArrayList<>();
        try {
            for (int number = 0; number < TRIAL_FILES; number++) {
                SeekableByteChannel file =
                        Files.newByteChannel(
                                directory.resolve("trial" + number),
                                StandardOpenOption.CREATE,
                                StandardOpenOption.WRITE,
                                StandardOpenOption.DELETE_ON_CLOSE);
                files.add(file);
                ByteBuffer left = ByteBuffer.wrap(part);
                while (left.hasRemaining()) file.write(left);
            }
            return true;
        } catch (ClosedByInterruptException e) {
            // Whoever ends this thread does not want to know.
            return false;
        } catch (IOException e) {
            if (FullDisk.isSaidBy(e.getMessage())) return false;
            throw e;
        } finally {
            for (SeekableByteChannel file : files) file.close();
        }
    }

    /** 0 for a log that RocksDB, which another thread just opens anew, has replayed and removed. */
    private static long size(Path log) throws IOException {
        try {
            return Files.size(log);
        } catch (NoSuchFileException e) {
            return 0;
        }
    }
}
