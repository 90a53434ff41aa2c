// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/**
 * A random table and random statements for it: few keys, few clusterings, few values and few
 * timestamps, so that everything meets everything else, ties included.
 *
 * <p>Left out, because Cassandra's own answer depends on what was merged with what: deletions of
 * ranges and partitions at one timestamp with different local times (each has a timestamp of its
 * own); writes older than what may have been purged (timestamps go up when the clock moves); drops
 * at fractions of a millisecond (Cassandra forgets them when it restarts); deleting counters and
 * counting on.
 */
final class History {
    private static final Map<String, List<String>> VALUES = new LinkedHashMap<>();

    static {
        VALUES.put("int", List.of("-1", "0", "1", "2147483647"));
        VALUES.put("text", List.of("''", "'a'", "'ab'", "'\u00e9'"));
        VALUES.put("bigint", List.of("-9223372036854775808", "0", "7"));
        VALUES.put("blob", List.of("0x", "0x00", "0x00ff", "0xff"));
        VALUES.put("decimal", List.of("1", "2.0", "-0.5", "1e10"));
        VALUES.put("varint", List.of("0", "-1", "128", "99999999999999999999"));
        VALUES.put("boolean", List.of("true", "false"));
        VALUES.put("double", List.of("-1.5", "0", "1e300"));
        VALUES.put("float", List.of("-1.5", "0", "2"));
        VALUES.put("inet", List.of("'10.0.0.1'", "'::1'"));
        VALUES.put("date", List.of("'1969-12-31'", "'2020-01-01'"));
        VALUES.put("time", List.of("'00:00:00'", "'12:30:00.5'"));
        VALUES.put("timestamp", List.of("-5", "0", "1600000000000"));
        VALUES.put(
                "uuid",
                List.of(
                        "00000000-0000-4000-8000-000000000000",
                        "ffffffff-ffff-4fff-bfff-ffffffffffff"));
        VALUES.put(
                "timeuuid",
                List.of(
                        "00000000-0000-1000-8000-000000000000",
                        "f0000000-0000-1000-8000-0000000000ff"));
        VALUES.put("smallint", List.of("-1", "0", "9"));
        VALUES.put("tinyint", List.of("-1", "0", "9"));
        VALUES.put("ascii", List.of("''", "'a'", "'b'"));
        VALUES.put("frozen<list<int>>", List.of("[]", "[1]", "[1, 2]"));
        VALUES.put("frozen<set<text>>", List.of("{}", "{'a'}", "{'a', 'b'}"));
        VALUES.put("frozen<map<int, text>>", List.of("{}", "{1: 'a'}"));
        VALUES.put("frozen<tuple<int, text>>", List.of("(1, 'a')", "(null, 'b')"));
        VALUES.put("frozen<pair>", List.of("{a: 1, b: 'x'}", "{a: 2}"));
        VALUES.put("vector<float, 2>", List.of("[0, 1]", "[1, 0]"));
        VALUES.put("duration", List.of("1d", "2h3s"));
    }

    private static final List<String> COLLECTIONS =
            List.of("list<int>", "set<text>", "map<int, text>", "pair");

    private record Column(String name, String type) {
        boolean isCollection() {
            return COLLECTIONS.contains(type);
        }
    }

    private final Random random;
    private final List<Column> keys = new ArrayList<>();
    private final List<Column> clusterings = new ArrayList<>();
    private final List<Column> statics = new ArrayList<>();
    private final List<Column> regulars = new ArrayList<>();
    private final Set<Long> deletionTimes = new HashSet<>();
    private final boolean counter;
    private final String create;
    private long base;
    private int added;

    History(long seed) {
        this.random = new Random(seed);
        this.counter = random.nextInt(10) == 0;
        List<String> comparable = new ArrayList<>(VALUES.keySet());
        comparable.remove("duration");
        for (int i = 0; i <= random.nextInt(2); i++)
            keys.add(new Column("k" + i, i == 0 ? pick("int", "text", "blob") : pick(comparable)));
        for (int i = pick(0, 1, 1, 1, 2, 2, 3); i > 0; i--)
            clusterings.add(
                    new Column(
                            "c" + clusterings.size(),
                            random.nextInt(3) == 0 ? "int" : pick(comparable)));
        if (!clusterings.isEmpty())
            for (int i = pick(0, 0, 1, 2); i > 0; i--)
                statics.add(new Column("s" + statics.size(), type()));
        for (int i = pick(1, 2, 3, 4); i > 0; i--)
            regulars.add(new Column("v" + regulars.size(), type()));
        this.create = createStatement();
    }

