// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.yaml.snakeyaml.Yaml;

/**
 * Runs what {@code docs/adopting.md} says, as it is there, with a look at the rows at each step.
 */
class AdoptingIT {
    private static final Path PAGE = Path.of("..", "docs", "adopting.md");
    private static final Pattern BLOCK = Pattern.compile("(?ms)^```(\\w+)\\n(.*?)^```$");
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final String ALL = "SELECT * FROM shop.orders";

    private static final String INSTALLED =
            """
            memtable:
              configurations:
                # BEGIN petra
                rocks:
                  class_name: dev.petra.cassandra.PetraMemtable
                  parameters:
                    engine: rocks
                    memory: 128MiB
                # END petra
            """;

    private record Block(String language, String text) {}

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    private static List<Block> page() throws IOException {
        List<Block> blocks = new ArrayList<>();
        Matcher block = BLOCK.matcher(Files.readString(PAGE));
        while (block.find()) blocks.add(new Block(block.group(1), block.group(2)));
        return blocks;
    }

    @Test
    void thePage() throws Exception {
        List<Block> blocks = page();
        assertThat(blocks.get(0).language()).isEqualTo("yaml");
        // Where the page says: below what petra install has written.
        Map<String, Object> settings = new Yaml().load(INSTALLED + blocks.get(0).text());
        try (TestNode node =
                        TestNode.start(
                                directory.resolve("node"),
                                // No others than the page's.
                                config -> config.engineParameters(Map.of()).yaml(settings));
                CqlSession session = node.session()) {
            TestNode.createKeyspace(session, "shop", 1);
            session.execute("CREATE TABLE shop.orders (k int, c int, v text, PRIMARY KEY (k, c))");
            for (int k = 0; k < 20; k++)
                for (int c = 0; c < 20; c++)
                    session.execute(
                            "INSERT INTO shop.orders (k, c, v) VALUES (" + k + ", " + c + ", 'v')");
            node.nodetool("flush", "shop", "orders");
            session.execute("DELETE FROM shop.orders WHERE k = 3 AND c > 5");
            Set<String> rows = Contents.of(session, ALL);
            List<String> done = new ArrayList<>();
            for (Block block : blocks.subList(1, blocks.size())) {
                if (block.language().equals("sh"))
                    for (String line : block.text().strip().split("\n", -1)) run(node, line);
                else for (String statement : statements(block.text())) run(session, statement);
                done.add(block.text());
                assertThat(Contents.of(session, ALL)).as("after %s", done).isEqualTo(rows);
            }
            assertThat(String.join("", done))
                    .contains("'rocks_shadow'", "'rocks_fallback'", "'rocks'", "'default'");
            TableFiles files = TableFiles.of(node, "shop", "orders");
            TestNode.await("the end", PATIENCE, () -> !Files.exists(files.stores()));
        }
    }

    private static List<String> statements(String text) {
        return Pattern.compile(";")
                .splitAsStream(text)
                .map(String::strip)
                .filter(s -> !s.isEmpty())
                .toList();
    }

    /** A query that says when a step is over is repeated until it is. */
    private static void run(CqlSession session, String statement) throws Exception {
        if (statement.contains("FROM petra.shadow "))
            TestNode.await(statement, PATIENCE, () -> isReached(session, statement));
        else if (statement.contains("FROM petra.migrations"))
            TestNode.await(statement, PATIENCE, () -> session.execute(statement).all().isEmpty());
        else assertThat(session.execute(statement).all()).as(statement).isEmpty();
    }

    private static boolean isReached(CqlSession session, String statement) {
        Row row = session.execute(statement).one();
        if (row == null) return false;
        return row.getColumnDefinitions().contains("answers")
                ? row.getString("answers").equals("yes")
                : row.getBoolean("caught_up");
    }

    private static void run(TestNode node, String line) throws IOException, InterruptedException {
        if (line.startsWith("nodetool ")) {
            node.nodetool(line.substring("nodetool ".length()).split(" "));
            return;
        }
        assertThat(line).startsWith("bin/petra ").endsWith(" --address 127.0.0.1");
        String[] words = line.split(" ");
        NodeTool.Result result =
                Commands.petra(node, Arrays.copyOfRange(words, 1, words.length - 2));
        assertThat(result.exitCode()).as("%s: %s", line, result.output()).isZero();
    }
}
