// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A request that a node answered, with what its answer depends on.
 *
 * @param startedMillis when the node began with it, since the epoch
 * @param keyspace of names without one
 * @param batch LOGGED, UNLOGGED or COUNTER; null if it is no batch
 * @param parts one, or those of the batch
 * @param left why it cannot be asked, of whichever table it is; null if that is not known
 */
public record LoggedQuery(
        long startedMillis,
        @Nullable String keyspace,
        @Nullable String batch,
        List<Part> parts,
        Parameters parameters,
        Selection.@Nullable Reason left) {
    private static final int V5 = 5;

    /** Flags of a request's parameters; 2 is of no interest, since it changes no values. */
    private static final int VALUES = 0x1;

    private static final int PAGE_SIZE = 0x4;
    private static final int PAGING_STATE = 0x8;
    private static final int SERIAL_CONSISTENCY = 0x10;
    private static final int TIMESTAMP = 0x20;
    private static final int NAMES = 0x40;
    private static final int KEYSPACE = 0x80;
    private static final int NOW_IN_SECONDS = 0x100;

    /**
     * A statement.
     *
     * @param values by position; null for null. Empty also where none was set, which Cassandra does
     *     not log
     */
    public record Part(String cql, List<@Nullable ByteBuffer> values) {}

    /**
     * What a request says beside its statement. The consistency level is left out: the nodes that
     * are asked again are alone.
     *
     * @param keyspace of names without one, of this request alone; null for the connection's
     * @param pageSize in rows; -1 for no paging
     * @param timestamp of what it writes, in microseconds; {@link Long#MIN_VALUE} if none is known
     * @param nowInSeconds what has expired, since the epoch; {@link Long#MIN_VALUE} if not known
     */
    public record Parameters(
            @Nullable String keyspace,
            int pageSize,
            @Nullable ByteBuffer pagingState,
            long timestamp,
            long nowInSeconds) {}

    /**
     * The parameters of a request and its values, as the native protocol has them (in its
     * specification, {@code <query_parameters>}).
     *
     * @param values what they are added to
     * @param timestamp what the node took where the client gave none
     * @param nowInSeconds the same
     */
    static Parameters parameters(
            ByteBuffer bytes,
            int protocol,
            List<@Nullable ByteBuffer> values,
            long timestamp,
            long nowInSeconds) {
        bytes.getShort(); // The consistency level.
        int flags = protocol >= V5 ? bytes.getInt() : bytes.get();
        if (has(flags, NAMES))
            throw new IllegalArgumentException("values by name, which no node logs");
        if (has(flags, VALUES))
            for (int left = Short.toUnsignedInt(bytes.getShort()); left > 0; left--)
                values.add(value(bytes));
        int pageSize = has(flags, PAGE_SIZE) ? bytes.getInt() : -1;
        ByteBuffer state = has(flags, PAGING_STATE) ? value(bytes) : null;
        if (has(flags, SERIAL_CONSISTENCY)) bytes.getShort();
        long given = has(flags, TIMESTAMP) ? bytes.getLong() : timestamp;
        String keyspace = null;
        if (has(flags, KEYSPACE)) {
            byte[] name = new byte[Short.toUnsignedInt(bytes.getShort())];
            bytes.get(name);
            keyspace = new String(name, StandardCharsets.UTF_8);
        }
        long now =
                has(flags, NOW_IN_SECONDS) ? Integer.toUnsignedLong(bytes.getInt()) : nowInSeconds;
        return new Parameters(keyspace, pageSize, state, given, now);
    }

    private static boolean has(int flags, int flag) {
        return (flags & flag) != 0;
    }

    private static @Nullable ByteBuffer value(ByteBuffer bytes) {
        int length = bytes.getInt();
        if (length < 0) return null;
        byte[] value = new byte[length];
        bytes.get(value);
        return ByteBuffer.wrap(value);
    }

    /** Its statements, for people. */
    public String cql() {
        List<String> texts = new ArrayList<>();
        for (Part part : parts) texts.add(part.cql);
        return (batch == null ? "" : batch + " BATCH: ") + String.join("; ", texts);
    }
}
