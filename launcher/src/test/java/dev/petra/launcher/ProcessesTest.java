// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ProcessesTest {
    private static String stat(String state, int threads) {
        return "23627 (a Z) 1 0 (java) "
                + state
                + " 1 23618 22669 0 -1 4227084 124 0 1 0 0 0 0 0 20 0 "
                + threads
                + " 0 4018219 0 0 18446744073709551615 0 0 0\n";
    }

    @Test
    void aProcessOfWhichThreadsStillEndHasNotEnded() {
        assertThat(Processes.isZombie(stat("S", 40))).isFalse();
        assertThat(Processes.isZombie(stat("S", 1))).isFalse();
        // The first thread has ended, but another still runs, and the ports are still in use.
        assertThat(Processes.isZombie(stat("Z", 2))).isFalse();
        assertThat(Processes.isZombie(stat("Z", 1))).isTrue();
        assertThat(Processes.isZombie("")).isFalse();
    }

    @Test
    void remainsAreTold() throws Exception {
        assertThat(Processes.isZombie(Files.readString(Path.of("/proc/self/stat")))).isFalse();
        // The shell execs sleep, which never waits for the shell's child: it stays a zombie.
        Process parent =
                new ProcessBuilder("sh", "-c", "sh -c 'echo $$; exit 0' & exec sleep 600").start();
        try {
            String child = parent.inputReader().readLine();
            Path stat = Path.of("/proc/" + child + "/stat");
            long start = System.nanoTime();
            while (!isZombie(stat) && System.nanoTime() - start < TimeUnit.MINUTES.toNanos(1))
                Processes.pause();
            assertThat(isZombie(stat)).isTrue();
        } finally {
            parent.destroyForcibly().waitFor();
        }
    }

    /** It waited for the timeout, and said that the node had not ended in time. */
    @Test
    void aProcessThatThisUserMayNotEndIsAnErrorAtOnce() {
        ProcessHandle own = ProcessHandle.current();
        // This process, which takes no signals of its own.
        ProcessHandle others =
                (ProcessHandle)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {ProcessHandle.class},
                                (proxy, method, arguments) ->
                                        method.getName().startsWith("destroy")
                                                ? (Object) false
                                                : method.invoke(own, arguments));

        assertThatThrownBy(() -> Processes.terminate(others, Duration.ofDays(1)))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("process " + others.pid() + " cannot be ended by this user");
        assertThatThrownBy(() -> Processes.kill(others, Duration.ofDays(1)))
                .isInstanceOf(NodeException.class);
    }

    /** What a command runs: its own arguments, in a process of their own. */
    static final class Inherited {
        private Inherited() {}

        public static void main(String[] arguments) {
            System.exit(Processes.runInherited("test", List.of(arguments)));
        }
    }

    /** It went on: timeout(1), for one, ends only the process that it started. */
    @Test
    void whatACommandRunsEndsWithIt() throws Exception {
        Process command =
                new ProcessBuilder(
                                NodeProcess.java(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                Inherited.class.getName(),
                                "sh",
                                "-c",
                                "echo $$; exec sleep 600")
                        .redirectErrorStream(true)
                        .start();
        ProcessHandle child =
                ProcessHandle.of(Long.parseLong(command.inputReader().readLine())).orElseThrow();
        try {
            command.destroy();
            command.waitFor();
            long start = System.nanoTime();
            while (Processes.isAlive(child)) {
                assertThat(System.nanoTime() - start).isLessThan(TimeUnit.MINUTES.toNanos(1));
                Processes.pause();
            }
        } finally {
            child.destroyForcibly();
        }
    }

    private static boolean isZombie(Path stat) throws IOException {
        return Processes.isZombie(Files.readString(stat));
    }
}
