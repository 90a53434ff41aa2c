// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.RollCycles;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.statements.BatchStatement;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.fql.FullQueryLogger;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.service.QueryState;
import org.apache.cassandra.transport.ProtocolVersion;
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

    private static QueryOptions options(List<ByteBuffer> values) {
        return QueryOptions.create(
                ConsistencyLevel.QUORUM,
                values,
                true,
                100,
                null,
                ConsistencyLevel.SERIAL,
                ProtocolVersion.V5,
                null,
                77,
                88);
    }

    private static QueryState state() {
        return new QueryState(ClientState.forInternalCalls(), 5, 6);
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
                            options(Arrays.asList(part, null, ByteBufferUtil.UNSET_BYTE_BUFFER)),
                            state(),
                            1000);
            FullQueryLogger.Batch batch =
                    new FullQueryLogger.Batch(
                            BatchStatement.Type.LOGGED,
                            List.of("INSERT a", "INSERT b"),
                            List.of(values, List.of()),
                            options(List.of()),
                            state(),
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
}
