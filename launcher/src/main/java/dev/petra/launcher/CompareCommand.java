// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.cql.CqlClient;
import dev.petra.launcher.cql.CqlException;
import dev.petra.launcher.cql.RowWriter;
import java.io.PrintWriter;
import java.time.Instant;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code petra compare}: compares all of a table with its shadow or a snapshot, on one node. */
@Command(
        name = "compare",
        description = {
            "Compares all partitions of a table with its shadow, on the node at an address, and"
                + " waits for the result. With --snapshot it looks for what a snapshot of SSTables,"
                + " taken before the table was migrated into its engine, has and the engine lacks."
                + " The node goes on if this command is ended; 'nodetool stop UNKNOWN' ends it.",
            "The exit code is 0 if all partitions were compared and are equal; 3 if there was no"
                    + " partition to compare."
        })
final class CompareCommand implements Callable<Integer> {
    private static final Pattern TABLE = Pattern.compile("(\\w+)\\.(\\w+)");
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
    private static final long SHOWN_NANOS = TimeUnit.SECONDS.toNanos(30);

    @Parameters(paramLabel = "KEYSPACE.TABLE", description = "The table.")
    private String table = "";

    @Option(
            names = {"--range", "--token-range"},
            paramLabel = "START:END",
            description = "Compares only tokens behind START, up to END; default: all.")
    private String tokenRange = "";

    @Option(
            names = "--snapshot",
            paramLabel = "TAG",
            description =
                    "Compares the table's engine with this snapshot of 'nodetool snapshot --tag"
                            + " TAG'; default: the table with its shadow.")
    private String snapshot = "";

    @Mixin private CqlOptions node = new CqlOptions();

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Override
    public Integer call() {
        Matcher name = name(table, spec);
        String keys = "keyspace_name = '%s' AND table_name = '%s'";
        String select =
                "SELECT * FROM petra.comparisons WHERE "
                        + keys.formatted(name.group(1), name.group(2));
        PrintWriter out = spec.commandLine().getOut();
        try (CqlClient client = node.connect()) {
            client.run(
                    "INSERT INTO petra.comparisons (keyspace_name, table_name, token_range,"
                            + " snapshot) VALUES ('%s', '%s', '%s', '%s')"
                                    .formatted(
                                            name.group(1),
                                            name.group(2),
                                            tokenRange.replace("'", "''"),
                                            snapshot.replace("'", "''")),
                    new Rows(),
                    spec.commandLine().getErr());
            Row first = row(client, select, null);
            Row last = first;
            long shown = System.nanoTime();
            while (last.isNull("ended_at")) {
                LockSupport.parkNanos(POLL_NANOS);
                last = row(client, select, first.getInstant("started_at"));
                if (System.nanoTime() - shown < SHOWN_NANOS) continue;
                shown = System.nanoTime();
                out.printf(
                        "%s: %.1f %% of the tokens, %s%n",
                        last.getString("state"), 100 * last.getDouble("tokens_done"), counts(last));
                RowWriter.flush(out);
            }
            return write(out, last);
        }
    }

    /** Keyspace and table of a name that an operator has given to a command. */
    static Matcher name(String table, CommandSpec spec) {
        Matcher name = TABLE.matcher(table);
        if (!name.matches())
            throw new ParameterException(
                    spec.commandLine(), "'" + table + "' is not a table: <keyspace>.<table>");
        return name;
    }

    private int write(PrintWriter out, Row result) {
        out.printf("%s: %s%n", table, result.getString("state"));
        out.printf("  %s%n", counts(result));
        if (result.getLong("not_comparable") > 0)
            out.println("  not comparable: " + result.getString("not_comparable_because"));
        String differences = String.valueOf(result.getString("differences"));
        if (!differences.isEmpty()) out.println(differences.indent(2).stripTrailing());
        else if (result.getLong("different") > 0)
            out.println("  see petra.shadow_differences and the node's log");
        boolean isWell =
                result.getBoolean("complete")
                        && result.getLong("equal") == result.getLong("compared");
        boolean isTested = result.getLong("compared") > 0;
        if (isWell && !isTested) out.println("  nothing was compared, which says nothing");
        RowWriter.flush(out);
        return !isWell ? Main.FAILED : isTested ? 0 : Main.NOTHING_COMPARED;
    }

    /** Whether a row of {@code petra.comparisons} is of all of a table and its shadow. */
    static boolean isOfAll(Row row) {
        return String.valueOf(row.getString("token_range")).isEmpty()
                // A node of an older version compares with shadows only.
                && (!row.getColumnDefinitions().contains("snapshot")
                        || String.valueOf(row.getString("snapshot")).isEmpty());
    }

    /** A row of {@code petra.comparisons} in a line. */
    static String summary(Row row) {
        String range = String.valueOf(row.getString("token_range"));
        return "%s%s, %s"
                .formatted(
                        row.getString("state"),
                        range.isEmpty() ? "" : ", tokens " + range,
                        counts(row));
    }

    private static String counts(Row row) {
        return "partitions compared: %,d, equal: %,d, different: %,d, not comparable: %,d"
                .formatted(
                        row.getLong("compared"),
                        row.getLong("equal"),
                        row.getLong("different"),
                        row.getLong("not_comparable"));
    }

    private Row row(CqlClient client, String select, @Nullable Instant startedAt) {
        Rows rows = new Rows();
        client.run(select, rows, spec.commandLine().getErr());
        if (rows.all.size() != 1)
            throw new CqlException(
                    "the comparison of "
                            + table
                            + " is gone: the table has no shadow any more or was dropped, its"
                            + " shadow is made anew, or the node was restarted");
        Row row = rows.all.get(0);
        if (startedAt != null && !Objects.equals(row.getInstant("started_at"), startedAt))
            throw new CqlException(
                    "another comparison of "
                            + table
                            + " has begun; the result of this one is in"
                            + " the node's log");
        return row;
    }
}
