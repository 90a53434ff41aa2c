// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A node with each partitioner that one can be configured with, but {@code Murmur3Partitioner},
 * which the nodes of all other tests have. Cassandra ships one more, {@code LocalPartitioner}, for
 * system and index tables only, neither of which an engine takes.
 */
class PartitionersIT {
    private static final List<String> TOKENS =
            List.of("token('')", "token('key3')", "token('\u00e9')", "token('zz')");

    @TempDir Path directory;

    static List<String> drawn() {
        return Drawn.of(
                "PartitionersIT",
                List.of(
                        "RandomPartitioner",
                        "ByteOrderedPartitioner",
                        "OrderPreservingPartitioner"));
    }

    @ParameterizedTest
    @MethodSource("drawn")
    void partitionsAreInTheOrderOfTheirTokens(String partitioner) {
        try (TestNode node =
                TestNode.start(
                        directory,
                        config ->
                                config.yaml(
                                        Map.of(
                                                "partitioner",
                                                "org.apache.cassandra.dht." + partitioner)))) {
            TwinTables tables;
            try (CqlSession session = node.plainSession()) {
                tables = new TwinTables(session, "ks");
                tables.create("t", "k text, c int, v text, PRIMARY KEY (k, c)");
                for (int i = 0; i < 60; i++)
                    tables.both(
                            "INSERT INTO @t (k, c, v) VALUES (?, ?, ?)",
                            (i % 7 == 0 ? "\u00e9" : "key") + i / 2,
                            i,
                            "v" + i);
                tables.both("DELETE FROM @t WHERE k = 'key2'");
                compare(tables);
                for (String verb : List.of("flush", "compact"))
                    assertThat(node.tryNodetool(verb, "ks").exitCode()).isZero();
                compare(tables);
                assertThat(
                                node.tryNodetool("rangekeysample")
                                        .output()
                                        .lines()
                                        .filter(line -> line.startsWith("\t")))
                        .hasSizeGreaterThan(30);
                tables.both("INSERT INTO @t (k, c, v) VALUES ('after', 1, 'w')");
                // Cassandra's commit log has it only with its next sync, and it is killed now.
                assertThat(node.tryNodetool("flush", "ks", "stock_t").exitCode()).isZero();
            }
            node.process().kill();
            node.restart();
            try (CqlSession session = node.plainSession()) {
                tables.session(session);
                compare(tables);
                assertThat(node.tryNodetool("cleanup", "ks").exitCode()).isZero();
                compare(tables);
            }
        }
    }

    private static void compare(TwinTables tables) {
        assertThat(tables.query("SELECT k, c, v, token(k) FROM @t")).hasSizeGreaterThan(50);
        for (int i = 0; i < 30; i++) tables.query("SELECT * FROM @t WHERE k = ?", "key" + i);
        for (String token : TOKENS)
            for (String operator : List.of(">", ">=", "<", "<="))
                tables.query(
                        "SELECT k, c FROM @t WHERE token(k) "
                                + operator
                                + " "
                                + token
                                + " LIMIT 9");
    }
}
