// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.RollCycles;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import org.apache.cassandra.audit.AuditLogEntry;
import org.apache.cassandra.audit.AuditLogEntryType;
import org.apache.cassandra.audit.BinAuditLogger;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Entries of Cassandra's own class, in a queue as records of its own and as lines. */
class AuditLogTest {
    private static final UUID BATCH = new UUID(1, 2);
    private static final UUID OTHER_BATCH = new UUID(3, 4);

    @TempDir Path directory;
    private Path binary;
    private Path text;

    @BeforeAll
    static void configure() {
        DatabaseDescriptor.clientInitialization();
    }

    @BeforeEach
    void paths() throws IOException {
        binary = Files.createDirectory(directory.resolve("binary"));
        text = Files.createDirectory(directory.resolve("text"));
    }

    private static AuditLogEntry entry(
            AuditLogEntryType type,
            long millis,
            @Nullable UUID batch,
            @Nullable String keyspace,
            @Nullable String operation) {
        AuditLogEntry.Builder builder = new AuditLogEntry.Builder(type);
        try {
            // Else from a client's connection only.
            Field source = AuditLogEntry.Builder.class.getDeclaredField("source");
            source.setAccessible(true);
            source.set(builder, InetAddressAndPort.getByNameOverrideDefaults("10.0.0.1", 9042));
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("AuditLogEntry.Builder.source", e);
        } catch (UnknownHostException e) {
            throw new UncheckedIOException(e);
        }
        return builder.setUser("a|b:c")
                .setTimestamp(millis)
                .setBatch(batch)
                .setKeyspace(keyspace)
                .setOperation(operation)
                .build();
    }

    private static AuditLogEntry entry(AuditLogEntryType type, long millis, String operation) {
        return entry(type, millis, null, "ks", operation);
    }

    private static AuditLogEntry header(UUID batch, int statements) {
        return entry(
                AuditLogEntryType.BATCH,
                9000,
                batch,
                null,
                "BatchId:[" + batch + "] - BATCH of [" + statements + "] statements");
    }

    private static AuditLogEntry part(UUID batch, String cql) {
        return entry(AuditLogEntryType.UPDATE, 9000, batch, "ks", cql);
    }

    private static String string(AuditLogEntry entry) {
        try {
            Method method = AuditLogEntry.class.getDeclaredMethod("getLogString");
            method.setAccessible(true);
            return (String) method.invoke(entry);
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("AuditLogEntry.getLogString", e);
        }
    }

    /** As Cassandra's logback.xml has it. */
    private static String line(String message) {
        return "INFO  [Native-Transport-Requests-1] 2026-11-28 17:10:36,123"
                + " FileAuditLogger.java:51 - "
                + message
                + "\n";
    }

    private static String lines(AuditLogEntry... entries) {
        StringBuilder lines = new StringBuilder();
        for (AuditLogEntry entry : entries) lines.append(line(string(entry)));
        return lines.toString();
    }

    private Path write(String form, AuditLogEntry... entries) throws IOException {
        if (form.equals("text")) {
            Files.writeString(text.resolve("audit.log"), lines(entries));
            return text;
        }
        // BinAuditLogger itself drops what it has not yet written when it is stopped.
        try (ChronicleQueue queue =
                SingleChronicleQueueBuilder.single(binary.toFile())
                        .rollCycle(RollCycles.HOURLY)
                        .build()) {
            for (AuditLogEntry entry : entries)
                queue.acquireAppender().writeDocument(new BinAuditLogger.Message(string(entry)));
        }
        return binary;
    }

    private static List<String> asked(Selection selection) {
        List<String> asked = new ArrayList<>();
        for (Selection.Selected next = selection.next(); next != null; next = selection.next())
            asked.add(next.query().cql());
        return asked;
    }

    private static Selection selection(QueryLog log) {
        return new Selection(log, Set.of(new TableSchema.Table("ks", "t")), Long.MAX_VALUE);
    }

