// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MeasurementTest {
    @TempDir Path directory;

    /** Also of a node in a process of its own, which enters the group later. */
    @Test
    void whatTheMeasurementBeforeLeftInMemoryIsForgotten() throws IOException {
        for (Access.Level level : Access.Level.values()) {
            Path group = Files.createDirectory(directory.resolve(level.name()));
            Path forget = Files.createFile(group.resolve("memory.force_empty"));
            BenchOptions options = new BenchOptions();
            // A file: here the measurement fails.
            options.out = Files.createFile(directory.resolve(level + "-out"));
            Measurement measurement = new Measurement(options, group, new MemoryLimit(group));
            Run run = new Run("emp", level, "G1", "read", Engine.LEGACY);
            assertThatThrownBy(() -> measurement.measure(run, 1, new Figures())).isNotNull();
            assertThat(forget).as(level.name()).hasContent("0");
        }
    }
}
