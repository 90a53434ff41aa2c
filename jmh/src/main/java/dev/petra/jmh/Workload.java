// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * A table, what is in its rows, and what is asked of it. Rows are numbered; values are made from
 * the number, so that every engine has the same. One partition-key column comes first, then at most
 * one clustering column, then the others.
 */
abstract sealed class Workload {
    /** Where the table is. */
    static final String KEYSPACE = "bench";

    private static final String LETTERS = "abcdefghijklmnopqrstuvwxyz ETAOIN0123456789";

    /** Compressible as prose is: few words, many times. */
    private static final String[] WORDS =
            ("the of and a to in is you that it he was for on are as with his they at be this have"
                 + " from or one had by word but not what all were we when your can said there use"
                 + " an each which she do how their if will up other about out many then them these"
                 + " so some her would make like him into time has look two more write go see"
                 + " number no way could people my than first water been call who oil its now find"
                 + " long down day did get come made may part storage engine partition compaction"
                 + " memtable latency")
                    .split(" ", -1);

    /** Of how many versions the values of a row differ. */
    static final int VERSIONS = 8;

    private static final byte[] POOL = pool();
    private static final byte[] NOISE = noise();
    private static final byte[] PROSE = prose();
    private static final int PROSE_WORDS = spaces(PROSE);

    private final String name;
    private final long rows;
    private final Written written;

    private Workload(String name, long rows) {
        this.name = name;
        this.rows = rows;
        this.written = new Written.Over(rows, versions() - 1);
    }

    /** One of whose partitions more rows are written. */
    private Workload(String name, long rows, Written written) {
        this.name = name;
        this.rows = rows;
        this.written = written;
    }

    /**
     * One by its name.
     *
     * @param scale how many times the rows of the quick size
     */
    static Workload of(String name, double scale) {
        return switch (name) {
            case "emp" -> new Emp(name, scaled(40_000, scale));
            case "stream" -> new Emp(name, scaled(400_000, scale));
            // 1.8 GB: at the default heap and memory 20 write buffers of any engine.
            case "load" -> new Load(name, scaled(300_000, scale));
            case "keyvalue" -> new KeyValue(name, scaled(100_000, scale));
            case "kv" -> new Kv(name, scaled(200_000, scale));
            case "tables" -> new Tables(name, scaled(500, scale));
            case "bytes" -> new Bytes(name, scaled(2048, scale));
            case "opaque" -> new Opaque(name, scaled(100_000, scale));
            case "tabular" -> new Tabular(name, scaled(100_000, scale));
            case "timeseries" -> new TimeSeries(name, scaled(500_000, scale), 1000, 100);
            // 2,000 slices of 1,000 rows.
            case "scan" ->
                    new TimeSeries(
                            name,
                            scaled(2_000_000, scale),
                            Math.max(1, (int) (scaled(2_000_000, scale) / 1000)),
                            1000);
            case "leveled" -> new Ycsb(name, scaled(150_000, scale));
            // 2 GB.
            case "wideblob10", "wideblob20", "wideblob50", "wideblob" ->
                    new WideBlob(name, scaled(20_000.0 / width(name), scale), width(name));
            default -> throw new IllegalArgumentException("no workload '" + name + "': " + names());
        };
    }

    /** All there are. */
    static List<String> names() {
        return List.of(
                "emp",
                "load",
                "stream",
                "keyvalue",
                "kv",
                "opaque",
                "tabular",
                "timeseries",
                "scan",
                "leveled",
                "tables",
                "bytes",
                "wideblob10",
                "wideblob20",
                "wideblob50",
                "wideblob");
    }

    /** How many columns a wide row has. */
    static int width(String wideBlob) {
        String digits = wideBlob.substring("wideblob".length());
        return digits.isEmpty() ? 100 : Integer.parseInt(digits);
    }

    private static long scaled(double rows, double scale) {
        return Math.max(1, Math.round(rows * scale));
    }

