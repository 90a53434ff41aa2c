// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import dev.petra.engine.DirectoryTree;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/**
 * The folder in which a load has its copy of a store, which is links to the store's files. A lock
 * says that the load runs, whatever machine or container it runs in. Those of loads that were
 * killed are deleted by the next: the links keep the disk space of deleted data.
 */
final class LoadCopy implements AutoCloseable {
    private static final String NAME = ".petra-load-";
    private static final String LOCK = "lock";

    /** Of this process, which would lose its lock by asking for it. */
    private static final Set<Path> OURS = ConcurrentHashMap.newKeySet();

    private final Path folder;
    private final FileChannel lock;

    private LoadCopy(Path folder, FileChannel lock) {
        this.folder = folder;
        this.lock = lock;
    }

    /** Makes one, and deletes what killed loads left. */
    static LoadCopy make(Path directory) throws IOException {
        synchronized (OURS) {
            List<Path> left;
            try (Stream<Path> files = Files.list(directory)) {
                left = files.filter(LoadCopy::isLeft).toList();
            }
            left.forEach(DirectoryTree::delete);
            Path folder = Files.createTempDirectory(directory, NAME);
            // Under its name only when it is locked.
            Path unnamed = folder.resolve("new");
            FileChannel lock =
                    FileChannel.open(
                            unnamed, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
            try {
                lock.lock();
                Files.move(unnamed, folder.resolve(LOCK));
            } catch (IOException e) {
                lock.close();
                throw e;
            }
            OURS.add(folder);
            return new LoadCopy(folder, lock);
        }
    }

    private static boolean isLeft(Path folder) {
        if (!String.valueOf(folder.getFileName()).startsWith(NAME) || OURS.contains(folder))
            return false;
        try (FileChannel channel =
                        FileChannel.open(folder.resolve(LOCK), StandardOpenOption.WRITE);
                FileLock free = channel.tryLock()) {
            return free != null;
        } catch (NoSuchFileException e) {
            return false;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Where the copy of the store goes. */
    Path store() {
        return folder.resolve("1");
    }

    @Override
    public void close() throws IOException {
        DirectoryTree.delete(folder);
        OURS.remove(folder);
        lock.close();
    }
}
