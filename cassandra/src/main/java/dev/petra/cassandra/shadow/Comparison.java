// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.nio.ByteBuffer;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/**
 * Compares two answers of the same partition: what can be read, when it was written and until when
 * it lives, and what is deleted. Two forms of the same content are equal: what a deletion hides may
 * still be there or not, the same deletion may come in one piece or in several, an expired cell may
 * be a tombstone already, and what may be purged may be there or not.
 *
 * <p>Holds one row of each side. Not thread-safe; for one comparison.
 */
final class Comparison {
    /** What came of it. */
    enum Result {
        EQUAL,
        DIFFERENT,

        /**
         * They differ by what is older than a deletion past {@code gc_grace_seconds}, which the one
         * side has purged and the other not. In Cassandra such a write is too late, and whether it
         * shows depends on when the deletion was compacted.
         */
        TOO_LATE,

        /** They were equal as far as there was time to read. */
        TOO_LONG
    }

    /**
     * What came of it.
     *
     * @param where the first difference is; empty if they are equal
     * @param table what the table has there, and the shadow has not
     * @param shadow what the shadow has there, and the table has not
     */
    record Outcome(Result result, String where, String table, String shadow) {
        static final Outcome EQUAL = new Outcome(Result.EQUAL, "", "", "");
        static final Outcome TOO_LONG = new Outcome(Result.TOO_LONG, "", "", "");
    }

    /** One side could not be read. */
    static final class SideFailure extends RuntimeException {
        private static final long serialVersionUID = 1;

        /** Whether it is the shadow. */
        final boolean isShadow;

        SideFailure(boolean isShadow, Throwable cause) {
            super(cause.getMessage(), cause);
            this.isShadow = isShadow;
        }
    }

    /** One thing that a side says. */
    private record Fact(
            String what,
            @Nullable ByteBuffer path,
            long timestamp,
            int ttl,
            long localDeletionTime,
            @Nullable ByteBuffer value) {
        @Override
        public String toString() {
            StringBuilder text = new StringBuilder(what);
            ByteBuffer element = path;
            if (element != null) text.append('[').append(shortened(element)).append(']');
            ByteBuffer bytes = value;
            if (bytes != null) text.append(" = 0x").append(shortened(bytes));
            text.append(" @").append(timestamp);
            if (ttl != 0) text.append(" ttl ").append(ttl);
            if (localDeletionTime != Cell.NO_DELETION_TIME)
                text.append(" until ").append(localDeletionTime);
            return text.toString();
        }

        private static String shortened(ByteBuffer bytes) {
            if (bytes.remaining() <= SHOWN_BYTES) return ByteBufferUtil.bytesToHex(bytes);
            ByteBuffer first = bytes.duplicate();
            first.limit(first.position() + SHOWN_BYTES);
            return ByteBufferUtil.bytesToHex(first) + "… (" + bytes.remaining() + " bytes)";
        }
    }

    private static final int SHOWN_BYTES = 64;
    private static final int SHOWN_FACTS = 20;
    private static final int SHOWN_CHARACTERS = 500;

    /** All that a side says of one row. */
    private static final class Facts {
        static final Facts NONE = new Facts();

        final Set<Fact> all = new LinkedHashSet<>();
        boolean isLive;

        /** Whether {@link #isLive} rests on something that may be left out of an answer. */
        boolean mayLackCells;

        /** The highest timestamp of a deletion that may be purged. */
        long purged = Long.MIN_VALUE;
    }

    private final TableMetadata table;
    private final ColumnFilter columns;
    private final long nowInSec;
    private final long gcBefore;
    private final boolean reversed;
    private @Nullable ClusteringPrefix<?> reached;

    /**
     * @param columns that were asked for
     * @param nowInSec at which cells count as expired: later than any clock that either side has
     *     compacted by
     * @param gcBefore deletions from before this may be purged on either side
     * @param reversed whether both are read from their ends
     */
    Comparison(
            TableMetadata table,
            ColumnFilter columns,
            long nowInSec,
            long gcBefore,
            boolean reversed) {
        this.table = table;
        this.columns = columns;
        this.nowInSec = nowInSec;
        this.gcBefore = gcBefore;
        this.reversed = reversed;
    }

