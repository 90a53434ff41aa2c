// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MemoryLimitTest {
    private static final long BYTES = 64 << 20;

    @TempDir Path mounted;

    @Test
    void aProcessIsInTheGroupUntilItEnds() throws IOException, InterruptedException {
        MemoryLimit limit;
        try {
            limit = MemoryLimit.create(BYTES);
        } catch (IOException e) {
            // Not root, or a container.
            System.out.println("*** NOT RUN: " + e.getMessage() + " ***");
            assumeTrue(false, e.getMessage());
            return;
        }
        String name = limit.group().getFileName().toString();
        Process process = new ProcessBuilder("sleep", "600").start();
        List<String> command = new ArrayList<>(limit.entering());
        command.addAll(List.of("cat", "/proc/self/cgroup"));
        Process inside = new ProcessBuilder(command).redirectErrorStream(true).start();
        try (limit) {
            limit.add(process.pid());
            assertThat(Path.of("/proc", Long.toString(process.pid()), "cgroup"))
                    .content()
                    .contains(name);
            process.destroyForcibly().waitFor();
            assertThat(new String(inside.getInputStream().readAllBytes(), UTF_8)).contains(name);
            inside.waitFor();
        }
        assertThat(limit.group()).doesNotExist();
    }

    @Test
    void theFirstVersionHasATreeForMemory() throws IOException {
        Path memory = Files.createDirectory(mounted.resolve("memory"));
        Files.createFile(memory.resolve("memory.limit_in_bytes"));
        MemoryLimit limit = MemoryLimit.create(mounted, "mine", BYTES);
        assertThat(limit.group()).isEqualTo(memory.resolve("mine"));
        assertThat(limit.group().resolve("memory.limit_in_bytes")).hasContent("67108864");
    }

    @Test
    void theSecondVersionIsToldByItsControllers() throws IOException {
        Files.writeString(mounted.resolve("cgroup.subtree_control"), "cpu memory pids\n");
        MemoryLimit limit = MemoryLimit.create(mounted, "mine", BYTES);
        assertThat(limit.group()).isEqualTo(mounted.resolve("mine"));
        assertThat(limit.group().resolve("memory.max")).hasContent("67108864");
    }

    @Test
    void aMachineWithoutSaysWhatElseCanBeDone() throws IOException {
        assertThatThrownBy(() -> MemoryLimit.create(mounted, "mine", BYTES))
                .hasMessageContaining("no control group of memory")
                .hasMessageContaining("--docker");
        Files.writeString(mounted.resolve("cgroup.subtree_control"), "cpu pids\n");
        assertThatThrownBy(() -> MemoryLimit.create(mounted, "mine", BYTES))
                .hasMessageContaining("no control group of memory");
    }
}
