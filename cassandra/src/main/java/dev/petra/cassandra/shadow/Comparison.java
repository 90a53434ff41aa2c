// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
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
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/**
 * Compares two answers of the same partition: its key, what can be read, when it was written and
 * until when it lives, and what is deleted. Two forms of the same content are equal: what a
 * deletion hides may still be there or not, the same deletion may come in one piece or in several,
 * an expired cell may be a tombstone already, and what may be purged may be there or not.
 *
 * <p>Holds one row of each side. Not thread-safe; for one comparison.
 */
final class Comparison {
    /** What came of it. */
    enum Result {
        EQUAL,
        DIFFERENT,

        /** All else is equal, but they differ by what Cassandra's own replicas may differ by. */
        UNDECIDED,

        /** They were equal as far as there was time to read. */
        TOO_LONG
    }

    /** What is {@link Result#UNDECIDED}. */
    enum Undecided {
        /**
         * The table has what is older than a deletion past {@code gc_grace_seconds}, which it has
         * purged and the shadow has not: whether a write that is so late shows depends on when the
         * deletion was compacted.
         */
        LATE("late write"),

        /**
         * Both say that a cell of one timestamp is gone, since another second. Of two expiring
         * cells, or of one and a deletion, which one wins depends on whether a compaction has made
         * one a tombstone before it met the other. Either hides the same.
         */
        TIE("tie of an expired cell"),

        /**
         * Only the shadow has a deletion whose grace has passed by its timestamp, and by its second
         * has not: it was written more than once, and the table has kept it of an earlier second,
         * and purged it. It hides nothing in either answer.
         */
        PURGED_TIE("tie of deletions of which one was purged"),

        /**
         * The bytes of clustering values differ that the type takes for equal: whose of several
         * writes they are depends on what was merged first.
         */
        CLUSTERING("bytes of equal clustering values");

        private final String text;

        Undecided(String text) {
            this.text = text;
        }
    }

    /**
     * What came of it.
     *
     * @param kind {@code different}, or what is undecided and why; empty if neither
     * @param where the first difference is, or what is undecided; empty if there is none
     * @param table what the table has there, and the shadow has not
     * @param shadow what the shadow has there, and the table has not
     */
    record Outcome(Result result, String kind, String where, String table, String shadow) {
        static final Outcome EQUAL = new Outcome(Result.EQUAL, "", "", "", "");
        static final Outcome TOO_LONG = new Outcome(Result.TOO_LONG, "", "", "", "");

        static Outcome different(String where, String table, String shadow) {
            return new Outcome(Result.DIFFERENT, "different", where, table, shadow);
        }

        static Outcome undecided(Undecided why, String where, String table, String shadow) {
            return new Outcome(Result.UNDECIDED, "undecided: " + why.text, where, table, shadow);
        }
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

    /**
     * What a fact is about: a column or an element of it, the row's marker, or a deletion.
     *
     * @param of a column's name, or a text
     */
    private record Subject(Object of, @Nullable ByteBuffer path) {
        static final Subject ROW = new Subject("row", null);
        static final Subject ROW_DELETION = new Subject("row deletion", null);
        static final Subject RANGE_DELETION = new Subject("range deletion", null);
        static final Subject PARTITION_DELETION = new Subject("partition deletion", null);

        /** The column with all of its elements. */
        Subject whole() {
            return path == null ? this : new Subject(of, null);
        }

        @Override
        public String toString() {
            ByteBuffer element = path;
            return element == null ? of.toString() : of + "[" + Fact.shortened(element) + "]";
        }
    }