    String name() {
        return name;
    }

    /** Rows that are loaded. */
    final long rows() {
        return rows;
    }

    /** How often each row is written when it is loaded. */
    int versions() {
        return 1;
    }

    /** Whether its rows are there before anything is measured. */
    boolean isPreloaded() {
        return true;
    }

    /** The table's columns and their types, keys first. */
    abstract List<String[]> columns();

    /** How many clustering columns there are, 0 or 1, the newest first. */
    int clusterings() {
        return 0;
    }

    /** The columns that are read; all if empty. */
    List<String> selected() {
        return List.of();
    }

    /** How many rows of a partition are read; without clusterings 1. */
    int limit() {
        return 1;
    }

    /**
     * The values of a row, in the order of the columns: as the driver takes them, or as bytes,
     * which the caller leaves as they are.
     */
    abstract Object[] row(long number, int version);

    /** The bytes of a row's values, keys left out. */
    final long valueBytes(long number) {
        return Stream.of(row(number, 0))
                .mapToLong(value -> value instanceof ByteBuffer bytes ? bytes.remaining() : 0)
                .sum();
    }

    /** The partition key of a row. */
    abstract Object key(long number);

    // What a read must bring

    /** The first 8 bytes of the first value that is read of a row. */
    abstract long head(long number, int version);

    /** The bytes of all values that are read of a row. */
    abstract int readBytes(long number, int version);

    /**
     * The number of a row that is read.
     *
     * @param number of any row of its partition
     * @param clustering its clustering value; 0 without clusterings
     */
    long numberOf(long number, long clustering) {
        return number;
    }

    /** From one row of a partition to the next; 0 where a partition has one row. */
    long step() {
        return 0;
    }

    /** Whether what was read of a row is a version of it. */
    final boolean isRow(long number, int version, long head, long bytes) {
        return head == head(number, version) && bytes == readBytes(number, version);
    }

    /** What is acknowledged; of one store. */
    final Written written() {
        return written;
    }

    /**
     * Checks what a scan found.
     *
     * @param there how many rows {@link Written#there} when it began
     * @throws IllegalStateException if it found fewer, or more than {@link Written#begun}
     */
    final void checkScan(long there, long found) {
        long begun = written.begun();
        if (found < there || found > begun)
            throw new IllegalStateException(
                    "a scan found %d rows, not %d%s"
                            .formatted(found, there, begun == there ? "" : " to " + begun));
    }

    private static long first(ByteBuffer value) {
        return value.getLong(value.position());
    }

    /** The number of one of the rows that are loaded. */
    final long any(SplittableRandom random) {
        return random.nextLong(rows);
    }

    final String createKeyspace(int replicas) {
        return "CREATE KEYSPACE IF NOT EXISTS "
                + KEYSPACE
                + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': "
                + replicas
                + "}";
    }

    final String createTable(String with) {
        StringBuilder cql = new StringBuilder("CREATE TABLE IF NOT EXISTS " + KEYSPACE + ".t (");
        for (String[] column : columns()) cql.append(column[0] + " " + column[1] + ", ");
        cql.append("PRIMARY KEY (" + columns().get(0)[0]);
        if (clusterings() > 0) cql.append(", " + columns().get(1)[0]);
        cql.append(")) WITH ");
        if (clusterings() > 0)
            cql.append("CLUSTERING ORDER BY (" + columns().get(1)[0] + " DESC) AND ");
        return cql + with;
    }

    final String insert() {
        List<String> names = columns().stream().map(column -> column[0]).toList();
        return "INSERT INTO "
                + KEYSPACE
                + ".t ("
                + String.join(", ", names)
                + ") VALUES ("
                + String.join(", ", names.stream().map(column -> "?").toList())
                + ")";
    }

