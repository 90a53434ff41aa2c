// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.big.BigTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * When two answers are of one moment, and what may be compared at all. A deletion hides many rows,
 * so that one step to the next row takes as long as a read of them.
 */
class AttemptTest {
    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
    private static final int ROWS = 2_000;

    @TempDir Path directory;

    private static PartitionUpdate rows() {
        UpdateBuilder update = TABLE.update("k").at(1);
        for (int i = 0; i < ROWS; i++) update.row(i).set("v", "x").end();
        return update.build();
    }

    private static PartitionUpdate deletion() {
        return TABLE.update("k").at(2).deleteRange(Slice.ALL).build();
    }

    private static SinglePartitionReadCommand all(String key) {
        return SinglePartitionReadCommand.create(
                TABLE.metadata(),
                UpdateBuilder.NOW,
                TABLE.key(key),
                TABLE.all(),
                new ClusteringIndexSliceFilter(Slices.ALL, false));
    }

    private static int count(UnfilteredRowIterator rows) {
        int count = 0;
        try (rows) {
            for (; rows.hasNext(); rows.next()) count++;
        }
        return count;
    }

    @Test
    void theTableEndsAmongHiddenRows() {
        AtomicInteger asked = new AtomicInteger();
        AtomicInteger most = new AtomicInteger(Integer.MAX_VALUE);
        Transformation<?> each =
                Timed.ofEach(() -> asked.incrementAndGet() <= most.get(), bytes -> {});
        PartitionUpdate rows = rows();
        PartitionUpdate deletion = deletion();
        // The bounds of the deletion.
        assertThat(count(merged(each, rows, deletion))).isEqualTo(2);
        assertThat(asked).hasValueGreaterThanOrEqualTo(ROWS);
        asked.set(0);
        most.set(10);
        assertThatThrownBy(() -> count(merged(each, rows, deletion)))
                .isInstanceOf(Timed.TooLong.class);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static UnfilteredRowIterator merged(
            Transformation each, PartitionUpdate one, PartitionUpdate other) {
        return UnfilteredRowIterators.merge(
                List.of(
                        Transformation.apply(one.unfilteredIterator(), each),
                        Transformation.apply(other.unfilteredIterator(), each)));
    }

    @Test
    void theShadowEndsAmongHiddenRows() {
        try (StorageEngine engine =
                StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")))) {
            TableStore store = engine.openStore(TABLE.spec(directory.resolve("t")));
            store.write(rows());
            store.write(deletion());
            assertThat(count(Attempt.readAside(store, all("k"), () -> {}))).isEqualTo(2);
            assertThat(count(Attempt.readAside(store, all("none"), () -> {}))).isZero();
            for (int i = 1; i <= 5; i++) {
                AtomicInteger left = new AtomicInteger(i);
                assertThatThrownBy(
                                () ->
                                        count(
                                                Attempt.readAside(
                                                        store,
                                                        all("k"),
                                                        () ->
                                                                Timed.check(
                                                                        () ->
                                                                                left
                                                                                                .decrementAndGet()
                                                                                        > 0))))
                        .isInstanceOf(Timed.TooLong.class);
            }
            // Nobody reads it any more.
            store.drop();
        }
    }

    private static TableMetadata table(String cql) {
        return TestTables.table(cql);
    }

    /**
     * A statement that was prepared before ALTER TABLE gave the table a shadow was not compared.
     */
    @Test
    void anotherOptionKeepsNoReadFromBeingCompared() {
        TableMetadata table = table("CREATE TABLE t (k int PRIMARY KEY, v text)");
        TableMetadata shadowed =
                table(
                        "CREATE TABLE t (k int PRIMARY KEY, v text) WITH comment = 'shadowed' AND"
                                + " gc_grace_seconds = 1");
        assertThat(shadowed).isNotEqualTo(table);
        assertThat(Attempt.isAlike(table, shadowed)).isTrue();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY"
                        + " (c DESC)",
                "CREATE TABLE t (k int, c int, v blob, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k int, c int, v text STATIC, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k int, c int, v text, w text, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))",
                "CREATE TABLE t (k int, c int, v text, PRIMARY KEY ((k, c)))"
            })
    void anotherSchemaIsNotCompared(String cql) {
        TableMetadata table = table("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
        assertThat(Attempt.isAlike(table, table(cql))).isFalse();
    }

    @Test
    void whatElseChangesAnAnswerIsNotCompared() {
        TableMetadata table = table("CREATE TABLE t (k int PRIMARY KEY, v int)");
        assertThat(
                        Attempt.isAlike(
                                table,
                                table.unbuild()
                                        .recordColumnDrop(
                                                table.getColumn(ByteBufferUtil.bytes("v")), 1)
                                        .build()))
                .as("a column that was dropped and added again")
                .isFalse();
        assertThat(
                        Attempt.isAlike(
                                table,
                                table.unbuild().id(TableId.fromUUID(new UUID(1, 1))).build()))
                .as("a table that was dropped and created again")
                .isFalse();
        TableMetadata counts = table("CREATE TABLE t (k int PRIMARY KEY, v counter)");
        assertThat(Attempt.isAlike(counts, counts.unbuild().flags(table.flags).build()))
                .as("counters")
                .isFalse();
    }

    // One moment

    private static final long NOW = 1_000;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final AtomicLong clock = new AtomicLong(NOW);
    private final AtomicInteger compared = new AtomicInteger();
    private Shadow shadow;
    private ShadowCopy copy;

    /** What happens while both sides are read. */
    private Runnable meanwhile = () -> {};

    private Comparison.Outcome outcome = Comparison.Outcome.EQUAL;

    @BeforeEach
    void begin() {
        HollowShadow.begin(cfs, TABLE.metadata());
        shadow = HollowShadow.of(cfs, false);
        copy = copy(1);
        HollowShadow.has(shadow, copy);
    }

    private ShadowCopy copy(long number) {
        return HollowShadow.copy(cfs, number, NOW, () -> null);
    }

    private Attempt attempt(SinglePartitionReadCommand command) {
        return new Attempt(shadow, copy, command, Attempt.Extent.rows(1)) {
            @Override
            long nowInSeconds() {
                return clock.get();
            }

            @Override
            Comparison.Outcome compare(long now) {
                compared.incrementAndGet();
                meanwhile.run();
                return outcome;
            }
        };
    }

    /** Each is noticed by one condition of an attempt, and by no other. */
    private enum Meanwhile {
        A_WRITE_BEGINS,
        A_WRITE_BEGINS_AND_ENDS,
        THE_TABLE_HAS_AN_SSTABLE_OF_WHICH_THE_COPY_WAS_NOT_TOLD,
        AN_SSTABLE_ARRIVES_AND_IS_COPIED,
        THE_COPY_IS_HANDED_OVER,
        ANOTHER_COPY_TAKES_ITS_PLACE,
        THE_TABLE_IS_ALTERED_INTO_ITS_ENGINE,
        A_COLUMN_IS_ADDED,
        THE_GRACE_IS_ALTERED,
        THE_CLOCK_PASSES_THE_TIME_OF_THE_COMPARISON
    }

    private void happens(Meanwhile what) {
        int stripe = WriteClock.stripe(TABLE.key("k"));
        switch (what) {
            case A_WRITE_BEGINS -> copy.clock.begin(stripe);
            case A_WRITE_BEGINS_AND_ENDS -> {
                copy.clock.begin(stripe);
                copy.clock.end(stripe);
            }
            case THE_TABLE_HAS_AN_SSTABLE_OF_WHICH_THE_COPY_WAS_NOT_TOLD -> {
                BigTableReader came = Hollow.of(BigTableReader.class);
                Descriptor descriptor =
                        new Descriptor(new File("/t"), "ks", "t", new SequenceBasedSSTableId(1));
                Hollow.set(came, SSTable.class, "descriptor", descriptor);
                View view = Hollow.of(View.class);
                Hollow.set(view, View.class, "sstables", Set.of(came));
                Hollow.set(cfs.getTracker(), Tracker.class, "view", view);
            }
            case AN_SSTABLE_ARRIVES_AND_IS_COPIED ->
                    Hollow.set(copy, ShadowCopy.class, "arrivals", 1L);
            case THE_COPY_IS_HANDED_OVER -> copy.handOver(Set.of());
            case ANOTHER_COPY_TAKES_ITS_PLACE -> HollowShadow.has(shadow, copy(2));
            case THE_TABLE_IS_ALTERED_INTO_ITS_ENGINE -> shadow.promote();
            case A_COLUMN_IS_ADDED ->
                    HollowShadow.become(
                            cfs,
                            TABLE.metadata()
                                    .unbuild()
                                    .addRegularColumn("w", UTF8Type.instance)
                                    .build());
            case THE_GRACE_IS_ALTERED ->
                    HollowShadow.become(cfs, TABLE.metadata().unbuild().gcGraceSeconds(1).build());
            // It is five seconds ahead of the clock.
            case THE_CLOCK_PASSES_THE_TIME_OF_THE_COMPARISON -> clock.set(NOW + 6);
        }
    }

    @ParameterizedTest
    @EnumSource(Meanwhile.class)
    void notOfOneMomentIf(Meanwhile what) {
        meanwhile = () -> happens(what);
        Attempt attempt = attempt(all("k"));
        assertThat(attempt.run()).isNull();
        assertThat(compared).hasValue(1);
        assertThat(attempt.isOfOneMoment()).isFalse();
        assertThat(attempt.isUnreadable()).isFalse();
    }

    /** Of what it leaves open, the next attempt asks more. */
    @ParameterizedTest
    @EnumSource(Meanwhile.class)
    void whatTookTooLongSaysSoAllTheSame(Meanwhile what) {
        meanwhile = () -> happens(what);
        outcome = Comparison.Outcome.TOO_LONG;
        Attempt attempt = attempt(all("k"));
        assertThat(attempt.run()).isEqualTo(Comparison.Outcome.TOO_LONG);
        assertThat(attempt.isOfOneMoment()).isFalse();
    }

    /** What was read for longer was compared, and never counted: the clock had passed its time. */
    @Test
    void noSideIsReadForLongerThanTheTimeItIsReadAsOf() {
        long second = TimeUnit.SECONDS.toNanos(1);
        assertThat(Attempt.mostNanos(2 * second)).isEqualTo(2 * second);
        assertThat(Attempt.mostNanos(15 * second)).isEqualTo((Attempt.AHEAD_SECONDS - 1) * second);
    }

    @Test
    void otherwiseOfOneMoment() {
        int other = WriteClock.stripe(TABLE.key("other"));
        meanwhile =
                () -> {
                    copy.clock.begin(other);
                    clock.set(NOW + 5);
                };
        Attempt attempt = attempt(all("k"));
        assertThat(attempt.run()).isEqualTo(Comparison.Outcome.EQUAL);
        assertThat(attempt.isOfOneMoment()).isTrue();
    }

    /** It has shown more before, and something may have been compacted by that. */
    @Test
    void aClockThatHasGoneBackIsNoLongerAsked() {
        Hollow.set(shadow.times, PurgeTimes.class, "latest", NOW + 100);
        meanwhile = () -> clock.set(NOW + 105);
        assertThat(attempt(all("k")).run()).isEqualTo(Comparison.Outcome.EQUAL);
        clock.set(NOW);
        meanwhile = () -> clock.set(NOW + 106);
        assertThat(attempt(all("k")).run()).isNull();
    }

    private enum Before {
        A_WRITE_IS_UNDER_WAY,
        THE_COPY_IS_HANDED_OVER,
        THE_STATEMENT_IS_OF_OTHER_COLUMNS
    }

    @ParameterizedTest
    @EnumSource(Before.class)
    void nothingIsReadIf(Before what) {
        switch (what) {
            case A_WRITE_IS_UNDER_WAY -> happens(Meanwhile.A_WRITE_BEGINS);
            case THE_COPY_IS_HANDED_OVER -> happens(Meanwhile.THE_COPY_IS_HANDED_OVER);
            case THE_STATEMENT_IS_OF_OTHER_COLUMNS -> happens(Meanwhile.A_COLUMN_IS_ADDED);
        }
        Attempt attempt = attempt(all("k"));
        assertThat(attempt.run()).isNull();
        assertThat(compared).hasValue(0);
        assertThat(attempt.isOfOneMoment()).isFalse();
    }
}
