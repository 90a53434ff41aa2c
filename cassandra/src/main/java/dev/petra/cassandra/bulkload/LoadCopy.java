// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import dev.petra.engine.DirectoryTree;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * The folder in which a load has its copy of a store, which is links to the store's files. A lock
 * says that the load runs, whatever machine or container it runs in. Those of loads that were
 * killed are deleted by the next, if it may: the links keep the disk space of deleted data.
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

    /** How the lock in another load's folder is opened. */
    @FunctionalInterface
    interface Locks {
        FileChannel open(Path lock) throws IOException;
    }

    /**
     * Makes one, and deletes what killed loads left.
     *
     * @param warnings takes a sentence for each folder that another user's load has made
     */
    static LoadCopy make(Path directory, Consumer<String> warnings) throws IOException {
        return make(directory, warnings, lock -> FileChannel.open(lock, StandardOpenOption.WRITE));
    }

    /**
     * The same.
     *
     * @param locks a test's, which may refuse as the system does for another user
     */
    static LoadCopy make(Path directory, Consumer<String> warnings, Locks locks)
            throws IOException {
        synchronized (OURS) {
            List<Path> left;
            try (Stream<Path> files = Files.list(directory)) {
                left = files.filter(folder -> isLeft(folder, warnings, locks)).toList();
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

    private static boolean isLeft(Path folder, Consumer<String> warnings, Locks locks) {
        if (!String.valueOf(folder.getFileName()).startsWith(NAME) || OURS.contains(folder))
            return false;
        try (FileChannel channel = locks.open(folder.resolve(LOCK));
                FileLock free = channel.tryLock()) {
            return free != null;
        } catch (NoSuchFileException e) {
            return false;
        } catch (AccessDeniedException e) {
            warnings.accept(
                    folder
                            + " is of a load by another user. If that load does not run any more,"
                            + " delete the folder: it keeps the disk space of deleted data.");
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
