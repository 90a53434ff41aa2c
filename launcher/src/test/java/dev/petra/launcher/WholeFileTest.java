// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class WholeFileTest {
    private static final String SYNC = "jdk.FileForce";

    @TempDir private Path dir;

    /** After a power loss it was not there, or what it had replaced was there again. */
    @Test
    void aFileIsSyncedAndThenItsName() throws IOException {
        Path file = dir.resolve("file");
        WholeFile.write(file, "before");
        Path events = dir.resolve("events");
        try (Recording recording = new Recording()) {
            recording.enable(SYNC).withoutThreshold().withoutStackTrace();
            recording.start();
            WholeFile.write(file, "after");
            recording.stop();
            recording.dump(events);
        }
        List<Path> synced =
                RecordingFile.readAllEvents(events).stream()
                        .filter(event -> event.getEventType().getName().equals(SYNC))
                        .sorted(Comparator.comparing(RecordedEvent::getStartTime))
                        .map(event -> Path.of(event.getString("path")))
                        .filter(path -> path.startsWith(dir))
                        .toList();
        assertThat(synced).containsExactly(dir.resolve(".file.part"), dir);
        assertThat(file).hasContent("after");
        assertThat(dir.resolve(".file.part")).doesNotExist();
    }
}