    /** What is asked, and then what is told of the rest. */
    private static List<String> read(Path... paths) {
        try (QueryLog log = new QueryLog(Arrays.asList(paths))) {
            List<String> read = asked(selection(log));
            read.addAll(log.losses());
            return read;
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"binary", "text"})
    void aStatementIsAskedAsItWas(String form) throws IOException {
        String insert =
                "INSERT INTO t (k, v)\n  VALUES (1, 'a|operation:b\r\n|type:SELECT; ü?:x')\n";
        Path path =
                write(
                        form,
                        entry(AuditLogEntryType.UPDATE, 5001, insert),
                        entry(AuditLogEntryType.SELECT, 5001, "SELECT * FROM ks.t"),
                        entry(AuditLogEntryType.TRUNCATE, 6000, "TRUNCATE ks.t"));
        try (QueryLog log = new QueryLog(List.of(path))) {
            assertThat(log.next())
                    .isEqualTo(
                            new LoggedQuery(
                                    5001,
                                    "ks",
                                    null,
                                    List.of(new LoggedQuery.Part(insert, List.of())),
                                    new LoggedQuery.Parameters(null, 5000, null, 5_001_000, 5),
                                    null));
            LoggedQuery second = log.next();
            assertThat(second).isNotNull();
            assertThat(second.cql()).isEqualTo("SELECT * FROM ks.t");
            // Behind the first, which has the same millisecond.
            assertThat(second.parameters().timestamp()).isEqualTo(5_001_001);
            LoggedQuery third = log.next();
            assertThat(third).isNotNull();
            assertThat(third.parameters().timestamp()).isEqualTo(6_000_000);
            assertThat(log.next()).isNull();
            assertThat(log.losses()).isEmpty();
        }
        assertThat(read(path)).containsExactly(insert, "SELECT * FROM ks.t", "TRUNCATE ks.t");
    }

    @ParameterizedTest
    @ValueSource(strings = {"binary", "text"})
    void whatCannotBeAskedIsCountedByItsReason(String form) throws IOException {
        Path path =
                write(
                        form,
                        entry(AuditLogEntryType.LOGIN_SUCCESS, 1, "LOGIN SUCCESSFUL"),
                        entry(AuditLogEntryType.LOGIN_ERROR, 1, "LOGIN FAILURE; no"),
                        entry(AuditLogEntryType.SELECT, 1, null, "system", "SELECT * FROM peers"),
                        entry(AuditLogEntryType.PREPARE_STATEMENT, 2, "SELECT * FROM ks.t"),
                        entry(AuditLogEntryType.SELECT, 3, "SELECT * FROM ks.t WHERE k = ?"),
                        entry(AuditLogEntryType.UPDATE, 3, "DELETE FROM t WHERE k = :k"),
                        entry(AuditLogEntryType.SELECT, 4, "SELECT * FROM ks.u WHERE k = ?"),
                        entry(AuditLogEntryType.REQUEST_FAILURE, 5, "SELECT * FROM ks.t; no"),
                        entry(AuditLogEntryType.UNAUTHORIZED_ATTEMPT, 6, "SELECT * FROM ks.t; no"),
                        entry(AuditLogEntryType.CREATE_TABLE, 7, "CREATE TABLE ks.w (k int)"),
                        entry(AuditLogEntryType.CREATE_ROLE, 7, "CREATE ROLE r WITH PASSWORD ***"),
                        entry(AuditLogEntryType.USE_KEYSPACE, 8, null, null, null),
                        entry(AuditLogEntryType.SELECT, 9, "SELECT * FROM ks.t WHERE k = 1"));
        try (QueryLog log = new QueryLog(List.of(path))) {
            Selection selection = selection(log);
            assertThat(asked(selection)).containsExactly("SELECT * FROM ks.t WHERE k = 1");
            assertThat(selection.left())
                    .isEqualTo(
                            Map.of(
                                    Selection.Reason.OTHER_STATEMENT,
                                    6L,
                                    Selection.Reason.OTHER_TABLE,
                                    2L,
                                    Selection.Reason.WITHOUT_VALUES,
                                    2L,
                                    Selection.Reason.FAILED,
                                    2L));
            assertThat(log.losses()).isEmpty();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"binary", "text"})
    void aBatchIsPutTogetherOrLeftOut(String form) throws IOException {
        Path path =
                write(
                        form,
                        header(BATCH, 2),
                        part(BATCH, "UPDATE t SET v = 1 WHERE k = 1"),
                        // Of other clients at the same time.
                        header(OTHER_BATCH, 2),
                        entry(AuditLogEntryType.SELECT, 9000, "SELECT * FROM ks.t"),
                        part(OTHER_BATCH, "UPDATE t SET v = 2 WHERE k = ?"),
                        part(BATCH, "DELETE FROM ks.t WHERE k = 2"),
                        part(OTHER_BATCH, "UPDATE t SET v = 2 WHERE k = 2"),
                        // One that is not whole, and one of which the first entry was filtered.
                        header(new UUID(5, 6), 2),
                        part(new UUID(5, 6), "UPDATE t SET v = 3 WHERE k = 3"),
                        part(new UUID(7, 8), "UPDATE t SET v = 4 WHERE k = 4"),
                        entry(
                                AuditLogEntryType.BATCH,
                                9000,
                                "BEGIN BATCH DELETE FROM t WHERE k = 5; APPLY BATCH"),
                        entry(
                                AuditLogEntryType.REQUEST_FAILURE,
                                9000,
                                "BATCH of 2 statements at consistency ONE; no"));
        try (QueryLog log = new QueryLog(List.of(path))) {
            Selection selection = selection(log);
            assertThat(asked(selection))
                    .containsExactly(
                            "SELECT * FROM ks.t",
                            "UNLOGGED BATCH: UPDATE t SET v = 1 WHERE k = 1; DELETE FROM ks.t WHERE"
                                    + " k = 2",
                            "BEGIN BATCH DELETE FROM t WHERE k = 5; APPLY BATCH");
            assertThat(selection.left())
                    .isEqualTo(
                            Map.of(
                                    Selection.Reason.WITHOUT_VALUES,
                                    1L,
                                    Selection.Reason.INCOMPLETE_BATCH,
                                    2L,
                                    Selection.Reason.FAILED,
                                    1L));
        }
    }

