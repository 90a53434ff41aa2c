// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.stream.Stream;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.wire.ValueIn;
import net.openhft.chronicle.wire.WireIn;
import org.jspecify.annotations.Nullable;

/**
 * Reads full query logs: one directory of each node. The requests of one node come as it logged
 * them, which is the order in which they were answered; those of several nodes are merged by the
 * time at which they began. Not thread-safe.
 */
public final class QueryLog implements AutoCloseable {
    private static final int VERSION = 0;
    private static final String FILES = ".cq4";

    private final List<OneLog> logs = new ArrayList<>();
    private final Queue<OneLog> next =
            new PriorityQueue<>(Comparator.comparingLong(OneLog::startedMillis));

    /** A log that cannot be read. */
    public static final class QueryLogException extends RuntimeException {
        private static final long serialVersionUID = 1;

        QueryLogException(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /**
     * Opens logs for reading; a node may go on writing to them.
     *
     * @throws QueryLogException if a directory is no full query log
     */
    public QueryLog(List<Path> directories) {
        try {
            for (Path directory : directories) logs.add(new OneLog(directory));
            for (OneLog log : logs) advance(log);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    /** The next request; null at the end. */
    public @Nullable LoggedQuery next() {
        OneLog log = next.poll();
        if (log == null) return null;
        LoggedQuery query = log.head;
        advance(log);
        return query;
    }

    private void advance(OneLog log) {
        if (log.read()) next.add(log);
    }

    @Override
    public void close() {
        for (OneLog log : logs) log.queue.close();
    }

    /** The log of one node. */
    private static final class OneLog {
        private final Path directory;
        private final ChronicleQueue queue;
        private final ExcerptTailer tailer;
        private long read;
        private @Nullable LoggedQuery head;

        OneLog(Path directory) {
            this.directory = directory;
            try (Stream<Path> files = Files.list(directory)) {
                if (files.noneMatch(file -> file.toString().endsWith(FILES)))
                    throw new QueryLogException(
                            directory
                                    + " has no full query log, which are files '*"
                                    + FILES
                                    + "': nodetool enablefullquerylog --path makes one",
                            null);
            } catch (IOException e) {
                throw new QueryLogException("cannot read " + directory + ": " + e, e);
            }
            try {
                queue =
                        SingleChronicleQueueBuilder.single(directory.toFile())
                                .readOnly(true)
                                .build();
                tailer = queue.createTailer();
            } catch (RuntimeException e) {
                throw damaged(e);
            }
        }

        long startedMillis() {
            return head == null ? Long.MAX_VALUE : head.startedMillis();
        }

        /** Reads the next request; false at the end. */
        boolean read() {
            head = null;
            try {
                if (!tailer.readDocument(this::take)) return false;
            } catch (RuntimeException | InternalError e) {
                throw damaged(e);
            }
            read++;
            return true;
        }

        private QueryLogException damaged(Throwable e) {
            return new QueryLogException(
                    "The full query log in "
                            + directory
                            + " cannot be read after "
                            + read
                            + " requests: "
                            + e
                            + ". Copy it again from the node, after nodetool disablefullquerylog.",
                    e);
        }

        /** Reads a record, as {@code FullQueryLogger} of Cassandra 4.0 to 5.0 writes it. */
        private void take(WireIn in) {
            int version = in.read("version").int16();
            if (version != VERSION)
                throw new IllegalArgumentException("its records have version " + version);
            String type = in.read("type").text();
            long started = in.read("query-start-time").int64();
            int protocol = in.read("protocol-version").int32();
            byte[] options = in.read("query-options").bytes();
            long timestamp = in.read("generated-timestamp").int64();
            long nowInSeconds = in.read("generated-now-in-seconds").int64();
            String keyspace = in.read("keyspace").text();
            if (type == null || options == null)
                throw new IllegalArgumentException("a record without a type or options");
            List<@Nullable ByteBuffer> values = new ArrayList<>();
            LoggedQuery.Parameters parameters =
                    LoggedQuery.parameters(
                            ByteBuffer.wrap(options), protocol, values, timestamp, nowInSeconds);
            List<LoggedQuery.Part> parts = new ArrayList<>();
            String batch = null;
            switch (type) {
                case "single-query" ->
                        parts.add(new LoggedQuery.Part(text(in.read("query")), values));
                case "batch" -> {
                    batch = text(in.read("batch-type"));
                    batch(in, parts);
                }
                default ->
                        throw new IllegalArgumentException("a record of the type '" + type + "'");
            }
            head =
                    new LoggedQuery(
                            started,
                            parameters.keyspace() == null ? keyspace : parameters.keyspace(),
                            batch,
                            parts,
                            parameters);
        }

        private static void batch(WireIn in, List<LoggedQuery.Part> parts) {
            ValueIn queries = in.read("queries");
            List<String> texts = new ArrayList<>();
            for (int left = queries.int32(); left > 0; left--) texts.add(text(queries));
            ValueIn all = in.read("values");
            int count = all.int32();
            if (count != texts.size())
                throw new IllegalArgumentException(
                        "a batch of " + texts.size() + " statements with values for " + count);
            for (String cql : texts) {
                List<@Nullable ByteBuffer> values = new ArrayList<>();
                for (int left = all.int32(); left > 0; left--) {
                    byte[] value = all.bytes();
                    values.add(value == null ? null : ByteBuffer.wrap(value));
                }
                parts.add(new LoggedQuery.Part(cql, values));
            }
        }

        private static String text(ValueIn value) {
            String text = value.text();
            if (text == null) throw new IllegalArgumentException("a record without a statement");
            return text;
        }
    }
}
