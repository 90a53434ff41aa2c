// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.container;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.github.dockerjava.api.model.HealthCheck;
import dev.petra.docker.PetraContainer;
import dev.petra.launcher.Distribution;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.testcontainers.containers.wait.strategy.Wait;

/** Images whose Cassandra is woven: nodes without the agent. */
class WovenImageIT {
    private static final String IMAGE = "petra:test-woven";
    private static final String PLUGIN_BASE = "petra-base:test-plugin";
    private static final String PLUGIN_IMAGE = "petra:test-plugin-woven";

    private static final Duration REQUEST = Duration.ofSeconds(60);

    @TempDir private Path directory;

    @BeforeAll
    static void findDocker() throws Exception {
        DockerCluster.assumeEngine("WovenImageIT");
    }

    @Test
    @OneOf(variants = "clusters and images for a few statements", of = 4, number = 1)
    void aNodeOfTheImageKeepsItsTableWithoutTheAgent() throws Exception {
        DockerCluster.build("--woven", "--base", DockerCluster.BASE, "--tag", IMAGE);
        try (DockerCluster cluster = new DockerCluster(IMAGE)) {
            cluster.add(WovenImageIT::withVerifiedClasses);
            keepsItsTable(cluster, true);
        }
        NodeTool.Result without =
                Commands.run("docker", "run", "--rm", "--env=PETRA_PLUGIN=false", IMAGE);
        assertThat(without.exitCode()).as(without.output()).isEqualTo(1);
        assertThat(without.output().strip()).endsWith("built without --woven");
    }

    /** In a short run it is not started again: the other test has that. */
    @Test
    @OneOf(variants = "clusters and images for a few statements", of = 4, number = 2)
    void aNodeOfAnotherImageKeepsItsTableWithoutTheAgent() throws Exception {
        buildPluginBase();
        DockerCluster.build("--plugin", "--woven", "--base", PLUGIN_BASE, "--tag", PLUGIN_IMAGE);
        try (DockerCluster cluster = new DockerCluster(PLUGIN_IMAGE)) {
            cluster.add(
                    node -> {
                        withVerifiedClasses(node);
                        node.withCreateContainerCmdModifier(
                                        command ->
                                                command.withHealthcheck(
                                                        new HealthCheck()
                                                                .withTest(List.of("NONE"))))
                                .waitingFor(
                                        Wait.forListeningPort()
                                                .withStartupTimeout(Duration.ofMinutes(5)));
                    });
            keepsItsTable(cluster, DockerCluster.LENGTH > 1);
        }
    }

    private static void withVerifiedClasses(PetraContainer node) {
        node.withEnv("JVM_EXTRA_OPTS", DockerCluster.JVM + " " + TestNode.VERIFIED);
    }

    private static void keepsItsTable(DockerCluster cluster, boolean startedAgain)
            throws Exception {
        try (CqlSession session = cluster.session(ConsistencyLevel.ONE, REQUEST)) {
            TestNode.createKeyspace(session, "ks", 1);
            session.execute(
                    "CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH memtable = 'rocks'");
            session.execute("INSERT INTO ks.t (k, v) VALUES (1, 'kept')");
            session.execute("INSERT INTO ks.t (k, v) VALUES (2, 'deleted')");
            session.execute("DELETE FROM ks.t WHERE k = 2");
        }
        if (startedAgain) {
            cluster.stop(1);
            cluster.startAgain(1);
        }
        int starts = startedAgain ? 2 : 1;
        try (CqlSession session = cluster.session(ConsistencyLevel.ONE, REQUEST)) {
            assertThat(
                            session.execute("SELECT v FROM ks.t").all().stream()
                                    .map(row -> row.getString("v")))
                    .containsExactly("kept");
            assertThat(
                            session.execute("SELECT table_name FROM petra.tables").all().stream()
                                    .map(row -> row.getString("table_name")))
                    .containsExactly("t");
        }
        // Cassandra prints what its JVM was given: the command line may be in a file.
        List<String> log = cluster.node(1).getLogs().lines().toList();
        assertThat(log)
                .filteredOn(line -> line.contains("JVM Arguments: ["))
                .hasSize(starts)
                .noneMatch(line -> line.matches(".*-javaagent:[^ ]*/petra[^/ ]*[.]jar.*"));
        assertThat(log)
                .filteredOn(line -> line.contains("woven into its jar; memtable"))
                .hasSize(starts);
    }

