// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MemoryLimitTest {
    private static final long BYTES = 256 << 20;

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
        List<String> command = new ArrayList<>(limit.entering());
        command.addAll(List.of("cat", "/proc/self/cgroup"));
        Process inside = new ProcessBuilder(command).redirectErrorStream(true).start();
        // All that it ever touches is charged to the group.
        Process java =
                new ProcessBuilder(
                                limit.java(mounted).toString(),
                                "-Xms32m",
                                "-Xmx32m",
                                "-XX:+AlwaysPreTouch",
                                "-XshowSettings:none",
                                "-cp",
                                "nothing",
                                "-XX:+PrintCommandLineFlags",
                                "--source",
                                "17",
                                program().toString())
                        .redirectErrorStream(true)
                        .start();
        try (limit) {
            assertThat(new String(inside.getInputStream().readAllBytes(), UTF_8)).contains(name);
            inside.waitFor();
            BufferedReader output =
                    new BufferedReader(new InputStreamReader(java.getInputStream(), UTF_8));
            String line = output.readLine();
            while (line != null && !line.equals("begun")) line = output.readLine();
            assertThat(line).isEqualTo("begun");
            assertThat(limit.processes()).containsExactly(java.pid());
            assertThat(limit.anonymous()).isGreaterThan(32 << 20);
            assertThat(MemoryLimit.all()).contains(limit);
            java.destroyForcibly().waitFor();
        }
        assertThat(limit.group()).doesNotExist();
    }

    private Path program() throws IOException {
        return Files.writeString(
                mounted.resolve("Wait.java"),
                "class Wait { public static void main(String[] a) throws Exception {"
                        + " System.out.println(\"begun\"); Thread.sleep(600_000); } }");
    }

    @Test
    void theFirstVersionHasATreeForMemory() throws IOException {
        Path memory = Files.createDirectory(mounted.resolve("memory"));
        Files.createFile(memory.resolve("memory.limit_in_bytes"));
        MemoryLimit limit = MemoryLimit.create(mounted, "mine", BYTES);
        assertThat(limit.group()).isEqualTo(memory.resolve("mine"));
        assertThat(limit.group().resolve("memory.limit_in_bytes")).hasContent("268435456");
    }

    @Test
    void theSecondVersionIsToldByItsControllers() throws IOException {
        Files.writeString(mounted.resolve("cgroup.subtree_control"), "cpu memory pids\n");
        MemoryLimit limit = MemoryLimit.create(mounted, "mine", BYTES);
        assertThat(limit.group()).isEqualTo(mounted.resolve("mine"));
        assertThat(limit.group().resolve("memory.max")).hasContent("268435456");
    }

    /** The second version fails, as Java says it (EAGAIN), when there is no more to forget. */
    @Test
    void thatThereIsNoMoreToForgetIsNoFailure() throws IOException {
        MemoryLimit limit = new MemoryLimit(mounted);
        Path current = Files.writeString(mounted.resolve("memory.current"), "1000\n");
        Path reclaim = Files.createFile(mounted.resolve("memory.reclaim"));
        List<String> asked = new ArrayList<>();
        limit.forget(
                (file, value) -> {
                    assertThat(file).isEqualTo(reclaim);
                    asked.add(value);
                    if (asked.size() == 2) throw new IllegalStateException("no bytes written");
                    Files.writeString(current, "400\n");
                });
        assertThat(asked).containsExactly("1000", "400");

        asked.clear();
        limit.forget(
                (file, value) -> {
                    asked.add(value);
                    throw new IOException("Resource temporarily unavailable");
                });
        assertThat(asked).hasSize(1);

        asked.clear();
        limit.forget((file, value) -> asked.add(value));
        assertThat(asked).hasSizeBetween(2, 10);

        // By a file of the system's that takes nothing.
        Files.delete(reclaim);
        Files.createSymbolicLink(reclaim, Path.of("/dev/full"));
        limit.forget();

        Files.writeString(current, "0\n");
        limit.forget((file, value) -> fail("there is nothing to forget"));
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
