// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The entries of a node's audit log as requests. An entry is a text, the same in both forms of the
 * log ({@code AuditLogEntry.getLogString} of Cassandra 4.0 to 5.0):
 *
 * <pre>
 *   user:U|host:H|source:S|port:P|timestamp:MILLIS|type:T|category:C|batch:ID|ks:K|scope:S|operation:O
 * </pre>
 *
 * where the port, the batch, the keyspace, the scope and the operation may be left out. The
 * operation is the statement, without the values that are bound to it, over as many lines as it
 * has. A batch is an entry with the number of its statements and then one entry for each; other
 * requests' entries may be between them. Not thread-safe.
 */
final class AuditEntries {
    /** How an entry begins; the name of a user may be anything. */
    private static final String HEAD =
            "user:.*?\\|host:.*?\\|source:.*?\\|timestamp:(\\d+)\\|type:(\\w+)\\|category:\\w+";

    /** Where an entry begins in a line. */
    static final Pattern BEGIN = Pattern.compile(HEAD);

    private static final Pattern ENTRY =
            Pattern.compile(
                    HEAD
                            + "(?:\\|batch:([0-9a-f-]{36}))?(?:\\|ks:(\\w+))?"
                            + "(?:\\|scope:.*?)?(?:\\|operation:(.*))?",
                    Pattern.DOTALL);

    private static final Pattern BATCH =
            Pattern.compile("BatchId:\\[[0-9a-f-]{36}] - BATCH of \\[(\\d+)] statements");

    /**
     * A log does not say of which kind a batch was. This one takes counters and all else, and
     * writes the same rows.
     */
    private static final String KIND = "UNLOGGED";

    /** What drivers take if they are not told otherwise; the log does not say it. */
    private static final int PAGE_SIZE = 5000;

    /**
     * More batches than a node logs at once. An older one has no more entries: they were filtered,
     * or the node dropped them.
     */
    private static final int MOST_OPEN = 1000;

    private final Map<String, Batch> open = new LinkedHashMap<>();
    private long lastMillis;
    private long inMilli;

    /** A batch of which not all statements have come. */
    private static final class Batch {
        final long millis;
        final int count;
        final List<LoggedQuery.Part> parts = new ArrayList<>();
        @Nullable String keyspace;

        Batch(long millis, int count) {
            this.millis = millis;
            this.count = count;
        }
    }

    /**
     * Takes an entry.
     *
     * @return a request that is complete with it; null for none
     * @throws IllegalArgumentException if it is no entry
     */
    @Nullable LoggedQuery take(String entry) {
        Matcher matcher = ENTRY.matcher(entry);
        if (!matcher.matches())
            throw new IllegalArgumentException(
                    "an entry of an audit log of an unknown form: "
                            + entry.substring(0, Math.min(100, entry.length())));
        long millis = Long.parseLong(matcher.group(1));
        String type = matcher.group(2);
        String id = matcher.group(3);
        String keyspace = matcher.group(4);
        String cql = matcher.group(5) == null ? "" : matcher.group(5);
        Selection.Reason left =
                switch (type) {
                    case "SELECT", "UPDATE", "DELETE", "TRUNCATE", "BATCH" -> null;
                    case "REQUEST_FAILURE", "UNAUTHORIZED_ATTEMPT" -> Selection.Reason.FAILED;
                    // Also those that only prepare a statement.
                    default -> Selection.Reason.OTHER_STATEMENT;
                };
        LoggedQuery.Part part = new LoggedQuery.Part(cql, List.of());
        if (id == null) return query(millis, keyspace, null, List.of(part), left);

        Matcher header = BATCH.matcher(cql);
        if (type.equals("BATCH") && header.matches()) {
            open.put(id, new Batch(millis, Integer.parseInt(header.group(1))));
        } else {
            // Without its first entry, it is never complete.
            Batch batch = open.computeIfAbsent(id, key -> new Batch(millis, Integer.MAX_VALUE));
            batch.parts.add(part);
            // The keyspace of the statement's table, wherever that is from.
            if (CqlText.of(cql).tables().stream().anyMatch(name -> name.keyspace() == null))
                batch.keyspace = keyspace;
            if (batch.parts.size() == batch.count) {
                open.remove(id);
                return query(batch.millis, batch.keyspace, KIND, batch.parts, null);
            }
        }
        return open.size() > MOST_OPEN ? incomplete() : null;
    }

    /** At the end of the log: a batch of which not all is there; null if there are no more. */
    @Nullable LoggedQuery end() {
        return open.isEmpty() ? null : incomplete();
    }

    private LoggedQuery incomplete() {
        Iterator<Batch> eldest = open.values().iterator();
        Batch batch = eldest.next();
        eldest.remove();
        return query(
                batch.millis, batch.keyspace, KIND, batch.parts, Selection.Reason.INCOMPLETE_BATCH);
    }

    private LoggedQuery query(
            long millis,
            @Nullable String keyspace,
            @Nullable String batch,
            List<LoggedQuery.Part> parts,
            Selection.@Nullable Reason left) {
        // In the order of the log, where writes have no other: with one timestamp, the larger
        // value would win.
        inMilli = millis == lastMillis ? inMilli + 1 : 0;
        lastMillis = millis;
        LoggedQuery.Parameters parameters =
                new LoggedQuery.Parameters(
                        null,
                        PAGE_SIZE,
                        null,
                        TimeUnit.MILLISECONDS.toMicros(millis) + Math.min(inMilli, 999),
                        TimeUnit.MILLISECONDS.toSeconds(millis));
        return new LoggedQuery(millis, keyspace, batch, parts, parameters, left);
    }
}