    /** One thing that a side says. */
    private record Fact(
            Subject subject,
            boolean isDeletion,
            long timestamp,
            int ttl,
            long localDeletionTime,
            @Nullable ByteBuffer value) {
        static Fact deletion(Subject subject, long timestamp, long localDeletionTime) {
            return new Fact(subject, true, timestamp, 0, localDeletionTime, null);
        }

        @Override
        public String toString() {
            StringBuilder text = new StringBuilder(subject.toString());
            if (isDeletion && subject.of() instanceof ColumnIdentifier) text.append(" deleted");
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

    /** How long behind its timestamp a deletion may be written again, by whoever tries again. */
    private static final long MOST_OF_A_REPETITION = TimeUnit.HOURS.toSeconds(1);

    private static final int SHOWN_BYTES = 64;
    private static final int SHOWN_FACTS = 20;
    private static final int SHOWN_CHARACTERS = 500;

    /** All that a side says of one row, or of one deletion. */
    private static final class Facts {
        static final Facts NONE = new Facts();

        final Set<Fact> all = new LinkedHashSet<>();

        /** What the row lives by and was not asked for. */
        final List<Fact> others = new ArrayList<>();

        /** Timestamps of deletions that may be purged, and of expired cells that may. */
        final Map<Subject, Long> purged = new HashMap<>();

        /** Cells that were deleted or have expired, those included that may be purged. */
        final Map<Subject, Cell<?>> gone = new HashMap<>();

        /** Of the row, if there is one. */
        @Nullable ClusteringPrefix<?> clustering;

        boolean isLive;

        /** Whether {@link #isLive} rests on something that may be left out of an answer. */
        boolean mayLackCells;

        /** Whether the side gave the row more than once. */
        boolean isRepeated;

        void purged(Subject subject, long timestamp) {
            purged.merge(subject, timestamp, Math::max);
        }

        long purgedOver(Subject subject) {
            return Math.max(
                    purged.getOrDefault(Subject.ROW_DELETION, Long.MIN_VALUE),
                    Math.max(
                            purged.getOrDefault(subject, Long.MIN_VALUE),
                            purged.getOrDefault(subject.whole(), Long.MIN_VALUE)));
        }

        static Facts ofRepeatedRow() {
            Facts facts = new Facts();
            facts.isRepeated = true;
            return facts;
        }
    }

    private final TableMetadata table;
    private final ColumnFilter columns;
    private final long nowInSec;
    private final long gcBefore;
    private final boolean reversed;
    private @Nullable ClusteringPrefix<?> reached;
    private @Nullable Outcome undecided;
    private boolean isOneSided;

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
        Outcome difference =
                difference(new Side(ofTable, false), new Side(ofShadow, true), maxRows);
        if (difference != null) return difference;
        Outcome first = undecided;
        return first == null ? Outcome.EQUAL : first;
    }

    /**
     * Compares what both answers have together with what the second has: what only the first has,
     * and nothing in the second takes the place of or hides, is {@link Outcome#table}. Whatever
     * else the second has is no difference. Where a deletion of the first that may be purged hides
     * something in the second, that is {@link Result#UNDECIDED}: either it was written when the
     * deletion had been purged there, or the deletion was lost.
     *
     * @throws SideFailure if one of them cannot be read; the second is that of the shadow
     */
    Outcome missing(UnfilteredRowIterator ofFirst, UnfilteredRowIterator ofSecond) {
        isOneSided = true;
        return compare(ofFirst, ofSecond, Integer.MAX_VALUE);
    }

    private @Nullable Outcome difference(Side left, Side right, int maxRows) {
        if (isOneSided) left.other = right;
        // Cassandra finds partitions by these bytes, and makes tokens of them: it never answers
        // with others, also where the type takes them for equal.
        if (!left.key.equals(right.key))
            return Outcome.different(
                    "the partition's key",
                    "0x" + Fact.shortened(left.key),
                    "0x" + Fact.shortened(right.key));
        Outcome partition =
                difference(
                        () -> "the partition's deletion",
                        left,
                        right,
                        deletion(Subject.PARTITION_DELETION, left.whole()),
                        deletion(Subject.PARTITION_DELETION, right.whole()));
        if (partition != null) return partition;
        Outcome statics =
                difference(
                        () -> "the static row",
                        left,
                        right,
                        facts(ofLeft(left.statics, right.statics), left.whole()),
                        facts(right.statics, right.whole()));
        if (statics != null) return statics;
        for (int live = 0; live < maxRows; ) {
            ClusteringPrefix<?> at = first(left.peek(), right.peek());
            if (at == null) return null;
            Row inLeft = takeAt(at, left);
            Row inRight = takeAt(at, right);
            Facts ofLeft = facts(ofLeft(inLeft, inRight), left);
            Facts ofRight = facts(inRight, right);
            Outcome rows = difference(() -> "row " + shown(at), left, right, ofLeft, ofRight);
            if (rows != null) return rows;
            ClusteringPrefix<?> one = ofLeft.clustering;
            ClusteringPrefix<?> other = ofRight.clustering;
            if (undecided == null && one != null && other != null && !one.equals(other))
                undecided =
                        Outcome.undecided(
                                Undecided.CLUSTERING, "row " + shown(at), shown(one), shown(other));
            Outcome ranges = ranges(at, left, right);
            if (ranges != null) return ranges;
            reached = at;
            if (ofLeft.isLive) live++;
        }
        return null;
    }

    /** What counts as the row of the left side. */
    private @Nullable Row ofLeft(@Nullable Row left, @Nullable Row right) {
        if (!isOneSided || right == null) return left;
        return left == null ? right : Rows.merge(left, right);
    }

    /**
     * Of two range deletions with one timestamp Cassandra's memtable keeps the local deletion time
     * of the first, and its merge that of the later: by the timestamp alone they are the same.
     */
    private @Nullable Outcome ranges(ClusteringPrefix<?> at, Side left, Side right) {
        if (left.open().markedForDeleteAt() == right.open().markedForDeleteAt()) return null;
        return difference(
                () -> "range deletion from " + shown(at),
                left,
                right,
                deletion(Subject.RANGE_DELETION, left.open()),
                deletion(Subject.RANGE_DELETION, right.open()));
    }

    /** The last place up to which nothing differs; null before the first. */
    @Nullable ClusteringPrefix<?> reached() {
        return reached;
    }

    /** The first of what was compared so far that is {@link Result#UNDECIDED}, or null. */
    @Nullable Outcome undecided() {
        return undecided;
    }

    /** One of the two answers, and what is deleted where it has been read up to. */
    private final class Side {
        final UnfilteredRowIterator rows;
        final boolean isShadow;

        /** The one that was asked for, unless an engine gives another. */
        final ByteBuffer key;

        final Row statics;
        private final DeletionTime whole;
        private DeletionTime range = DeletionTime.LIVE;
        private @Nullable Unfiltered next;

        /** What is deleted there counts here, too. */
        private @Nullable Side other;

        /** Whether it gave the last row more than once. */
        private boolean isRepeated;

        Side(UnfilteredRowIterator rows, boolean isShadow) {
            this.rows = rows;
            this.isShadow = isShadow;
            try {
                this.key = rows.partitionKey().getKey();
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

        /** The partition's deletion. */
        DeletionTime whole() {
            Side second = other;
            return second == null || whole.supersedes(second.whole) ? whole : second.whole;
        }

        private DeletionTime range() {
            Side second = other;
            return second == null ? range : later(range, second.range);
        }

        /** What hides older data here. */
        DeletionTime covering() {
            return later(range(), whole());
        }

        /** The range deletion here, unless the partition's hides it. */
        DeletionTime open() {
            return isHidden(range(), whole()) ? DeletionTime.LIVE : range();
        }

        /** The timestamp of what covers this place and may be purged. */
        long purged() {
            return Math.max(
                    isPurgeable(whole()) ? whole().markedForDeleteAt() : Long.MIN_VALUE,
                    isPurgeable(range()) ? range().markedForDeleteAt() : Long.MIN_VALUE);
        }
    }

    /** By the timestamp alone: of ranges, the local deletion time is not always the same. */
    private static boolean isHidden(DeletionTime deletion, DeletionTime covering) {
        return deletion.markedForDeleteAt() <= covering.markedForDeleteAt();
    }

    private static DeletionTime later(DeletionTime one, DeletionTime other) {
        return isHidden(one, other) ? other : one;
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
    private @Nullable Row takeAt(ClusteringPrefix<?> at, Side side) {
        Row found = null;
        side.isRepeated = false;
        for (Unfiltered next = side.peek();
                next != null && table.comparator.compare(next.clustering(), at) == 0;
                next = side.peek()) {
            if (next instanceof Row row) {
                side.isRepeated |= found != null;
                found = row;
            } else {
                RangeTombstoneMarker marker = (RangeTombstoneMarker) next;
                side.range =
                        marker.isOpen(reversed)
                                ? marker.openDeletionTime(reversed)
                                : DeletionTime.LIVE;
            }
            side.take();
        }
        return found;
    }

    private Facts facts(@Nullable Row row, Side side) {
        return side.isRepeated ? Facts.ofRepeatedRow() : facts(row, side.covering());
    }

    private Facts facts(@Nullable Row row, DeletionTime covering) {
        if (row == null || row.isEmpty()) return Facts.NONE;
        Facts facts = new Facts();
        facts.clustering = row.clustering();
        DeletionTime deleted = row.deletion().time();
        DeletionTime hiding = add(facts, Subject.ROW_DELETION, deleted, covering, true);
        LivenessInfo liveness = row.primaryKeyLivenessInfo();
        if (!liveness.isEmpty() && !hiding.deletes(liveness)) addLiveness(facts, liveness);
        for (ColumnData data : row) {
            ColumnMetadata column = data.column();
            // Cassandra's SSTables give a dropped column's cells that are newer than the drop.
            if (!columns.fetchedColumns().contains(column)) continue;
            if (data instanceof ComplexColumnData complex) {
                boolean isQueried = columns.fetchedColumnIsQueried(column);
                DeletionTime within =
                        add(
                                facts,
                                new Subject(column.name, null),
                                complex.complexDeletion(),
                                hiding,
                                isQueried);
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

    /** Adds a deletion unless it is hidden or may be purged. Returns what hides older data now. */
    private DeletionTime add(
            Facts facts,
            Subject subject,
            DeletionTime deletion,
            DeletionTime covering,
            boolean isQueried) {
        if (isHidden(deletion, covering)) return covering;
        if (isPurgeable(deletion)) facts.purged(subject, deletion.markedForDeleteAt());
        else if (isQueried)
            facts.all.add(
                    Fact.deletion(
                            subject, deletion.markedForDeleteAt(), deletion.localDeletionTime()));
        return deletion;
    }

    private Facts deletion(Subject subject, DeletionTime deletion) {
        if (deletion.isLive()) return Facts.NONE;
        Facts facts = new Facts();
        DeletionTime unused = add(facts, subject, deletion, DeletionTime.LIVE, true);
        return facts;
    }

    private void addLiveness(Facts facts, LivenessInfo liveness) {
        if (liveness.isLive(nowInSec)) facts.isLive = true;
        else {
            // A cell that only it makes superfluous is left out of some answers.
            facts.mayLackCells = true;
            if (liveness.localExpirationTime() < gcBefore) {
                facts.purged(Subject.ROW, liveness.timestamp());
                return;
            }
        }
        facts.all.add(
                new Fact(
                        Subject.ROW,
                        false,
                        liveness.timestamp(),
                        liveness.ttl(),
                        liveness.localExpirationTime(),
                        null));
    }

    private void addCell(Facts facts, Cell<?> cell, DeletionTime hiding, boolean isQueried) {
        if (hiding.deletes(cell)) return;
        CellPath path = cell.path();
        Subject subject = new Subject(cell.column().name, path == null ? null : path.get(0));
        if (cell.isLive(nowInSec)) {
            facts.isLive = true;
            if (isQueried) facts.all.add(live(subject, cell));
            else facts.others.add(withoutValue(subject, cell));
            return;
        }
        facts.gone.put(subject, cell);
        // As a compaction would write it.
        long deletedAt =
                cell.isTombstone()
                        ? cell.localDeletionTime()
                        : cell.localDeletionTime() - cell.ttl();
        if (deletedAt < gcBefore)
            // A deleted counter hides newer updates too.
            facts.purged(
                    subject, cell.column().isCounterColumn() ? Long.MAX_VALUE : cell.timestamp());
        else if (isQueried) facts.all.add(Fact.deletion(subject, cell.timestamp(), deletedAt));
    }

    /** A value that was not asked for may be empty here, also a counter's. */
    private static Fact withoutValue(Subject subject, Cell<?> cell) {
        return new Fact(subject, false, cell.timestamp(), 0, Cell.NO_DELETION_TIME, null);
    }

    private static Fact live(Subject subject, Cell<?> cell) {
        return cell.isCounterCell()
                ? new Fact(
                        subject,
                        false,
                        cell.timestamp(),
                        0,
                        Cell.NO_DELETION_TIME,
                        ByteBufferUtil.bytes(CounterContext.instance().total(cell)))
                : new Fact(
                        subject,
                        false,
                        cell.timestamp(),
                        cell.ttl(),
                        cell.localDeletionTime(),
                        cell.buffer());
    }

    /**
     * Whether two cells that are gone may each be what is left of the same writes. A tombstone may
     * be what a compaction has made of an expiring cell of its second, and then hides any other of
     * its timestamp. What still has its expiry has met none: it has won by that over a cell that
     * expires no later, which was thus written in an earlier second; a tombstone of a later one is
     * a deletion that it lacks. Two that both have it are decided. A counter does not expire.
     */
    private static boolean isTie(@Nullable Cell<?> one, @Nullable Cell<?> other) {
        if (one == null
                || other == null
                || one.column().isCounterColumn()
                || one.timestamp() != other.timestamp()) return false;
        if (one.isTombstone())
            return other.isTombstone() || one.localDeletionTime() + 1 < other.localDeletionTime();
        return other.isTombstone() && other.localDeletionTime() + 1 < one.localDeletionTime();
    }

    /**
     * Whether a deletion that only the shadow has is of those of which the engine keeps the later
     * second and the table may have kept an earlier one: of a range, or of a cell. The earlier is
     * not known, but nobody writes a deletion before its timestamp: so its grace may have passed
     * only if that of the timestamp has. Of most deletions both are one second, and then this is
     * never so while the shadow's may not be purged.
     */
    private boolean mayBePurgedTie(Fact fact, Side table, Facts ofTable, Facts ofShadow) {
        Cell<?> cell = ofShadow.gone.get(fact.subject());
        boolean isOfSeveralSeconds =
                cell == null
                        ? fact.subject().equals(Subject.RANGE_DELETION)
                        : !cell.column().isCounterColumn();
        long written = TimeUnit.MICROSECONDS.toSeconds(fact.timestamp());
        return fact.isDeletion()
                && isOfSeveralSeconds
                // Whose own would be gone as well; and the shadow has lost none that is newer.
                && table.purged() == Long.MIN_VALUE
                && ofTable.purgedOver(fact.subject()) == Long.MIN_VALUE
                && written < gcBefore
                && fact.localDeletionTime() - written <= MOST_OF_A_REPETITION;
    }

    /**
     * How the two differ at a place, or null. What is undecided is noted, and is not a difference.
     *
     * <p>Of a cell that lives on one side nothing is undecided by a tie: the other's tombstone may
     * be a client's deletion, which the one has lost.
     *
     * <p>Of what is late only the table's side can be excused. It purges, and the shadow does not:
     * all that the table says, and all that hides older data there, the shadow has as well. So a
     * fact of the table is hidden in the shadow if the table has purged what hid it; and a fact of
     * the shadow alone was lost by the table, or was not hidden by the engine as it should be. Only
     * a deletion {@link #mayBePurgedTie of several seconds} the table may have purged by another.
     */
    private @Nullable Outcome difference(
            Supplier<String> where, Side table, Side shadow, Facts ofLeft, Facts ofRight) {
        boolean isRepeated = ofLeft.isRepeated || ofRight.isRepeated;
        boolean isAlikeLive =
                ofLeft.isLive == ofRight.isLive || ofLeft.mayLackCells || ofRight.mayLackCells;
        if (!isRepeated && isAlikeLive && ofLeft.all.equals(ofRight.all)) return null;
        Set<Fact> onlyLeft = new LinkedHashSet<>(ofLeft.all);
        onlyLeft.removeAll(ofRight.all);
        Set<Fact> onlyRight = new LinkedHashSet<>(ofRight.all);
        onlyRight.removeAll(ofLeft.all);
        Predicate<Fact> isTied =
                fact -> isTie(ofLeft.gone.get(fact.subject()), ofRight.gone.get(fact.subject()));
        // But for those that are tied.
        Set<Fact> left = new LinkedHashSet<>(onlyLeft);
        Set<Fact> right = new LinkedHashSet<>(onlyRight);
        if (!isOneSided) {
            left.removeIf(isTied);
            right.removeIf(isTied);
        }
        // Where nothing else differs: it may hide what the table shows.
        boolean isPurgedTie =
                !isOneSided
                        && isAlikeLive
                        && left.isEmpty()
                        && !right.isEmpty()
                        && right.stream()
                                .allMatch(fact -> mayBePurgedTie(fact, table, ofLeft, ofRight));
        if (isPurgedTie) right.clear();
        Predicate<Fact> isLate =
                fact ->
                        fact.timestamp()
                                <= Math.max(shadow.purged(), ofRight.purgedOver(fact.subject()));
        boolean isExcused =
                isOneSided
                        ? left.isEmpty()
                        : right.isEmpty()
                                && left.stream().allMatch(isLate)
                                && (isAlikeLive
                                        || (ofLeft.isLive
                                                && ofLeft.others.stream().allMatch(isLate)));
        if (!isRepeated && isExcused) {
            if (undecided == null) {
                Undecided why = Undecided.LATE;
                if (isPurgedTie) why = Undecided.PURGED_TIE;
                else if (!isOneSided && left.isEmpty() && isAlikeLive) why = Undecided.TIE;
                undecided = Outcome.undecided(why, where.get(), text(onlyLeft), text(onlyRight));
            }
            return null;
        }
        boolean haveTexts = !isRepeated && !(onlyLeft.isEmpty() && onlyRight.isEmpty());
        return Outcome.different(
                where.get(),
                haveTexts ? text(onlyLeft) : state(ofLeft),
                haveTexts ? text(onlyRight) : state(ofRight));
    }

    private static String state(Facts facts) {
        return facts.isRepeated ? "the row more than once" : facts.isLive ? "live" : "not live";
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

    /** A key as an operator reads it. */
    static String shown(TableMetadata table, DecoratedKey key) {
        return shortened(table.partitionKeyType.getString(key.getKey()));
    }

    /** A text that may be as long as what a client has written. */
    static String shortened(String text) {
        return text.length() <= SHOWN_CHARACTERS
                ? text
                : text.substring(0, SHOWN_CHARACTERS) + "… (" + text.length() + " characters)";
    }
}
