// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.launcher.Distribution;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeException;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TableLife;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WovenHome;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Nodes from a jar that was woven, without the agent, as most nodes of tests are; and what refuses
 * them.
 */
class WovenIT {
    @TempDir Path directory;

    @Test
    @OneOf(variants = "WovenIT", of = 2, number = 1)
    void aTableLivesWithoutTheAgent() throws Exception {
        Path home = directory.resolve("home");
        String said = WovenHome.make(WovenHome.STOCK, home);
        assertThat(said)
                .contains("woven   org.apache.cassandra.service.StartupChecks.verify(")
                .contains("woven   org.apache.cassandra.db.ColumnFamilyStore.snapshot(")
                .doesNotContain("no class")
                .contains("Cassandra 5.0")
                .contains("no -javaagent");
        Path jar = cassandra(home);
        NodeTool.Result again =
                Commands.run(
                        Commands.PETRA.toString(),
                        "weave",
                        "--in",
                        jar.toString(),
                        "--out",
                        "x.jar");
        assertThat(again.exitCode()).as(again.output()).isEqualTo(1);
        assertThat(again.output()).contains("petra: " + jar + " is woven already");

        Path data = directory.resolve("node");
        UnaryOperator<NodeConfig.Builder> woven =
                options -> options.home(home).agent(false).jvmOptions(TestNode.VERIFIED);
        try (TestNode node = TestNode.start(data, woven)) {
            assertThat(node.process().log()).contains("woven into its jar; memtable");
            TableLife.live(node);
            // Cassandra's offline tools run from the same jar.
            NodeTool.Result tool =
                    new NodeTool(new Distribution(home), node.process().directory())
                            .tool(
                                    "org.apache.cassandra.tools.StandaloneSSTableUtil",
                                    "life",
                                    "own");
            assertThat(tool.exitCode()).as(tool.output()).isZero();
            node.process().stop();
        }
        UnaryOperator<NodeConfig.Builder> anew =
                options -> woven.apply(options).overwriteConf(true);
        refusesAnotherVersion(data, home, anew);
        refusesAStockCassandraBeforeIt(data, anew);
        refusesTheFirstTableOfAStockCassandra(woven);
        try (TestNode node = TestNode.start(data, options -> anew.apply(options).agent(true))) {
            assertThat(node.process().logSinceStart())
                    .contains(
                            "woven into its jar; the agent does nothing, and its -javaagent line"
                                    + " can be");
            TableLife.check(node);
        }
    }

    /** A release has no libraries of Cassandra's; a package has them in lib below the jar. */
    @Test
    @OneOf(variants = "WovenIT", of = 2, number = 2)
    void aReleaseWeavesTheJarOfAPackage() throws Exception {
        Path release = directory.resolve("release");
        Path command = Files.createDirectories(release.resolve("bin")).resolve("petra");
        Files.copy(Commands.PETRA, command);
        Files.createDirectory(release.resolve("lib"));
        for (String name : List.of("client", "petra.jar"))
            Files.createSymbolicLink(
                    release.resolve("lib").resolve(name), WovenHome.STOCK.resolve("lib/" + name));
        Path share = directory.resolve("usr/share/cassandra");
        Path lib = Files.createDirectories(share.resolve("lib"));
        Path stock = cassandra(WovenHome.STOCK);
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(stock.resolveSibling("."))) {
            for (Path jar : jars)
                if (!jar.getFileName().equals(stock.getFileName()))
                    Files.createSymbolicLink(lib.resolve(jar.getFileName()), jar.toRealPath());
        }
        Path installed = share.resolve("apache-cassandra-5.0.9.jar");
        Files.copy(stock, installed);
        Path woven = directory.resolve("woven.jar");
        NodeTool.Result weave = weave(command, installed, woven, "");
        assertThat(weave.exitCode()).as(weave.output()).isZero();

