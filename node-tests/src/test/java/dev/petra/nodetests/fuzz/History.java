// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A random table and random statements for it: few keys, few clusterings, few values and few
 * timestamps, so that everything meets everything else, ties included. Some tables count, some are
 * written by light-weight transactions, some have long partitions, some timestamps of far away, and
 * half of them have indexes, which come and go.
 *
 * <p>Statements name the table by {@code @t}, its user type by {@code @u}, and long values by
 * {@code {{what*times}}}.
 *
 * <p>Left out, because Cassandra's own answer depends on what was merged with what: deletions of
 * ranges and partitions whose timestamps and local times are not in the same order; writes older
 * than what may have been purged; drops of columns that have cells newer than the drop; drops at
 * fractions of a millisecond (Cassandra forgets them when it restarts); deleting counters and
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
        // One of them in more bytes than it needs.
        VALUES.put("varint", List.of("0", "blob_as_varint(0x0005)", "128", "99999999999999999999"));
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
        VALUES.put("frozen<@u>", List.of("{a: 1, b: 'x'}", "{a: 2}"));
        VALUES.put("vector<float, 2>", List.of("[0, 1]", "[1, 0]"));
        VALUES.put("duration", List.of("1d", "2h3s"));
    }

    private static final List<String> COLLECTIONS =
            List.of("list<int>", "set<text>", "map<int, text>", "@u");

    private record Column(String name, String type) {
        boolean isCollection() {
            return COLLECTIONS.contains(type);
        }
    }

    /** An index; {@code target} is what it is on, and says which {@link #condition} it serves. */
    private record Index(String name, Column column, String target, boolean attached) {
        String create() {
            return "CREATE INDEX "
                    + name
                    + " ON @t ("
                    + target
                    + ") USING "
                    + (attached ? "'sai'" : "'legacy_local_table'");
        }
    }

    private Random random;

    /** What concerns indexes alone, so that without them the history is the same. */
    private final Random indexing;

    private final List<Index> indexes = new ArrayList<>();
    private final boolean indexed;
    private final List<Column> keys = new ArrayList<>();
    private final List<Column> clusterings = new ArrayList<>();
    private final List<Column> statics = new ArrayList<>();
    private final List<Column> regulars = new ArrayList<>();
    private final List<String> order = new ArrayList<>();
    private final boolean counter;
    private final boolean transactions;
    private final boolean wide;
    private final boolean faraway;
    private final boolean oneMutation;
    private final int large;
    private final String create;

    /** Highest timestamps of covering deletions: up to now, and before this second. */
    private long lastDeletion = Long.MIN_VALUE;

    /** For Cassandra's table; for the engine's only where it makes no difference. */
    static final String NOT_COMPACTED = ", 'enabled': 'false'";

    private long lastOlderDeletion = Long.MIN_VALUE;
    private long base;
    private boolean mayPurge;

    /** The engine merges files, and lets go those that have expired, whenever it likes. */
    private boolean windows;

    private boolean expires;

    /** In an earlier process, too. */
    private boolean everPurged;

    private int added;
    private int renamed;
    private int fields;
    private int indexNames;

    /** How many indexes are still to be created before anything else. */
    private int indexesAtFirst;

    /**
     * @param withIndexes whether the engine can have any
     */
    History(long seed, boolean withIndexes) {
        this.random = new Random(seed);
        // Mixed: the first bits of a Random are alike where seeds are.
        this.indexing = new Random(new SplittableRandom(seed).nextLong());
        int kind = random.nextInt(20);
        this.counter = kind < 2;
        this.transactions = kind == 2;
        this.wide = kind > 2 && random.nextInt(5) == 0;
        this.faraway = kind > 2 && random.nextInt(5) == 0;
        this.oneMutation = kind > 2 && random.nextBoolean();
        this.large = pick(2, 100, 16_384);
        List<String> comparable = new ArrayList<>(VALUES.keySet());
        comparable.remove("duration");
        for (int i = 0; i <= random.nextInt(2); i++)
            keys.add(new Column("k" + i, i == 0 ? pick("int", "text", "blob") : pick(comparable)));
        for (int i = wide ? pick(1, 2) : pick(0, 1, 1, 1, 2, 2, 3); i > 0; i--) {
            boolean isInt = random.nextInt(3) == 0 || (wide && clusterings.isEmpty());
            clusterings.add(new Column("c" + clusterings.size(), isInt ? "int" : pick(comparable)));
            order.add(random.nextBoolean() ? " DESC" : " ASC");
        }
        if (!clusterings.isEmpty())
            for (int i = pick(0, 0, 1, 2); i > 0; i--)
                statics.add(new Column("s" + statics.size(), type()));
        for (int i = pick(1, 2, 3, 4); i > 0; i--)
            regulars.add(new Column("v" + regulars.size(), type()));
        this.create = createStatement();
        this.indexed = withIndexes && !counter && indexing.nextBoolean();
        if (indexed) indexesAtFirst = indexing.nextInt(4);
    }

    private String type() {
        if (counter) return "counter";
        return random.nextInt(3) == 0 ? pick(COLLECTIONS) : pick(new ArrayList<>(VALUES.keySet()));
    }

    /** A table {@code @t}, for which there is a type {@code @u} with fields a and b. */
    String create() {
        return create;
    }

    /** Writes without timestamps of their own: each execution has others. */
    boolean hasOwnTimestamps() {
        return !counter && !transactions;
    }

    /** Modifications are to be executed once, for both tables. */
    boolean isOneMutation() {
        return oneMutation;
    }

    /** Goes on in a new process, which has not purged anything yet. */
    void restarted(int life) {
        base = 1_000_000L * life;
        mayPurge = false;
        lastOlderDeletion = lastDeletion;
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
        if (!clusterings.isEmpty()) options.add("CLUSTERING ORDER BY (" + orderBy(false) + ")");
        // What is hidden from far away must not be purged from over what comes later.
        options.add("gc_grace_seconds = " + (faraway ? 864000 : pick(5, 864000)));
        if (!counter && random.nextInt(6) == 0) {
            options.add("default_time_to_live = 20");
            expires = true;
        }
        windows = random.nextInt(5) == 0;
        options.add(
                "compaction = {'class': '"
                        + (windows
                                ? "TimeWindowCompactionStrategy',"
                                        + " 'expired_sstable_check_frequency_seconds': 1,"
                                        + " 'min_threshold': 2, 'compaction_window_size': 1,"
                                        + " 'compaction_window_unit': 'MINUTES',"
                                        + " 'timestamp_resolution': "
                                        + pick("'MICROSECONDS'", "'SECONDS'")
                                : "SizeTieredCompactionStrategy'")
                        + NOT_COMPACTED
                        + "}");
        // What must change no answer: how files are written.
        if (random.nextInt(3) == 0) options.add("bloom_filter_fp_chance = 1.0");
        if (random.nextBoolean())
            options.add(
                    "compression = "
                            + pick(
                                    "{'enabled': 'false'}",
                                    "{'class': 'ZstdCompressor', 'chunk_length_in_kb': '4'}",
                                    "{'class': 'LZ4Compressor', 'chunk_length_in_kb': '64'}",
                                    "{'class': 'DeflateCompressor'}"));
        return cql.append(" WITH ").append(String.join(" AND ", options)).toString();
    }

    private String orderBy(boolean reversed) {
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < clusterings.size(); i++) {
            boolean descending = order.get(i).equals(" DESC") != reversed;
            parts.add(clusterings.get(i).name + (descending ? " DESC" : " ASC"));
        }
        return String.join(", ", parts);
    }

    private static String names(List<Column> columns) {
        return String.join(", ", columns.stream().map(Column::name).toList());
    }

    /**
     * The next step: a statement or some, one a line, or {@code flush}, {@code compact}, {@code
     * sweep}, {@code clock <ms>}.
     *
     * @param purgesUnasked the engine may purge whenever it likes, not only when told to compact
     */
    String next(boolean purgesUnasked) {
        if (indexesAtFirst > 0) {
            indexesAtFirst--;
            return aboutIndexes(this::createIndex);
        }
        if (indexed && indexing.nextInt(25) == 0)
            return aboutIndexes(
                    () ->
                            indexes.isEmpty() || (indexes.size() < 4 && random.nextInt(3) > 0)
                                    ? createIndex()
                                    : dropIndex(pick(indexes)));
        if (!indexes.isEmpty() && indexing.nextInt(8) == 0) return "sweep";
        return chosen(purgesUnasked || windows);
    }

    private String aboutIndexes(Supplier<String> choice) {
        Random others = random;
        random = indexing;
        try {
            return choice.get();
        } finally {
            random = others;
        }
    }

    /** On a column that the engine can index; legacy ones not on a part of the partition key. */
    private String createIndex() {
        boolean attached = random.nextInt(5) < 3;
        List<Column> columns = new ArrayList<>(regulars);
        columns.addAll(statics);
        columns.addAll(clusterings);
        if (attached && keys.size() > 1) columns.addAll(keys);
        columns.removeIf(
                column -> List.of("@u", "vector<float, 2>", "duration").contains(column.type));
        if (columns.isEmpty()) return "flush";
        Column column = pick(columns);
        String target =
                column.type.equals("map<int, text>")
                        ? pick("KEYS(", "VALUES(", "ENTRIES(") + column.name + ")"
                        : column.type.matches("frozen<(list|set|map).*")
                                ? "FULL(" + column.name + ")"
                                : column.name;
        Index index = new Index("@t_i" + indexNames++, column, target, attached);
        // Cassandra has one of a kind on a target, and in one query either of two.
        if (indexes.stream().anyMatch(other -> other.column.equals(column))) return "flush";
        indexes.add(index);
        return index.create();
    }

    private String dropIndex(Index index) {
        indexes.remove(index);
        return "DROP INDEX " + index.name;
    }

    /** A column that is renamed or dropped may have none. */
    private String withoutIndexes(Column column, String statement) {
        List<String> lines = new ArrayList<>();
        for (Index index : List.copyOf(indexes))
            if (index.column.equals(column)) lines.add(dropIndex(index));
        lines.add(statement);
        return String.join("\n", lines);
    }

    private String chosen(boolean purgesUnasked) {
        everPurged |= purgesUnasked || mayPurge;
        int kind = random.nextInt(100);
        if (kind < 4) return "flush";
        if (kind < 7) {
            // From now on what is older than what was written may be gone.
            base += 1_000;
            mayPurge = true;
            return "compact";
        }
        if (kind < 10) return clock((1 + random.nextInt(12)) * 1_000, purgesUnasked);
        if (kind < 13) return alter();
        if (kind == 13 && random.nextInt(3) == 0)
            return clock(1_000, purgesUnasked) + "\nTRUNCATE @t";
        if (counter) return count();
        if (kind < 22) {
            List<String> statements = new ArrayList<>();
            for (int i = 1 + random.nextInt(wide ? 25 : 4); i > 0; i--)
                statements.add(modification(false));
            if (!transactions && !regulars.isEmpty() && random.nextInt(3) == 0)
                statements.add(deletedAndWritten());
            return "BEGIN "
                    + pick("UNLOGGED ", "")
                    + "BATCH "
                    + String.join("; ", statements)
                    + "; APPLY BATCH";
        }
        return modification(transactions && random.nextInt(3) > 0);
    }

    private String clock(int millis, boolean purgesUnasked) {
        if (mayPurge || purgesUnasked) base += 1_000;
        lastOlderDeletion = lastDeletion;
        return "clock " + millis;
    }

    private String count() {
        List<Column> columns = random.nextInt(4) == 0 && !statics.isEmpty() ? statics : regulars;
        String where = columns == statics ? whereKey() : whereRow();
        return "UPDATE @t SET "
                + assign(
                        columns, column -> column.name + " = " + column.name + pick(" + 1", " - 2"))
                + where;
    }

    /** Both of one row, which are one row of the mutation. */
    private String deletedAndWritten() {
        String where = whereRow();
        return "DELETE FROM @t USING TIMESTAMP "
                + timestamp()
                + where
                + "; UPDATE @t"
                + using(true)
                + " SET "
                + assign(regulars, this::set)
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

    private String modification(boolean conditional) {
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
                        + (conditional ? " IF NOT EXISTS" : "")
                        + using(true);
            }
            case 3, 4, 5, 6 -> {
                return "UPDATE @t"
                        + using(true)
                        + " SET "
                        + assign(columns, this::set)
                        + where
                        + (conditional ? condition(columns) : "");
            }
            case 7 -> {
                return "DELETE "
                        + assign(columns, this::deletable)
                        + " FROM @t"
                        + using(false)
                        + where
                        + (conditional ? " IF EXISTS" : "");
            }
            default -> {
                if (transactions)
                    return "DELETE FROM @t"
                            + (conditional ? whereRow() + " IF EXISTS" : whereDeleted());
                return "DELETE FROM @t USING TIMESTAMP " + deletionTime() + whereDeleted();
            }
        }
    }

    private String condition(List<Column> columns) {
        Column column = pick(columns);
        if (column.isCollection() || random.nextInt(3) == 0) return " IF EXISTS";
        return " IF " + column.name + pick(" = ", " != ", " < ") + value(column.type);
    }

    private String using(boolean ttl) {
        boolean expiring = ttl && random.nextInt(transactions ? 6 : 4) == 0;
        expires |= expiring;
        if (transactions) return expiring ? " USING TTL " + pick(1, 5, 30) : "";
        String using = " USING TIMESTAMP " + timestamp();
        return expiring ? using + " AND TTL " + pick(0, 1, 5, 30, 600) : using;
    }

    private long timestamp() {
        if (faraway && random.nextInt(12) == 0)
            return pick(-4_000_000_000_000_000_000L, 4_000_000_000_000_000_000L);
        return base + random.nextInt(16) - 3;
    }

    /** Of ranges and partitions, among those of cells, in the order of their local times. */
    private long deletionTime() {
        long time = Math.max(base + random.nextInt(16) - 3, lastOlderDeletion + 1);
        lastDeletion = Math.max(lastDeletion, time);
        return time;
    }

    private String insertable(Column column) {
        boolean isKey = keys.contains(column) || clusterings.contains(column);
        if (isKey) return keys.contains(column) ? keyValue(column) : clustering(column);
        return random.nextInt(8) == 0 ? "null" : content(column.type);
    }

    private String value(String type) {
        return switch (type) {
            case "list<int>" -> pick("[]", "[1]", "[1, 2]");
            case "set<text>" -> pick("{}", "{'a'}", "{'a', 'b'}");
            case "map<int, text>" -> pick("{}", "{1: 'a'}", "{1: 'b', 2: 'c'}");
            case "@u" -> pick("{a: 1}", "{a: 2, b: 'y'}", "{a: 3" + field() + "}");
            default -> pick(VALUES.get(type));
        };
    }

    /** A value that is not of the key: it may be large. */
    private String content(String type) {
        boolean text = type.equals("text");
        if (!(text || type.equals("blob")) || random.nextInt(3) > 0) return value(type);
        int size = large + random.nextInt(3) - 1;
        return text
                ? "'{{" + pick("6", "7") + "*" + size + "}}'"
                : "0x{{" + pick("66", "77") + "*" + size + "}}";
    }

    private String clustering(Column column) {
        return wide && column.equals(clusterings.get(0))
                ? Integer.toString(random.nextInt(40))
                : value(column.type);
    }

    private String field() {
        return fields > 0 && random.nextBoolean() ? ", f" + random.nextInt(fields) + ": 'f'" : "";
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
            case "@u" -> column.name + ".a";
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
            where.append(" AND ").append(column.name).append(" = ").append(clustering(column));
        return where.toString();
    }

    /** A partition, a range, or a row. */
    private String whereDeleted() {
        StringBuilder where = new StringBuilder(whereKey());
        int prefix = clusterings.isEmpty() ? 0 : random.nextInt(clusterings.size() + 1);
        for (int i = 0; i < prefix; i++) {
            Column column = clusterings.get(i);
            where.append(" AND ").append(column.name).append(" = ").append(clustering(column));
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
                    .append(clustering(column));
        if ((sides & 2) != 0)
            range.append(" AND ")
                    .append(column.name)
                    .append(pick(" < ", " <= "))
                    .append(clustering(column));
        return range.toString();
    }

    private String alter() {
        switch (random.nextInt(7)) {
            case 0 -> {
                Column column = new Column("x" + added++, type());
                boolean isStatic = !clusterings.isEmpty() && random.nextInt(3) == 0;
                (isStatic ? statics : regulars).add(column);
                return "ALTER TABLE @t ADD "
                        + column.name
                        + " "
                        + column.type
                        + (isStatic ? " static" : "");
            }
            case 1 -> {
                if (regulars.size() < 2 || counter || transactions || faraway) return "flush";
                Column column = regulars.remove(random.nextInt(regulars.size()));
                return withoutIndexes(column, drop(column));
            }
            case 2 -> {
                // Dropped and added again: old cells must not come back.
                if (regulars.isEmpty() || counter || transactions || faraway) return "flush";
                Column column = pick(regulars);
                return withoutIndexes(
                        column,
                        drop(column) + "\nALTER TABLE @t ADD " + column.name + " " + column.type);
            }
            case 3 -> {
                List<Column> of =
                        clusterings.isEmpty() || random.nextInt(3) == 0 ? keys : clusterings;
                int at = random.nextInt(of.size());
                Column column = of.get(at);
                of.set(at, new Column("r" + renamed++, column.type));
                return withoutIndexes(
                        column, "ALTER TABLE @t RENAME " + column.name + " TO " + of.get(at).name);
            }
            case 4 -> {
                List<Column> primary = new ArrayList<>(keys);
                primary.addAll(clusterings);
                if (primary.stream().anyMatch(column -> column.type.contains("@u"))) return "flush";
                return "ALTER TYPE @u ADD f" + fields++ + " text";
            }
            default -> {
                if (faraway) return "flush";
                if (everPurged) base += 1_000;
                int grace = pick(5, 864000);
                // Never raised where something may be gone that would then have to be there.
                return "ALTER TABLE @t WITH gc_grace_seconds = " + (everPurged ? 5 : grace);
            }
        }
    }

    private String drop(Column column) {
        base += 2_000;
        return "ALTER TABLE @t DROP " + column.name + " USING TIMESTAMP " + (base - 1_000);
    }

    /** A random query. */
    String select() {
        String columns =
                switch (random.nextInt(8)) {
                    case 0 -> regulars.isEmpty() ? "*" : pick(regulars).name;
                    case 1 -> names(keys);
                    case 2 -> "JSON *";
                    case 3 -> functions();
                    case 4 -> parts();
                    default -> "*";
                };
        boolean whole = isOfExpiringCollections();
        if (columns.isEmpty() || whole) columns = "*";
        StringBuilder select = new StringBuilder("SELECT ").append(columns).append(" FROM @t");
        switch (random.nextInt(10)) {
            case 0 -> {
                if (!whole) return "SELECT DISTINCT " + distinct() + " FROM @t";
            }
            case 1 -> select.append(token());
            case 2 -> {
                if (!clusterings.isEmpty() && !whole) return grouped();
            }
            case 3 -> {
                if (!clusterings.isEmpty()) {
                    Column first = clusterings.get(0);
                    select.append(whereKey())
                            .append(" AND ")
                            .append(first.name)
                            .append(" IN (")
                            .append(clustering(first))
                            .append(", ")
                            .append(clustering(first))
                            .append(")");
                    if (clusterings.size() > 1 && random.nextBoolean())
                        select.append(range(clusterings.get(1)));
                }
            }
            case 4 -> {
                // Several partitions.
                Column last = keys.get(keys.size() - 1);
                for (Column key : keys) {
                    select.append(key.equals(keys.get(0)) ? " WHERE " : " AND ").append(key.name);
                    if (!key.equals(last)) select.append(" = ").append(keyValue(key));
                }
                select.append(" IN (")
                        .append(keyValue(last))
                        .append(", ")
                        .append(keyValue(last))
                        .append(")");
                if (!clusterings.isEmpty()) select.append(range(clusterings.get(0)));
            }
            case 5 -> {
                if (!regulars.isEmpty()) {
                    Column column = pick(regulars);
                    if (!column.isCollection() && !counter)
                        select.append(random.nextBoolean() ? whereKey() + " AND " : " WHERE ")
                                .append(column.name)
                                .append(" = ")
                                .append(content(column.type));
                }
            }
            case 6 -> {
                if (clusterings.size() > 1)
                    select.append(whereKey())
                            .append(" AND (")
                            .append(names(clusterings))
                            .append(pick(") > (", ") >= (", ") < (", ") <= ("))
                            .append(
                                    String.join(
                                            ", ",
                                            clusterings.stream().map(this::clustering).toList()))
                            .append(")");
            }
            default -> {
                select.append(whereDeleted());
                if (!clusterings.isEmpty() && random.nextInt(3) == 0)
                    select.append(" ORDER BY ").append(orderBy(random.nextBoolean()));
            }
        }
        if (random.nextInt(5) == 0) select.append(" PER PARTITION LIMIT ").append(pick(1, 2));
        if (random.nextInt(5) == 0) select.append(" LIMIT ").append(pick(1, 2, 3));
        return select.append(" ALLOW FILTERING").toString();
    }

    /** A random query by one index or two; null without any. */
    @Nullable String selectByIndex() {
        return indexes.isEmpty() ? null : aboutIndexes(this::byIndex);
    }

    private String byIndex() {
        Index first = pick(indexes);
        Index second = pick(indexes);
        List<Column> conditioned = new ArrayList<>(List.of(first.column));
        StringBuilder where = new StringBuilder(condition(first));
        if (!second.equals(first) && random.nextBoolean()) {
            where.append(" AND ").append(condition(second));
            conditioned.add(second.column);
        }
        if (!regulars.isEmpty() && random.nextInt(5) == 0) {
            Column other = pick(regulars);
            if (!other.isCollection() && !conditioned.contains(other)) {
                where.append(" AND ").append(other.name).append(" = ").append(content(other.type));
                conditioned.add(other);
            }
        }
        boolean ofPartition =
                random.nextInt(4) == 0 && keys.stream().noneMatch(conditioned::contains);
        boolean whole = isOfExpiringCollections() || random.nextInt(4) > 0;
        return "SELECT "
                + (whole ? pick("*", "*", "JSON *") : names(keys))
                + " FROM @t"
                + (ofPartition ? whereKey() + " AND " : " WHERE ")
                + where
                + (random.nextInt(4) == 0 ? " LIMIT " + pick(1, 2, 3) : "")
                + " ALLOW FILTERING";
    }

    /** One that the index serves, or, if it cannot serve a range, filters. */
    private String condition(Index index) {
        String name = index.column.name;
        switch (index.column.type) {
            case "list<int>" -> {
                return name + " CONTAINS " + pick("1", "2", "3", "9");
            }
            case "set<text>" -> {
                return name + " CONTAINS " + pick("'a'", "'b'", "'c'");
            }
            case "map<int, text>" -> {
                String key = pick("1", "2", "3");
                String value = pick("'a'", "'b'", "'c'", "'m'", "'x'");
                if (index.target.startsWith("KEYS")) return name + " CONTAINS KEY " + key;
                if (index.target.startsWith("VALUES")) return name + " CONTAINS " + value;
                return name + "[" + key + "] = " + value;
            }
            default -> {
                boolean ofKey = keys.contains(index.column);
                String value =
                        ofKey
                                ? keyValue(index.column)
                                : clusterings.contains(index.column)
                                        ? clustering(index.column)
                                        : content(index.column.type);
                if (!index.attached || random.nextBoolean()) return name + " = " + value;
                return name + pick(" < ", " <= ", " > ", " >= ") + value;
            }
        }
    }

    /**
     * Whether a row may live by elements of a collection alone that are older than its liveness,
     * which has expired. To whoever does not select the collection Cassandra shows such a row from
     * SSTables and not from a memtable.
     */
    private boolean isOfExpiringCollections() {
        return expires
                && (regulars.stream().anyMatch(Column::isCollection)
                        || statics.stream().anyMatch(Column::isCollection));
    }

    private String grouped() {
        return "SELECT "
                + names(keys)
                + ", "
                + (regulars.isEmpty() || counter || pick(regulars).isCollection()
                        ? "count(*)"
                        : "max(" + names(List.of(pick(clusterings))) + "), count(*)")
                + " FROM @t"
                + (random.nextBoolean() ? whereKey() : "")
                + " GROUP BY "
                + names(keys)
                + (random.nextBoolean() ? ", " + clusterings.get(0).name : "")
                + pick("", " LIMIT 2");
    }

    /** Single elements and fields. */
    private String parts() {
        List<String> parts = new ArrayList<>();
        for (Column column : regulars)
            switch (column.type) {
                case "set<text>" -> parts.add(column.name + pick("['a']", "['a'..'b']"));
                case "map<int, text>" -> parts.add(column.name + pick("[1]", "[1..2]", "[2..]"));
                case "@u" -> parts.add(column.name + pick(".a", ".b"));
                default -> {}
            }
        return String.join(", ", parts);
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
            if (!hasOwnTimestamps()) parts.add(column.name);
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
