// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.ReadFailureException;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WithAgent;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The same random statements on three tables, and the same random queries: by legacy indexes of
 * every kind in the engine, by the same indexes in Cassandra's storage, and with ALLOW FILTERING in
 * a table without any. The first gives what the last does, in the same order; where Cassandra's own
 * index gives something else, the engine may give that.
 */
@WithAgent
@OneOf(variants = "random queries by indexes", of = 2, number = 2)
class LegacyIndexIT extends RandomIndexQueries {
    private static final long LATER = 200_000_000;
    private static final Duration PATIENCE = Duration.ofMinutes(3);

    /** MiB for all memtables of the node. */
    private static final int MEMTABLES = 16;

    private static final String COLUMNS =
            "p int, q text, c int, d text, s int static, st set<text> static, v int, w text, b"
                    + " blob, f frozen<list<int>>, l list<int>, x set<text>, m map<text, int>,"
                    + " PRIMARY KEY ((p, q), c, d)";

    private static final List<String> INDEXES =
            List.of(
                    "p",
                    "q",
                    "c",
                    "d",
                    "s",
                    "st",
                    "v",
                    "w",
                    "b",
                    "FULL(f)",
                    "l",
                    "x",
                    "KEYS(m)",
                    "VALUES(m)",
                    "ENTRIES(m)");

    private static final Pattern STATIC_SET = Pattern.compile("st CONTAINS '([^']*)'");

    @TempDir static Path directory;

    /** Of the next statement; 0 for any. */
    private long timestamp;

    LegacyIndexIT() {
        super(COLUMNS, INDEXES);
    }

