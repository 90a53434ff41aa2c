// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.EnumMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Which requests of a log are asked again: those that read or write tables that are there, and no
 * others. A batch is asked whole or not at all. Counts them, and the others by reason. Not
 * thread-safe.
 */
public final class Selection {
    private final QueryLog log;
    private final Set<TableSchema.Table> tables;
    private final long most;
    private final Map<Reason, Long> left = new EnumMap<>(Reason.class);
    private long selected;
    private long volatiles;
    private long conditionals;

    /** Why a request is not asked again. */
    public enum Reason {
        OTHER_TABLE("of tables that are not given"),
        PARTLY_OTHER_TABLE("batches of which a part is of tables that are not given"),
        OTHER_STATEMENT("that neither read nor write rows"),
        WITHOUT_VALUES("with values that are not in the log"),
        INCOMPLETE_BATCH("batches of which not all statements are in the log"),
        FAILED("that failed when they were logged");

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
            boolean isConditional = false;
            boolean isOther = false;
            boolean someGiven = false;
            boolean allGiven = true;
            boolean isComplete = true;
            for (LoggedQuery.Part part : query.parts()) {
                CqlText text = CqlText.of(part.cql());
                isRead &= text.kind() == CqlText.Kind.READ;
                isVolatile |= text.isVolatile();
                isConditional |= text.isConditional();
                isOther |= text.kind() == CqlText.Kind.OTHER;
                allGiven &= !text.tables().isEmpty();
                isComplete &= !part.values().isEmpty() || !CqlText.needsValues(part.cql());
                for (CqlText.Name name : text.tables()) {
                    boolean isGiven = isGiven(name, query.keyspace());
                    someGiven |= isGiven;
                    allGiven &= isGiven;
                }
            }
            Reason reason = query.left();
            if (reason == null && isOther) reason = Reason.OTHER_STATEMENT;
            if (reason == null && !(someGiven && allGiven))
                reason = someGiven ? Reason.PARTLY_OTHER_TABLE : Reason.OTHER_TABLE;
            if (reason == null && !isComplete) reason = Reason.WITHOUT_VALUES;
            if (reason != null) {
                left.merge(reason, 1L, Long::sum);
                continue;
            }
            selected++;
            if (isVolatile) volatiles++;
            if (isConditional) conditionals++;
            return new Selected(query, isRead);
        }
        return null;
    }

    private boolean isGiven(CqlText.Name name, @Nullable String keyspaceOfRequest) {
        String keyspace = name.keyspace() == null ? keyspaceOfRequest : name.keyspace();
        return keyspace != null && tables.contains(new TableSchema.Table(keyspace, name.table()));
    }

    /** How many were given out. */
    public long selected() {
        return selected;
    }

    /** How many of these call functions that answer differently each time. */
    public long volatiles() {
        return volatiles;
    }

    /** How many of these write only under a condition, or have a part that does. */
    public long conditionals() {
        return conditionals;
    }

    /** How many others there were, by reason. */
    public Map<Reason, Long> left() {
        return new EnumMap<>(left);
    }
}