    private String type() {
        if (counter) return "counter";
        return random.nextInt(3) == 0 ? pick(COLLECTIONS) : pick(new ArrayList<>(VALUES.keySet()));
    }

    String create() {
        return create;
    }

    private String createStatement() {
        StringBuilder cql = new StringBuilder("CREATE TABLE @t (");
        for (List<Column> columns : List.of(keys, clusterings, regulars))
            for (Column column : columns)
                cql.append(column.name).append(' ').append(column.type).append(", ");
        for (Column column : statics)
            cql.append(column.name).append(' ').append(column.type).append(" static, ");
        cql.append("PRIMARY KEY ((").append(names(keys)).append(')');
        if (!clusterings.isEmpty()) cql.append(", ").append(names(clusterings));
        cql.append("))");
        List<String> options = new ArrayList<>();
        if (!clusterings.isEmpty()) {
            List<String> order = new ArrayList<>();
            for (Column column : clusterings)
                order.add(column.name + (random.nextBoolean() ? " DESC" : " ASC"));
            options.add("CLUSTERING ORDER BY (" + String.join(", ", order) + ")");
        }
        options.add("gc_grace_seconds = " + pick(5, 864000));
        if (!counter && random.nextInt(6) == 0) options.add("default_time_to_live = 20");
        options.add("compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}");
        return cql.append(" WITH ").append(String.join(" AND ", options)).toString();
    }

    private static String names(List<Column> columns) {
        return String.join(", ", columns.stream().map(Column::name).toList());
    }

    /** The next step: a statement, or {@code flush}, {@code compact}, or {@code clock <ms>}. */
    String next() {
        int kind = random.nextInt(100);
        if (kind < 4) return "flush";
        if (kind < 7) return "compact";
        if (kind < 10) {
            base += 1_000;
            deletionTimes.clear();
            return "clock " + (1 + random.nextInt(12)) * 1_000;
        }
        if (kind < 13) return alter();
        if (counter) return count();
        if (kind < 22) {
            List<String> statements = new ArrayList<>();
            for (int i = 1 + random.nextInt(4); i > 0; i--) statements.add(modification());
            return "BEGIN "
                    + pick("UNLOGGED ", "")
                    + "BATCH "
                    + String.join("; ", statements)
                    + "; APPLY BATCH";
        }
        return modification();
    }

    private String count() {
        List<Column> columns = random.nextInt(4) == 0 && !statics.isEmpty() ? statics : regulars;
        String where = columns == statics ? whereKey() : whereRow();
        return "UPDATE @t SET "
                + assign(
                        columns, column -> column.name + " = " + column.name + pick(" + 1", " - 2"))
                + where;
    }

    private interface Assignment {
        String of(Column column);
    }

    private String assign(List<Column> columns, Assignment assignment) {
        List<String> parts = new ArrayList<>();
        for (Column column : columns)
            if (parts.isEmpty() || random.nextInt(2) == 0) parts.add(assignment.of(column));
        return String.join(", ", parts);
    }

    private String modification() {
        boolean onlyStatic = !statics.isEmpty() && random.nextInt(5) == 0;
        List<Column> columns = onlyStatic ? statics : regulars;
        String where = onlyStatic ? whereKey() : whereRow();
        switch (random.nextInt(10)) {
            case 0, 1, 2 -> {
                List<Column> all = new ArrayList<>(keys);
                if (!onlyStatic) all.addAll(clusterings);
                for (Column column : onlyStatic ? statics : regulars)
                    if (random.nextInt(3) > 0) all.add(column);
                if (!onlyStatic && !statics.isEmpty() && random.nextInt(4) == 0)
                    all.add(statics.get(0));
                List<String> values = all.stream().map(this::insertable).toList();
                return "INSERT INTO @t ("
                        + names(all)
                        + ") VALUES ("
                        + String.join(", ", values)
                        + ")"
                        + using(true);
            }
            case 3, 4, 5, 6 -> {
                return "UPDATE @t" + using(true) + " SET " + assign(columns, this::set) + where;
            }
            case 7 -> {
                return "DELETE "
                        + assign(columns, this::deletable)
                        + " FROM @t"
                        + using(false)
                        + where;
            }
            default -> {
                return "DELETE FROM @t USING TIMESTAMP " + deletionTime() + whereDeleted();
            }
        }
    }

    private String using(boolean ttl) {
        String using = " USING TIMESTAMP " + timestamp();
        return ttl && random.nextInt(4) == 0 ? using + " AND TTL " + pick(0, 1, 5, 30, 600) : using;
    }

