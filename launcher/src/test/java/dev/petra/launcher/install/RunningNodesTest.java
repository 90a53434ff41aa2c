// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which processes are nodes that run with a jar, by what {@code /proc} says of them. */
class RunningNodesTest {
    private static final String DAEMON = "org.apache.cassandra.service.CassandraDaemon";

    @TempDir Path directory;

    private Path processes;
    private Path jar;

    @BeforeEach
    void create() throws IOException {
        processes = Files.createDirectory(directory.resolve("proc"));
        jar = Files.writeString(directory.resolve("petra.jar"), "a jar");
    }

    private void process(Path root, Path workingDirectory, String... arguments) throws IOException {
        Path process = Files.createDirectory(processes.resolve("17"));
        Files.createSymbolicLink(process.resolve("root"), root);
        Files.createSymbolicLink(process.resolve("cwd"), workingDirectory);
        Files.writeString(process.resolve("cmdline"), String.join("\0", arguments));
    }

    private boolean isFound() {
        return RunningNodes.find(processes, Set.of(agent()), jar).isPresent();
    }

    private String agent() {
        return "-javaagent:" + jar;
    }

    @Test
    void oneWithTheAgent() throws IOException {
        process(Path.of("/"), Path.of("/"), "java", agent(), "-jar", "anything.jar");
        assertThat(isFound()).isTrue();
    }

    @Test
    void oneWithTheJarOnItsClassPathByAnyName() throws IOException {
        Path link = Files.createSymbolicLink(directory.resolve("link.jar"), jar);
        process(Path.of("/"), Path.of("/"), "java", "-cp", "/other.jar:" + link, DAEMON);
        assertThat(isFound()).isTrue();
    }

    @Test
    void oneWithTheJarBesideWhereItWasStarted() throws IOException {
        process(Path.of("/"), directory, "java", "-cp", "petra.jar", DAEMON);
        assertThat(isFound()).isTrue();
    }

    @Test
    void notAToolWithTheJarOnItsClassPath() throws IOException {
        process(Path.of("/"), Path.of("/"), "java", "-cp", jar.toString(), "NodeTool");
        assertThat(isFound()).isFalse();
    }

    /** Another file, which has the same path there. */
    @Test
    void notOneInAContainerWithAJarOfItsOwn() throws IOException {
        Path root = Files.createDirectory(directory.resolve("container"));
        Path own = root.resolve(Path.of("/").relativize(jar));
        Files.createDirectories(own.getParent());
        Files.writeString(own, "another jar");
        process(root, root, "java", agent(), "-cp", jar.toString(), DAEMON);
        assertThat(isFound()).isFalse();
    }

    /** As by a bind mount, whatever its path is there. */
    @Test
    void oneInAContainerThatHasThisJar() throws IOException {
        Path root = Files.createDirectory(directory.resolve("container"));
        process(root, root, "java", "-cp", "/lib/p.jar", DAEMON);
        assertThat(isFound()).isFalse();
        Path open = Files.createDirectory(processes.resolve("17").resolve("fd"));
        Files.createSymbolicLink(open.resolve("0"), directory.resolve("gone"));
        Files.createSymbolicLink(open.resolve("7"), jar);
        assertThat(isFound()).isTrue();
    }

    /** Whose links this user may not follow. */
    @Test
    void oneOfAnotherUserByItsOptions() throws IOException {
        process(directory.resolve("gone"), directory.resolve("gone"), "java", agent(), DAEMON);
        assertThat(isFound()).isTrue();
    }
}
