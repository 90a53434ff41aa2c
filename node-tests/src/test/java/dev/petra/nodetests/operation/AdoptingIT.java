// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.UnpackedCassandra;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Runs what {@code docs/adopting.md} says, as it is there, on a Cassandra laid out as its tarball:
 * from one that knows nothing of Petra to a table in the engine, from each step the way back that
 * the page names, and back to the files that there were. The table is written between the steps.
 */
class AdoptingIT {
    private static final Path PAGE = Path.of("..", "docs", "adopting.md");
    private static final Pattern PART =
            Pattern.compile("(?ms)^## (\\d)\\.|^```(\\w+)\\n(.*?)^```$");
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final String ALL = "SELECT * FROM shop.orders";
    private static final String SHADOW =
            "SELECT copies, caught_up, answers, answered FROM petra.shadow WHERE keyspace_name ="
                    + " 'shop'";
    private static final Pattern TAKEN_IN =
            Pattern.compile("The shadow of shop.orders is its store");

    private static final Pattern INSTALL =
            Pattern.compile(
                    "petra-<version>/bin/petra (install) --cassandra \\S+ (--memory) \\S+\n");

    private record Block(int step, String language, String text) {}

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    private final int storagePort = FreePorts.next();
    private final List<String> done = new ArrayList<>();
    private List<Block> page;
    private UnpackedCassandra node;
    private CqlSession session;
    private Set<String> rows;
    private int moves;

    @BeforeEach
    void read() throws Exception {
        page = new ArrayList<>();
        int step = 0;
        Matcher part = PART.matcher(Files.readString(PAGE));
        while (part.find())
            if (part.group(1) != null) step = Integer.parseInt(part.group(1));
            else page.add(new Block(step, part.group(2), part.group(3)));
        node = new UnpackedCassandra(directory, storagePort, storagePort);
    }

    @AfterEach
    void endNode() {
        if (session != null) session.close();
        node.close();
    }

    @Test
    void thePage() throws Exception {
        SortedMap<String, String> stock = node.files();
        start();
        TestNode.createKeyspace(session, "shop", 1);
        session.execute("CREATE TABLE shop.orders (k int, c int, v text, PRIMARY KEY (k, c))");
        for (int k = 0; k < 20; k++)
            for (int c = 0; c < 20; c++)
                session.execute("INSERT INTO shop.orders (k, c, v) VALUES (?, ?, 'v')", k, c);
        assertThat(node.nodetool("flush", "shop", "orders").exitCode()).isZero();
        session.execute("DELETE FROM shop.orders WHERE k = 3 AND c > 5");
        rows = Contents.of(session, ALL);

        install();
        uninstall(stock);
        install();
        take(2);
        backAtOnce();
        take(2);
        take(3);
        backAtOnce();
        take(2);
        take(4);
        long copies = shadow().getLong("copies");
        alter("rocks_shadow");
        assertThat(shadow().getString("answers")).isEqualTo("no: mode is shadow");
        assertThat(shadow().getBoolean("caught_up")).isTrue();
        take(4);
        assertThat(shadow().getLong("copies")).isEqualTo(copies);
        backAtOnce();

        take(2);
        take(3);
        named("bin/petra shadow anew shop.orders --address 127.0.0.1");
        TestNode.await("another copy", PATIENCE, () -> shadow().getBoolean("caught_up"));
        assertThat(shadow().getLong("copies")).isEqualTo(2);
        take(3);
        take(5);
        session.execute("DELETE FROM shop.orders WHERE k = 5 AND c = 5");
        rows = Contents.of(session, ALL);
        take(7);
        // Brings back nothing that was deleted since.
        take(8);
        List<Block> sixth = page.stream().filter(each -> each.step() == 6).toList();
        run(sixth.get(sixth.size() - 1));

        for (int step = 2; step <= 7; step++) take(step);
        assertThat(String.join("", done))
                .contains("'rocks_shadow'", "'rocks_fallback'", "'rocks'", "'default'")
                .contains("bin/sstableloader ", "FROM petra.tables");
        TestNode.await("the end", PATIENCE, () -> !Files.exists(files().stores()));
        uninstall(stock);
    }