    private long timestamp() {
        return base + random.nextInt(16) - 3;
    }

    /** Of ranges and partitions each its own, among those of cells. */
    private long deletionTime() {
        for (int i = 0; i < 10; i++) {
            long time = timestamp();
            if (deletionTimes.add(time)) return time;
        }
        long time = base + 20 + deletionTimes.size();
        deletionTimes.add(time);
        return time;
    }

    private String insertable(Column column) {
        boolean isKey = keys.contains(column) || clusterings.contains(column);
        if (isKey) return keys.contains(column) ? keyValue(column) : value(column.type);
        return random.nextInt(8) == 0 ? "null" : content(column.type);
    }

    private String value(String type) {
        return switch (type) {
            case "list<int>" -> pick("[]", "[1]", "[1, 2]");
            case "set<text>" -> pick("{}", "{'a'}", "{'a', 'b'}");
            case "map<int, text>" -> pick("{}", "{1: 'a'}", "{1: 'b', 2: 'c'}");
            case "pair" -> pick("{a: 1}", "{a: 2, b: 'y'}");
            default -> pick(VALUES.get(type));
        };
    }

    /** A value that is not of the key: it may be large. */
    private String content(String type) {
        boolean text = type.equals("text");
        if (!(text || type.equals("blob")) || random.nextInt(3) > 0) return value(type);
        int size = Integer.getInteger("fuzz.large") + random.nextInt(3) - 1;
        return text
                ? "'" + pick("6", "7").repeat(size) + "'"
                : "0x" + pick("66", "77").repeat(size);
    }

    private String set(Column column) {
        String name = column.name;
        int kind = random.nextInt(6);
        if (!column.isCollection() || kind < 2)
            return name + " = " + (random.nextInt(8) == 0 ? "null" : content(column.type));
        return switch (column.type) {
            case "list<int>" ->
                    switch (kind) {
                        case 2 -> name + " = " + name + " + [" + pick("1", "2") + "]";
                        case 3 -> name + " = [3] + " + name;
                        case 4 -> name + "[" + pick("0", "1") + "] = 9";
                        default -> name + " = " + name + " - [1]";
                    };
            case "set<text>" ->
                    name + " = " + name + pick(" + ", " - ") + pick("{'a'}", "{'c', 'd'}");
            case "map<int, text>" ->
                    switch (kind) {
                        case 2 -> name + "[" + pick("1", "2", "3") + "] = " + pick("'m'", "null");
                        case 3 -> name + " = " + name + " - {1}";
                        default -> name + " = " + name + " + {2: 'x', 3: 'y'}";
                    };
            default -> name + pick(".a = 5", ".b = 'z'", ".a = null");
        };
    }

    private String deletable(Column column) {
        if (random.nextBoolean()) return column.name;
        return switch (column.type) {
            case "list<int>" -> column.name + "[0]";
            case "set<text>" -> column.name + "['a']";
            case "map<int, text>" -> column.name + "[" + pick("1", "2") + "]";
            case "pair" -> column.name + ".a";
            default -> column.name;
        };
    }

    private String whereKey() {
        List<String> parts = new ArrayList<>();
        for (Column column : keys) parts.add(column.name + " = " + keyValue(column));
        return " WHERE " + String.join(" AND ", parts);
    }

    private String keyValue(Column column) {
        List<String> values = VALUES.get(column.type);
        // Of those that may be a partition key by themselves.
        String value = values.get(random.nextInt(Math.min(3, values.size())));
        return value.equals("''") || value.equals("0x") ? values.get(1) : value;
    }

    private String whereRow() {
        StringBuilder where = new StringBuilder(whereKey());
        for (Column column : clusterings)
            where.append(" AND ").append(column.name).append(" = ").append(value(column.type));
        return where.toString();
    }

    /** A partition, a range, or a row. */
    private String whereDeleted() {
        StringBuilder where = new StringBuilder(whereKey());
        int prefix = clusterings.isEmpty() ? 0 : random.nextInt(clusterings.size() + 1);
        for (int i = 0; i < prefix; i++) {
            Column column = clusterings.get(i);
            where.append(" AND ").append(column.name).append(" = ").append(value(column.type));
        }
        if (prefix < clusterings.size() && random.nextInt(4) > 0)
            where.append(range(clusterings.get(prefix)));
        return where.toString();
    }

