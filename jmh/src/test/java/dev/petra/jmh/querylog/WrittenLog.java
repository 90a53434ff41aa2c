// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import net.openhft.chronicle.core.time.SetTimeProvider;
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

/** A full query log by Cassandra's own logger, with a segment for each hour. */
final class WrittenLog implements AutoCloseable {
    private static final long HOUR = 3_600_000;

    /** Between a record's header and its first key. */
    private static final byte KEY = (byte) 0xc7;

    /** What a header has while its record is written. */
    private static final int UNFINISHED = 0x80000000;

    private final Path directory;
    private final SetTimeProvider clock = new SetTimeProvider(1_700_000_000_000_000_000L);
    private final ChronicleQueue queue;
    private final ExcerptAppender appender;
    private long hours;
    private long millis;

    WrittenLog(Path directory) {
        DatabaseDescriptor.clientInitialization();
        this.directory = directory;
        queue =
                SingleChronicleQueueBuilder.single(directory.toFile())
                        .timeProvider(clock)
                        .rollCycle(RollCycles.HOURLY)
                        .build();
        appender = queue.acquireAppender();
    }

    static QueryOptions options(List<ByteBuffer> values) {
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

    static QueryState state() {
        return new QueryState(ClientState.forInternalCalls(), 5, 6);
    }

    WrittenLog query(String cql) {
        FullQueryLogger.Query query =
                new FullQueryLogger.Query(cql, options(List.of()), state(), hours * HOUR + millis);
        appender.writeDocument(query);
        query.release();
        return this;
    }

    WrittenLog batch(String... cql) {
        FullQueryLogger.Batch batch =
                new FullQueryLogger.Batch(
                        BatchStatement.Type.LOGGED,
                        List.of(cql),
                        Stream.of(cql).map(text -> List.<ByteBuffer>of()).toList(),
                        options(List.of()),
                        state(),
                        hours * HOUR + millis);
        appender.writeDocument(batch);
        batch.release();
        return this;
    }

    WrittenLog anHourLater() {
        clock.advanceMillis(HOUR);
        hours++;
        return this;
    }

    /** What comes next began later, in the same segment. */
    WrittenLog later(long millis) {
        this.millis += millis;
        return this;
    }

    @Override
    public void close() {
        queue.close();
    }

    /** The files, in their order. */
    List<Path> segments() throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(file -> file.toString().endsWith(".cq4")).sorted().toList();
        }
    }

    /** Where a text begins in a segment. */
    int position(int segment, String text) throws IOException {
        String all = Files.readString(segments().get(segment), StandardCharsets.ISO_8859_1);
        int position = all.indexOf(text);
        if (position < 0) throw new IOException("no " + text + " in segment " + segment);
        return position;
    }

    /** Ends a segment's file there. */
    void cut(int segment, long at) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(segments().get(segment).toFile(), "rw")) {
            file.setLength(at);
        }
    }

    /** Writes over a segment. */
    void write(int segment, long at, byte[] bytes) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(segments().get(segment).toFile(), "rw")) {
            file.seek(at);
            file.write(bytes);
        }
    }

    /** Where the header is of the record with a text. */
    int header(int segment, String text) throws IOException {
        byte[] all = Files.readAllBytes(segments().get(segment));
        int at = position(segment, text);
        while (all[at] != KEY
                || !new String(all, at + 1, 7, StandardCharsets.ISO_8859_1).equals("version")) at--;
        return at - Integer.BYTES;
    }

    /** Makes a record one that a node was writing when it was killed. */
    void unfinish(int segment, String text) throws IOException {
        int at = header(segment, text);
        byte[] all = Files.readAllBytes(segments().get(segment));
        int header = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN).getInt(at);
        write(
                segment,
                at,
                ByteBuffer.allocate(Integer.BYTES)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putInt(header | UNFINISHED)
                        .array());
    }
}