    /**
     * Compares up to so many rows that are live in the table. Reads both as far; closes neither.
     *
     * @throws SideFailure if one of them cannot be read
     */
    Outcome compare(UnfilteredRowIterator ofTable, UnfilteredRowIterator ofShadow, int maxRows) {
        Side left = new Side(ofTable, false);
        Side right = new Side(ofShadow, true);
        if (!left.partition().equals(right.partition()))
            return differ(
                    "the partition's deletion",
                    left,
                    right,
                    deletion("partition", left.partition()),
                    deletion("partition", right.partition()));
        Outcome statics =
                compareRows(
                        () -> "the static row",
                        left,
                        right,
                        facts(left.statics, left.whole),
                        facts(right.statics, right.whole));
        if (statics.result() != Result.EQUAL) return statics;
        for (int live = 0; live < maxRows; ) {
            ClusteringPrefix<?> at = first(left.peek(), right.peek());
            if (at == null) return Outcome.EQUAL;
            Facts ofLeft = takeAt(at, left);
            Facts ofRight = takeAt(at, right);
            Outcome rows = compareRows(() -> "row " + shown(at), left, right, ofLeft, ofRight);
            if (rows.result() != Result.EQUAL) return rows;
            if (!left.open().equals(right.open()))
                return differ(
                        "range deletion from " + shown(at),
                        left,
                        right,
                        deletion("range", left.open()),
                        deletion("range", right.open()));
            reached = at;
            if (ofLeft.isLive) live++;
        }
        return Outcome.EQUAL;
    }

    /** The last place up to which both are equal; null before the first. */
    @Nullable ClusteringPrefix<?> reached() {
        return reached;
    }

    /** One of the two answers, and what is deleted where it has been read up to. */
    private final class Side {
        final UnfilteredRowIterator rows;
        final boolean isShadow;
        final DeletionTime whole;
        final Row statics;
        DeletionTime range = DeletionTime.LIVE;
        private @Nullable Unfiltered next;

        Side(UnfilteredRowIterator rows, boolean isShadow) {
            this.rows = rows;
            this.isShadow = isShadow;
            try {
                this.whole = rows.partitionLevelDeletion();
                this.statics = rows.staticRow();
            } catch (Timed.TooLong e) {
                throw e;
            } catch (RuntimeException | FSError | AssertionError e) {
                throw new SideFailure(isShadow, e);
            }
        }

        @Nullable Unfiltered peek() {
            try {
                if (next == null && rows.hasNext()) next = rows.next();
                return next;
            } catch (Timed.TooLong e) {
                throw e;
            } catch (RuntimeException | FSError | AssertionError e) {
                throw new SideFailure(isShadow, e);
            }
        }

        void take() {
            next = null;
        }

        /** What hides older data here. */
        DeletionTime covering() {
            return range.supersedes(whole) ? range : whole;
        }

        /** The partition's deletion, unless it may be purged. */
        DeletionTime partition() {
            return kept(whole);
        }

        /** The range deletion here, unless it is hidden or may be purged. */
        DeletionTime open() {
            return range.supersedes(whole) ? kept(range) : DeletionTime.LIVE;
        }

        private DeletionTime kept(DeletionTime deletion) {
            return isPurgeable(deletion) ? DeletionTime.LIVE : deletion;
        }

        long purged() {
            return Math.max(
                    isPurgeable(whole) ? whole.markedForDeleteAt() : Long.MIN_VALUE,
                    isPurgeable(range) ? range.markedForDeleteAt() : Long.MIN_VALUE);
        }
    }

    private boolean isPurgeable(DeletionTime deletion) {
        return !deletion.isLive() && deletion.localDeletionTime() < gcBefore;
    }