    @Test
    void batchesThatNeverEndDoNotFillTheMemory() {
        AuditEntries entries = new AuditEntries();
        for (int i = 0; i < 1000; i++)
            assertThat(entries.take(string(header(new UUID(0, i), 2)))).isNull();
        LoggedQuery eldest = entries.take(string(header(new UUID(0, 1000), 2)));
        assertThat(eldest).isNotNull();
        assertThat(eldest.left()).isEqualTo(Selection.Reason.INCOMPLETE_BATCH);
    }

    private static AuditLogEntry select(long millis, int key) {
        return entry(AuditLogEntryType.SELECT, millis, "SELECT * FROM ks.t WHERE k = " + key);
    }

    private static String selected(int key) {
        return "SELECT * FROM ks.t WHERE k = " + key;
    }

    @Test
    void filesThatWereRolledAndOtherLinesAreRead() throws IOException {
        try (ZipOutputStream zip =
                new ZipOutputStream(
                        Files.newOutputStream(text.resolve("audit.log.2026-11-28.0.zip")))) {
            zip.putNextEntry(new ZipEntry("audit.log"));
            zip.write(lines(select(2000, 2)).getBytes(UTF_8));
        }
        try (OutputStream gzip =
                new GZIPOutputStream(
                        Files.newOutputStream(text.resolve("audit.log.2026-11-27.0.gz")))) {
            gzip.write(lines(select(1000, 1)).getBytes(UTF_8));
        }
        // As in a system.log.
        Files.writeString(
                text.resolve("audit.log"),
                "WARN  [main] 2026-11-28 17:10:36,123 A.java:1 - no\njava.io.IOException: no\n\tat"
                        + " a.b\n"
                        + lines(select(3000, 3))
                        + "ERROR [main] 2026-11-28 17:10:36,123 A.java:1 - no\n\tat a.b\n"
                        + lines(select(4000, 4)));
        Files.writeString(text.resolve("audit.log.empty"), "");
        assertThat(read(text)).containsExactly(selected(1), selected(2), selected(3), selected(4));
        // Each for itself, as of several nodes.
        assertThat(
                        read(
                                text.resolve("audit.log"),
                                text.resolve("audit.log.2026-11-28.0.zip"),
                                text.resolve("audit.log.2026-11-27.0.gz")))
                .containsExactly(selected(1), selected(2), selected(3), selected(4));
    }

    @Test
    void bothFormsInOneDirectoryAreRead() throws IOException {
        write("binary", select(2000, 2));
        Path file = binary.resolve("audit.log");
        Files.writeString(file, "");
        assertThat(read(binary)).containsExactly(selected(2));
        Files.writeString(file, lines(select(1000, 1), select(3000, 3)));
        assertThat(read(binary)).containsExactly(selected(1), selected(2), selected(3));
        String line = lines(select(1000, 1));
        Files.writeString(file, line.substring(0, line.length() - 1));
        assertThat(read(binary))
                .hasSize(2)
                .startsWith(selected(2))
                .last()
                .asString()
                .contains("ends");
    }

    @Test
    void aLogThatIsCutIsReadAsFarAsItIsWhole() throws IOException {
        String lines = lines(select(1000, 1), select(2000, 2), select(3000, 34));
        Path file = text.resolve("audit.log");
        for (int cut : new int[] {1, 2, 50, line(string(select(3000, 34))).length() - 20}) {
            Files.writeString(file, lines.substring(0, lines.length() - cut));
            List<String> read = read(text);
            assertThat(read).startsWith(selected(1), selected(2)).hasSize(3);
            assertThat(read.get(2)).contains("behind request 2 of " + file, "ends within a line");
        }
        // Within a statement of several lines.
        Files.writeString(
                file,
                lines(select(1000, 1))
                        + lines(entry(AuditLogEntryType.UPDATE, 1, "UPDATE ks.t\nSET v = 1"))
                                .replace("= 1\n", ""));
        assertThat(read(text)).hasSize(2).startsWith(selected(1));

        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (GZIPOutputStream gzip = new GZIPOutputStream(packed)) {
            for (int i = 0; i < 3000; i++) gzip.write(lines(select(i, i)).getBytes(UTF_8));
        }
        Files.write(file, Arrays.copyOf(packed.toByteArray(), packed.size() - 500));
        List<String> read = read(file);
        assertThat(read).hasSizeGreaterThan(1000).startsWith(selected(0), selected(1));
        assertThat(read.get(read.size() - 1)).contains("the rest of a file", file.toString());
    }

