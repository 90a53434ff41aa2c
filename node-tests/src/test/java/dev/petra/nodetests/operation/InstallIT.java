// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.launcher.Distribution;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.TableFiles;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * {@code petra install} and {@code petra uninstall} on a Cassandra laid out as its tarball, whose
 * start script takes its options and its class path from the files that they change.
 */
@DisabledIfSystemProperty(named = "petra.woven", matches = "true")
class InstallIT {
    private static final long BOOT_SECONDS = 180;
    private static final int STOPPED = 143;

    @TempDir private Path directory;
    private final int port = FreePorts.next();
    private Path cassandra = Path.of("");
    private Process node;

    @AfterEach
    void endNode() {
        if (node != null) node.destroyForcibly();
    }

    @Test
    void aNodeGetsPetraAndLosesItAgain() throws Exception {
        unpack();
        SortedMap<String, String> stock = files();

        assertThat(petra(1, "install")).contains("# BEGIN petra", "there is no terminal to ask on");
        assertThat(petra(0, "install", "--dry-run"))
                .contains("+    rocks:", "+-javaagent:" + cassandra.resolve("lib/petra-cassandra"));
        assertThat(files()).isEqualTo(stock);
        assertThat(petra(0, "install", "--yes", "--memory", "128MiB"))
                .contains("+        memory: 128MiB", "Petra is installed. Restart the node");
        assertThat(petra(0, "install", "--yes")).contains("nothing to do");

        start();
        assertThat(log()).contains("woven by the agent; memtable configurations [rocks]");
        cql(
                "CREATE KEYSPACE ks WITH replication ="
                        + " {'class': 'SimpleStrategy', 'replication_factor': 1};"
                        + " CREATE TABLE ks.own (k int PRIMARY KEY, v text)"
                        + " WITH memtable = 'rocks';"
                        + " CREATE TABLE ks.moved (k int PRIMARY KEY, v text)"
                        + " WITH memtable = 'rocks';"
                        + " CREATE TABLE ks.stock (k int PRIMARY KEY, v text);"
                        + " INSERT INTO ks.moved (k, v) VALUES (1, 'out of the engine');"
                        + " INSERT INTO ks.own (k, v) VALUES (1, 'in the engine');"
                        + " INSERT INTO ks.stock (k, v) VALUES (1, 'in an SSTable')");
        SortedMap<String, String> installed = files();
        assertThat(petra(1, "uninstall", "--yes"))
                .contains("a node runs with ", "(pid " + node.pid() + ")");
        stop();
        assertThat(petra(1, "uninstall", "--yes"))
                .contains("tables in Petra that could not be read any more: ks.moved, ks.own. ");
        assertThat(files()).isEqualTo(installed);

        // As a package update does that puts its own configuration in place.
        for (String file : List.of("cassandra.yaml", "jvm-server.options"))
            Files.writeString(cassandra.resolve("conf/" + file), stock.get("conf/" + file));
        launch();
        assertThat(node.waitFor(BOOT_SECONDS, TimeUnit.SECONDS)).isTrue();
        assertThat(node.exitValue()).isEqualTo(3);
        assertThat(log()).contains("Detected unreadable sstables", TableFiles.GUARD);
        assertThat(petra(0, "install", "--yes", "--memory", "128MiB"))
                .contains("Petra is installed. Restart the node");
        assertThat(files()).isEqualTo(installed);

        start();
        assertThat(cql("SELECT v FROM ks.own")).contains("in the engine");
        cql("DROP TABLE ks.own; ALTER TABLE ks.moved WITH memtable = 'default'");
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(BOOT_SECONDS);
        while (cql("SELECT table_name FROM petra.migrations").contains("moved")) {
            assertThat(System.nanoTime()).as(log()).isLessThan(end);
            Thread.sleep(200);
        }
        stop();
        assertThat(petra(0, "uninstall", "--yes"))
                .contains("1 snapshots of tables in Petra stay", "Petra is uninstalled.");
        assertThat(files()).isEqualTo(stock);
        assertThat(petra(0, "uninstall", "--yes")).contains("nothing to do");

        start();
        assertThat(log().substring(log().lastIndexOf("JVM vendor"))).doesNotContain("Petra");
        assertThat(cql("SELECT v FROM ks.stock")).contains("in an SSTable");
        assertThat(cql("SELECT v FROM ks.moved")).contains("out of the engine");
        assertThat(
                        run(
                                1,
                                "cql",
                                "--port",
                                "" + port,
                                "CREATE TABLE ks.x (k int PRIMARY KEY) WITH memtable = 'rocks'"))
                .contains("Memtable configuration \"rocks\" not found");
        stop();
    }