    private void start() throws Exception {
        node.start();
        session = node.session();
    }

    private void stop() throws Exception {
        session.close();
        assertThat(node.nodetool("drain").exitCode()).isZero();
        node.stop();
    }

    private TableFiles files() {
        return new TableFiles(node.home().resolve("data/data"), "shop", "orders");
    }

    private Path yaml() {
        return node.home().resolve("conf/cassandra.yaml");
    }

    // Steps

    private void install() throws Exception {
        Matcher command = INSTALL.matcher(first("sh"));
        assertThat(command.matches()).as(first("sh")).isTrue();
        // Into this node's folder, with less memory.
        assertThat(node.petra(0, command.group(1), "--yes", command.group(2), "128MiB"))
                .contains("Petra is installed. Restart the node");
        String added = first("yaml");
        // Where the page says, indented like that line.
        String installed = Files.readString(yaml());
        assertThat(installed).containsOnlyOnce("\n    # END petra\n");
        assertThat(added).startsWith("    rocks_shadow:");
        Files.writeString(
                yaml(), installed.replace("\n    # END petra\n", "\n    # END petra\n" + added));
        stop();
        start();
        assertThat(node.logSinceStart())
                .contains("memtable configurations [rocks, rocks_fallback, rocks_shadow]");
        unchanged("install");
    }

    /** The only block of the first step in a language. */
    private String first(String language) {
        List<String> blocks =
                page.stream()
                        .filter(block -> block.step() == 1 && block.language().equals(language))
                        .map(Block::text)
                        .toList();
        assertThat(blocks).as(language).hasSize(1);
        return blocks.get(0);
    }

    /** All that the page says of a step; then a row is written. */
    private void take(int step) throws Exception {
        for (Block block : page) if (block.step() == step) run(block);
        if (step == 4) readsAreAnsweredByTheShadow();
        if (step == 5)
            assertThat(TAKEN_IN.matcher(node.logSinceStart()).results()).hasSize(++moves);
        session.execute(
                "INSERT INTO shop.orders (k, c, v) VALUES (100, ?, 'written')", done.size());
        assertThat(rows.size()).isEqualTo(Contents.of(session, ALL).size() - 1);
        rows = Contents.of(session, ALL);
    }

    /** All of them, and each partition by itself. */
    private void readsAreAnsweredByTheShadow() {
        long before = shadow().getLong("answered");
        Set<Integer> keys = new TreeSet<>();
        for (Row row : session.execute("SELECT DISTINCT k FROM shop.orders"))
            keys.add(row.getInt("k"));
        Set<String> found = new HashSet<>();
        for (int k : keys) found.addAll(Contents.of(session, ALL + " WHERE k = " + k));
        assertThat(found).isEqualTo(rows);
        // The table answers where a write is on its way to the shadow.
        assertThat(shadow().getLong("answered")).isGreaterThan(before + keys.size() / 2);
    }

    /** What the page says for a case that does not arise here. */
    private void named(String command) throws Exception {
        assertThat(Files.readString(PAGE)).contains("`" + command + "`");
        command(command);
        unchanged(command);
    }

    private void run(Block block) throws Exception {
        if (block.language().equals("sh"))
            for (String line : block.text().strip().split("\n", -1)) command(line);
        else for (String statement : statements(block.text())) query(statement, block.step());
        unchanged(block.text());
    }

    private void unchanged(String after) {
        done.add(after);
        assertThat(Contents.of(session, ALL)).as("after %s", done).isEqualTo(rows);
    }

    private void alter(String memtable) {
        session.execute("ALTER TABLE shop.orders WITH memtable = '" + memtable + "'");
        unchanged(memtable);
    }

    private Row shadow() {
        return session.execute(SHADOW).one();
    }

