// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code bin/petra}, and the scripts of the image. */
final class ScriptsTest {
    private static final byte[] OPTIONS = {4, 0, 0, 0, 5, 0, 0, 0, 0};
    private static final byte[] SUPPORTED = {(byte) 0x84, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0};

    @TempDir private Path temp;

    private record Ended(int exitCode, String output) {}

    private static Ended run(Path folder, Map<String, String> variables, String... command)
            throws IOException, InterruptedException {
        ProcessBuilder builder =
                new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true);
        builder.environment().putAll(variables);
        Process process = builder.start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return new Ended(process.waitFor(), output);
    }

    private static void script(Path file, String... lines) throws IOException {
        Files.createDirectories(file.resolveSibling("."));
        Files.writeString(file, "#!/bin/sh\n" + String.join("\n", lines) + "\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /** With it, cd goes to another folder of that name, and prints it. */
    @Test
    void petraFindsItsFolderWhateverCdpathIs() throws Exception {
        Path home = Files.createDirectories(temp.resolve("release")).toRealPath();
        Files.createDirectories(home.resolve("lib"));
        Files.createFile(home.resolve("lib/petra.jar"));
        Files.createDirectories(home.resolve("bin"));
        Files.copy(Path.of("../bin/petra"), home.resolve("bin/petra"));
        Path java = temp.resolve("jdk/bin/java");
        script(
                java,
                "[ \"$1\" != -version ] || { echo 'openjdk version \"17.0.1\"'; exit; }",
                "printf '%s\\n' \"$@\"");
        Files.createDirectories(temp.resolve("elsewhere/bin"));

        Ended petra =
                run(
                        home,
                        Map.of(
                                "CDPATH",
                                temp.resolve("elsewhere").toString(),
                                "JAVA_HOME",
                                temp.resolve("jdk").toString()),
                        "bin/petra",
                        "stop");

        assertThat(petra.output().lines())
                .contains("-Dpetra.home=" + home, "dev.petra.launcher.Main", "stop");
        assertThat(petra.exitCode()).isZero();
    }

    /** The libraries that read Cassandra's logs are Cassandra's. */
    @Test
    void aReleaseReplaysWithTheCassandraThatIsNamed() throws Exception {
        Path home = Files.createDirectories(temp.resolve("release")).toRealPath();
        Files.createDirectories(home.resolve("lib"));
        Files.createFile(home.resolve("lib/petra.jar"));
        Files.createDirectories(home.resolve("bin"));
        Files.copy(Path.of("../bin/petra"), home.resolve("bin/petra"));
        script(
                temp.resolve("jdk/bin/java"),
                "[ \"$1\" != -version ] || { echo 'openjdk version \"17.0.1\"'; exit; }",
                "printf '%s\\n' \"$@\"");
        Path cassandra = temp.resolve("a cassandra");
        Path libraries = Files.createDirectories(cassandra.resolve("lib"));
        Map<String, String> variables =
                Map.of(
                        "JAVA_HOME",
                        temp.resolve("jdk").toString(),
                        "CASSANDRA_HOME",
                        cassandra.toString());

        Ended lacking = run(home, variables, "bin/petra", "replay");
        assertThat(lacking.output()).contains("no chronicle-bytes in", "set CASSANDRA_HOME");
        assertThat(lacking.exitCode()).isEqualTo(1);

        for (String jar :
                List.of(
                        "chronicle-bytes",
                        "chronicle-core",
                        "chronicle-queue",
                        "chronicle-threads",
                        "chronicle-wire",
                        "affinity",
                        "posix",
                        "jnr-ffi",
                        "jnr-constants",
                        "jna")) Files.createFile(libraries.resolve(jar + "-1.2.jar"));
        Ended replay = run(home, variables, "bin/petra", "replay", "--log", "a log");
        assertThat(replay.exitCode()).as(replay.output()).isZero();
        assertThat(replay.output().lines())
                .contains(
                        "-Dpetra.home=" + home,
                        "-Dpetra.cassandra=" + cassandra,
                        "dev.petra.jmh.Replay",
                        "--log",
                        "a log")
                .anyMatch(
                        line ->
                                line.startsWith(home + "/lib/bench/petra-jmh.jar:")
                                        && line.contains(
                                                ":" + libraries + "/chronicle-queue-1.2.jar:"));
        Ended bench = run(home, variables, "bin/petra", "bench");
        assertThat(bench.output()).contains("'bench' needs JMH");
        assertThat(bench.exitCode()).isEqualTo(1);
    }

    /** Each start left one behind, with the passwords that may be in it. */
    @Test
    void theEntryPointLeavesNoFileOfArguments() throws Exception {
        Path bin = temp.resolve("path");
        Path files = Files.createDirectories(temp.resolve("tmp"));
        script(
                bin.resolve("petra"),
                "[ -z \"$FAIL\" ] || exit 1",
                "[ \"$1 $2 $4\" = 'container --dir --arguments' ] || exit 2",
                "echo -Dsecret=1 >\"$5\"");
        script(bin.resolve("java"), "echo \"$@\"", "cat \"${1#@}\"");
        String entrypoint = Path.of("../docker/bin/entrypoint").toRealPath().toString();
        String path = bin + ":" + System.getenv("PATH");

        for (String fail : List.of("", "1")) {
            Ended started =
                    run(
                            temp,
                            Map.of("PATH", path, "TMPDIR", files.toString(), "FAIL", fail),
                            entrypoint,
                            "cassandra");

            assertThat(started.exitCode()).as(started.output()).isEqualTo(fail.isEmpty() ? 0 : 1);
            if (fail.isEmpty()) assertThat(started.output()).endsWith("-Dsecret=1\n");
            try (Stream<Path> left = Files.list(files)) {
                assertThat(left).isEmpty();
            }
        }
    }

    /** They were dropped without a word. */
    @Test
    void theEntryPointPassesOnWhatFollowsCassandra() throws Exception {
        Path bin = temp.resolve("path");
        script(bin.resolve("petra"), "shift 5", "printf '<%s>' \"$@\"");
        script(bin.resolve("java"), "exit 0");
        script(bin.resolve("other"), "printf 'other<%s>' \"$@\"");
        String entrypoint = Path.of("../docker/bin/entrypoint").toRealPath().toString();
        Map<String, String> variables =
                Map.of("PATH", bin + ":" + System.getenv("PATH"), "TMPDIR", temp.toString());

        assertThat(run(temp, variables, entrypoint).output()).isEqualTo("<-->");
        assertThat(run(temp, variables, entrypoint, "cassandra").output()).isEqualTo("<-->");
        assertThat(run(temp, variables, entrypoint, "cassandra", "-f", "-Da=b c").output())
                .isEqualTo("<--><-f><-Da=b c>");
        // As with Cassandra's official image.
        assertThat(run(temp, variables, entrypoint, "-f").output()).isEqualTo("<--><-f>");
        assertThat(run(temp, variables, entrypoint, "other", "-f").output()).isEqualTo("other<-f>");
    }

    /** The JVM must be able to read arguments from a file without a name. */
    @Test
    void aJvmReadsItsArgumentsFromADescriptor() throws Exception {
        Path arguments = Files.writeString(temp.resolve("arguments"), "\"-version\"\n");

        Ended java =
                run(
                        temp,
                        Map.of(),
                        "sh",
                        "-c",
                        "exec 3<arguments; rm arguments; exec \"$0\" @/dev/fd/3",
                        NodeProcess.java());

        assertThat(java.output()).contains("\"17");
        assertThat(java.exitCode()).isZero();
        assertThat(arguments).doesNotExist();
    }

    private int health(int port, String kind) throws IOException, InterruptedException {
        Path file =
                Files.writeString(
                        temp.resolve("healthcheck"), "127.0.0.1 " + port + " " + kind + "\n");
        Ended check =
                run(
                        temp,
                        Map.of(),
                        Path.of("../docker/bin/healthcheck").toRealPath().toString(),
                        file.toString());
        assertThat(check.output().isEmpty()).as(check.output()).isEqualTo(check.exitCode() == 0);
        return check.exitCode();
    }

    /** Answers one connection as a server does. */
    private static CompletableFuture<Void> once(ServerSocket server, byte[] answer) {
        return CompletableFuture.runAsync(
                () -> {
                    try (Socket client = server.accept();
                            InputStream in = client.getInputStream();
                            OutputStream out = client.getOutputStream()) {
                        assertThat(in.readNBytes(OPTIONS.length)).isEqualTo(OPTIONS);
                        out.write(answer);
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                });
    }

    @Test
    void aNodeThatAnswersOptionsIsHealthyOnWhateverPort() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Void> answered = once(server, SUPPORTED);
            assertThat(health(server.getLocalPort(), "cql")).isZero();
            answered.join();

            answered = once(server, new byte[] {(byte) 0x84, 0, 0, 0, 0});
            assertThat(health(server.getLocalPort(), "cql")).isEqualTo(1);
            answered.join();
        }
    }

    @Test
    void aNodeThatTakesTlsOnlyIsHealthyIfItTakesConnections() throws Exception {
        int port;
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = server.getLocalPort();
            assertThat(health(port, "tls")).isZero();
        }
        assertThat(health(port, "tls")).isEqualTo(1);
    }

    /** As many images as were built so far. */
    private long built(Path repository, String... options) throws Exception {
        List<String> command =
                Stream.concat(
                                Stream.of(repository.resolve("docker/build").toString()),
                                Stream.of(options))
                        .toList();
        String path = temp.resolve("path") + ":" + System.getenv("PATH");
        Ended build = run(temp, Map.of("PATH", path), command.toArray(String[]::new));
        assertThat(build.exitCode()).as(build.output()).isZero();
        try (Stream<String> builds = Files.lines(temp.resolve("builds"))) {
            return builds.count();
        }
    }

    @Test
    void anImageThatIsMadeOfTheSameIsKeptIfThatIsAskedFor() throws Exception {
        Path repository = temp.resolve("repository");
        script(repository.resolve("bin/petra"), "exit 0");
        Files.copy(
                Path.of("../docker/build"),
                Files.createDirectories(repository.resolve("docker")).resolve("build"));
        Path dockerfile =
                Files.writeString(
                        repository.resolve("docker/Dockerfile"), "ARG BASE=base\nFROM ${BASE}\n");
        Path jar = repository.resolve("launcher/target/petra/lib/petra.jar");
        for (Path file :
                List.of(
                        jar,
                        jar.resolveSibling("exporter/exporter.jar"),
                        repository.resolve("docker/bin/entrypoint"),
                        repository.resolve("docker/memtable.yaml"),
                        repository.resolve("docs/grafana/jmx-exporter.yaml"),
                        repository.resolve("pom.xml"))) {
            Files.createDirectories(file.resolveSibling("."));
            Files.writeString(file, "<version>1</version>");
        }
        Path base = Files.writeString(temp.resolve("base"), "sha256:1");
        script(
                temp.resolve("path/docker"),
                "case $1 in",
                "  image) case $* in *Labels*) cat label ;; *) cat base ;; esac ;;",
                "  build)",
                "    echo >>builds",
                "    for each; do",
                "      case $each in dev.petra.made-of=*) echo \"${each#*=}\" >label ;; esac",
                "    done ;;",
                "esac");

        assertThat(built(repository, "--keep")).isEqualTo(1);
        assertThat(built(repository, "--keep")).isEqualTo(1);
        assertThat(built(repository)).isEqualTo(2);
        assertThat(built(repository, "--keep")).isEqualTo(2);
        int builds = 2;
        for (Path changed : List.of(base, dockerfile, jar)) {
            Files.writeString(changed, "ARG BASE=other\n");
            assertThat(built(repository, "--keep")).as("%s", changed).isEqualTo(++builds);
            assertThat(built(repository, "--keep")).as("%s", changed).isEqualTo(builds);
        }
    }
}
