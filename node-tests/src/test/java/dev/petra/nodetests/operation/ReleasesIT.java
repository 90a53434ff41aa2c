// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.launcher.Distribution;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.TableLife;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WovenHome;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The same plugin in other releases of Cassandra: each with the libraries of the release that the
 * build is for, which are the same, or as good as. {@code -P long} has all of them.
 */
class ReleasesIT {
    /** What the build of the plugin gathers. */
    private static final Path RELEASES = Path.of("..", "cassandra", "target", "releases");

    @TempDir Path directory;

    static List<String> releases() {
        return List.of(System.getProperty("petra.releases", "5.0.6").split(",", -1));
    }

    @ParameterizedTest
    @MethodSource("releases")
    void aTableLives(String release) throws Exception {
        Path home = directory.resolve("home");
        make(release, home);
        UnaryOperator<NodeConfig.Builder> other =
                options -> options.home(home).agent(true).jvmOptions(TestNode.VERIFIED);
        Path data = directory.resolve("node");
        try (TestNode node = TestNode.start(data, other)) {
            assertThat(node.process().log())
                    .contains("with Cassandra " + release + ", woven by the agent");
            assertThat(node.process().log()).doesNotContain("was not tested");
            TableLife.live(node);
            node.process().stop();
        }
        // Upgraded, to the release of the build.
        try (TestNode node =
                TestNode.start(
                        data,
                        options -> options.home(WovenHome.STOCK).agent(true).overwriteConf(true))) {
            assertThat(node.process().logSinceStart()).doesNotContain(release + ", woven");
            TableLife.check(node);
        }
    }

    @ParameterizedTest
    @EnabledIfSystemProperty(named = "petra.releases.woven", matches = "true")
    @MethodSource("releases")
    void aTableLivesInAWovenJar(String release) throws Exception {
        Path stock = directory.resolve("stock");
        make(release, stock);
        Path home = directory.resolve("home");
        WovenHome.make(stock, home);
        UnaryOperator<NodeConfig.Builder> other = options -> options.home(home).agent(false);
        try (TestNode node = TestNode.start(directory.resolve("node"), other)) {
            assertThat(node.process().log())
                    .contains("with Cassandra " + release + ", woven into its jar");
            TableLife.live(node);
        }
    }

    private static void make(String release, Path home) throws IOException {
        Path lib = Distribution.fromSystemProperty().home().resolve("lib");
        Path cassandra = Files.createDirectories(home.resolve("lib/cassandra"));
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(lib.resolve("cassandra"))) {
            for (Path jar : jars) {
                String name = jar.getFileName().toString();
                if (!name.startsWith("cassandra-all-"))
                    Files.createSymbolicLink(cassandra.resolve(name), jar);
            }
        }
        String name = "cassandra-all-" + release + ".jar";
        Files.createSymbolicLink(cassandra.resolve(name), RELEASES.resolve(name).toRealPath());
        Files.createSymbolicLink(home.resolve("lib/client"), lib.resolve("client"));
        Files.createSymbolicLink(home.resolve("lib/petra.jar"), lib.resolve("petra.jar"));
    }
}