    /** From a shadow nothing is to be copied on the way back. */
    private void backAtOnce() throws Exception {
        alter("default");
        assertThat(session.execute("SELECT * FROM petra.migrations").all()).isEmpty();
        assertThat(shadow()).isNull();
        Path folder = files().directory().resolve("rocksdb_shadow");
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(folder));
    }

    private void uninstall(SortedMap<String, String> stock) throws Exception {
        stop();
        assertThat(node.petra(1, "uninstall", "--yes")).contains("which needs Petra as well");
        String added = first("yaml");
        assertThat(Files.readString(yaml())).containsOnlyOnce(added);
        Files.writeString(yaml(), Files.readString(yaml()).replace(added, ""));
        assertThat(node.petra(0, "uninstall", "--yes")).contains("Petra is uninstalled.");
        assertThat(node.files()).isEqualTo(stock);
        start();
        assertThat(node.logSinceStart()).doesNotContain("Petra");
        unchanged("uninstall");
    }

    private static List<String> statements(String text) {
        return Pattern.compile(";")
                .splitAsStream(text)
                .map(String::strip)
                .filter(s -> !s.isEmpty())
                .toList();
    }

    /** A query that says when a step is over is repeated until it is. */
    private void query(String statement, int step) throws Exception {
        if (statement.contains("FROM petra.shadow "))
            TestNode.await(statement, PATIENCE, () -> isReached(statement));
        else if (statement.contains("FROM petra.migrations"))
            TestNode.await(statement, PATIENCE, () -> session.execute(statement).all().isEmpty());
        else if (statement.contains("FROM petra.tables")) {
            // A migration begins when those who write have left the memtable: both must be so.
            int expected = step == 5 ? 1 : 0;
            TestNode.await(
                    statement, PATIENCE, () -> session.execute(statement).all().size() == expected);
            List<Row> found = session.execute(statement).all();
            assertThat(found).as("step %s", step).hasSize(expected);
            for (Row row : found) assertThat(row.getBoolean("usable")).isTrue();
        } else assertThat(session.execute(statement).all()).as(statement).isEmpty();
    }

    private boolean isReached(String statement) {
        Row row = session.execute(statement).one();
        if (row == null) return false;
        return row.getColumnDefinitions().contains("answers")
                ? row.getString("answers").equals("yes")
                : row.getBoolean("caught_up");
    }

    private void command(String line) throws Exception {
        NodeTool.Result result;
        if (line.startsWith("nodetool "))
            result = node.nodetool(line.substring("nodetool ".length()).split(" "));
        else if (line.startsWith("bin/sstableloader ")) result = load(line);
        else if (!line.startsWith("bin/"))
            result =
                    Commands.run(
                            new ProcessBuilder("sh", "-c", line).directory(node.home().toFile()));
        else {
            assertThat(line).startsWith("bin/petra ").endsWith(" --address 127.0.0.1");
            List<String> words = new ArrayList<>(List.of(line.split(" ")));
            words.set(0, Commands.PETRA.toString());
            words.addAll(List.of("--port", Integer.toString(node.cqlPort())));
            result = Commands.run(words.toArray(String[]::new));
        }
        assertThat(result.exitCode()).as("%s: %s", line, result.output()).isZero();
    }

    /** By this node's ports; the folder, the last word, is in Cassandra's directory. */
    private NodeTool.Result load(String line) throws Exception {
        List<String> words = new ArrayList<>(List.of(line.split(" ")));
        String folder = words.remove(words.size() - 1);
        words.remove(0);
        words.addAll(List.of("--port", Integer.toString(node.cqlPort())));
        words.addAll(List.of("--storage-port", Integer.toString(storagePort)));
        words.add(node.home().resolve(folder).toString());
        NodeTool.Result result = node.sstableloader(words.toArray(String[]::new));
        assertThat(result.output()).containsPattern("Total files transferred +: [1-9]");
        return result;
    }
}
