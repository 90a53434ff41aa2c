// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongConsumer;

/**
 * Asks two nodes the same, one request after the other in the order of the log, and holds their
 * answers against each other, as {@link Answer} says. Reads between two writes are under way at
 * once. A request that fails on one node only is a difference; one that fails on both is not
 * compared. Not thread-safe.
 */
public final class Comparison {
    /** Differences that are kept with their answers; all are counted. */
    public static final int MOST_KEPT = 100;

    private static final int READS_AT_ONCE = 64;
    private static final int REPORT_EVERY = 10_000;

    private final Player one;
    private final Player other;
    private final LongConsumer progress;
    private final List<Asked> reads = new ArrayList<>();
    private final List<Difference> differences = new ArrayList<>();
    private final Map<String, Errors> errors = new TreeMap<>();
    private long asked;
    private long compared;
    private long rows;
    private long failedOnOne;
    private long failedOnOther;
    private long failedOnBoth;
    private long different;

    /**
     * Two answers to one request.
     *
     * @param number of the request among those that were asked, from 1
     */
    public record Difference(long number, LoggedQuery query, String one, String other) {}

    /** Requests that failed on both nodes, with an error of one kind. */
    public record Errors(long count, String example) {}

    private record Asked(
            long number,
            LoggedQuery query,
            CompletableFuture<Answer> one,
            CompletableFuture<Answer> other) {}

    /**
     * Of two nodes with equal data.
     *
     * @param progress is told now and then how many were asked
     */
    public Comparison(Player one, Player other, LongConsumer progress) {
        this.one = one;
        this.other = other;
        this.progress = progress;
    }

    /** Asks everything. */
    public void run(Selection selection) {
        for (Selection.Selected next = selection.next(); next != null; next = selection.next()) {
            if (!next.isRead() || reads.size() == READS_AT_ONCE) compareReads();
            Asked both = ask(next.query());
            if (next.isRead()) reads.add(both);
            else compare(both);
            if (asked % REPORT_EVERY == 0) progress.accept(asked);
        }
        compareReads();
    }

    private Asked ask(LoggedQuery query) {
        return new Asked(++asked, query, answer(one, query), answer(other, query));
    }

    private static CompletableFuture<Answer> answer(Player player, LoggedQuery query) {
        return player.ask(query).handle(Answer::of).toCompletableFuture();
    }

    private void compareReads() {
        reads.forEach(this::compare);
        reads.clear();
    }

    private void compare(Asked both) {
        Answer first = both.one.join();
        Answer second = both.other.join();
        if (first.isError()) failedOnOne++;
        if (second.isError()) failedOnOther++;
        if (first.isError() && second.isError()) failedOnBoth++;
        if (!first.isError() && !second.isError()) {
            compared++;
            rows += Math.max(first.rows(), second.rows());
        }
        if (first.isAs(second)) {
            if (first.isError())
                errors.merge(
                        first.kind(),
                        new Errors(1, both.query.cql() + ": " + first.text()),
                        (before, one) -> new Errors(before.count + 1, before.example));
            return;
        }
        different++;
        if (differences.size() < MOST_KEPT)
            differences.add(new Difference(both.number, both.query, first.text(), second.text()));
    }

    /** How many requests were asked. */
    public long asked() {
        return asked;
    }

    /** How many were answered by both nodes. */
    public long compared() {
        return compared;
    }

    /** How many rows these answers had, of the node that had more. */
    public long rows() {
        return rows;
    }

    /** How many failed on the first node, whether on the other or not. */
    public long failedOnOne() {
        return failedOnOne;
    }

    /** How many failed on the second node. */
    public long failedOnOther() {
        return failedOnOther;
    }

    /** How many of these failed on both; with errors of different kinds they are different, too. */
    public long failedOnBoth() {
        return failedOnBoth;
    }

    /** How many were answered differently, or by one node only. */
    public long different() {
        return different;
    }

    /** The first ones of these, at most {@value #MOST_KEPT}. */
    public List<Difference> differences() {
        return List.copyOf(differences);
    }

    /** What failed on both nodes alike, by kind of error. */
    public Map<String, Errors> errors() {
        return errors;
    }
}
