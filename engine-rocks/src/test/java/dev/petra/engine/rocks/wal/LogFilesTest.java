// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LogFilesTest {
    @TempDir Path directory;

    @Test
    void aSyncThatFailsIsToldFromALogThatCannotBeOpened() throws Exception {
        Files.createFile(directory.resolve("000001.log"));
        LogFiles.force(directory);
        Path folder = Files.createDirectory(directory.resolve("000002.log"));
        assertThatThrownBy(() -> LogFiles.force(directory))
                .isInstanceOf(IOException.class)
                .isNotInstanceOf(LogFiles.FailedForce.class);
        Files.delete(folder);
        // Which can be opened, and not synced.
        Files.createSymbolicLink(directory.resolve("000003.log"), Path.of("/dev/null"));
        assertThatThrownBy(() -> LogFiles.force(directory))
                .isInstanceOf(LogFiles.FailedForce.class);
    }

    @Test
    void aFolderThatCannotBeListedIsNoFailedSync() {
        assertThatThrownBy(() -> LogFiles.force(directory.resolve("none")))
                .isInstanceOf(IOException.class)
                .isNotInstanceOf(LogFiles.FailedForce.class);
    }
}