    /**
     * An image laid out as Cassandra's official one: jars in {@code /opt/cassandra/lib},
     * configuration in {@code /etc/cassandra}, and a node whose user is not that of the build.
     */
    private void buildPluginBase() throws IOException, InterruptedException {
        Path lib = Files.createDirectory(directory.resolve("lib"));
        Path cassandra = Distribution.fromSystemProperty().cassandraJar();
        try (DirectoryStream<Path> jars =
                Files.newDirectoryStream(cassandra.resolveSibling("."), "*.jar")) {
            for (Path jar : jars) {
                String name = jar.getFileName().toString();
                Files.copy(jar, lib.resolve(name.replace("cassandra-all-", "apache-cassandra-")));
            }
        }
        Path conf = Files.createDirectories(directory.resolve("conf/triggers")).getParent();
        Files.writeString(
                conf.resolve("cassandra.yaml"),
                """
                cluster_name: 'Test Cluster'
                num_tokens: 4
                partitioner: org.apache.cassandra.dht.Murmur3Partitioner
                seed_provider:
                  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
                    parameters:
                      - seeds: "ADDRESS"
                listen_address: ADDRESS
                rpc_address: ADDRESS
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
                commitlog_sync_period: 10000ms
                """);
        Files.writeString(
                conf.resolve("logback.xml"),
                """
                <configuration>
                  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
                    <encoder><pattern>%-5level %msg%n</pattern></encoder>
                  </appender>
                  <root level="INFO"><appender-ref ref="STDOUT" /></root>
                </configuration>
                """);
        Files.writeString(
                conf.resolve("jvm-server.options"),
                "-Xmx384m\n"
                        + ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                                .filter(option -> option.startsWith("--add-"))
                                .collect(Collectors.joining("\n", "", "\n")));
        Files.writeString(
                directory.resolve("entrypoint"),
                """
                #!/bin/sh
                set -eu
                sed -i "s/ADDRESS/$(hostname -i)/" /etc/cassandra/cassandra.yaml
                exec setpriv --reuid=cassandra --regid=cassandra --clear-groups \\
                  java $(grep -h '^-' /etc/cassandra/jvm-server.options) $JVM_EXTRA_OPTS \\
                  -Dcassandra.storagedir=/var/lib/cassandra -Dcassandra.logdir=/var/lib/cassandra \\
                  -Dcassandra-foreground=yes -cp "/etc/cassandra:/opt/cassandra/lib/*" \\
                  org.apache.cassandra.service.CassandraDaemon
                """);
        Files.writeString(
                directory.resolve("Dockerfile"),
                """
                ARG BASE
                FROM ${BASE}
                RUN useradd --system --user-group cassandra && \\
                    mkdir /var/lib/cassandra && chown cassandra /var/lib/cassandra
                COPY lib /opt/cassandra/lib
                COPY conf /etc/cassandra
                COPY entrypoint /usr/local/bin/entrypoint
                ENTRYPOINT ["sh", "/usr/local/bin/entrypoint"]
                """);
        ProcessBuilder build =
                new ProcessBuilder(
                        "docker",
                        "build",
                        "--build-arg",
                        "BASE=" + DockerCluster.BASE,
                        "-t",
                        PLUGIN_BASE,
                        directory.toString());
        build.environment().putIfAbsent("DOCKER_BUILDKIT", "0");
        DockerCluster.run(build);
    }
}
