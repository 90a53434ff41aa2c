// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.UnauthorizedException;
import dev.petra.jmh.querylog.LoggedQuery;
import dev.petra.jmh.querylog.QueryLog;
import dev.petra.jmh.querylog.Selection;
import dev.petra.jmh.querylog.TableSchema;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The audit logs of a node that runs, and what they must have: first a binary one, of which each
 * second is a segment, then a text, of which logback rolls and packs a file each second. Both are
 * in one directory, as Cassandra has them by default.
 */
final class RecordedAudit {
    static final String KEYSPACE = "au";

    /** Of each log, of the table that only has bound values. */
    static final long WITHOUT_VALUES = 5;

    private static final long FAILED = 4;

    /** DDL and statements that were prepared; a driver says USE once or twice. */
    private static final long OTHER_STATEMENTS = 5;

    private static final Duration PATIENCE = Duration.ofMinutes(1);
    private static final int PAGE = 10;
    private static final int LONG_PARTITION = 25;

    private static final String PREPARED_TABLE = "CREATE TABLE au.p (k int PRIMARY KEY, v text)";

    private final ProcessTarget process;
    private final CqlSession session;
    private final Path directory;
    private final List<List<String>> asked = new ArrayList<>();
    private long rows;
    private final List<String> snapshots = new ArrayList<>();

    /** Options of the JVM of the node. */
    static String[] options(Path directory) throws IOException {
        // As in Cassandra's logback.xml, but for when files are rolled. What audit logs have is in
        // system.log, too.
        String appender =
                """
                <appender name="%s" class="ch.qos.logback.core.rolling.RollingFileAppender">
                  <file>${cassandra.logdir}/%s</file>
                  <rollingPolicy class="ch.qos.logback.core.rolling.%sTimeBasedRollingPolicy">
                    <fileNamePattern>${cassandra.logdir}/%s.zip</fileNamePattern>
                    %s
                  </rollingPolicy>
                  <encoder>
                    <pattern>%%-5level [%%thread] %%date{ISO8601} %%F:%%L - %%msg%%n</pattern>
                  </encoder>
                </appender>
                """;
        Path logback = directory.resolve("audit-logback.xml");
        Files.writeString(
                logback,
                "<configuration>"
                        + appender.formatted(
                                "SYSTEMLOG",
                                "system.log",
                                "SizeAnd",
                                "system.log.%d{yyyy-MM-dd}.%i",
                                "<maxFileSize>50MB</maxFileSize>")
                        + appender.formatted(
                                "AUDIT",
                                "audit/audit.log",
                                "",
                                "audit/audit.log.%d{yyyy-MM-dd-HH-mm-ss}",
                                "")
                        + """
                        <root level="INFO"><appender-ref ref="SYSTEMLOG"/></root>
                        <logger name="org.apache.cassandra.audit.FileAuditLogger" level="INFO">
                          <appender-ref ref="AUDIT"/>
                        </logger>
                        </configuration>
                        """);
        return new String[] {"-Dlogback.configurationFile=" + logback, "-Dfile.encoding=UTF-8"};
    }

    /** Of cassandra.yaml: nodetool's options of a binary log change nothing. */
    static Map<String, Object> yaml() {
        return Map.of(
                "audit_logging_options",
                Map.of("enabled", false, "roll_cycle", "TEST_SECONDLY", "block", true));
    }

    /** Makes its tables, with rows. */
    RecordedAudit(ProcessTarget process, CqlSession session) {
        this.process = process;
        this.session = session;
        this.directory = process.node().directory().logs().resolve("audit");
        session.execute(
                "CREATE KEYSPACE au WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': 1}");
        session.execute("CREATE TYPE au.\"Ut\" (a int, \"b:\" text)");
        session.execute(
                "CREATE TABLE au.\"All\" (k int, c int, st text static, \"a \"\"b\"\" ?\" text, a"
                        + " ascii, bi bigint, bl blob, bo boolean, da date, de decimal, d double,"
                        + " du duration, f float, i inet, s smallint, t text, ti time, ts"
                        + " timestamp, tu timeuuid, ty tinyint, u uuid, vi varint, l list<int>, se"
                        + " set<text>, m map<text, int>, tp tuple<int, text>, ud frozen<\"Ut\">,"
                        + " ve vector<float, 3>, PRIMARY KEY (k, c))");
        session.execute("CREATE TABLE au.c (k int PRIMARY KEY, n counter)");
        session.execute(PREPARED_TABLE);
        for (int c = 0; c < LONG_PARTITION; c++)
            session.execute("INSERT INTO au.\"All\" (k, c, t) VALUES (7, ?, 'old')", c);
    }

