// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.zip.ZipEntry;
import org.apache.cassandra.service.CassandraDaemon;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code petra run}, with the fake Cassandra in the place of the plugin jar. */
final class RunCommandTest {
    private static final String NODE = "org/apache/cassandra/service/CassandraDaemon";

    @TempDir private Path temp;
    private Path dir = Path.of("");
    private Path awaited = Path.of("");

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    @BeforeEach
    void layOutADistribution() throws IOException {
        dir = temp.resolve("node");
        awaited = temp.resolve("awaited");
        Path lib = Files.createDirectories(temp.resolve("home/lib"));
        Files.createDirectories(lib.resolve("cassandra"));
        Files.createFile(lib.resolve("cassandra/cassandra-all-0.jar"));
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Premain-Class", NODE.replace('/', '.'));
        try (OutputStream file = Files.newOutputStream(lib.resolve("petra.jar"));
                JarOutputStream jar = new JarOutputStream(file, manifest)) {
            jar.putNextEntry(new ZipEntry(NODE + ".class"));
            try (InputStream code =
                    CassandraDaemon.class.getResourceAsStream("CassandraDaemon.class")) {
                Objects.requireNonNull(code).transferTo(jar);
            }
        }
        System.setProperty(Distribution.HOME_PROPERTY, temp.resolve("home").toString());
        int port = FreePorts.next();
        Files.createDirectories(dir.resolve("conf"));
        Files.writeString(
                dir.resolve("conf/jvm.options"),
                "-Xmx64m\n-Dcassandra.jmx.local.port="
                        + FreePorts.next()
                        + "\n-Dfake.port="
                        + port
                        + "\n-Dfake.awaited="
                        + awaited
                        + "\n");
        Files.writeString(
                dir.resolve("conf/cassandra.yaml"),
                "native_transport_port: "
                        + port
                        + "\nstorage_port: "
                        + FreePorts.next()
                        + "\n"
                        + "listen_address: 127.0.0.1\n");
    }

    @AfterEach
    void leaveNoProcess() {
        System.clearProperty(Distribution.HOME_PROPERTY);
        new PidFile(new NodeDirectory(dir)).live().ifPresent(ProcessHandle::destroyForcibly);
    }

    private int petra(String... arguments) {
        return Main.commandLine(new PrintWriter(out, true), new PrintWriter(err, true))
                .execute(arguments);
    }

    private static void await(CompletableFuture<Integer> run, BooleanSupplier done) {
        long start = System.nanoTime();
        while (!done.getAsBoolean()) {
            assertThat(run).isNotDone();
            assertThat(System.nanoTime() - start).isLessThan(TimeUnit.MINUTES.toNanos(1));
            Processes.pause();
        }
    }

    /** It was ended after 10 minutes, in the middle of a long replay of its commit log. */
    @Test
    void aNodeInTheForegroundThatStartsSlowlyIsWaitedFor() throws Exception {
        CompletableFuture<Integer> run =
                CompletableFuture.supplyAsync(
                        () -> petra("run", "--dir", dir.toString(), "--start-timeout", "100ms"));

        await(run, () -> err.toString().contains("is still starting"));
        assertThat(err.toString()).contains("Ctrl-C stops it").hasLineCount(1);
        Files.createFile(awaited);
        await(run, () -> out.toString().contains("CQL is open on 127.0.0.1:"));
        assertThat(petra("stop", "--dir", dir.toString())).isZero();

        assertThat(run.get(1, TimeUnit.MINUTES)).isZero();
    }

    @Test
    void aDetachedNodeThatStartsSlowlyIsAnErrorAndStartsOn() {
        assertThat(petra("run", "--detach", "--dir", dir.toString(), "--start-timeout", "100ms"))
                .isEqualTo(1);

        assertThat(err.toString()).contains("is still starting");
        assertThat(new PidFile(new NodeDirectory(dir)).live()).isPresent();
        assertThat(petra("stop", "--dir", dir.toString())).isZero();
    }
}
