// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What comparisons of one table and its shadow have found since the node started, or an operator
 * had the shadow made anew; of differences, also before a restart. It is counted and forgotten
 * under one lock. Thread-safe.
 */
final class ComparisonResults {
    private static final Logger logger = LoggerFactory.getLogger(ComparisonResults.class);

    /** Why a copy ends that is made anew. What it had wrong does not count from then on. */
    static final String ANEW = "an operator has it made anew";

    final ShadowStatistics statistics = new ShadowStatistics();
    private final ColumnFamilyStore cfs;
    private final String name;
    private final Differences differences;
    private final RememberedDifferences remembered;
    private volatile @Nullable TableComparison comparison;

    /**
     * @param answers whether clients are answered by the shadow
     */
    ComparisonResults(ColumnFamilyStore cfs, BooleanSupplier answers) {
        this.cfs = cfs;
        this.name = cfs.metadata.toString();
        this.differences = new Differences(name, System::nanoTime, answers);
        this.remembered = new RememberedDifferences(name, System::nanoTime);
    }

    /**
     * Counts a comparison, and keeps what differs, whether the copy is there yet or not; unless
     * what it had wrong was forgotten by {@link #anew}.
     *
     * @param of what was compared
     * @param outcome null if there was no moment to compare at
     */
    synchronized void count(ShadowCopy of, DecoratedKey key, Comparison.@Nullable Outcome outcome) {
        ShadowStore.End end = of.end();
        if (end != null && end.reason().equals(ANEW)) return;
        if (outcome == null) statistics.notComparable.increment();
        else
            switch (outcome.result()) {
                case EQUAL -> statistics.equal.increment();
                case DIFFERENT -> {
                    statistics.different.increment();
                    var unused = differences.add(difference(key, outcome));
                    remembered.remember(statistics.different.sum(), this::folders);
                }
                case UNDECIDED -> {
                    statistics.undecided.increment();
                    differences.addUndecided(difference(key, outcome));
                }
                case TOO_LONG -> statistics.notComparable.increment();
            }
        statistics.compared.increment();
    }

    private Differences.Difference difference(DecoratedKey key, Comparison.Outcome outcome) {
        return new Differences.Difference(
                System.currentTimeMillis(),
                outcome.kind(),
                Comparison.shown(cfs.metadata(), key),
                outcome.where(),
                outcome.table(),
                outcome.shadow());
    }

    /** Counts a read of which there was no moment to compare at. */
    void countNotComparable() {
        statistics.notComparable.increment();
        statistics.compared.increment();
    }

    /** The last differences but for those that are undecided, the newest first. */
    List<Differences.Difference> decided() {
        return differences.last();
    }

    /** The last differences, the newest first; behind them the last that are undecided. */
    List<Differences.Difference> differences() {
        List<Differences.Difference> all = new ArrayList<>(differences.last());
        all.addAll(differences.undecided());
        return all;
    }

    /** The comparison of the whole table that was begun last since {@link #anew}, or null. */
    @Nullable TableComparison comparison() {
        return comparison;
    }

    void comparison(TableComparison begun) {
        comparison = begun;
    }

    /**
     * Forgets all of it, as an operator has asked.
     *
     * @param end ends the copy, because of {@link #ANEW}
     * @return whether a restart has forgotten it, too
     */
    synchronized boolean anew(Runnable end) {
        logger.warn(
                "The shadow of {} is made anew, as an operator has asked, and forgets {}"
                        + " differences, the last of which were: {}",
                name,
                statistics.different.sum(),
                differences.last());
        // First: what was found wrong neither answers nor becomes the table from here on, and
        // nothing that is of it counts.
        end.run();
        statistics.forgetResults();
        differences.forget();
        comparison = null;
        return remembered.forget(this::folders);
    }

    // On disk. None of these throws.

    /**
     * Counts the differences that were found before the node was started, or by the shadow before.
     */
    void recall(@Nullable ComparisonResults before) {
        long found =
                remembered.recall(this::folders, before == null ? 0 : before.remembered.found());
        statistics.different.add(found);
        statistics.compared.add(found);
    }

    /** Notes what was not noted yet. */
    void catchUp() {
        remembered.catchUp(this::folders);
    }

    /** The end: another shadow of the table may note what it finds. */
    void end() {
        remembered.end(this::folders);
    }

    /** Forgets what was noted, after {@link #end}. */
    void forget() {
        var unused = remembered.forget(this::folders);
    }

    private List<ShadowFolder> folders() {
        return ShadowFolder.allOf(cfs);
    }
}