    @Test
    void bytesThatAreNoTextAreTold() throws IOException {
        Path file = text.resolve("audit.log");
        Files.write(
                file,
                lines(entry(AuditLogEntryType.SELECT, 1, "SELECT 'ü' FROM ks.t"), select(2, 2))
                        .getBytes(ISO_8859_1));
        assertThat(read(text))
                .hasSize(2)
                .startsWith(selected(2))
                .last()
                .asString()
                .contains("1 entries cannot be read", "no UTF-8");
    }

    @Test
    void aTornSegmentIsPassedOver() throws IOException {
        write("binary", select(1, 1), select(2, 2));
        try (Stream<Path> files = Files.list(binary)) {
            Path file = files.filter(f -> f.toString().endsWith(".cq4")).findFirst().orElseThrow();
            byte[] bytes = Files.readAllBytes(file);
            int at = new String(bytes, ISO_8859_1).indexOf(selected(2));
            Files.write(file, Arrays.copyOf(bytes, at));
        }
        assertThat(read(binary))
                .hasSize(2)
                .startsWith(selected(1))
                .last()
                .asString()
                .contains("ends within a record");
    }

    private void queue(int version, String type) {
        try (ChronicleQueue queue =
                SingleChronicleQueueBuilder.single(binary.toFile())
                        .rollCycle(RollCycles.HOURLY)
                        .build()) {
            queue.acquireAppender()
                    .writeDocument(
                            wire -> {
                                wire.write("version").int16(version);
                                wire.write("type").text(type);
                                wire.write("message").text(string(select(1, 1)));
                            });
        }
    }

    @Test
    void anotherVersionIsRefused() {
        queue(1, "audit");
        assertThatThrownBy(() -> read(binary))
                .isInstanceOf(QueryLog.QueryLogException.class)
                .hasMessageContainingAll(
                        binary.toString(), ".cq4", "version 1", "enablefullquerylog");
    }

    @Test
    void anotherQueueIsRefused() {
        queue(0, "orders");
        assertThatThrownBy(() -> read(binary))
                .isInstanceOf(QueryLog.QueryLogException.class)
                .hasMessageContainingAll(binary.toString(), "'orders'", "enablefullquerylog");
    }

    @Test
    void anotherTextIsRefused() throws IOException {
        Path file = Files.writeString(text.resolve("audit.log"), "a\nuser:b|host:c\n");
        for (Path path : List.of(file, text))
            assertThatThrownBy(() -> read(path))
                    .isInstanceOf(QueryLog.QueryLogException.class)
                    .hasMessageContainingAll(path + " has no whole entry", "enablefullquerylog");
        write("binary", select(1, 1));
        try (Stream<Path> files = Files.list(binary)) {
            Path part = files.filter(f -> f.toString().endsWith(".cq4")).findFirst().orElseThrow();
            assertThatThrownBy(() -> read(part)).hasMessageContaining("give the directory");
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "SELECT * FROM t WHERE k = ?",
                "SELECT * FROM t WHERE k = :k",
                "SELECT * FROM t LIMIT :l",
                "SELECT * FROM t WHERE k IN (1, :\"K\")",
                "UPDATE t SET m = {'a': :v}",
                "UPDATE t SET m = {'a'::v, 'b': 2}",
                "UPDATE t SET m = {:k : 2}",
                "UPDATE t SET m = {1: [2, :v]}",
                "UPDATE t SET v = 'it''s' WHERE k = ? -- a"
            })
    void markersNeedValues(String cql) {
        assertThat(CqlText.needsValues(cql)).isTrue();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "SELECT \"a?\" FROM t WHERE k = ':x?' -- ? :k",
                "UPDATE t SET m = {'a':1, b: {c:true}, [1]:2, (1):x}",
                "UPDATE t SET d = P0001-00-02T14:20:30 /* ? */",
                "INSERT INTO t JSON $${\"a\": ?}$$"
            })
    void nothingElseDoes(String cql) {
        assertThat(CqlText.needsValues(cql)).isFalse();
    }
}
