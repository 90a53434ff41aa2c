// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import dev.petra.launcher.Distribution;
import dev.petra.launcher.FreePorts;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.UnpackedCassandra;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * A cluster of three nodes gets Petra, another version of it, the first version again, and loses
 * it, as {@code docs/install.md} says: one node after another, while clients write at QUORUM, for
 * which two nodes are enough. All that they wrote is read with a node gone, and at the end.
 */
@EnabledIfSystemProperty(named = "petra.rolling", matches = "true")
class RollingInstallIT {
    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final String OTHER_VERSION = "0.0.1-other";

    private static final Step NOTHING = node -> {};

    @TempDir private Path directory;
    private final List<UnpackedCassandra> nodes = new ArrayList<>();

    /** What is done to a node. */
    private interface Step {
        void take(UnpackedCassandra node) throws Exception;
    }

    /** Fifteen starts of nodes. */
    @Test
    @Timeout(value = 1, unit = TimeUnit.HOURS)
    void threeNodesOneAfterAnother() throws Exception {
        try {
            startThree();
            try (CqlSession session = session()) {
                TestNode.createKeyspace(session, "ks", 3);
                session.execute(Writer.table("ks.moved"));
                List<Writer> writers = new ArrayList<>();
                for (int w = 0; w < 2; w++) writers.add(writer(session, "ks.moved", w));

                roll(
                        session,
                        writers,
                        node ->
                                assertThat(node.petra(0, "install", "--yes", "--memory", "128MiB"))
                                        .contains("Petra is installed"),
                        NOTHING);
                session.execute(Writer.table("ks.own") + " WITH memtable = 'rocks'");
                session.execute("ALTER TABLE ks.moved WITH memtable = 'rocks'");
                for (int w = 2; w < 4; w++) writers.add(writer(session, "ks.own", w));
                awaitMigrations();

                Path other = otherRelease();
                roll(
                        session,
                        writers,
                        node -> {
                            assertThat(node.petra(other, 1, "install", "--yes"))
                                    .contains("--replace");
                            node.petra(other, 0, "install", "--yes", "--replace");
                        },
                        NOTHING);
                for (UnpackedCassandra node : nodes)
                    assertThat(node.logSinceStart()).contains(OTHER_VERSION);
                roll(
                        session,
                        writers,
                        node -> node.petra(0, "install", "--yes", "--replace"),
                        NOTHING);
                for (UnpackedCassandra node : nodes)
                    assertThat(node.logSinceStart()).doesNotContain(OTHER_VERSION);

                for (String table : List.of("ks.moved", "ks.own"))
                    session.execute("ALTER TABLE " + table + " WITH memtable = 'default'");
                awaitMigrations();
                roll(
                        session,
                        writers,
                        node ->
                                assertThat(node.petra(1, "uninstall", "--yes"))
                                        .contains("stop it first"),
                        node -> node.petra(0, "uninstall", "--yes"));

                for (Writer writer : writers) {
                    writer.halt();
                    writer.join();
                    assertThat(writer.failure()).isNull();
                    writer.check(session);
                }
            }
            for (UnpackedCassandra node : nodes) {
                assertThat(node.logSinceStart()).doesNotContain("Petra");
                node.stop();
            }
        } finally {
            nodes.forEach(UnpackedCassandra::close);
        }
    }

    private void startThree() throws Exception {
        int seedPort = FreePorts.next();
        for (int i = 0; i < 3; i++) {
            Path own = Files.createDirectory(directory.resolve("node" + i));
            nodes.add(new UnpackedCassandra(own, i == 0 ? seedPort : FreePorts.next(), seedPort));
            nodes.get(i).start();
            awaitUp();
        }
    }