    private @Nullable ClusteringPrefix<?> first(
            @Nullable Unfiltered one, @Nullable Unfiltered other) {
        if (one == null) return other == null ? null : other.clustering();
        return other == null || order(one, other) <= 0 ? one.clustering() : other.clustering();
    }

    private int order(Unfiltered one, Unfiltered other) {
        int order = table.comparator.compare(one.clustering(), other.clustering());
        return reversed ? -order : order;
    }

    /** Takes all that is at one position; a row and a bound are never at the same. */
    private Facts takeAt(ClusteringPrefix<?> at, Side side) {
        Facts facts = Facts.NONE;
        for (Unfiltered next = side.peek();
                next != null && table.comparator.compare(next.clustering(), at) == 0;
                next = side.peek()) {
            if (next instanceof Row row) facts = facts(row, side.covering());
            else {
                RangeTombstoneMarker marker = (RangeTombstoneMarker) next;
                side.range =
                        marker.isOpen(reversed)
                                ? marker.openDeletionTime(reversed)
                                : DeletionTime.LIVE;
            }
            side.take();
        }
        return facts;
    }

    private Facts facts(Row row, DeletionTime covering) {
        if (row.isEmpty()) return Facts.NONE;
        Facts facts = new Facts();
        DeletionTime deleted = row.deletion().time();
        DeletionTime hiding = add(facts, "row deletion", deleted, covering);
        LivenessInfo liveness = row.primaryKeyLivenessInfo();
        if (!liveness.isEmpty() && !hiding.deletes(liveness)) addLiveness(facts, liveness);
        for (ColumnData data : row) {
            ColumnMetadata column = data.column();
            // Cassandra's SSTables give a dropped column's cells that are newer than the drop.
            if (!columns.fetchedColumns().contains(column)) continue;
            if (data instanceof ComplexColumnData complex) {
                boolean isQueried = columns.fetchedColumnIsQueried(column);
                DeletionTime within =
                        isQueried
                                ? add(
                                        facts,
                                        column.name + " deletion",
                                        complex.complexDeletion(),
                                        hiding)
                                : later(complex.complexDeletion(), hiding);
                for (Cell<?> cell : complex)
                    addCell(
                            facts,
                            cell,
                            within,
                            isQueried && columns.fetchedCellIsQueried(column, cell.path()));
            } else addCell(facts, (Cell<?>) data, hiding, columns.fetchedColumnIsQueried(column));
        }
        return facts;
    }

    private static DeletionTime later(DeletionTime one, DeletionTime other) {
        return one.supersedes(other) ? one : other;
    }

    /** Adds a deletion unless it is hidden or may be purged. Returns what hides older data now. */
    private DeletionTime add(
            Facts facts, String what, DeletionTime deletion, DeletionTime covering) {
        if (!deletion.supersedes(covering)) return covering;
        if (isPurgeable(deletion))
            facts.purged = Math.max(facts.purged, deletion.markedForDeleteAt());
        else facts.all.addAll(deletion(what, deletion));
        return deletion;
    }

    private static Set<Fact> deletion(String what, DeletionTime deletion) {
        return deletion.isLive()
                ? Set.of()
                : Set.of(
                        new Fact(
                                what,
                                null,
                                deletion.markedForDeleteAt(),
                                0,
                                deletion.localDeletionTime(),
                                null));
    }

    private void addLiveness(Facts facts, LivenessInfo liveness) {
        if (liveness.isLive(nowInSec)) facts.isLive = true;
        else {
            // A cell that only it makes superfluous is left out of some answers.
            facts.mayLackCells = true;
            if (liveness.localExpirationTime() < gcBefore) {
                facts.purged = Math.max(facts.purged, liveness.timestamp());
                return;
            }
        }
        facts.all.add(
                new Fact(
                        "row",
                        null,
                        liveness.timestamp(),
                        liveness.ttl(),
                        liveness.localExpirationTime(),
                        null));
    }