    private String range(Column column) {
        StringBuilder range = new StringBuilder();
        int sides = 1 + random.nextInt(3);
        if ((sides & 1) != 0)
            range.append(" AND ")
                    .append(column.name)
                    .append(pick(" > ", " >= "))
                    .append(value(column.type));
        if ((sides & 2) != 0)
            range.append(" AND ")
                    .append(column.name)
                    .append(pick(" < ", " <= "))
                    .append(value(column.type));
        return range.toString();
    }

    private String alter() {
        switch (random.nextInt(4)) {
            case 0 -> {
                Column column = new Column("x" + added++, type());
                regulars.add(column);
                return "ALTER TABLE @t ADD " + column.name + " " + column.type;
            }
            case 1 -> {
                if (regulars.size() < 2 || counter) return "flush";
                Column column = regulars.remove(random.nextInt(regulars.size()));
                base += 2_000;
                return "ALTER TABLE @t DROP " + column.name + " USING TIMESTAMP " + (base - 1_000);
            }
            case 2 -> {
                // Dropped and added again: old cells must not come back.
                if (regulars.isEmpty() || counter) return "compact";
                Column column = regulars.get(random.nextInt(regulars.size()));
                base += 2_000;
                return "ALTER TABLE @t DROP "
                        + column.name
                        + " USING TIMESTAMP "
                        + (base - 1_000)
                        + "\nALTER TABLE @t ADD "
                        + column.name
                        + " "
                        + column.type;
            }
            default -> {
                base += 1_000;
                return "ALTER TABLE @t WITH gc_grace_seconds = " + pick(5, 864000);
            }
        }
    }

    /** A random query. */
    String select() {
        String columns =
                switch (random.nextInt(6)) {
                    case 0 -> names(regulars).isEmpty() ? "*" : regulars.get(0).name;
                    case 1 -> names(keys);
                    case 2 -> "JSON *";
                    case 3 -> functions();
                    default -> "*";
                };
        if (columns.isEmpty()) columns = "*";
        StringBuilder select = new StringBuilder("SELECT ").append(columns).append(" FROM @t");
        switch (random.nextInt(8)) {
            case 0 -> {
                return "SELECT DISTINCT " + distinct() + " FROM @t";
            }
            case 1 -> select.append(token());
            case 2 -> {
                if (!clusterings.isEmpty() && random.nextBoolean())
                    return "SELECT "
                            + names(keys)
                            + ", count(*) FROM @t GROUP BY "
                            + names(keys)
                            + (random.nextBoolean() ? ", " + clusterings.get(0).name : "");
            }
            case 3 -> {
                if (!clusterings.isEmpty()) {
                    Column last = clusterings.get(0);
                    select.append(whereKey())
                            .append(" AND ")
                            .append(last.name)
                            .append(" IN (")
                            .append(value(last.type))
                            .append(", ")
                            .append(value(last.type))
                            .append(")");
                }
            }
            default -> {
                select.append(whereDeleted());
                if (!clusterings.isEmpty() && random.nextInt(3) == 0) {
                    List<String> order = new ArrayList<>();
                    boolean reversed = random.nextBoolean();
                    for (Column column : clusterings)
                        order.add(
                                column.name
                                        + (isDescending(column) != reversed ? " DESC" : " ASC"));
                    select.append(" ORDER BY ").append(String.join(", ", order));
                }
            }
        }
        if (random.nextInt(5) == 0) select.append(" PER PARTITION LIMIT ").append(pick(1, 2));
        if (random.nextInt(5) == 0) select.append(" LIMIT ").append(pick(1, 2, 3));
        return select.append(" ALLOW FILTERING").toString();
    }

    private boolean isDescending(Column column) {
        return create.contains(column.name + " DESC");
    }

    private String distinct() {
        return names(keys)
                + (statics.isEmpty() || random.nextBoolean() ? "" : ", " + names(statics));
    }

    private String token() {
        return " WHERE token("
                + names(keys)
                + ") "
                + pick("> ", ">= ", "< ", "<= ")
                + pick("-1", "0", "4611686018427387904", "-4611686018427387904");
    }

    private String functions() {
        List<String> parts = new ArrayList<>();
        for (Column column : regulars) {
            if (counter) parts.add(column.name);
            else if (column.isCollection()) parts.add("MAXWRITETIME(" + column.name + ")");
            else {
                parts.add("WRITETIME(" + column.name + ")");
                parts.add("TTL(" + column.name + ")");
            }
        }
        return String.join(", ", parts);
    }

    @SafeVarargs
    private <T> T pick(T... values) {
        return values[random.nextInt(values.length)];
    }

    private <T> T pick(List<T> values) {
        return values.get(random.nextInt(values.size()));
    }
}