    /**
     * Restarts each node, one after another; all the while the writers go on.
     *
     * @param running what is done to a node before, while it runs
     * @param stopped what is done to it while it does not
     */
    private void roll(CqlSession session, List<Writer> writers, Step running, Step stopped)
            throws Exception {
        for (UnpackedCassandra node : nodes) {
            running.take(node);
            assertThat(node.nodetool("drain").exitCode()).isZero();
            node.stop();
            List<Integer> before = writers.stream().map(Writer::acknowledged).toList();
            stopped.take(node);
            // With one node gone.
            for (int i = 0; i < before.size(); i++) awaitStep(writers.get(i), before.get(i) + 1);
            for (Writer writer : writers) writer.checkMeanwhile(session);
            node.start();
            awaitUp();
        }
    }

    private static void awaitStep(Writer writer, int step) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (writer.acknowledged() < step) {
            writer.assertIsWriting();
            assertThat(System.nanoTime()).as("%s, step %s", writer.getName(), step).isLessThan(end);
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    /** Waits until each node sees all that were started up. */
    private void awaitUp() throws InterruptedException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        for (UnpackedCassandra node : nodes)
            while (true) {
                String status = node.nodetool("status").output();
                if (TestNode.isRing(status, nodes.size())) break;
                assertThat(System.nanoTime()).as(status).isLessThan(end);
                TimeUnit.MILLISECONDS.sleep(200);
            }
    }

    private void awaitMigrations() throws Exception {
        for (UnpackedCassandra node : nodes)
            try (CqlSession alone = session(List.of(node), ConsistencyLevel.ONE)) {
                TestNode.awaitMigrations(alone, PATIENCE);
            }
    }

    private CqlSession session() {
        return session(nodes, ConsistencyLevel.QUORUM);
    }

    private static CqlSession session(
            List<UnpackedCassandra> contacts, ConsistencyLevel consistency) {
        return CqlSession.builder()
                .addContactPoints(
                        contacts.stream()
                                .map(
                                        node ->
                                                new InetSocketAddress(
                                                        InetAddress.getLoopbackAddress(),
                                                        node.cqlPort()))
                                .toList())
                .withLocalDatacenter("datacenter1")
                .withConfigLoader(
                        TestNode.options()
                                .withDuration(
                                        DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
                                .withDuration(
                                        DefaultDriverOption.RECONNECTION_MAX_DELAY,
                                        Duration.ofSeconds(5))
                                .withString(
                                        DefaultDriverOption.REQUEST_CONSISTENCY, consistency.name())
                                .build())
                .build();
    }

    private static Writer writer(CqlSession session, String table, int number) throws Exception {
        Writer writer = new Writer(session, table, 0, number).persistent();
        writer.start();
        writer.started.await();
        return writer;
    }

    /** A release that differs in its version alone; returns its command. */
    private Path otherRelease() throws IOException {
        Path home = Files.createDirectory(directory.resolve("other"));
        Path lib = Distribution.fromSystemProperty().home().resolve("lib");
        Files.createDirectory(home.resolve("lib"));
        Files.createSymbolicLink(home.resolve("lib/client"), lib.resolve("client"));
        Path command = Files.createDirectory(home.resolve("bin")).resolve("petra");
        Files.copy(Commands.PETRA, command);
        try (JarFile from = new JarFile(lib.resolve("petra.jar").toFile());
                OutputStream file = Files.newOutputStream(home.resolve("lib/petra.jar"))) {
            Manifest manifest = new Manifest(from.getManifest());
            manifest.getMainAttributes().put(Attributes.Name.IMPLEMENTATION_VERSION, OTHER_VERSION);
            try (JarOutputStream to = new JarOutputStream(file, manifest)) {
                Enumeration<JarEntry> entries = from.entries();
                while (entries.hasMoreElements()) {
                    JarEntry entry = entries.nextElement();
                    if (entry.getName().equals(JarFile.MANIFEST_NAME)) continue;
                    to.putNextEntry(new JarEntry(entry.getName()));
                    try (InputStream in = from.getInputStream(entry)) {
                        in.transferTo(to);
                    }
                }
            }
        }
        return command;
    }
}
