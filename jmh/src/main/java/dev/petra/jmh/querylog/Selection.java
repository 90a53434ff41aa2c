// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.EnumMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Which requests of a log are asked again: those that read or write tables that are there. Counts
 * them, and the others by reason. Not thread-safe.
 */
public final class Selection {
    private final QueryLog log;
    private final Set<TableSchema.Table> tables;
    private final long most;
    private final Map<Reason, Long> left = new EnumMap<>(Reason.class);
    private long selected;
    private long volatiles;

    /** Why a request is not asked again. */
    public enum Reason {
        OTHER_TABLE("of tables that are not given"),
        OTHER_STATEMENT("that neither read nor write rows");

        private final String text;

        Reason(String text) {
            this.text = text;
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /**
     * A request that is asked.
     *
     * @param isRead whether it changes nothing
     */
    public record Selected(LoggedQuery query, boolean isRead) {}

    /**
     * @param log which the caller closes
     * @param most how many requests are asked
     */
    public Selection(QueryLog log, Set<TableSchema.Table> tables, long most) {
        this.log = log;
        this.tables = tables;
        this.most = most;
    }

    /** The next one; null at the end. */
    public @Nullable Selected next() {
        while (selected < most) {
            LoggedQuery query = log.next();
            if (query == null) return null;
            boolean isRead = true;
            boolean isVolatile = false;
            Reason reason = null;
            for (LoggedQuery.Part part : query.parts()) {
                CqlText text = CqlText.of(part.cql());
                isRead &= text.kind() == CqlText.Kind.READ;
                isVolatile |= text.isVolatile();
                if (text.kind() == CqlText.Kind.OTHER) reason = Reason.OTHER_STATEMENT;
                else if (!isGiven(text, query.keyspace())) reason = Reason.OTHER_TABLE;
            }
            if (reason != null) {
                left.merge(reason, 1L, Long::sum);
                continue;
            }
            selected++;
            if (isVolatile) volatiles++;
            return new Selected(query, isRead);
        }
        return null;
    }

    private boolean isGiven(CqlText text, @Nullable String keyspaceOfRequest) {
        String keyspace = text.keyspace() == null ? keyspaceOfRequest : text.keyspace();
        return keyspace != null
                && text.table() != null
                && tables.contains(new TableSchema.Table(keyspace, text.table()));
    }

    /** How many were given out. */
    public long selected() {
        return selected;
    }

    /** How many of these call functions that answer differently each time. */
    public long volatiles() {
        return volatiles;
    }

    /** How many others there were, by reason. */
    public Map<Reason, Long> left() {
        return Map.copyOf(left);
    }
}