    /** Turns the first log on. */
    void begin() {
        process.nodetool("enableauditlog");
    }

    /** Asks for both logs, and turns them off. */
    void ask() throws InterruptedException {
        ask("binary");
        process.nodetool("enableauditlog", "--logger", "FileAuditLogger");
        ask("text");
        // The first entry of a batch is of the keyspace of the connection.
        session.execute("USE app");
        process.nodetool(
                "enableauditlog", "--logger", "FileAuditLogger", "--included-keyspaces", KEYSPACE);
        session.execute("SELECT * FROM ks.t WHERE k = 1");
        session.execute(
                BatchStatement.newInstance(
                        DefaultBatchType.UNLOGGED,
                        SimpleStatement.newInstance(
                                "UPDATE au.\"All\" SET t = 'filtered' WHERE k = 60 AND c = 1"),
                        SimpleStatement.newInstance(
                                "UPDATE au.\"All\" SET t = 'filtered' WHERE k = 60 AND c = 2")));
        ask(asked.get(1), "SELECT * FROM au.\"All\" WHERE k = 1");
        process.nodetool("disableauditlog");
    }

    private void ask(List<String> asked, String cql) {
        rows += session.execute(cql).all().size();
        asked.add(cql);
    }

    private void batch(List<String> asked, BatchType type, String... statements) {
        BatchStatementBuilder batch = BatchStatement.builder(type);
        for (String cql : statements) batch.addStatement(SimpleStatement.newInstance(cql));
        rows += session.execute(batch.build()).all().size();
        asked.add("UNLOGGED BATCH: " + String.join("; ", statements));
    }

