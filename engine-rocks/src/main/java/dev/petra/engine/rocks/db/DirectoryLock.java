// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * The lock by which RocksDB keeps other processes from a store, taken before RocksDB does: for
 * whatever is deleted or written there first. It must be given back before RocksDB opens the store,
 * and not be taken while this process has it open: the system's locks are those of a process, and
 * end when it closes the file, whoever took them.
 */
public final class DirectoryLock implements AutoCloseable {
    static final String NAME = "LOCK";

    private final FileChannel file;

    private DirectoryLock(FileChannel file) {
        this.file = file;
    }

    /**
     * Takes it.
     *
     * @throws IOException also if another process has the store open
     */
    @SuppressWarnings("resource") // the lock ends with the file
    public static DirectoryLock take(Path directory) throws IOException {
        FileChannel file =
                FileChannel.open(
                        directory.resolve(NAME),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE);
        boolean complete = false;
        try {
            FileLock lock = file.tryLock();
            if (lock == null)
                throw new IOException(
                        "Another process has the store in "
                                + directory
                                + " open. Two nodes must not have one data directory: stop the"
                                + " other one, and start this node anew");
            complete = true;
            return new DirectoryLock(file);
        } finally {
            if (!complete) file.close();
        }
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