    @BeforeAll
    static void start() {
        System.out.println("LegacyIndexIT: -Dpetra.seed=" + SEED);
        node =
                TestNode.start(
                        directory,
                        options ->
                                options.jvmOptions(TestNode.VERIFIED)
                                        .yaml(Map.of("memtable_heap_space", MEMTABLES + "MiB")));
        session = node.session();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @Override
    CqlSession connect() {
        return node.session();
    }

    @Override
    String using(String target) {
        return "";
    }

    @Override
    void awaitBuilt(String name) throws Exception {
        TestNode.await(
                "indexes",
                PATIENCE,
                () ->
                        session
                                        .execute(
                                                "SELECT index_name FROM system.\"IndexInfo\" WHERE"
                                                        + " table_name = 'ks'")
                                        .all()
                                        .stream()
                                        .map(row -> row.getString(0))
                                        .filter(
                                                index ->
                                                        index.startsWith("ours" + name)
                                                                || index.startsWith("stock" + name))
                                        .count()
                                == 2L * INDEXES.size());
    }

    /** Cassandra's hidden tables have the entries at first, and get them again at the end. */
    @Test
    @Order(6)
    void migrated() throws Exception {
        // A query by Cassandra's index deletes the entry of a row that is gone, as of its latest
        // write, and does not find a row of earlier writes that come later.
        timestamp = LATER;
        List<String> ways = List.of("default", "rocks");
        for (int i = 0; i < 2 * Math.min(2, LENGTH); i++) {
            String memtable = ways.get(i % 2);
            isInEngine = false;
            node.nodetool("setcompactionthroughput", "1");
            try {
                session.execute("ALTER TABLE ks.oursafter WITH memtable = '" + memtable + "'");
                compare("after");
                change("after");
                compare("after");
            } finally {
                node.nodetool("setcompactionthroughput", "64");
                TestNode.awaitMigrations(session, PATIENCE);
            }
            isInEngine = memtable.equals("rocks");
            compare("after");
            change("after");
            compare("after");
        }
        assertThat(TableFiles.of(node, "ks", "oursafter").stores()).exists();
    }

    @Test
    @Order(7)
    void truncated() throws Exception {
        for (String table : TABLES) session.execute("TRUNCATE ks." + table + "after");
        for (String query : List.of("v = 1", "p = 0", "x CONTAINS 'x1'"))
            assertThat(session.execute(select("oursafter", query)).all()).as(query).isEmpty();
        change("after");
        compare("after");
    }

    @Test
    @Order(8)
    void droppedAndCreatedAgain() throws Exception {
        for (String target : INDEXES)
            session.execute("DROP INDEX ks." + index("oursafter", target));
        change("after");
        for (String target : INDEXES) createIndex("oursafter", target);
        awaitBuilt("after");
        compare("after");
        change("after");
        compare("after");
    }

    /**
     * Entries of imported rows go into a memtable of Cassandra's, which must be flushed before the
     * import ends: all writes of the node wait for that memory.
     */
    @Test
    @Order(9)
    void importedRowsHaveMoreEntriesThanMemtablesHaveMemory() throws Exception {
        int rows = MEMTABLES * 1_000;
        for (String table : List.of("import_source", "imported"))
            session.execute(
                    "CREATE TABLE ks."
                            + table
                            + " (p int PRIMARY KEY, v text)"
                            + (table.equals("imported")
                                    ? " WITH memtable = 'rocks'"
                                    // Its files are copied.
                                    : " WITH compaction = {'class': 'SizeTieredCompactionStrategy',"
                                            + " 'enabled': false}"));
        session.execute("CREATE INDEX imported_by_v ON ks.imported (v)");
        PreparedStatement insert =
                session.prepare("INSERT INTO ks.import_source (p, v) VALUES (?, ?)");
        String rest = "x".repeat(1_500);
        List<CompletionStage<?>> some = new ArrayList<>();
        for (int p = 0; p < rows; p++) {
            some.add(session.executeAsync(insert.bind(p, p + rest)));
            if (some.size() < 100) continue;
            for (CompletionStage<?> one : some) one.toCompletableFuture().join();
            some.clear();
        }
        node.nodetool("flush", "ks", "import_source");
        Path inbox = Files.createDirectories(directory.resolve("inbox/ks/imported"));
        for (Path file :
                TableFiles.children(TableFiles.of(node, "ks", "import_source").directory()))
            if (Files.isRegularFile(file)) Files.copy(file, inbox.resolve(file.getFileName()));
        node.nodetool("import", "ks", "imported", inbox.toString());
        TestNode.awaitMigrations(session, PATIENCE);
        for (int p = 0; p < rows; p += rows / 10)
            assertThat(
                            session.execute(
                                            SimpleStatement.newInstance(
                                                    "SELECT p FROM ks.imported WHERE v = ?",
                                                    p + rest))
                                    .all())
                    .hasSize(1);
    }

    // Statements

    @Override
    String statement() {
        // Each of its own: between two expiring cells of one timestamp the time of day decides. And
        // even: an INSERT deletes the collection as of the timestamp before its own.
        String using =
                " USING TIMESTAMP "
                        + (timestamp == 0 ? 2L * random.nextLong(1, LATER / 2) : (timestamp += 2));
        return switch (random.nextInt(16)) {
            case 0 -> "DELETE FROM @" + using + " WHERE " + partition();
            case 1 -> "DELETE FROM @" + using + " WHERE " + row();
            case 2 ->
                    "DELETE FROM @"
                            + using
                            + " WHERE "
                            + partition()
                            + " AND c >= "
                            + random.nextInt(8)
                            + " AND c < "
                            + random.nextInt(8);
            case 3 -> "DELETE " + regular() + " FROM @" + using + " WHERE " + row();
            case 4 -> "DELETE s, st['" + text() + "'] FROM @" + using + " WHERE " + partition();
            case 5 ->
                    "UPDATE @"
                            + using
                            + " SET s = "
                            + number()
                            + ", st = st + {'"
                            + text()
                            + "'} WHERE "
                            + partition();
            case 6 ->
                    "UPDATE @"
                            + using
                            + " AND TTL 100000 SET v = "
                            + number()
                            + ", x = x + {'"
                            + text()
                            + "'} WHERE "
                            + row();
            case 7 -> "UPDATE @" + using + " SET l = l + [" + number() + "] WHERE " + row();
            case 8 ->
                    "UPDATE @"
                            + using
                            + " SET m['"
                            + text()
                            + "'] = "
                            + number()
                            + " WHERE "
                            + row();
            case 9 -> "DELETE m['" + text() + "'], l FROM @" + using + " WHERE " + row();
            default -> insert(using);
        };
    }

    private String insert(String using) {
        Map<String, String> columns =
                Map.of(
                        "v", number(),
                        "w", "'" + text() + "'",
                        "b", "0x0" + random.nextInt(4),
                        "f", list(),
                        "l", list(),
                        "x", "{'" + text() + "', '" + text() + "'}",
                        "m", map());
        return insert(using, columns);
    }

    private String regular() {
        return List.of("v", "w", "b", "f", "l", "x", "m").get(random.nextInt(7));
    }

    private String rows() {
        String bound = random.nextBoolean() ? " AND c >= " : " AND c < ";
        return partition() + (random.nextBoolean() ? bound + random.nextInt(8) : "");
    }

    // Queries

    @Override
    void compare(String name) {
        for (int i = 0; i < QUERIES; i++) {
            List<String> terms = new ArrayList<>();
            for (int t = 1 + random.nextInt(3); t > 0; t--) terms.add(condition());
            if (random.nextInt(5) == 0) terms.add(random.nextBoolean() ? row() : rows());
            // Cassandra takes one equality of a column, and no other condition besides it.
            List<String> once = new ArrayList<>();
            List<String> columns = new ArrayList<>();
            for (String term : String.join(" AND ", terms).split(" AND ", -1)) {
                String column = term.split("[ \\[]", 2)[0];
                if (!columns.contains(column)) once.add(term);
                columns.add(column);
            }
            // Cassandra's own index on a part of the partition key finds static rows too, and fails
            // to compare the clustering that these lack.
            boolean isOfPartitions = columns.contains("p") || columns.contains("q");
            boolean isOfRows = columns.contains("c") || columns.contains("d");
            if (!isInEngine && isOfPartitions && isOfRows) continue;
            // A query by it deletes the entry of a static row that was written again after its
            // partition was deleted: the entry has the time of the first write. The next query
            // does not find a partition that has nothing but that row.
            boolean mayLose = !isInEngine && isOfPartitions;
            // Where several cells of a row have the value, or had it, Cassandra takes all entries
            // but the first for stale, deletes them, and may find the row no more.
            if (!isInEngine && once.stream().anyMatch(term -> term.matches("[lm] CONTAINS -?\\d")))
                continue;
            String where = String.join(" AND ", once);
            // Where a condition on a static column is not the only one, Cassandra loses rows by
            // pages and by LIMIT, also in its own storage and without an index.
            boolean isByPages =
                    once.size() == 1 || !(columns.contains("s") || columns.contains("st"));
            // A LIMIT counts the rows that #hasElement leaves out.
            if (isByPages && !mayLose && !columns.contains("st") && random.nextInt(6) == 0)
                where += " LIMIT " + (1 + random.nextInt(6));
            List<String> ours = rows("ours" + name, where, 5_000, mayLose);
            List<String> plain = rows("plain" + name, where, 5_000, mayLose);
            if (!ours.equals(plain))
                assertThat(ours)
                        .as(where + ", which finds without an index " + plain)
                        .isEqualTo(rows("stock" + name, where, 5_000, mayLose));
            if (!isByPages) continue;
            int page = 1 + random.nextInt(4);
            assertThat(pages(name, where, page, mayLose, ours))
                    .as("%s by %d", where, page)
                    .isEqualTo(ours);
        }
    }

    /**
     * @param whole what to return where Cassandra's own index fails too: where an index on one
     *     clustering column is asked for a slice of another, the page after the last row of the
     *     slice's last value is an empty slice, which Cassandra refuses
     */
    private static List<String> pages(
            String name, String where, int page, boolean withoutStatic, List<String> whole) {
        try {
            return rows("ours" + name, where, page, withoutStatic);
        } catch (AssertionError e) {
            assertThatThrownBy(
                            () -> rows("stock" + name, where, page, withoutStatic),
                            "by Cassandra's own index, where by ours it is: %s, %s",
                            e,
                            e.getCause())
                    .hasCauseInstanceOf(ReadFailureException.class);
            return whole;
        }
    }

    /**
     * The driver takes an empty page for the end, and there may be some before the last.
     *
     * @param withoutStatic whether to leave out partitions that have static columns alone
     */
    private static List<String> rows(String table, String where, int page, boolean withoutStatic) {
        List<String> found = new ArrayList<>();
        ByteBuffer state = null;
        try {
            do {
                ResultSet rows =
                        session.execute(
                                select(table, where).setPageSize(page).setPagingState(state));
                for (int i = rows.getAvailableWithoutFetching(); i > 0; i--) {
                    Row row = rows.one();
                    if (hasElement(row, where) && !(withoutStatic && row.isNull("c")))
                        found.add(row.getFormattedContents());
                }
                state = rows.getExecutionInfo().getPagingState();
            } while (state != null);
        } catch (DriverException e) {
            throw new AssertionError(table + " WHERE " + where + " by " + page, e);
        }
        return found;
    }

    /**
     * A filter of Cassandra's takes the tombstone of an element in a static set for the element.
     */
    private static boolean hasElement(Row row, String where) {
        Matcher element = STATIC_SET.matcher(where);
        return !element.find() || row.getSet("st", String.class).contains(element.group(1));
    }

    private String condition() {
        return switch (random.nextInt(20)) {
            case 0 -> "p = " + random.nextInt(4);
            case 1 -> "q = '" + text() + "'";
            case 2 -> "c = " + random.nextInt(8);
            case 3 -> "d = '" + text() + "'";
            case 4, 5 -> "s = " + number();
            case 6 -> "st CONTAINS '" + key() + "'";
            case 7, 8 -> "v = " + number();
            case 9, 10 -> "w = '" + text() + "'";
            case 11 -> "b = 0x0" + random.nextInt(4);
            case 12 -> "f = " + list();
            case 13, 14 -> "l CONTAINS " + number();
            case 15 -> "x CONTAINS '" + key() + "'";
            case 16 -> "m CONTAINS KEY '" + key() + "'";
            case 17 -> "m CONTAINS " + number();
            case 18 -> "m['" + key() + "'] = " + number();
            default -> "c >= " + random.nextInt(8) + " AND v = " + number();
        };
    }
}