        Path kept = Files.createDirectories(directory.resolve("kept")).resolve("original.jar");
        Files.move(installed, kept);
        Path again = directory.resolve("again.jar");
        weave = weave(command, kept, again, "");
        assertThat(weave.exitCode()).as(weave.output()).isEqualTo(1);
        assertThat(weave.output()).contains("the folder that CASSANDRA_HOME names");
        // As the page has it: the woven jar is in the original's place.
        Files.move(woven, installed);
        weave = weave(command, kept, again, share.toString());
        assertThat(weave.exitCode()).as(weave.output()).isZero();
        assertThat(again).hasSameBinaryContentAs(installed);
    }

    private static NodeTool.Result weave(Path petra, Path in, Path out, String cassandra)
            throws IOException, InterruptedException {
        ProcessBuilder command =
                new ProcessBuilder(
                        petra.toString(), "weave", "--in", in.toString(), "--out", out.toString());
        command.environment().put("CASSANDRA_HOME", cassandra);
        return Commands.run(command);
    }

    /** A plugin that was updated alone, with a jar that was woven before. */
    private void refusesAnotherVersion(
            Path data, Path home, UnaryOperator<NodeConfig.Builder> options) throws Exception {
        Path other = directory.resolve("other");
        Path lib = Files.createDirectories(other.resolve("lib/cassandra"));
        Files.createSymbolicLink(other.resolve("lib/petra.jar"), home.resolve("lib/petra.jar"));
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(home.resolve("lib/cassandra"))) {
            for (Path jar : jars) {
                Path as = lib.resolve(jar.getFileName());
                if (!jar.equals(cassandra(home))) {
                    Files.createSymbolicLink(as, jar);
                    continue;
                }
                Files.copy(jar, as);
                try (FileSystem files = FileSystems.newFileSystem(as)) {
                    Path marker = files.getPath("META-INF/petra/woven");
                    Files.writeString(
                            marker,
                            Files.readString(marker)
                                    .replaceFirst("join-points \\w+", "join-points 0123"));
                }
            }
        }
        assertThat(refused(data, config -> options.apply(config).home(other)))
                .contains("Cassandra's jar was woven by Petra ")
                .contains("(join points 0123), but the plugin jar is Petra ")
                .contains("Weave the original jar once more");
    }

    private static void refusesAStockCassandraBeforeIt(
            Path data, UnaryOperator<NodeConfig.Builder> options) throws IOException {
        Path stock = cassandra(WovenHome.STOCK);
        assertThat(refused(data, config -> options.apply(config).classPath(stock)))
                .contains("Detected unreadable sstables", TableFiles.GUARD);
        for (String table : new String[] {"t", "own"})
            Files.deleteIfExists(new TableFiles(data.resolve("data"), "life", table).guard());
        assertThat(refused(data, config -> options.apply(config).classPath(stock)))
                .contains("is in a storage engine, which cannot work in this node: ")
                .contains("another jar or folder with them comes first on the class path");
    }

    /** Nothing checks such a node at its start: it is not woven where that happens. */
    private void refusesTheFirstTableOfAStockCassandra(UnaryOperator<NodeConfig.Builder> woven)
            throws Exception {
        Path stock = cassandra(WovenHome.STOCK);
        try (TestNode node =
                TestNode.start(
                        directory.resolve("stock"),
                        options -> woven.apply(options).classPath(stock))) {
            node.session()
                    .execute(
                            "CREATE KEYSPACE ks WITH replication ="
                                    + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
            String table = "CREATE TABLE ks.t (k int PRIMARY KEY)";
            assertThatThrownBy(() -> node.session().execute(table + " WITH memtable = 'rocks'"))
                    .hasMessageContaining("comes first on the class path");
            node.session().execute(table);
            node.session().execute("INSERT INTO ks.t (k) VALUES (1)");
            assertThat(node.session().execute("SELECT * FROM ks.t").all()).hasSize(1);
        }
    }

    private static String refused(Path data, UnaryOperator<NodeConfig.Builder> options)
            throws IOException {
        Path log = data.resolve("logs/system.log");
        Path output = data.resolve("logs/output.log");
        int logLength = Files.readString(log).length();
        int outputLength = Files.readString(output).length();
        assertThatThrownBy(() -> TestNode.start(data, options).close())
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("ended before CQL was open");
        return Files.readString(log).substring(logLength)
                + Files.readString(output).substring(outputLength);
    }

    private static Path cassandra(Path home) throws IOException {
        try (DirectoryStream<Path> jars =
                Files.newDirectoryStream(home.resolve("lib/cassandra"), "cassandra-all-*.jar")) {
            return jars.iterator().next();
        }
    }
}
