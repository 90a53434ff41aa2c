// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.shadow.LateWrites.Moment;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.Set;
import java.util.function.LongPredicate;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.PurgeFunction;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.db.transform.FilteredRows;
import org.apache.cassandra.db.transform.Transformation;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/**
 * A table as Cassandra's, which compacts and purges by its clock, and its shadow, over random
 * histories: writes of any timestamp, streamed SSTables, a copy that begins among them, also while
 * compactions go on and end, a queue between the two, a grace that changes. Where nothing was late,
 * a client sees the same on both sides; and the same before and after the shadow becomes the table,
 * and when the SSTables go.
 */
class LateWritesPropertyTest {
    private static final int HISTORIES = 12_000;
    private static final int STEPS = 35;
    private static final int KEYS = 2;

    /** One in so many. */
    private static final List<Integer> RARELY = List.of(1_000, 40, 20, 6);

    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text STATIC, v text, m map<text, text>,"
                            + " PRIMARY KEY (k, c))");

    private int differences;
    private int unmarked;
    private int partlyNew;
    private int promoted;
    private int refused;
    private int wrong;

    @Test
    void whereNothingWasLateBothSidesShowTheSame() {
        long first = System.nanoTime();
        for (int i = 0; i < HISTORIES; i++) new History(first + i).run();
        // Else this has shown nothing.
        assertThat(differences).isGreaterThan(HISTORIES / 50);
        assertThat(unmarked).isGreaterThan(HISTORIES / 20);
        // Of what a compaction has merged, what was old did not count.
        assertThat(partlyNew).isPositive();
        assertThat(promoted).isGreaterThan(HISTORIES / 100);
        assertThat(refused).isGreaterThan(HISTORIES / 200);
        // Of those that were refused some would have shown something else.
        assertThat(wrong).isPositive();
    }

    /** A memtable or SSTable, or a shadow. */
    private static final class Layer {
        final PartitionUpdate[] content = new PartitionUpdate[KEYS];
        final long[] lowest = new long[KEYS];

        Layer() {
            for (int i = 0; i < KEYS; i++)
                content[i] = PartitionUpdate.emptyUpdate(TABLE.metadata(), TABLE.key("k" + i));
            Arrays.fill(lowest, Long.MAX_VALUE);
        }

        void write(Update update) {
            int key = update.key();
            content[key] = PartitionUpdate.merge(List.of(content[key], update.content()));
            lowest[key] = Math.min(lowest[key], update.lowest());
        }

        /** As {@code SSTableReader#getMinTimestamp}. */
        long minTimestamp() {
            long min = LateWrites.NOTHING_NEW;
            for (PartitionUpdate each : content) {
                if (each.isEmpty()) continue;
                EncodingStats stats =
                        EncodingStats.Collector.collect(
                                each.staticRow(), each.iterator(), each.deletionInfo());
                min = Math.min(min, stats.minTimestamp);
            }
            return min;
        }
    }

    private record Update(int key, PartitionUpdate content, long lowest) {}

    private record ToCopy(Layer layer, long newFrom) {}

    private final class History {
        final long seed;
        final Random random;
        final LateWrites late = new LateWrites();
        final Layer shadow = new Layer();
        final Queue<Runnable> script = new ArrayDeque<>();
        final List<Update> queue = new ArrayList<>();
        final List<ToCopy> toCopy = new ArrayList<>();
        final List<Layer> sstables = new ArrayList<>();
        Layer memtable = new Layer();
        long clock = UpdateBuilder.NOW;
        final int oldWrites;
        final int oldTimes;
        final int longestGrace;
        int grace;
        int shortestGrace;
        boolean isDoubling;
        boolean hasBegun;
        boolean isDifferent;

        /** As {@link ShadowCopy#lookFirst}. */
        boolean looksFirst;

        /** A memtable of the table that is no SSTable yet, beside the current one. */
        @Nullable Layer flushing;

        /** As {@link ShadowCopy#watch} ends a copy that begins. */
        boolean isOver;

        final Set<Layer> known = new HashSet<>();

        /** As {@link SeenByCompactions#newFrom}. */
        final Map<Layer, Long> newFrom = new HashMap<>();

        /** No two of them of the same. */
        final List<Compaction> running = new ArrayList<>();

        /** Whether something is copied of which a part is new. */
        boolean isPartlyNew;

        long unique;

        History(long seed) {
            this.seed = seed;
            this.random = new Random(seed);
            oldWrites = RARELY.get(random.nextInt(4));
            oldTimes = RARELY.get(random.nextInt(4));
            longestGrace = 1 + random.nextInt(6);
            grace = random.nextInt(longestGrace);
            shortestGrace = grace;
        }

        void run() {
            int lateFrom = random.nextInt(2 * STEPS);
            int doublingFrom = random.nextInt(15);
            int seenFrom = random.nextInt(doublingFrom + 1);
            int begunFrom = doublingFrom + random.nextInt(10);
            boolean isMerged = random.nextInt(4) == 0;
            if (isMerged) {
                seenFrom = doublingFrom;
                begunFrom = doublingFrom + random.nextInt(3);
            }
            List<Compaction> before = List.of();
            for (int step = 0; step < STEPS; step++) {
                if (step == seenFrom) {
                    Layer apart = isMerged ? beDeleted(step) : null;
                    for (Layer each : sstables) newFrom.put(each, LateWrites.NOTHING_NEW);
                    before = List.copyOf(running);
                    if (apart != null) beMerged(step, apart);
                }
                if (step == doublingFrom) {
                    // The copy waits for those.
                    before.forEach(Compaction::end);
                    isDoubling = true;
                    known.addAll(sstables);
                }
                if (step >= begunFrom && !hasBegun) begin();
                if (step == lateFrom) beLate(step);
                if (!script.isEmpty() && random.nextBoolean()) script.remove().run();
                else step(step);
                if (isOver) return;
                if (hasBegun && queue.isEmpty() && toCopy.isEmpty()) look();
            }
            endCompactions();
            while (!queue.isEmpty() || !toCopy.isEmpty()) {
                if (random.nextBoolean()) takeWrite();
                else copy();
            }
            look();
            if (isDifferent) differences++;
            if (late.reason() != null) return;
            unmarked++;
            if (isPartlyNew) partlyNew++;
            promote();
        }

        /** As {@code Takeover} and {@code Promotion} do it, while writes go on. */
        private void promote() {
            looksFirst = true;
            boolean isPurgedMeanwhile = random.nextInt(3) == 0;
            List<Layer> before;
            do {
                for (int i = random.nextInt(8); i > 0; i--) promotionStep(null);
                if (isPurgedMeanwhile) {
                    write(atTheEnd(update -> update.row(0).set("v", "x").end()));
                    while (!queue.isEmpty()) takeFirst();
                    flush();
                }
                before = List.copyOf(sstables);
                int begun = queue.size();
                if (isPurgedMeanwhile) {
                    // The shadow has the row, and the table may have purged it with its deletion.
                    write(atTheEnd(UpdateBuilder::deletePartition));
                    clock += longestGrace + 1;
                    flush();
                    compact();
                    isPurgedMeanwhile = false;
                }
                // Those that had begun; others may begin, SSTables come and be compacted meanwhile.
                while (begun > 0 || !toCopy.isEmpty()) {
                    if (random.nextInt(4) == 0) promotionStep(null);
                    if (random.nextBoolean() && !toCopy.isEmpty()) copy();
                    else if (begun > 0) {
                        takeFirst();
                        begun--;
                    }
                }
                if (late.reason() != null) {
                    refused++;
                    if (!isSameAfterSwitch()) wrong++;
                    return;
                }
            } while (!before.equals(sstables));
            promoted++;
            assertThat(isSameAfterSwitch()).as("%s", this).isTrue();
            // Until it is flushed the former one is read, and written by who found it.
            Layer former = memtable;
            flushing = former;
            memtable = shadow;
            looksFirst = false;
            for (int i = random.nextInt(8); i > 0; i--) promotionStep(former);
            flushing = null;
            sstables.add(former);
            for (int i = random.nextInt(6); i > 0; i--) promotionStep(null);
            while (!queue.isEmpty()) takeWrite();
            for (int key = 0; key < KEYS; key++)
                assertThat(shown(List.of(shadow), key))
                        .as("%s", this)
                        .isEqualTo(shown(withSSTables(List.of(shadow)), key));
        }

        /** What is written with the shadow for a memtable is read beside the former one. */
        private boolean isSameAfterSwitch() {
            boolean isSame = true;
            for (int key = 0; key < KEYS; key++)
                isSame &=
                        shown(withSSTables(List.of(memtable)), key)
                                .equals(shown(withSSTables(List.of(memtable, shadow)), key));
            return isSame;
        }

        /** Of the first partition, and newer than all before. */
        private Update atTheEnd(UnaryOperator<UpdateBuilder> what) {
            long timestamp = ((long) (STEPS + 3) << 16) + ++unique;
            UpdateBuilder update = TABLE.update("k0").at(timestamp).now(clock);
            return new Update(0, what.apply(update).build(), timestamp);
        }

        /** Of an old timestamp now and then. */
        private Update promotionUpdate() {
            return update(random.nextInt(6) == 0 ? random.nextInt(STEPS) : STEPS + 2);
        }

        private void promotionStep(@Nullable Layer former) {
            switch (random.nextInt(7)) {
                case 0 -> compact();
                case 1 -> clock += random.nextInt(4);
                case 2 -> takeWrite();
                case 3 -> {
                    if (looksFirst) flush();
                }
                default -> {
                    Update update = promotionUpdate();
                    if (former == null || random.nextBoolean()) write(update);
                    else {
                        former.write(update);
                        queue.add(update);
                    }
                }
            }
        }

        private List<Layer> withSSTables(List<Layer> others) {
            List<Layer> all = new ArrayList<>(sstables);
            all.addAll(others);
            return all;
        }

        /** When all that waited is in the shadow. */
        private void look() {
            for (int key = 0; key < KEYS; key++) {
                List<Layer> table = new ArrayList<>(sstables);
                table.add(memtable);
                String ofTable = shown(table, key);
                String ofShadow = shown(List.of(shadow), key);
                isDifferent |= !ofTable.equals(ofShadow);
                if (late.reason() == null) assertThat(ofShadow).as("%s", this).isEqualTo(ofTable);
            }
        }

        @Override
        public String toString() {
            return "seed " + seed;
        }

        private Moment moment() {
            return new Moment(clock, shortestGrace);
        }

        private void begin() {
            flush();
            for (Layer layer : sstables) {
                long from = running.isEmpty() ? LateWrites.NOTHING_NEW : newFrom(layer);
                isPartlyNew |= from < LateWrites.NOTHING_NEW && from > layer.minTimestamp();
                toCopy.add(new ToCopy(layer, from));
            }
            hasBegun = true;
        }

        private long newFrom(Layer sstable) {
            return newFrom.getOrDefault(sstable, LateWrites.ALL_NEW);
        }

        private void flush() {
            arrive(memtable);
            memtable = new Layer();
        }

        private void arrive(Layer sstable) {
            sstables.add(sstable);
            newFrom.put(sstable, sstable.minTimestamp());
        }

        private void step(int step) {
            switch (random.nextInt(18)) {
                case 0 -> flush();
                case 1, 2 -> {
                    boolean begins = random.nextInt(4) == 0;
                    if (begins && running.size() < 2) compactFromNowOn(this::isChosen);
                    else if (running.isEmpty()) compact();
                    else running.get(random.nextInt(running.size())).end();
                }
                case 3 -> stream(List.of(update(step), update(step)));
                case 4, 9, 10 -> clock += random.nextInt(8);
                case 5, 6, 11, 12, 13, 14, 15 -> takeWrite();
                case 7 -> copy();
                case 8 -> {
                    if (random.nextInt(10) == 0) grace = random.nextInt(longestGrace);
                    shortestGrace = Math.min(shortestGrace, grace);
                }
                default -> write(update(step));
            }
        }

        private void write(Update update) {
            if (looksFirst) late.begins(update.content(), moment());
            memtable.write(update);
            if (isDoubling) queue.add(update);
        }

        private Layer stream(List<Update> updates) {
            Layer layer = new Layer();
            updates.forEach(layer::write);
            arrive(layer);
            if (hasBegun) toCopy.add(new ToCopy(layer, LateWrites.ALL_NEW));
            return layer;
        }

        /** Something is deleted, purged, and comes late, in the steps from now on. */
        private void beLate(int step) {
            int row = value();
            long timestamp = (long) (step + 1) << 16;
            script.add(() -> come(deletion(row, timestamp)));
            script.add(() -> clock += random.nextInt(8));
            script.add(this::flush);
            script.add(
                    () -> {
                        endCompactions();
                        compactFromNowOn(this::isChosen);
                        if (random.nextInt(3) > 0) endCompactions();
                    });
            script.add(() -> come(late(row, timestamp - 1 - random.nextInt(2))));
        }

        private Update deletion(int row, long timestamp) {
            UpdateBuilder deletion = TABLE.update("k0").at(timestamp).now(clock);
            switch (random.nextInt(5)) {
                case 0 -> deletion.deletePartition();
                case 1 -> deletion.deleteRow(row);
                case 2 -> deletion.row(row).unset("v").end();
                case 3 ->
                        deletion.ttl(1 + random.nextInt(6))
                                .at(timestamp + ++unique)
                                .row(row)
                                .set("v", "expiring")
                                .end();
                default -> deletion.deleteRange(TABLE.from(row), TABLE.to(2));
            }
            return new Update(0, deletion.build(), timestamp);
        }

        private Update late(int row, long timestamp) {
            UpdateBuilder write = TABLE.update("k0").at(timestamp).now(clock);
            return new Update(0, write.row(row).set("v", "late").end().build(), timestamp);
        }

        /**
         * Something is deleted, before the first moment of {@link #newFrom}.
         *
         * @return an SSTable with something else
         */
        private Layer beDeleted(int step) {
            flush();
            come(deletion(0, (long) (step + 1) << 16));
            flush();
            clock += random.nextInt(8);
            return stream(List.of(update(random.nextInt(step + 1))));
        }

        /**
         * What is older comes when the compaction has begun that purges the deletion, and another
         * merges it with what was there before.
         */
        private void beMerged(int step, Layer apart) {
            compactFromNowOn(each -> each != apart);
            long deleted = (long) (step + 1) << 16;
            come(late(0, random.nextInt(3) == 0 ? deleted + (1L << 15) : deleted - 1));
            flush();
            compactFromNowOn(each -> true).end();
        }

        private void come(Update update) {
            if (random.nextBoolean()) write(update);
            else stream(List.of(update));
        }

        private void takeWrite() {
            if (queue.isEmpty()) return;
            take(queue.remove(random.nextInt(queue.size())));
        }

        private void takeFirst() {
            if (!queue.isEmpty()) take(queue.remove(0));
        }

        private void take(Update write) {
            late.written(write.content(), moment());
            shadow.write(write);
        }

        private void copy() {
            if (toCopy.isEmpty()) return;
            ToCopy next = toCopy.remove(random.nextInt(toCopy.size()));
            for (int key = 0; key < KEYS; key++) {
                PartitionUpdate update = next.layer().content[key];
                late.copied(update, next.newFrom(), moment());
                shadow.write(new Update(key, update, 0));
            }
        }

        private void compact() {
            endCompactions();
            compactFromNowOn(this::isChosen).end();
        }

        private boolean isChosen(Layer sstable) {
            return random.nextInt(4) > 0;
        }

        private Compaction compactFromNowOn(Predicate<Layer> isChosen) {
            Compaction begun = new Compaction(isChosen);
            running.add(begun);
            return begun;
        }

        private void endCompactions() {
            for (Compaction each : List.copyOf(running)) each.end();
        }

        /**
         * Of some SSTables: what hides nothing in the others may go. Which others there are is
         * looked at when it begins; what memtables have, when it comes to a partition.
         */
        private final class Compaction {
            final List<Layer> chosen = new ArrayList<>();
            final List<Layer> others = new ArrayList<>();
            final Layer made = new Layer();
            final long now = clock;
            final long gcBefore = clock - grace;
            final boolean[] isDone = new boolean[KEYS];

            Compaction(Predicate<Layer> isChosen) {
                Set<Layer> compacted = new HashSet<>();
                for (Compaction each : running) compacted.addAll(each.chosen);
                for (Layer each : sstables)
                    (!compacted.contains(each) && isChosen.test(each) ? chosen : others).add(each);
                // A real one does not look into it now: that is what shadow-design.md says is
                // missed.
                if (isDoubling) others.add(memtable);
                for (int key = 0; key < KEYS; key++) if (random.nextBoolean()) write(key);
            }

            private void write(int key) {
                isDone[key] = true;
                long kept = memtable.lowest[key];
                if (flushing != null) kept = Math.min(kept, flushing.lowest[key]);
                for (Layer other : others) kept = Math.min(kept, other.lowest[key]);
                for (Layer each : chosen)
                    made.lowest[key] = Math.min(made.lowest[key], each.lowest[key]);
                purge(key, kept);
            }

            /** Does nothing if it has ended. */
            void end() {
                if (!running.remove(this)) return;
                for (int key = 0; key < KEYS; key++) if (!isDone[key]) write(key);
                isOver |= isDoubling && !hasBegun && !known.containsAll(chosen);
                sstables.removeAll(chosen);
                sstables.add(made);
                known.add(made);
                long from = LateWrites.NOTHING_NEW;
                for (Layer each : chosen) from = Math.min(from, newFrom(each));
                newFrom.put(made, from);
            }

            private void purge(int key, long kept) {
                PurgeFunction purging =
                        new PurgeFunction(now, gcBefore, 0, false, false) {
                            @Override
                            protected LongPredicate getPurgeEvaluator() {
                                return timestamp -> timestamp < kept;
                            }
                        };
                try (UnfilteredPartitionIterator left =
                        Transformation.apply(
                                new SingletonUnfilteredPartitionIterator(merged(chosen, key)),
                                purging)) {
                    while (left.hasNext())
                        try (UnfilteredRowIterator rows = left.next()) {
                            made.content[key] = PartitionUpdate.fromIterator(rows, TABLE.all());
                        }
                }
            }
        }

        private Update update(int step) {
            int key = random.nextInt(KEYS);
            UpdateBuilder update = TABLE.update("k" + key);
            long lowest = Long.MAX_VALUE;
            for (int i = random.nextInt(2); i >= 0; i--) {
                int ttl = random.nextInt(4) == 0 ? 1 + random.nextInt(8) : 0;
                long time = random.nextInt(oldWrites) == 0 ? random.nextInt(step + 1) : step + 1;
                // Ties of expiring cells are decided by whether they were compacted before.
                long timestamp = (time << 16) + (ttl == 0 ? 1 : 2 + ++unique);
                lowest = Math.min(lowest, timestamp - 1);
                update.at(timestamp).ttl(ttl);
                update.now(random.nextInt(oldTimes) == 0 ? clock - random.nextInt(12) : clock);
                switch (random.nextInt(14)) {
                    case 0, 1 -> update.deletePartition();
                    case 2 -> update.deleteRange(TABLE.from(value()), TABLE.to(2));
                    case 4, 5 -> update.deleteRow(value());
                    case 6, 7 -> update.row(value()).unset("v").end();
                    case 3 -> {
                        UpdateBuilder.RowBuilder row = update.staticRow();
                        (random.nextBoolean() ? row.set("s", text()) : row.unset("s")).end();
                    }
                    default -> cells(update.row(value()));
                }
            }
            return new Update(key, update.build(), lowest);
        }

        private void cells(UpdateBuilder.RowBuilder row) {
            if (random.nextInt(3) == 0) row.liveness();
            switch (random.nextInt(7)) {
                case 0 -> row.unset("v");
                case 1 -> row.put("m", "x", text());
                case 2 -> row.clearBefore("m").put("m", "x" + value(), text());
                case 3 -> row.remove("m", "x");
                default -> row.set("v", text());
            }
            row.end();
        }

        private int value() {
            return random.nextInt(8) == 0 ? 1 : 0;
        }

        private String text() {
            return "t" + random.nextInt(3);
        }

        /** What a client sees. */
        private String shown(List<Layer> side, int key) {
            StringBuilder shown = new StringBuilder();
            try (RowIterator rows = FilteredRows.filter(merged(side, key), clock)) {
                if (!rows.staticRow().isEmpty())
                    shown.append(rows.staticRow().toString(TABLE.metadata(), true, true));
                while (rows.hasNext())
                    shown.append(rows.next().toString(TABLE.metadata(), true, true)).append('\n');
            }
            return shown.toString();
        }
    }

    private static UnfilteredRowIterator merged(List<Layer> layers, int key) {
        List<UnfilteredRowIterator> parts = new ArrayList<>();
        for (Layer layer : layers) parts.add(layer.content[key].unfilteredIterator());
        return parts.isEmpty()
                ? EmptyIterators.unfilteredRow(TABLE.metadata(), TABLE.key("k" + key), false)
                : UnfilteredRowIterators.merge(parts);
    }
}