    private void addCell(Facts facts, Cell<?> cell, DeletionTime hiding, boolean isQueried) {
        if (hiding.deletes(cell)) return;
        boolean isLive = cell.isLive(nowInSec);
        if (isLive) facts.isLive = true;
        if (!isQueried) return;
        String name = cell.column().name.toString();
        CellPath cellPath = cell.path();
        ByteBuffer path = cellPath == null ? null : cellPath.get(0);
        if (isLive) {
            facts.all.add(
                    cell.isCounterCell()
                            ? new Fact(
                                    name,
                                    path,
                                    cell.timestamp(),
                                    0,
                                    Cell.NO_DELETION_TIME,
                                    ByteBufferUtil.bytes(CounterContext.instance().total(cell)))
                            : new Fact(
                                    name,
                                    path,
                                    cell.timestamp(),
                                    cell.ttl(),
                                    cell.localDeletionTime(),
                                    cell.buffer()));
            return;
        }
        // As a compaction would write it.
        long deletedAt =
                cell.isTombstone()
                        ? cell.localDeletionTime()
                        : cell.localDeletionTime() - cell.ttl();
        if (deletedAt < gcBefore) facts.purged = Math.max(facts.purged, cell.timestamp());
        else facts.all.add(new Fact(name + " deleted", path, cell.timestamp(), 0, deletedAt, null));
    }

    private static Outcome compareRows(
            Supplier<String> where, Side left, Side right, Facts ofLeft, Facts ofRight) {
        boolean mayTellLive = !ofLeft.mayLackCells && !ofRight.mayLackCells;
        if (ofLeft.all.equals(ofRight.all) && (!mayTellLive || ofLeft.isLive == ofRight.isLive))
            return Outcome.EQUAL;
        long purged = Math.max(ofLeft.purged, ofRight.purged);
        return differ(where.get(), left, right, purged, ofLeft, ofRight);
    }

    private static Outcome differ(
            String where, Side left, Side right, long purged, Facts ofLeft, Facts ofRight) {
        Outcome outcome = differ(where, left, right, purged, ofLeft.all, ofRight.all);
        return outcome.table().isEmpty() && outcome.shadow().isEmpty()
                ? new Outcome(
                        outcome.result(),
                        where,
                        ofLeft.isLive ? "live" : "not live",
                        ofRight.isLive ? "live" : "not live")
                : outcome;
    }

    private static Outcome differ(
            String where, Side left, Side right, Set<Fact> ofLeft, Set<Fact> ofRight) {
        return differ(where, left, right, Long.MIN_VALUE, ofLeft, ofRight);
    }

    private static Outcome differ(
            String where, Side left, Side right, long purged, Set<Fact> ofLeft, Set<Fact> ofRight) {
        Set<Fact> onlyLeft = new LinkedHashSet<>(ofLeft);
        onlyLeft.removeAll(ofRight);
        Set<Fact> onlyRight = new LinkedHashSet<>(ofRight);
        onlyRight.removeAll(ofLeft);
        long limit = Math.max(purged, Math.max(left.purged(), right.purged()));
        boolean isLate =
                !(onlyLeft.isEmpty() && onlyRight.isEmpty())
                        && onlyLeft.stream().allMatch(fact -> fact.timestamp() <= limit)
                        && onlyRight.stream().allMatch(fact -> fact.timestamp() <= limit);
        return new Outcome(
                isLate ? Result.TOO_LATE : Result.DIFFERENT,
                where,
                text(onlyLeft),
                text(onlyRight));
    }

    private static String text(Set<Fact> facts) {
        String some =
                facts.stream()
                        .limit(SHOWN_FACTS)
                        .map(Fact::toString)
                        .collect(Collectors.joining(", "));
        int more = facts.size() - SHOWN_FACTS;
        return more <= 0 ? some : some + ", and " + more + " more";
    }

    private String shown(ClusteringPrefix<?> at) {
        return shortened(at.toString(table));
    }

    /** A text that may be as long as what a client has written. */
    static String shortened(String text) {
        return text.length() <= SHOWN_CHARACTERS
                ? text
                : text.substring(0, SHOWN_CHARACTERS) + "… (" + text.length() + " characters)";
    }
}
