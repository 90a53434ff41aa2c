// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Whatever becomes of a shadow's engine, no client of its table notices, and a shadow that had to
 * drop out catches up by itself. Each request must succeed, and each read give what was written.
 */
@OneOf(variants = "shadows that are not whole, and snapshots", of = 3, number = 1)
class ShadowFaultsIT {
    /** One that has dropped out rests for half a minute before it is made anew. */
    private static final Duration PATIENCE = Duration.ofMinutes(3);

    private static final int VALUE_BYTES = 20_000;

    /** Of a request, on a machine that does much else. */
    private static final Duration LONGEST = Duration.ofSeconds(10);

    private static final String FALLBACK = "fallback";

    /** Every so many keys. */
    private static final int SOME = 20;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static CrashPoints points;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() throws IOException, URISyntaxException {
        points =
                new CrashPoints(
                        directory, List.of("dev.petra.cassandra.shadow.ShadowStore#doubled"));
        Map<String, Object> configurations = new HashMap<>();
        for (String mode : List.of("shadow", FALLBACK))
            configurations.put(
                    mode,
                    ShadowTable.configuration(
                            Map.of(
                                    "engine", "rocks",
                                    "mode", mode,
                                    "compared_share", "1",
                                    "memory", "64MiB",
                                    "direct_reads", "true")));
        node =
                TestNode.start(
                        directory.resolve("node"),
                        config ->
                                points.in(
                                        config.yaml(
                                                Map.of(
                                                        "memtable",
                                                        Map.of(
                                                                "configurations",
                                                                configurations)))));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() throws IOException {
        if (points != null) points.release();
        if (session != null) session.close();
        if (node != null) node.close();
    }

    /** Configurations of memtables. */
    static List<String> modes() {
        return Drawn.of("ShadowFaultsIT", List.of("shadow", FALLBACK));
    }

    private static void create(String table) {
        session.execute("CREATE TABLE ks." + table + " (k int PRIMARY KEY, v blob)");
    }

    private static void shadow(String table, String mode) throws InterruptedException {
        session.execute("ALTER TABLE ks." + table + " WITH memtable = '" + mode + "'");
        await(table, row -> row.getBoolean("caught_up"));
    }

    private static ByteBuffer value(int key) {
        byte[] value = new byte[VALUE_BYTES];
        new Random(key).nextBytes(value);
        return ByteBuffer.wrap(value);
    }

    private static void write(String table, int from, int to) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, v) VALUES (?, ?)");
        for (int k = from; k < to; k++) execute(insert.bind(k, value(k)));
    }

    private static void readsWhatWasWritten(String table, int keys) {
        read(table, 0, keys, 1);
    }

    /** A part of it, another each time: all of it in each look would take most of a processor. */
    private static void readsSomeOfWhatWasWritten(String table, int keys) {
        read(table, ThreadLocalRandom.current().nextInt(SOME), keys, SOME);
    }

    private static void read(String table, int first, int keys, int step) {
        PreparedStatement select = session.prepare("SELECT v FROM ks." + table + " WHERE k = ?");
        for (int k = first; k < keys; k += step)
            assertThat(execute(select.bind(k)).one())
                    .isNotNull()
                    .returns(value(k), row -> row.getByteBuffer("v"));
    }

    /** Whatever a request waits for, it is not the shadow. */
    private static ResultSet execute(BoundStatement statement) {
        long begun = System.nanoTime();
        ResultSet result = session.execute(statement);
        assertThat(Duration.ofNanos(System.nanoTime() - begun)).isLessThan(LONGEST);
        return result;
    }

    private static Row await(String table, Predicate<Row> wanted) throws InterruptedException {
        return ShadowTable.await(session, table, PATIENCE, wanted);
    }

    private static void awaitDroppedOut(String table, String reason) throws InterruptedException {
        Row row = await(table, now -> now.getString("state").startsWith("dropped out"));
        assertThat(row.getString("state")).contains(reason);
    }

    /** It was made anew, has what the table has, and answers where it is to. */
    private static void catchesUp(String table, String mode, int keys) throws InterruptedException {
        Row row =
                await(
                        table,
                        now -> now.getBoolean("caught_up") && now.getLong("queued_writes") == 0);
        assertThat(row.getLong("copies")).isGreaterThan(1);
        long before = row.getLong("equal");
        long answered = row.getLong("answered");
        readsWhatWasWritten(table, keys);
        // For as many as were passed over.
        Row compared =
                await(
                        table,
                        now -> {
                            if (now.getLong("equal") > before + keys) return true;
                            readsSomeOfWhatWasWritten(table, keys);
                            return false;
                        });
        assertThat(compared.getLong("different")).isZero();
        if (mode.equals(FALLBACK)) assertThat(compared.getLong("answered")).isGreaterThan(answered);
    }

    @ParameterizedTest
    @MethodSource("modes")
    void anEngineThatTakesNothing(String mode) throws Exception {
        String table = "behind_" + mode;
        create(table);
        write(table, 0, 10);
        shadow(table, mode);
        points.hold("enter", "ShadowStore#doubled");
        // More than may wait.
        int keys = (80 << 20) / VALUE_BYTES;
        write(table, 10, keys);
        awaitDroppedOut(table, "writes came faster than its engine takes them");
        readsWhatWasWritten(table, keys);
        points.release();
        catchesUp(table, mode, keys);
    }

    @ParameterizedTest
    @MethodSource("modes")
    void aFullDisk(String mode) throws Exception {
        String table = "narrow_" + mode;
        create(table);
        write(table, 0, 10);
        Path disk = Files.createDirectories(ShadowTable.folder(node, table));
        boolean mounted = mount("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk + "");
        if (!mounted)
            System.err.println("ShadowFaultsIT: NOT RUN on a full disk: no right to mount");
        assumeTrue(mounted, "no right to mount a tmpfs");
        try {
            shadow(table, mode);
            int keys = (80 << 20) / VALUE_BYTES;
            write(table, 10, keys);
            awaitDroppedOut(table, "its disk is full");
            readsWhatWasWritten(table, keys);
            assertThat(mount("mount", "-o", "remount,size=512m", disk + "")).isTrue();
            catchesUp(table, mode, keys);
            session.execute("DROP TABLE ks." + table);
        } finally {
            mount("umount", "-l", disk + "");
        }
    }

    @ParameterizedTest
    @MethodSource("modes")
    void aDamagedStore(String mode) throws Exception {
        String table = "damaged_" + mode;
        create(table);
        shadow(table, mode);
        // More than the engine holds in memory.
        int keys = (60 << 20) / VALUE_BYTES;
        write(table, 0, keys);
        await(table, row -> row.getLong("queued_writes") == 0);
        session.close();
        node.process().stop();
        assertThat(ShadowTable.folder(node, table).resolve("CLOSED")).exists();
        damage(ShadowTable.folder(node, table));
        node.restart();
        session = node.plainSession();
        readsWhatWasWritten(table, keys);
        await(
                table,
                row -> {
                    if (row.getString("state").startsWith("dropped out")) return true;
                    readsSomeOfWhatWasWritten(table, keys);
                    return false;
                });
        awaitDroppedOut(table, "it cannot be read");
        catchesUp(table, mode, keys);
    }

    /** Values, not what is read to open it. */
    private static void damage(Path folder) throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.walk(folder)) {
            // Where values of this size are.
            files = all.filter(file -> file.toString().endsWith(".blob")).toList();
        }
        int damaged = 0;
        for (Path file : files) {
            long size = Files.size(file);
            if (size < 10L * VALUE_BYTES) continue;
            try (FileChannel data = FileChannel.open(file, StandardOpenOption.WRITE)) {
                for (long at = VALUE_BYTES; at < size / 2; at += VALUE_BYTES)
                    data.write(ByteBuffer.allocate(100), at);
            }
            damaged++;
        }
        assertThat(damaged).as("%s", files).isPositive();
    }

    private static boolean mount(String... command) throws IOException, InterruptedException {
        return new ProcessBuilder(command).inheritIO().start().waitFor() == 0;
    }
}
