// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A port that was chosen must still be free when it is bound later. */
class FreePortsTest {

    @Test
    void noPortIsGivenOutTwiceOrFromThoseOfOutgoingConnections() throws IOException {
        int ephemeral =
                Integer.parseInt(
                        Files.readString(Path.of("/proc/sys/net/ipv4/ip_local_port_range"))
                                .strip()
                                .split("\\s+", -1)[0]);
        Set<Integer> given = new HashSet<>();
        for (int i = 0; i < 200; i++) {
            int port = FreePorts.next();
            assertThat(given.add(port)).as("port %s is new", port).isTrue();
            assertThat(port).isLessThan(Math.max(20_000, ephemeral));
        }
    }

    @Test
    void aPortInUseIsPassedOver() throws IOException {
        for (int tries = 0; tries < 100; tries++) {
            int next = FreePorts.next() + 1;
            try (ServerSocket taken = new ServerSocket(next, 1, InetAddress.getLoopbackAddress())) {
                assertThat(FreePorts.next()).isNotEqualTo(taken.getLocalPort());
                return;
            } catch (BindException e) {
                // Another program has it: by another one.
            }
        }
        throw new AssertionError("no port could be taken");
    }

    /** Another JVM that tries the same ports at the same time. */
    @Test
    void anotherProcessIsGivenOtherPorts() throws Exception {
        List<Integer> mine = List.of(FreePorts.next(), FreePorts.next(), FreePorts.next());
        Process other =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                FreePortsTest.class.getName(),
                                mine.get(0).toString())
                        .redirectErrorStream(true)
                        .start();
        String theirs = new String(other.getInputStream().readAllBytes(), UTF_8).strip();
        assertThat(other.waitFor()).as(theirs).isZero();
        assertThat(Integer.parseInt(theirs)).isNotIn(mine);
    }

    @Test
    void portsOfAllUsersCanBeLockedAndLeaveOneFileEach(@TempDir Path temporary) throws IOException {
        for (String user : List.of("root", "DOMAIN\\user"))
            try (FileChannel channel = UserTemp.open(temporary, user, FreePorts.FILE)) {
                assertThat(channel.tryLock(10_000, 1, false)).isNotNull();
            }
        try (Stream<Path> directories = Files.list(temporary)) {
            assertThat(directories)
                    .map(directory -> directory.getFileName().toString())
                    .containsExactlyInAnyOrder("petra-root", "petra-DOMAIN_user");
        }
        FreePorts.next();
        FreePorts.next();
        Path own =
                Path.of(System.getProperty("java.io.tmpdir"))
                        .resolve("petra-" + System.getProperty("user.name"));
        assertThat(own.resolve(FreePorts.FILE)).isRegularFile();
        try (Stream<Path> files = Files.list(own)) {
            assertThat(files).noneMatch(file -> file.getFileName().toString().matches("\\d+"));
        }
    }

    @Test
    void whereNoFileCanBeMadeTheMessageSaysWhatToDo(@TempDir Path temporary) throws IOException {
        Files.createFile(temporary.resolve("petra-me"));
        assertThatThrownBy(() -> UserTemp.open(temporary, "me", FreePorts.FILE))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining(temporary.resolve("petra-me").toString())
                .hasMessageContaining("java.io.tmpdir");
    }

    /** Prints the first free port from a given one on. */
    public static void main(String[] args) {
        FreePorts.startAt(Integer.parseInt(args[0]));
        System.out.println(FreePorts.next());
    }
}
