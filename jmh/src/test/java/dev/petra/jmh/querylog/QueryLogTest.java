// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.InstanceOfAssertFactories.STRING;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.RollCycles;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.statements.BatchStatement;
import org.apache.cassandra.fql.FullQueryLogger;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What Cassandra's own logger writes. */
class QueryLogTest {
    @TempDir Path directory;

    @BeforeAll
    static void configure() {
        DatabaseDescriptor.clientInitialization();
    }

    private static ByteBuffer bytes(int... bytes) {
        ByteBuffer buffer = ByteBuffer.allocate(bytes.length);
        for (int b : bytes) buffer.put((byte) b);
        return buffer.flip();
    }

    @Test
    void whatIsWrittenIsRead() {
        ByteBuffer longer = bytes(9, 9, 1, 2, 3, 9);
        ByteBuffer part = longer.slice(2, 3);
        List<ByteBuffer> values = Arrays.asList(part, null, bytes());
        try (ChronicleQueue queue =
                SingleChronicleQueueBuilder.single(directory.toFile())
                        .rollCycle(RollCycles.HOURLY)
                        .build()) {
            ExcerptAppender appender = queue.acquireAppender();
            FullQueryLogger.Query query =
                    new FullQueryLogger.Query(
                            "SELECT ?",
                            WrittenLog.options(
                                    Arrays.asList(part, null, ByteBufferUtil.UNSET_BYTE_BUFFER)),
                            WrittenLog.state(),
                            1000);
            FullQueryLogger.Batch batch =
                    new FullQueryLogger.Batch(
                            BatchStatement.Type.LOGGED,
                            List.of("INSERT a", "INSERT b"),
                            List.of(values, List.of()),
                            WrittenLog.options(List.of()),
                            WrittenLog.state(),
                            2000);
            appender.writeDocument(query);
            appender.writeDocument(batch);
            query.release();
            batch.release();
        }
        try (QueryLog log = new QueryLog(List.of(directory))) {
            LoggedQuery query = log.next();
            assertThat(query).isNotNull();
            assertThat(query.startedMillis()).isEqualTo(1000);
            assertThat(query.batch()).isNull();
            assertThat(query.parameters())
                    .isEqualTo(new LoggedQuery.Parameters(null, 100, null, 77, 88));
            assertThat(query.parts())
                    .containsExactly(
                            new LoggedQuery.Part(
                                    "SELECT ?", Arrays.asList(bytes(1, 2, 3), null, bytes())));
            LoggedQuery batch = log.next();
            assertThat(batch).isNotNull();
            assertThat(batch.batch()).isEqualTo("LOGGED");
            assertThat(batch.parts())
                    .containsExactly(
                            new LoggedQuery.Part(
                                    "INSERT a", Arrays.asList(bytes(1, 2, 3), null, bytes())),
                            new LoggedQuery.Part("INSERT b", List.of()));
            assertThat(log.next()).isNull();
        }
    }

    /** Three segments of five requests, 0-0 to 2-4; damage is done to it when it is closed. */
    private WrittenLog segments() {
        WrittenLog log = new WrittenLog(directory);
        try (log) {
            for (int segment = 0; segment < 3; segment++) {
                for (int i = 0; i < 5; i++)
                    log.query("SELECT " + segment + "-" + i + "x".repeat(3000));
                log.anHourLater();
            }
        }
        return log;
    }

    /** All that is whole, and then what is told of the rest. */
    private List<String> read() {
        List<String> read = new ArrayList<>();
        try (QueryLog log = new QueryLog(List.of(directory))) {
            StringBuilder all = new StringBuilder();
            for (LoggedQuery query = log.next(); query != null; query = log.next())
                all.append(query.parts().get(0).cql(), 7, 10).append(' ');
            read.add(all.toString().strip());
            read.addAll(log.losses());
        }
        return read;
    }

    @Test
    void aWholeLogHasNoLosses() {
        WrittenLog unused = segments();
        assertThat(read())
                .containsExactly("0-0 0-1 0-2 0-3 0-4 1-0 1-1 1-2 1-3 1-4 2-0 2-1 2-2 2-3 2-4");
    }

    @Test
    void aRecordThatACrashLeftUnfinishedEndsItsSegmentOnly() throws IOException {
        segments().unfinish(1, "SELECT 1-3");
        assertThat(read())
                .hasSize(2)
                .startsWith("0-0 0-1 0-2 0-3 0-4 1-0 1-1 1-2 2-0 2-1 2-2 2-3 2-4")
                .last(STRING)
                .contains("behind request 8 of", "20231114-23.cq4", "begun and not finished");
    }

    @Test
    void theLastRecordMayBeUnfinished() throws IOException {
        segments().unfinish(2, "SELECT 2-4");
        assertThat(read())
                .hasSize(2)
                .startsWith("0-0 0-1 0-2 0-3 0-4 1-0 1-1 1-2 1-3 1-4 2-0 2-1 2-2 2-3")
                .last(STRING)
                .contains("behind request 14 of", "20231115-00.cq4", "begun and not finished");
    }

    @Test
    void aRecordWithoutContentsIsPassedOver() throws IOException {
        WrittenLog log = segments();
        log.write(1, log.header(1, "SELECT 1-3") + Integer.BYTES, new byte[1000]);
        log.write(2, log.header(2, "SELECT 2-0") + Integer.BYTES, new byte[1000]);
        assertThat(read())
                .hasSize(2)
                .startsWith("0-0 0-1 0-2 0-3 0-4 1-0 1-1 1-2 1-4 2-1 2-2 2-3 2-4")
                .last(STRING)
                .contains("2 records cannot be read, the first behind request 8 of", "-23.cq4");
    }

    @Test
    void aSegmentThatIsCutEndsThere() throws IOException {
        WrittenLog log = segments();
        // Memory is mapped in pages: within one, what is behind the end of the file is zero.
        log.cut(1, log.position(1, "SELECT 1-3") + 100);
        assertThat(read())
                .hasSize(2)
                .startsWith("0-0 0-1 0-2 0-3 0-4 1-0 1-1 1-2 2-0 2-1 2-2 2-3 2-4")
                .last(STRING)
                .contains("behind request 8 of", "20231114-23.cq4", "ends within a record");
    }

    @Test
    void aSegmentWithoutAnythingIsPassedOver() throws IOException {
        segments().cut(1, 0);
        assertThat(read())
                .startsWith("0-0 0-1 0-2 0-3 0-4 2-0 2-1 2-2 2-3 2-4")
                .last(STRING)
                .contains("behind request 5 of", "20231114-23.cq4");
    }

    @Test
    void aSegmentThatIsNotThereIsTold() throws IOException {
        Files.delete(segments().segments().get(1));
        assertThat(read())
                .hasSize(2)
                .startsWith("0-0 0-1 0-2 0-3 0-4 2-0 2-1 2-2 2-3 2-4")
                .last(STRING)
                .contains("1 segments of " + directory, "the first 20231114-23.cq4");
    }
}