    /** All that a client can say. */
    private void ask(String name) throws InterruptedException {
        List<String> all = new ArrayList<>();
        asked.add(all);
        session.execute("USE au");
        for (String cql :
                List.of(
                        """
                        INSERT INTO "All" (k, c, st, "a ""b"" ?", a, bi, bl, bo, da, de, d, du, f,
                            i, s, t, ti, ts, tu, ty, u, vi, l, se, m, tp, ud, ve)
                        -- user:a|host:b ?
                        VALUES (1, 1, 'static', 'it''s; ?', 'ascii', -9223372036854775808, 0xcafe,
                            true, '2026-11-29', 1.50E-2, NaN, P1Y2M3DT4H5M6S, -Infinity,
                            '::1', -32768, 'grüße 世界 😀 :x', '12:34:56.789', '2026-11-29 05:00Z',
                            50554d6e-29bb-11e5-b345-feff819cdc9f, -128,
                            123e4567-e89b-12d3-a456-426614174000, 123456789012345678901234567890,
                            [1, 2], {'a:b', 'c'}, {'ü': 1, 'b:c': 2}, (1, 'x'),
                            {a: 1, "b:": 'y'}, [0.5, 1.0, -2.0])
                        """,
                        "INSERT INTO \"All\" JSON '{\"k\": 1, \"c\": 2, \"t\": \"j?\"}'",
                        "INSERT INTO au.\"All\" (k, c, t) VALUES (1, 3, $$it's\r\n|operation:$$)"
                                + " USING TTL 86400 AND TIMESTAMP 17",
                        "UPDATE \"All\" SET l = l + [3], m['k'] = 3, se = se - {'c'}, t = null"
                                + " WHERE k = 1 AND c = 1 /* a\n\nb */",
                        "SELECT * FROM \"All\" WHERE k = 1",
                        "SELECT JSON \"a \"\"b\"\" ?\", m FROM au.\"All\" WHERE k = 1",
                        "DELETE m['ü'] FROM \"All\" WHERE k = 1 AND c = 1",
                        "DELETE FROM \"All\" WHERE k = 1 AND c > 2",
                        "INSERT INTO \"All\" (k, c, t) VALUES (2, 1, 'if') IF NOT EXISTS",
                        "UPDATE \"All\" SET t = 'no' WHERE k = 2 AND c = 1 IF t = 'other'",
                        "BEGIN UNLOGGED BATCH INSERT INTO \"All\" (k, c) VALUES (3, 1); DELETE FROM"
                                + " au.\"All\" WHERE k = 3 AND c = 2; APPLY BATCH",
                        "SELECT t, writetime(t), ttl(t) FROM \"All\" WHERE k = 1 AND c = 3"))
            ask(all, cql);
        batch(
                all,
                DefaultBatchType.LOGGED,
                "INSERT INTO \"All\" (k, c, t) VALUES (4, 1, '" + name + "')",
                "UPDATE au.\"All\"\nSET t = 'ü'\nWHERE k = 5 AND c = 1",
                "DELETE t FROM \"All\" WHERE k = 4 AND c = 1");
        batch(
                all,
                DefaultBatchType.UNLOGGED,
                "UPDATE \"All\" SET st = 'one' WHERE k = 4 IF st != 'x'",
                "UPDATE \"All\" SET t = 'two' WHERE k = 4 AND c = 2");
        batch(
                all,
                DefaultBatchType.COUNTER,
                "UPDATE c SET n = n + 3 WHERE k = 1",
                "UPDATE au.c SET n = n - 1 WHERE k = 2");
        ask(all, "UPDATE c SET n = n + 1 WHERE k = 1");
        ask(all, "SELECT * FROM c");
        // Whatever is asked now is in another second's file.
        Thread.sleep(1100);
        withoutValues();
        failures();
        session.execute("CREATE TABLE ddl (k int PRIMARY KEY)");
        session.execute("ALTER TABLE au.ddl ADD v int");
        session.execute("DROP TABLE ddl");
        session.execute("SELECT * FROM ks.t WHERE k = 1");
        session.execute(
                BatchStatement.newInstance(
                        DefaultBatchType.LOGGED,
                        SimpleStatement.newInstance("UPDATE ks.t SET s = 'partly' WHERE k = 70"),
                        SimpleStatement.newInstance(
                                "UPDATE \"All\" SET st = 'partly' WHERE k = 70")));
        pages(all);
        for (int k = 1; k < 6; k++) ask(all, "SELECT * FROM \"All\" WHERE k = " + k);
        ask(all, "TRUNCATE c");
        String last = "SELECT k, n FROM c /* " + name + " */";
        ask(all, last);
        // A node that stops a binary log forgets what is still to be written.
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!hasAsked(last)) {
            assertThat(System.nanoTime()).describedAs("no " + last).isLessThan(end);
            Thread.sleep(100);
        }
    }

    private void withoutValues() {
        PreparedStatement insert = session.prepare("INSERT INTO p (k, v) VALUES (?, ?)");
        session.execute(insert.bind(1, "a"));
        session.execute(insert.bind(2, "b"));
        session.execute(session.prepare("SELECT * FROM p WHERE k = :k").bind(1));
        session.execute(SimpleStatement.newInstance("DELETE FROM p WHERE k = ?", 2));
        session.execute(
                BatchStatement.newInstance(
                        DefaultBatchType.UNLOGGED, insert.bind(3, "c"), insert.bind(4, "d")));
    }

    private void failures() {
        assertThatThrownBy(() -> session.execute("SELECT none FROM \"All\""))
                .isInstanceOf(DriverException.class);
        assertThatThrownBy(() -> session.execute("SELECT\n* FRM \"All\""))
                .isInstanceOf(DriverException.class);
        assertThatThrownBy(() -> session.execute("DROP TABLE system.local"))
                .isInstanceOf(UnauthorizedException.class);
        BatchStatement conditions =
                BatchStatement.newInstance(
                        DefaultBatchType.UNLOGGED,
                        SimpleStatement.newInstance(
                                "UPDATE \"All\" SET t = 'x' WHERE k = 80 AND c = 1 IF EXISTS"),
                        SimpleStatement.newInstance(
                                "UPDATE \"All\" SET t = 'x' WHERE k = 81 AND c = 1 IF EXISTS"));
        assertThatThrownBy(() -> session.execute(conditions)).isInstanceOf(DriverException.class);
    }

    /** Each of which the log has as the whole. */
    private void pages(List<String> all) {
        String cql = "SELECT * FROM \"All\" WHERE k = 7";
        assertThat(session.execute(SimpleStatement.newInstance(cql).setPageSize(PAGE)).all())
                .hasSize(LONG_PARTITION);
        for (int page = 0; page * PAGE < LONG_PARTITION; page++) {
            all.add(cql);
            rows += LONG_PARTITION;
        }
    }

    private boolean hasAsked(String cql) {
        try (QueryLog log = new QueryLog(List.of(directory))) {
            for (LoggedQuery next = log.next(); next != null; next = log.next())
                if (next.cql().equals(cql)) return true;
            return false;
        }
    }

    /** Reads it after the node has ended. */
    void read(Path data) throws IOException {
        for (String table : List.of("All", "c"))
            snapshots.add("--snapshot=" + ReplayIT.snapshot(data, table));
        try (Stream<Path> files = Files.list(directory)) {
            List<String> names = files.map(file -> file.getFileName().toString()).toList();
            assertThat(names)
                    .contains("audit.log")
                    .anyMatch(name -> name.endsWith(".zip"))
                    .filteredOn(name -> name.endsWith(".cq4"))
                    .hasSizeGreaterThan(1);
        }
        List<String> both = new ArrayList<>(asked.get(0));
        both.addAll(asked.get(1));
        assertThat(asked(directory, 2)).containsExactlyElementsOf(both);
        assertThat(asked(directory.resolveSibling("system.log"), 1))
                .containsExactlyElementsOf(asked.get(1));
    }

    private static List<String> asked(Path log, int logs) {
        List<String> asked = new ArrayList<>();
        Set<TableSchema.Table> tables =
                Set.of(
                        new TableSchema.Table(KEYSPACE, "All"),
                        new TableSchema.Table(KEYSPACE, "c"),
                        new TableSchema.Table(KEYSPACE, "p"));
        try (QueryLog read = new QueryLog(List.of(log))) {
            Selection selection = new Selection(read, tables, Long.MAX_VALUE);
            for (Selection.Selected next = selection.next(); next != null; next = selection.next())
                asked.add(next.query().cql());
            Map<Selection.Reason, Long> left = new EnumMap<>(selection.left());
            Long others = left.remove(Selection.Reason.OTHER_STATEMENT);
            assertThat(others).isGreaterThan(logs * OTHER_STATEMENTS);
            assertThat(left)
                    .isEqualTo(
                            Map.of(
                                    Selection.Reason.OTHER_TABLE,
                                    // The first log has those of the full query log's end.
                                    logs + (logs == 2 ? 3L : 0L),
                                    Selection.Reason.PARTLY_OTHER_TABLE,
                                    (long) logs,
                                    Selection.Reason.WITHOUT_VALUES,
                                    logs * WITHOUT_VALUES,
                                    Selection.Reason.FAILED,
                                    logs * FAILED,
                                    Selection.Reason.INCOMPLETE_BATCH,
                                    1L));
            // Where a second had no request, it has no segment.
            assertThat(read.losses()).allMatch(loss -> loss.contains("are not there"));
        }
        return asked;
    }

    /** Where both logs are. */
    Path log() {
        return directory;
    }

    /** Of its tables, for the command line. */
    List<String> tables(Path directory) throws IOException {
        List<String> tables = new ArrayList<>(snapshots);
        tables.add("--schema=" + prepared(directory));
        return tables;
    }

    /** The schema of the table that only has bound values. */
    static Path prepared(Path directory) throws IOException {
        return Files.writeString(directory.resolve("prepared.cql"), PREPARED_TABLE + ";");
    }

    /**
     * What the command tells of both logs.
     *
     * @param others how many requests of the node's other tables were asked, which have no rows
     * @param failed of these
     */
    void check(String told, int others, int failed) {
        int count = asked.get(0).size() + asked.get(1).size() + others;
        assertThat(told)
                .contains(
                        "- asked: " + count + "\n",
                        "- compared: " + (count - failed) + "\n",
                        "- rows of these: " + rows + "\n",
                        "- conditional updates (IF): 6;",
                        "- not asked, of tables that are not given: " + (5 - others) + "\n",
                        "- not asked, batches of which a part is of tables that are not given: 2\n",
                        "- not asked, with values that are not in the log: 10\n",
                        "- not asked, batches of which not all statements are in the log: 1\n",
                        "- not asked, that failed when they were logged: 8\n");
    }
}