    /** The clustering column, if there is one, comes before what is selected. */
    final String select() {
        List<String> chosen = new ArrayList<>(selected());
        if (clusterings() > 0) chosen.add(0, columns().get(1)[0]);
        String what = selected().isEmpty() ? "*" : String.join(", ", chosen);
        String from = "SELECT " + what + " FROM " + KEYSPACE + ".t WHERE " + columns().get(0)[0];
        return from + " = ? LIMIT " + limit();
    }

    /**
     * Cut out of a pool, and not copied: a value costs nothing but what the engine does with it.
     */
    private static ByteBuffer letters(SplittableRandom random, int length) {
        return ByteBuffer.wrap(POOL, random.nextInt(POOL.length - length), length).slice();
    }

    private static byte[] pool() {
        SplittableRandom random = new SplittableRandom(1);
        byte[] pool = new byte[8 << 20];
        for (int i = 0; i < pool.length; i++)
            pool[i] = (byte) LETTERS.charAt(random.nextInt(LETTERS.length()));
        return pool;
    }

    /** Of which no part is like another. */
    private static byte[] noise() {
        byte[] noise = new byte[8 << 20];
        new SplittableRandom(3).nextBytes(noise);
        return noise;
    }

    /** Of words only. */
    private static byte[] prose() {
        SplittableRandom random = new SplittableRandom(2);
        StringBuilder text = new StringBuilder();
        while (text.length() < 4 << 20)
            text.append(WORDS[random.nextInt(WORDS.length)]).append(' ');
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** About so many words. */
    private static ByteBuffer words(SplittableRandom random, int count) {
        int length = (int) ((long) count * PROSE.length / PROSE_WORDS);
        return ByteBuffer.wrap(PROSE, random.nextInt(PROSE.length - length), length).slice();
    }

    private static int spaces(byte[] text) {
        int spaces = 0;
        for (byte letter : text) if (letter == ' ') spaces++;
        return spaces;
    }

    /** One of few, so that those who read a row can tell whether they have it. */
    private static SplittableRandom random(long number, int version) {
        return new SplittableRandom(number * VERSIONS + version % VERSIONS);
    }

    private abstract static sealed class Employees extends Workload {
        private static final int BYTES = 2000;

        Employees(String name, long rows) {
            super(name, rows);
        }

        @Override
        List<String[]> columns() {
            return Stream.of("emp_uname", "emp_dept", "emp_first", "emp_last")
                    .map(column -> new String[] {column, "text"})
                    .toList();
        }

        @Override
        String key(long number) {
            return "user" + number;
        }

        @Override
        Object[] row(long number, int version) {
            SplittableRandom random = random(number, version);
            return new Object[] {
                key(number), letters(random, BYTES), letters(random, BYTES), letters(random, BYTES)
            };
        }

        @Override
        long head(long number, int version) {
            return first(letters(random(number, version), BYTES));
        }

        @Override
        int readBytes(long number, int version) {
            return 3 * BYTES;
        }
    }

    private static final class Emp extends Employees {
        Emp(String name, long rows) {
            super(name, rows);
        }
    }

    /** The same, of which nothing is there. */
    private static final class Load extends Employees {
        Load(String name, long rows) {
            super(name, rows);
        }

        @Override
        boolean isPreloaded() {
            return false;
        }
    }

    private static final class KeyValue extends Workload {
        KeyValue(String name, long rows) {
            super(name, rows);
        }

        @Override
        List<String[]> columns() {
            return List.of(new String[] {"key", "text"}, new String[] {"value", "text"});
        }

        @Override
        String key(long number) {
            return "key" + number;
        }

        @Override
        Object[] row(long number, int version) {
            return new Object[] {key(number), value(number, version)};
        }

        private static ByteBuffer value(long number, int version) {
            SplittableRandom random = random(number, version);
            return words(random, 100 + random.nextInt(101));
        }

        @Override
        long head(long number, int version) {
            return first(value(number, version));
        }

        @Override
        int readBytes(long number, int version) {
            return value(number, version).remaining();
        }
    }

    private abstract static sealed class Pairs extends Workload {
        private static final int BYTES = 200;

        Pairs(String name, long rows) {
            super(name, rows);
        }

        @Override
        List<String[]> columns() {
            return List.of(new String[] {"key", "bigint"}, new String[] {"value", "text"});
        }

        @Override
        Long key(long number) {
            return number;
        }

        @Override
        Object[] row(long number, int version) {
            return new Object[] {number, letters(random(number, version), BYTES)};
        }

        @Override
        long head(long number, int version) {
            return first(letters(random(number, version), BYTES));
        }

        @Override
        int readBytes(long number, int version) {
            return BYTES;
        }
    }

    private static final class Kv extends Pairs {
        Kv(String name, long rows) {
            super(name, rows);
        }
    }

    /** So many tables, each with a few rows of it; none of them is there. */
    private static final class Tables extends Pairs {
        Tables(String name, long rows) {
            super(name, rows);
        }

        @Override
        boolean isPreloaded() {
            return false;
        }
    }

    /** Ten fields that cannot be compressed, as of values that clients compress or encrypt. */
    private static sealed class Opaque extends Workload {
        private static final int FIELDS = 10;
        private static final int BYTES = 240;

        Opaque(String name, long rows) {
            super(name, rows);
        }

        @Override
        List<String[]> columns() {
            return Stream.concat(
                            Stream.<String[]>of(new String[] {"key", "text"}),
                            IntStream.range(0, FIELDS)
                                    .mapToObj(i -> new String[] {"field" + i, "blob"}))
                    .toList();
        }

        @Override
        String key(long number) {
            return "user" + number;
        }

        @Override
        Object[] row(long number, int version) {
            SplittableRandom random = random(number, version);
            Object[] row = new Object[1 + FIELDS];
            row[0] = key(number);
            for (int i = 1; i < row.length; i++) row[i] = value(random);
            return row;
        }

        private static ByteBuffer value(SplittableRandom random) {
            return ByteBuffer.wrap(NOISE, random.nextInt(NOISE.length - BYTES), BYTES).slice();
        }

        @Override
        long head(long number, int version) {
            return first(value(random(number, version)));
        }

        @Override
        int readBytes(long number, int version) {
            return FIELDS * BYTES;
        }
    }

    /** So many MiB of it, as {@link Growth} writes them; nothing is there. */
    private static final class Bytes extends Opaque {
        Bytes(String name, long mebibytes) {
            super(name, mebibytes);
        }

        @Override
        boolean isPreloaded() {
            return false;
        }
    }

    private static final class Tabular extends Workload {
        private static final int FIELDS = 20;
        private static final int BYTES = 30;

        Tabular(String name, long rows) {
            super(name, rows);
        }

        @Override
        List<String[]> columns() {
            List<String[]> columns = new ArrayList<>();
            columns.add(new String[] {"key", "text"});
            for (int i = 0; i < FIELDS; i++) columns.add(new String[] {"data" + i, "text"});
            return columns;
        }

        @Override
        String key(long number) {
            return "part" + number;
        }

        @Override
        Object[] row(long number, int version) {
            SplittableRandom random = random(number, version);
            Object[] row = new Object[1 + FIELDS];
            row[0] = key(number);
            for (int i = 1; i < row.length; i++) row[i] = letters(random, BYTES);
            return row;
        }

        @Override
        long head(long number, int version) {
            return first(letters(random(number, version), BYTES));
        }

        @Override
        int readBytes(long number, int version) {
            return FIELDS * BYTES;
        }
    }

    /** Appends; asks for the newest. */
    private static final class TimeSeries extends Workload {
        private static final int BYTES = 40;

        /** Of time, in milliseconds since the epoch. */
        private static final long BEGINNING = 1_600_000_000_000L;

        private final int series;
        private final int limit;

        TimeSeries(String name, long rows, int series, int limit) {
            super(name, rows, new Written.Behind(rows));
            this.series = series;
            this.limit = limit;
        }

        @Override
        List<String[]> columns() {
            return List.of(
                    new String[] {"sensor", "text"},
                    new String[] {"at", "timestamp"},
                    new String[] {"note", "text"},
                    new String[] {"value", "double"});
        }

        @Override
        int clusterings() {
            return 1;
        }

        @Override
        int limit() {
            return limit;
        }

        @Override
        String key(long number) {
            return "sensor" + number % series;
        }

        @Override
        Object[] row(long number, int version) {
            return new Object[] {
                key(number),
                Instant.ofEpochMilli(BEGINNING + number / series * 1000),
                letters(random(number, version), BYTES),
                number / 7.0
            };
        }

        @Override
        long head(long number, int version) {
            return first(letters(random(number, version), BYTES));
        }

        @Override
        int readBytes(long number, int version) {
            return BYTES + Double.BYTES;
        }

        @Override
        long numberOf(long number, long clustering) {
            return (clustering - BEGINNING) / 1000 * series + number % series;
        }

        @Override
        long step() {
            return series;
        }
    }

    /** The YCSB core table, written four times over; read while compaction is behind. */
    private static final class Ycsb extends Workload {
        private static final int FIELDS = 10;
        private static final int BYTES = 100;

        Ycsb(String name, long rows) {
            super(name, rows);
        }

        @Override
        int versions() {
            return 4;
        }

        @Override
        boolean isPreloaded() {
            return false;
        }

        @Override
        List<String[]> columns() {
            List<String[]> columns = new ArrayList<>();
            columns.add(new String[] {"y_id", "text"});
            for (int i = 0; i < FIELDS; i++) columns.add(new String[] {"field" + i, "text"});
            return columns;
        }

        @Override
        String key(long number) {
            return "user" + Long.toUnsignedString(number * 0x9E3779B97F4A7C15L);
        }

        @Override
        Object[] row(long number, int version) {
            SplittableRandom random = random(number, version);
            Object[] row = new Object[1 + FIELDS];
            row[0] = key(number);
            for (int i = 1; i < row.length; i++) row[i] = letters(random, BYTES);
            return row;
        }

        @Override
        long head(long number, int version) {
            return first(letters(random(number, version), BYTES));
        }

        @Override
        int readBytes(long number, int version) {
            return FIELDS * BYTES;
        }
    }

    /** Wide rows of large cells, of which one is read; a row to a partition. */
    private static final class WideBlob extends Workload {
        private static final int BYTES = 100_000;
        private static final int SELECTED = 5;

        private final int width;

        WideBlob(String name, long rows, int width) {
            super(name, rows);
            this.width = width;
        }

        @Override
        List<String[]> columns() {
            return Stream.concat(
                            Stream.of(
                                    new String[] {"stream_id", "int"},
                                    new String[] {"timestamp", "int"}),
                            IntStream.range(0, width)
                                    .mapToObj(i -> new String[] {"column" + i, "blob"}))
                    .toList();
        }

        @Override
        int clusterings() {
            return 1;
        }

        @Override
        List<String> selected() {
            return List.of("column" + SELECTED);
        }

        @Override
        Integer key(long number) {
            return (int) number;
        }

        @Override
        long head(long number, int version) {
            SplittableRandom random = random(number, version);
            ByteBuffer value = letters(random, BYTES);
            for (int i = 0; i < SELECTED; i++) value = letters(random, BYTES);
            return first(value);
        }

        @Override
        int readBytes(long number, int version) {
            return BYTES;
        }

        @Override
        Object[] row(long number, int version) {
            SplittableRandom random = random(number, version);
            Object[] row = new Object[2 + width];
            row[0] = key(number);
            row[1] = 0;
            for (int i = 2; i < row.length; i++) row[i] = letters(random, BYTES);
            return row;
        }
    }
}