    /** The jars are links, and the settings those of the tarball as far as the test needs them. */
    private void unpack() throws IOException {
        cassandra = Files.createDirectories(directory.resolve("apache-cassandra-5.0.9"));
        Path lib = Files.createDirectory(cassandra.resolve("lib"));
        Path jars = Distribution.fromSystemProperty().home().resolve("lib/cassandra");
        try (DirectoryStream<Path> all = Files.newDirectoryStream(jars, "*.jar")) {
            for (Path jar : all)
                Files.createSymbolicLink(lib.resolve(jar.getFileName()), jar.toRealPath());
        }
        Path conf = Files.createDirectories(cassandra.resolve("conf/triggers")).getParent();
        Files.writeString(
                conf.resolve("cassandra.yaml"),
                """
                cluster_name: 'Test Cluster'
                num_tokens: 4
                partitioner: org.apache.cassandra.dht.Murmur3Partitioner
                seed_provider:
                  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
                    parameters:
                      - seeds: "127.0.0.1:%1$d"
                listen_address: 127.0.0.1
                storage_port: %1$d
                rpc_address: 127.0.0.1
                native_transport_port: %2$d
                endpoint_snitch: SimpleSnitch
                # Supported memtable implementations and selected default.
                memtable:
                  configurations:
                    skiplist:
                      class_name: SkipListMemtable
                    trie:
                      class_name: TrieMemtable
                    default:
                      inherits: skiplist
                commitlog_sync: periodic
                commitlog_sync_period: 10000ms\
                """
                        .formatted(FreePorts.next(), port));
        Files.writeString(
                conf.resolve("jvm-server.options"),
                """
                # - lines that do not start with '-' will be ignored
                -Xmx512m
                -XX:+UseSerialGC
                -XX:TieredStopAtLevel=1
                -Dcassandra.jmx.local.port=%d
                -Dcassandra.skip_wait_for_gossip_to_settle=0
                -Dcassandra.ring_delay_ms=1000\
                """
                        .formatted(FreePorts.next()));
        List<String> access = new ArrayList<>();
        for (String option : ManagementFactory.getRuntimeMXBean().getInputArguments())
            if (option.startsWith("--add-")) access.add(option);
        assertThat(access).isNotEmpty();
        Files.writeString(conf.resolve("jvm17-server.options"), String.join("\n", access) + "\n");
        Path bin = Files.createDirectory(cassandra.resolve("bin"));
        Files.writeString(
                bin.resolve("cassandra.in.sh"),
                """
                CASSANDRA_HOME="`dirname "$0"`/.."
                if [ "x$CASSANDRA_CONF" = "x" ]; then
                    CASSANDRA_CONF="$CASSANDRA_HOME/conf"
                fi
                cassandra_storagedir="$CASSANDRA_HOME/data"
                CLASSPATH="$CASSANDRA_CONF"
                for jar in "$CASSANDRA_HOME"/lib/*.jar; do
                    CLASSPATH="$CLASSPATH:$jar"
                done
                for option in `grep -h "^-" $CASSANDRA_CONF/jvm-server.options $CASSANDRA_CONF/jvm17-server.options`
                do
                    JVM_OPTS="$JVM_OPTS $option"
                done
                """);
        Files.writeString(
                bin.resolve("cassandra"),
                """
                #!/bin/sh
                . "`dirname "$0"`/cassandra.in.sh"
                exec "%s" $JVM_OPTS -Dcassandra.logdir="$CASSANDRA_HOME/logs" \\
                    -Dcassandra.storagedir="$cassandra_storagedir" -Dcassandra-foreground=yes \\
                    -cp "$CLASSPATH" org.apache.cassandra.service.CassandraDaemon
                """
                        .formatted(Path.of(System.getProperty("java.home"), "bin", "java")));
    }

    /** What is in the folders that an installation changes. */
    private SortedMap<String, String> files() throws IOException {
        SortedMap<String, String> all = new TreeMap<>();
        for (String folder : List.of("bin", "conf", "lib"))
            try (Stream<Path> paths = Files.walk(cassandra.resolve(folder))) {
                for (Path path : paths.toList())
                    all.put(
                            cassandra.relativize(path).toString(),
                            folder.equals("lib") || Files.isDirectory(path)
                                    ? ""
                                    : Files.readString(path));
            }
        return all;
    }

    private void launch() throws IOException {
        ProcessBuilder script =
                new ProcessBuilder("sh", cassandra.resolve("bin/cassandra").toString())
                        .redirectErrorStream(true)
                        .redirectOutput(
                                ProcessBuilder.Redirect.appendTo(
                                        directory.resolve("output.log").toFile()));
        node = script.start();
    }

    private void start() throws Exception {
        launch();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(BOOT_SECONDS);
        while (!isOpen()) {
            assertThat(node.isAlive()).as(log()).isTrue();
            assertThat(System.nanoTime()).as(log()).isLessThan(end);
            Thread.sleep(100);
        }
    }

    private boolean isOpen() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1000);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    private void stop() throws InterruptedException {
        node.destroy();
        assertThat(node.waitFor(2, TimeUnit.MINUTES)).isTrue();
        assertThat(node.exitValue()).isEqualTo(STOPPED);
    }

    private String log() throws IOException {
        return Files.readString(directory.resolve("output.log"));
    }

    private String cql(String statements) throws Exception {
        return run(0, "cql", "--port", Integer.toString(port), statements);
    }

    private String petra(int exitCode, String verb, String... options) throws Exception {
        List<String> arguments =
                new ArrayList<>(List.of(verb, "--cassandra", cassandra.toString()));
        arguments.addAll(List.of(options));
        return run(exitCode, arguments.toArray(String[]::new));
    }

    private static String run(int exitCode, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(Commands.PETRA.toString()));
        command.addAll(List.of(arguments));
        NodeTool.Result result = Commands.run(command.toArray(String[]::new));
        assertThat(result.exitCode()).as(result.output()).isEqualTo(exitCode);
        return result.output();
    }
}
