// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LoadCopyTest {
    @TempDir Path directory;

    private final List<String> warnings = new ArrayList<>();

    /** A killed load's folder. */
    private Path left(String name) throws IOException {
        Path folder = Files.createDirectory(directory.resolve(name));
        Files.createFile(folder.resolve("lock"));
        return folder;
    }

    /** Nobody but that user and root can tell whether its load runs. */
    @Test
    void theFolderOfAnotherUserIsNamedAndLeftAlone() throws IOException {
        Path foreign = left(".petra-load-7");
        Path ours = left(".petra-load-8");
        // Its mode is 0700. Refused by hand, because root is not.
        LoadCopy.Locks locks =
                lock -> {
                    if (lock.startsWith(foreign)) throw new AccessDeniedException(lock.toString());
                    return FileChannel.open(lock, StandardOpenOption.WRITE);
                };
        try (LoadCopy copy = LoadCopy.make(directory, warnings::add, locks)) {
            Files.createDirectory(copy.store());
            assertThat(ours).doesNotExist();
        }
        assertThat(directory.toFile().list()).containsExactly(".petra-load-7");
        assertThat(foreign.resolve("lock")).exists();
        assertThat(warnings).hasSize(1);
        assertThat(warnings.get(0)).startsWith(foreign + " ").contains("delete the folder");
    }

    @Test
    void theFolderOfAKilledLoadIsDeletedAndThatOfARunningOneIsNot() throws IOException {
        Path killed = left(".petra-load-7");
        try (LoadCopy running = LoadCopy.make(directory, warnings::add);
                LoadCopy next = LoadCopy.make(directory, warnings::add)) {
            assertThat(killed).doesNotExist();
            // Fails if their folders are not there.
            Files.createDirectory(running.store());
            Files.createDirectory(next.store());
        }
        assertThat(directory).isEmptyDirectory();
        assertThat(warnings).isEmpty();
    }
}
