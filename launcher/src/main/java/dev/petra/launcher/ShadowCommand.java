// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.cql.CqlClient;
import dev.petra.launcher.cql.CqlException;
import dev.petra.launcher.cql.RowWriter;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code petra shadow}: what the nodes of a cluster say of their shadow tables. */
@Command(
        name = "shadow",
        description = "Tells about tables that an engine shadows, and has a shadow made anew.",
        subcommands = {ShadowCommand.Report.class, ShadowCommand.Anew.class})
final class ShadowCommand implements Runnable {
    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Missing command: report or anew");
    }

    /** {@code petra shadow anew}. */
    @Command(
            name = "anew",
            description = {
                "Has the node at an address copy a table to its shadow anew, and forget what"
                        + " comparisons have found. For whoever knows why the two differed: as"
                        + " long as a difference is known, the shadow neither answers nor becomes"
                        + " the table."
            })
    static final class Anew implements Callable<Integer> {
        @Parameters(paramLabel = "KEYSPACE.TABLE", description = "The table.")
        private String table = "";

        @Mixin private CqlOptions node = new CqlOptions();

        @Spec
        @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
        private CommandSpec spec;

        @Override
        public Integer call() {
            Matcher name = CompareCommand.name(table, spec);
            try (CqlClient client = node.connect()) {
                client.run(
                        "UPDATE petra.shadow SET state = 'anew' WHERE "
                                + "keyspace_name = '%s' AND table_name = '%s'"
                                        .formatted(name.group(1), name.group(2)),
                        new Rows(),
                        spec.commandLine().getErr());
            }
            PrintWriter out = spec.commandLine().getOut();
            out.printf(
                    "The shadow of %s on %s is made anew; petra.shadow says when it has caught up."
                            + " Then compare again: 'petra compare %s'%n",
                    table, node.address(), table);
            RowWriter.flush(out);
            return 0;
        }
    }

    /** {@code petra shadow report}. */
    @Command(
            name = "report",
            description = {
                "Asks all nodes of a cluster how far their shadows are and whether reads had the"
                        + " same answers from them.",
                "The exit code is 0 if each shadow has caught up, gave at least one answer that is"
                        + " equal or undecided, or holds nothing, and gave none that differs; 3 if"
                        + " all that is missing is that something was compared."
                        + " It does not say that all of a table was compared: that is for 'petra"
                        + " compare', of which the report shows the last result.",
                "A node that has the table in its engine already counts as one whose shadow has"
                        + " caught up."
            })
    static final class Report implements Callable<Integer> {
        private static final String SHADOWS = "SELECT * FROM petra.shadow";
        private static final String COMPARISONS = "SELECT * FROM petra.comparisons";
        private static final String TABLES =
                "SELECT keyspace_name, table_name, usable FROM petra.tables";
        private static final String MIGRATIONS =
                "SELECT keyspace_name, table_name FROM petra.migrations";

        /** The newest; those that are undecided come last. */
        private static final String DIFFERENCES =
                "SELECT * FROM petra.shadow_differences WHERE keyspace_name = '%s' AND table_name ="
                        + " '%s' LIMIT 10";

        private static final String HEAP = "memtable_heap_bytes";
        private static final String OFF_HEAP = "memtable_off_heap_bytes";
        private static final String WRITE_BUFFERS = "shadow_write_buffer_bytes";
        private static final String ADDRESS = "native_address";
        private static final String PORT = "native_port";

        @Mixin private CqlOptions options = new CqlOptions();

        @Spec
        @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
        private CommandSpec spec;

        record Node(String address, int port) {
            @Override
            public String toString() {
                return address + ":" + port;
            }
        }

        /**
         * @param comparison the last one by {@code petra compare}, or null
         * @param differences the first ones, as the node has them
         */
        record Shadow(Node node, Row metrics, @Nullable Row comparison, List<Row> differences) {
            String table() {
                return name(metrics);
            }

            long count(String column) {
                return metrics.getLong(column);
            }

            /** A node of an older version has not all columns. */
            boolean has(String column) {
                return metrics.getColumnDefinitions().contains(column);
            }

            long undecided() {
                return has("undecided") ? count("undecided") : 0;
            }

            double micros(String column) {
                return metrics.getDouble(column);
            }

            boolean isCaughtUp() {
                return metrics.getBoolean("caught_up");
            }

            /** Null if there was none, or the node is of a version that does not tell. */
            @Nullable String lateWrite() {
                return has("late_write") ? metrics.getString("late_write") : null;
            }

            /** Whether it answers reads or why not; null where nobody wants it to. */
            @Nullable String answers() {
                String answers = has("answers") ? metrics.getString("answers") : null;
                return answers == null || answers.equals("no: mode is shadow") ? null : answers;
            }

            /** Whether it has caught up, and no comparison has told anything. */
            boolean isUntested() {
                return isCaughtUp() && !wasCompared() && !holdsNothing();
            }

            boolean wasCompared() {
                return count("equal") + count("different") + undecided() > 0;
            }

            /** Whether all was compared and was nothing, as on a node that is no replica. */
            boolean holdsNothing() {
                Row last = comparison;
                return last != null
                        && CompareCommand.isOfAll(last)
                        && last.getBoolean("complete")
                        && last.getLong("compared") == 0
                        && count("table_bytes") == 0
                        && has(HEAP)
                        && count(HEAP) + count(OFF_HEAP) == 0;
            }
        }

        @Override
        public Integer call() {
            PrintWriter out = spec.commandLine().getOut();
            List<Node> nodes = nodes();
            Map<String, List<Shadow>> tables = new TreeMap<>();
            List<String> silent = new ArrayList<>();
            Map<Node, Set<String>> inEngine = new LinkedHashMap<>();
            for (Node node : nodes) {
                try (CqlClient client = options.connect(node.address(), node.port())) {
                    Map<String, Row> comparisons = new HashMap<>();
                    for (Row row : rows(client, COMPARISONS)) comparisons.put(name(row), row);
                    for (Row row : rows(client, SHADOWS)) {
                        Shadow shadow =
                                new Shadow(
                                        node,
                                        row,
                                        comparisons.get(name(row)),
                                        differences(client, row));
                        tables.computeIfAbsent(shadow.table(), any -> new ArrayList<>())
                                .add(shadow);
                    }
                    inEngine.put(node, inEngine(client));
                } catch (CqlException e) {
                    silent.add(node + ": " + e.getMessage());
                }
            }
            if (tables.isEmpty() && silent.isEmpty()) out.println("No table has a shadow.");
            boolean isWell = silent.isEmpty();
            for (Map.Entry<String, List<Shadow>> table : tables.entrySet())
                isWell &= write(out, table.getKey(), table.getValue(), inEngine, nodes.size());
            for (String node : silent) out.println("Not asked: " + node);
            boolean isTested =
                    !tables.isEmpty()
                            && tables.values().stream()
                                    .allMatch(
                                            shadows ->
                                                    shadows.stream().anyMatch(Shadow::wasCompared)
                                                            && shadows.stream()
                                                                    .noneMatch(Shadow::isUntested));
            if (isWell && !isTested)
                out.println("Nothing was compared, which says nothing: see 'petra compare'");
            RowWriter.flush(out);
            return !isWell ? Main.FAILED : isTested ? 0 : Main.NOTHING_COMPARED;
        }

        private static String name(Row row) {
            return row.getString("keyspace_name") + "." + row.getString("table_name");
        }

        /** The tables that a node has in its engine, and that are not on their way. */
        private Set<String> inEngine(CqlClient client) {
            // First: one whose way out ends meanwhile is not among the tables.
            Set<String> migrating = new HashSet<>();
            for (Row row : rows(client, MIGRATIONS)) migrating.add(name(row));
            Set<String> tables = new HashSet<>();
            for (Row row : rows(client, TABLES))
                if (row.getBoolean("usable") && !migrating.contains(name(row)))
                    tables.add(name(row));
            return tables;
        }

        private List<Row> differences(CqlClient client, Row shadow) {
            return shadow.getLong("different") == 0
                    ? List.of()
                    : rows(
                            client,
                            DIFFERENCES.formatted(
                                    shadow.getString("keyspace_name"),
                                    shadow.getString("table_name")));
        }

        /**
         * Whether all is well with a table, of which some nodes have a shadow.
         *
         * @param inEngine the nodes that were asked, and the tables that are in the engine there
         */
        static boolean write(
                PrintWriter out,
                String table,
                List<Shadow> shadows,
                Map<Node, Set<String>> inEngine,
                int nodes) {
            long caughtUp = shadows.stream().filter(Shadow::isCaughtUp).count();
            long different = sum(shadows, "different");
            out.printf("%s: %d of %d nodes have caught up%n", table, caughtUp, nodes);
            out.printf(
                    "  answers compared: %,d, equal: %,d, different: %,d, undecided: %,d, not"
                            + " comparable: %,d%n",
                    sum(shadows, "compared"),
                    sum(shadows, "equal"),
                    different,
                    shadows.stream().mapToLong(Shadow::undecided).sum(),
                    sum(shadows, "not_comparable"));
            long ofTable = sum(shadows, "table_bytes");
            long ofShadow = sum(shadows, "shadow_bytes");
            out.printf(
                    "  on disk: table %,d MiB, shadow %,d MiB, not purged yet%s%n",
                    ofTable >> 20,
                    ofShadow >> 20,
                    caughtUp < shadows.size()
                            ? "; not all is copied"
                            : ": " + difference(ofTable, ofShadow));
            if (allHave(shadows, HEAP))
                out.printf(
                        "  memory: the table's memtables take %,d MiB of the heap now and %,d MiB"
                                + " outside of it; the shadow's write buffers take none of the"
                                + " heap and %s outside of it, within the engine's 'memory'%n",
                        sum(shadows, HEAP) >> 20,
                        sum(shadows, OFF_HEAP) >> 20,
                        allHave(shadows, WRITE_BUFFERS)
                                ? String.format("%,d MiB", sum(shadows, WRITE_BUFFERS) >> 20)
                                : "some");
            out.println(
                    "  latencies, each the highest of any node, median and P99 in microseconds:");
            out.print(latencies(shadows, "compared reads of single partitions", "read"));
            out.print(latencies(shadows, "compared reads of ranges", "range"));
            out.print(latencies(shadows, "writes to memory, without any log", "write"));
            for (Shadow shadow : shadows) {
                if (shadow.isUntested()) out.printf("  %s: nothing was compared%n", shadow.node());
                else if (shadow.isCaughtUp() && !shadow.wasCompared())
                    out.printf("  %s: holds nothing of the table%n", shadow.node());
                Row comparison = shadow.comparison();
                out.printf(
                        "  %s: petra compare: %s%n",
                        shadow.node(),
                        comparison == null
                                ? "not since the node was started"
                                : CompareCommand.summary(comparison));
                String late = shadow.lateWrite();
                if (late != null)
                    out.printf("  %s: its shadow may lack a late write: %s%n", shadow.node(), late);
                String answers = shadow.answers();
                if (answers != null)
                    out.printf(
                            "  %s: the shadow answers reads: %s; so far %,d, and the table %,d%n",
                            shadow.node(),
                            answers,
                            shadow.count("answered"),
                            shadow.count("left_to_table"));
                if (!shadow.isCaughtUp() || shadow.count("different") > 0)
                    out.printf(
                            "  %s: %s, %,d different%n",
                            shadow.node(),
                            shadow.metrics().getString("state"),
                            shadow.count("different"));
                for (Row difference : shadow.differences()) out.print(told(difference));
            }
            Set<Node> with = shadows.stream().map(Shadow::node).collect(Collectors.toSet());
            long moved = 0;
            for (Map.Entry<Node, Set<String>> node : inEngine.entrySet()) {
                if (with.contains(node.getKey())) continue;
                boolean isMoved = node.getValue().contains(table);
                if (isMoved) moved++;
                out.printf(
                        "  %s: %s%n",
                        node.getKey(),
                        isMoved
                                ? "the table is in the engine already"
                                : "has no shadow of this table");
            }
            if (different > 0)
                out.println(
                        "  see petra.shadow_differences, and the log, on each node that is named"
                                + " here");
            return different == 0 && caughtUp + moved == nodes;
        }

        /** A line of {@code petra.shadow_differences}; none of what is undecided. */
        private static String told(Row difference) {
            // A node of an older version has no kinds.
            if (difference.getColumnDefinitions().contains("kind")
                    && !"different".equals(difference.getString("kind"))) return "";
            return String.format(
                    "    partition %s, %s: the table has: %s; the shadow has: %s%n",
                    difference.getString("partition_key"),
                    difference.getString("place"),
                    side(difference, "only_in_table"),
                    side(difference, "only_in_shadow"));
        }

        private static String side(Row difference, String column) {
            String has = difference.getString(column);
            return has == null || has.isEmpty() ? "nothing" : has;
        }

        /** How long both sides took, in a line; none if a node is of a version that lacks that. */
        static String latencies(List<Shadow> shadows, String what, String kind) {
            String ofTable = "table_" + kind + "_micros_";
            String ofShadow = "shadow_" + kind + "_micros_";
            if (!allHave(shadows, ofTable + "p50")) return "";
            return String.format(
                    Locale.ROOT,
                    "    %s: table %,.0f and %,.0f, shadow %,.0f and %,.0f%n",
                    what,
                    max(shadows, ofTable + "p50"),
                    max(shadows, ofTable + "p99"),
                    max(shadows, ofShadow + "p50"),
                    max(shadows, ofShadow + "p99"));
        }

        private static boolean allHave(List<Shadow> shadows, String column) {
            return shadows.stream().allMatch(shadow -> shadow.has(column));
        }

        /** What changing would save on disk, or cost. */
        static String difference(long ofTable, long ofShadow) {
            long less = (ofTable - ofShadow) >> 20;
            if (ofTable >> 20 == 0) return "too little in SSTables to tell";
            if (less == 0) return "about the same";
            return String.format(
                    Locale.ROOT,
                    "the engine takes %,d MiB %s (%,d %%)",
                    Math.abs(less),
                    less > 0 ? "less" : "more",
                    Math.round(100.0 * Math.abs(ofTable - ofShadow) / ofTable));
        }

        private static long sum(List<Shadow> shadows, String column) {
            return shadows.stream().mapToLong(shadow -> shadow.count(column)).sum();
        }

        private static double max(List<Shadow> shadows, String column) {
            return shadows.stream().mapToDouble(shadow -> shadow.micros(column)).max().orElse(0);
        }

        /** The one that is asked first, by the address that is known to work, and the others. */
        private List<Node> nodes() {
            List<Node> nodes = new ArrayList<>();
            nodes.add(new Node(options.address(), options.port()));
            try (CqlClient client = options.connect()) {
                for (Row row :
                        rows(client, "SELECT native_address, native_port FROM system.peers_v2")) {
                    InetAddress peer = row.getInetAddress(ADDRESS);
                    // It is null for a node that has just joined.
                    if (peer != null) nodes.add(new Node(peer.getHostAddress(), row.getInt(PORT)));
                }
            }
            nodes.sort(Comparator.comparing(Node::toString));
            return nodes;
        }

        private List<Row> rows(CqlClient client, String select) {
            Rows rows = new Rows();
            client.run(select, rows, spec.commandLine().getErr());
            return rows.all;
        }
    }
}
