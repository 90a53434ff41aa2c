// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.stream.Stream;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.RollCycle;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueue;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.wire.DocumentContext;
import net.openhft.chronicle.wire.ValueIn;
import net.openhft.chronicle.wire.WireIn;
import org.jspecify.annotations.Nullable;

/**
 * Reads full query logs and audit logs: one of each node. The requests of one node come as it
 * logged them, which is the order in which they were answered; those of several nodes are merged by
 * the time at which they began. Not thread-safe.
 */
public final class QueryLog implements AutoCloseable {
    private static final int VERSION = 0;
    private static final String FILES = ".cq4";

    private final List<NodeLog> logs = new ArrayList<>();
    private final Queue<Head> next =
            new PriorityQueue<>(Comparator.comparingLong(head -> head.query.startedMillis()));

    /** The next request of a log. */
    private record Head(NodeLog log, LoggedQuery query) {}

    /** A log that cannot be read. */
    public static final class QueryLogException extends RuntimeException {
        private static final long serialVersionUID = 1;

        /** With what to do about it. */
        public QueryLogException(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /**
     * Opens logs for reading; a node may go on writing to them.
     *
     * @param paths directories of full query logs or of audit logs, or files of audit logs
     * @throws QueryLogException if one is none of these
     */
    public QueryLog(List<Path> paths) {
        try {
            for (Path path : paths) open(path);
            for (NodeLog log : logs) advance(log);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    /** By what is in it. By default, a node's audit logs of both forms are in one directory. */
    private void open(Path path) {
        if (Files.isRegularFile(path)) {
            if (path.toString().endsWith(FILES))
                throw new QueryLogException(
                        path + " is a part of a log: give the directory that it is in", null);
            logs.add(new AuditText(path, false));
            return;
        }
        int before = logs.size();
        try (Stream<Path> files = Files.list(path)) {
            List<String> names = files.map(file -> file.getFileName().toString()).toList();
            boolean isBinary = names.stream().anyMatch(name -> name.endsWith(FILES));
            if (isBinary) logs.add(new BinaryLog(path));
            if (names.stream().anyMatch(name -> name.startsWith(AuditText.NAME)))
                logs.add(new AuditText(path, isBinary));
        } catch (IOException e) {
            throw new QueryLogException("cannot read " + path + ": " + e, e);
        }
        if (logs.size() == before)
            throw new QueryLogException(
                    path
                            + " has no full query log or audit log, which are files '*"
                            + FILES
                            + "' or '"
                            + AuditText.NAME
                            + "*': nodetool enablefullquerylog --path makes one",
                    null);
    }

    /** The next request; null at the end. */
    public @Nullable LoggedQuery next() {
        Head head = next.poll();
        if (head == null) return null;
        advance(head.log);
        return head.query;
    }

    private void advance(NodeLog log) {
        LoggedQuery query = log.next();
        if (query != null) next.add(new Head(log, query));
    }

    @Override
    public void close() {
        for (NodeLog log : logs) log.close();
    }

    /**
     * What could not be read so far, for people: records, the rest of segments, and segments that
     * are not there. Empty if the logs are whole.
     */
    public List<String> losses() {
        return logs.stream().flatMap(log -> log.losses().stream()).toList();
    }

    /**
     * The log of one node as Cassandra's {@code BinLog} has it: segments, which are files, one for
     * each hour or so ({@code roll_cycle}). What a crash or a cut copy has torn is passed over: a
     * record whose length is known alone, else the rest of its segment.
     */
    private static final class BinaryLog implements NodeLog {
        private static final int MOST_TOLD = 5;

        /** What Chronicle has in the upper bits of a record's header. */
        private static final int HEADER_KIND = 0xc0000000;

        private static final int HEADER_UNFINISHED = 0x80000000;

        private final Path directory;
        private final SingleChronicleQueue queue;
        private ExcerptTailer tailer;
        private int segment;

        /** Where the last record that was read ends in it; 0 for none. */
        private long end;

        /** Of its file; a node that writes to it may have made it larger since. */
        private long size;

        private long read;
        private @Nullable LoggedQuery head;
        private final AuditEntries entries = new AuditEntries();

        private final List<String> torn = new ArrayList<>();
        private long tornSegments;
        private long unread;
        private String firstUnread = "";
        private long missing;
        private String firstMissing = "";

        BinaryLog(Path directory) {
            this.directory = directory;
            try {
                queue =
                        SingleChronicleQueueBuilder.single(directory.toFile())
                                .readOnly(true)
                                .build();
                tailer = queue.createTailer();
                segment = queue.firstCycle();
            } catch (RuntimeException e) {
                throw new QueryLogException(
                        "The log in "
                                + directory
                                + " cannot be opened: "
                                + e
                                + ". Copy it again from the node, after nodetool"
                                + " disablefullquerylog (or disableauditlog).",
                        e);
            }
        }

        @Override
        public @Nullable LoggedQuery next() {
            head = null;
            if (!read()) {
                if (read == 0 && unread > 0 && torn.isEmpty())
                    throw new QueryLogException(
                            directory
                                    + " has no record of a full query log or an audit log of"
                                    + " Cassandra 4.0 to 5.0; the first, "
                                    + firstUnread
                                    + ". Give the directory of such a log (nodetool"
                                    + " enablefullquerylog --path).",
                            null);
                head = entries.end();
            }
            return head;
        }

        @Override
        public void close() {
            queue.close();
        }

        /** Reads the next request; false at the end. */
        private boolean read() {
            while (head == null) {
                String reason = "a record there was begun and not finished";
                try {
                    if (readRecord()) continue;
                    // A crash may have ended the segment before a later one was begun. Or the node
                    // has just begun one, and finished this.
                    if (queue.lastCycle() <= segment && !isUnfinished()) return false;
                    if (readRecord()) continue;
                } catch (Exception | InternalError e) {
                    // Chronicle throws checked exceptions undeclared.
                    reason = e.toString();
                }
                if (!toNextSegment(reason)) return false;
            }
            read++;
            return true;
        }

        /** Reads the next record, into the head if it is whole; false if there is none. */
        private boolean readRecord() throws IOException {
            try (DocumentContext record = tailer.readingDocument()) {
                WireIn in = record.wire();
                if (!record.isPresent() || in == null) return false;
                if (tailer.cycle() != segment) size = 0;
                missing(tailer.cycle());
                segment = tailer.cycle();
                long recordEnd = in.bytes().readLimit();
                // What is mapped of a file reaches beyond its end, and is zero there.
                if (recordEnd > size) size = Files.size(directory.resolve(file(segment)));
                if (recordEnd > size) throw new EOFException("the file ends within a record");
                end = recordEnd;
                try {
                    take(in);
                } catch (RuntimeException | InternalError e) {
                    head = null;
                    if (unread++ == 0) firstUnread = place() + ": " + e;
                }
                return true;
            }
        }

        /** Whether another record was begun there. */
        private boolean isUnfinished() throws IOException {
            if (end == 0) return false;
            ByteBuffer header = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
            try (FileChannel file = FileChannel.open(directory.resolve(file(segment)))) {
                // Records begin at multiples of four.
                file.read(header, (end + 3) & ~3L);
            }
            return (header.getInt(0) & HEADER_KIND) == HEADER_UNFINISHED;
        }

        /** Leaves the rest of this segment out; false if there is no later one. */
        private boolean toNextSegment(String reason) {
            torn(reason);
            int last = queue.lastCycle();
            for (int next = segment + 1; next <= last; next++) {
                if (!Files.exists(directory.resolve(file(next)))) continue;
                missing(next);
                segment = next;
                end = 0;
                size = 0;
                tailer = queue.createTailer();
                try {
                    if (tailer.moveToCycle(next)) return true;
                    torn("it has no records");
                } catch (Exception | InternalError e) {
                    torn(e.toString());
                }
            }
            return false;
        }

        private void torn(String reason) {
            if (tornSegments++ < MOST_TOLD) torn.add(place() + ": " + reason);
        }

        /** Counts what is not there between the current segment and a later one. */
        private void missing(int next) {
            if (next <= segment + 1) return;
            if (missing == 0) firstMissing = file(segment + 1);
            missing += next - segment - 1;
        }

        private String place() {
            return "behind request " + read + " of " + directory.resolve(file(segment));
        }

        /** The file of a segment. */
        private String file(int cycle) {
            RollCycle roll = queue.rollCycle();
            return DateTimeFormatter.ofPattern(roll.format())
                            .withZone(ZoneOffset.UTC)
                            .format(Instant.ofEpochMilli((long) cycle * roll.lengthInMillis()))
                    + FILES;
        }

        @Override
        public List<String> losses() {
            List<String> losses = new ArrayList<>();
            for (String place : torn) losses.add("the rest of a segment cannot be read, " + place);
            if (tornSegments > torn.size())
                losses.add(tornSegments - torn.size() + " more segments cannot be read");
            if (unread > 0)
                losses.add(unread + " records cannot be read, the first " + firstUnread);
            if (missing > 0)
                losses.add(
                        missing
                                + " segments of "
                                + directory
                                + " are not there, the first "
                                + firstMissing
                                + ": they were not copied, or the node was asked nothing then");
            return losses;
        }

        /** Reads a record, as Cassandra 4.0 to 5.0 writes it. */
        private void take(WireIn in) {
            int version = in.read("version").int16();
            if (version != VERSION)
                throw new IllegalArgumentException("its records have version " + version);
            String type = in.read("type").text();
            if (type == null) throw new IllegalArgumentException("a record without a type");
            switch (type) {
                case "single-query", "batch" -> query(in, type);
                case "audit" -> head = entries.take(text(in.read("message")));
                default ->
                        throw new IllegalArgumentException("a record of the type '" + type + "'");
            }
        }

        /** By {@code FullQueryLogger}. */
        private void query(WireIn in, String type) {
            long started = in.read("query-start-time").int64();
            int protocol = in.read("protocol-version").int32();
            byte[] options = in.read("query-options").bytes();
            long timestamp = in.read("generated-timestamp").int64();
            long nowInSeconds = in.read("generated-now-in-seconds").int64();
            String keyspace = in.read("keyspace").text();
            if (options == null) throw new IllegalArgumentException("a record without options");
            List<@Nullable ByteBuffer> values = new ArrayList<>();
            LoggedQuery.Parameters parameters =
                    LoggedQuery.parameters(
                            ByteBuffer.wrap(options), protocol, values, timestamp, nowInSeconds);
            List<LoggedQuery.Part> parts = new ArrayList<>();
            String batch = null;
            if (type.equals("batch")) {
                batch = text(in.read("batch-type"));
                batch(in, parts);
            } else {
                parts.add(new LoggedQuery.Part(text(in.read("query")), values));
            }
            head =
                    new LoggedQuery(
                            started,
                            parameters.keyspace() == null ? keyspace : parameters.keyspace(),
                            batch,
                            parts,
                            parameters,
                            null);
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
