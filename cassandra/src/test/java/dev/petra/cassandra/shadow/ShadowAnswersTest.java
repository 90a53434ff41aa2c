// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.shadow.DoubledWrites.Doubled;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.compaction.CompactionStrategyManager;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.apache.cassandra.db.view.TableViews;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.big.BigTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.CompactionParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** When a shadow answers, and when it leaves that to the table, also if it learns late. */
@ParameterizedClass
@ValueSource(booleans = {false, true})
class ShadowAnswersTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c))");
    private static final long NOW = FBUtilities.nowInSeconds();

    /** Whether a range is read, else one partition. */
    @Parameter boolean isRange;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private ReadExecutionController reading = ReadExecutionController.empty();
    private final AtomicInteger open = new AtomicInteger();
    private Shadow shadow;
    private ShadowCopy copy;

    /** What happens while the store opens a read. */
    private Runnable meanwhile = () -> {};

    /** The row whose read fails, from 1; at 0 nothing can be opened. */
    private int failing = Integer.MAX_VALUE;

    private Throwable failure = new IllegalStateException("a damaged block");

    @BeforeEach
    void begin() {
        HollowShadow.begin(cfs, TABLE);
        compaction(Map.of());
        TableViews views = Hollow.of(TableViews.class);
        Hollow.set(views, TableViews.class, "views", new CopyOnWriteArrayList<>());
        Hollow.set(cfs, ColumnFamilyStore.class, "viewManager", views);
        shadow = HollowShadow.of(cfs, true);
        copy = HollowShadow.copy(cfs, 1, NOW, this::read);
        HollowShadow.has(shadow, copy);
    }

    private void compaction(Map<String, String> options) {
        CompactionStrategyManager manager = Hollow.of(CompactionStrategyManager.class);
        Hollow.set(
                manager, CompactionStrategyManager.class, "params", CompactionParams.stcs(options));
        Hollow.set(cfs, ColumnFamilyStore.class, "compactionStrategyManager", manager);
    }

    @AfterEach
    void nothingStaysOpen() {
        assertThat(open.get()).isZero();
    }

    private static PartitionUpdate rows() {
        PartitionUpdate.SimpleBuilder update = PartitionUpdate.simpleBuilder(TABLE, 1);
        update.row(1).add("v", 7);
        update.row(2).add("v", 8);
        return update.build();
    }

    private UnfilteredRowIterator read() throws Throwable {
        meanwhile.run();
        if (failing == 0) throw failure;
        UnfilteredRowIterator rows = rows().unfilteredIterator();
        open.incrementAndGet();
        return new WrappingUnfilteredRowIterator() {
            private int given;

            @Override
            public UnfilteredRowIterator wrapped() {
                return rows;
            }

            @Override
            public boolean hasNext() {
                if (given + 1 >= failing) throw unchecked(failure);
                return rows.hasNext();
            }

            @Override
            public Unfiltered next() {
                given++;
                return rows.next();
            }

            @Override
            public void close() {
                open.decrementAndGet();
                rows.close();
            }
        };
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException unchecked(Throwable any) throws T {
        throw (T) any;
    }

    private static SinglePartitionReadCommand command(TableMetadata table) {
        return SinglePartitionReadCommand.create(
                table,
                NOW,
                key(),
                ColumnFilter.all(table),
                new ClusteringIndexSliceFilter(Slices.ALL, false));
    }

    private static PartitionRangeReadCommand range(TableMetadata table) {
        return PartitionRangeReadCommand.allDataRead(table, NOW);
    }

    private static DecoratedKey key() {
        return TABLE.partitioner.decorateKey(ByteBufferUtil.bytes(1));
    }

    private @Nullable UnfilteredPartitionIterator answer() {
        return answer(TABLE);
    }

    private @Nullable UnfilteredPartitionIterator answer(TableMetadata as) {
        return isRange
                ? ShadowAnswers.answer(shadow, range(as), reading)
                : ShadowAnswers.answer(shadow, command(as), reading);
    }

    private boolean isAnswered() {
        return isAnswered(TABLE);
    }

    private boolean isAnswered(TableMetadata as) {
        try (UnfilteredPartitionIterator partitions = answer(as)) {
            return partitions != null;
        }
    }

    @Test
    void theShadowAnswers() {
        try (UnfilteredPartitionIterator partitions = answer();
                UnfilteredRowIterator rows = partitions.next()) {
            assertThat(rows).toIterable().hasSize(2);
            assertThat(partitions.hasNext()).isFalse();
        }
        assertThat(shadow.answers()).isEqualTo("yes");
    }

    @Test
    void notWhileAWriteIsUnderWay() {
        Doubled write = Doubled.begin(copy, rows());
        assertThat(isAnswered()).isFalse();
        write.end();
        assertThat(isAnswered()).isTrue();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void notIfAWriteBeginsBeforeItsMomentIsFixed(boolean ends) {
        meanwhile =
                () -> {
                    Doubled write = Doubled.begin(copy, rows());
                    if (ends) write.end();
                };
        assertThat(isAnswered()).isFalse();
    }

    /** Of another partition: a range may have that, too. */
    @Test
    void notWhileAWriteOfAnotherPartitionIsUnderWayIfARangeIsRead() {
        PartitionUpdate.SimpleBuilder other = PartitionUpdate.simpleBuilder(TABLE, 2);
        other.row(1).add("v", 7);
        Doubled write = Doubled.begin(copy, other.build());
        assertThat(isAnswered()).isEqualTo(!isRange);
        write.end();
        assertThat(isAnswered()).isTrue();
    }

    /** It looks for a moment without one a few times, and then asks the table. */
    @ParameterizedTest
    @ValueSource(ints = {1, ShadowAnswers.MAX_ATTEMPTS - 1, ShadowAnswers.MAX_ATTEMPTS})
    void aRangeIsTriedAgainIfAWriteBegins(int writes) {
        AtomicInteger left = new AtomicInteger(writes);
        meanwhile =
                () -> {
                    if (left.getAndDecrement() > 0) Doubled.begin(copy, rows()).end();
                };
        assertThat(isAnswered()).isEqualTo(isRange && writes < ShadowAnswers.MAX_ATTEMPTS);
    }

    @Test
    void notWhatHasNotCaughtUpOrIsOver() {
        Shadows.shrinkingBegins(cfs);
        assertThat(isAnswered()).isFalse();
        assertThat(shadow.answers()).startsWith("no: waits until cleanup, scrub");
        Shadows.shrinkingEnds(cfs);
        assertThat(isAnswered()).isTrue();
        meanwhile = () -> copy.end("the table is being truncated");
        assertThat(isAnswered()).isFalse();
        assertThat(isAnswered()).isFalse();
        assertThat(shadow.answers()).startsWith("no: ");
    }

    /** One is among the table's before the copy is told of it. */
    @Test
    void notIfTheTableHasAnSSTableOfWhichItWasNotTold() {
        BigTableReader came = Hollow.of(BigTableReader.class);
        Hollow.set(
                came,
                SSTable.class,
                "descriptor",
                new Descriptor(new File("/t"), "ks", "t", new SequenceBasedSSTableId(1)));
        View view = Hollow.of(View.class);
        Hollow.set(view, View.class, "sstables", Set.of(came));
        Hollow.set(cfs.getTracker(), Tracker.class, "view", view);
        assertThat(isAnswered()).isFalse();
        assertThat(copy.isCaughtUp()).isTrue();
    }

    /** What is read may have a part of it: the copy had begun with it, and was not done. */
    @Test
    void notIfAnSSTableArrivesAndIsCopiedMeanwhile() {
        meanwhile = () -> Hollow.set(copy, ShadowCopy.class, "arrivals", 1L);
        assertThat(isAnswered()).isFalse();
        assertThat(copy.isCaughtUp()).isTrue();
        assertThat(isAnswered()).isTrue();
    }

    /** Once it is, streams bring the table slices. */
    @Test
    void notIfItIsToBecomeItsTableMeanwhile() {
        meanwhile = shadow::promote;
        assertThat(isAnswered()).isFalse();
    }

    @Test
    void notIfItIsToBecomeItsTable() {
        shadow.promote();
        assertThat(isAnswered()).isFalse();
        assertThat(shadow.answers()).startsWith("no: becomes the table");
    }

    @Test
    void notIfSomethingCameTooLateMeanwhile() {
        meanwhile =
                () -> {
                    copy.doubled(
                            PartitionUpdate.fullPartitionDelete(
                                    TABLE, ByteBufferUtil.bytes(1), Long.MAX_VALUE - 1, NOW - 11),
                            0);
                    copy.doubled(rows(), 0);
                };
        assertThat(isAnswered()).isFalse();
        assertThat(shadow.answers()).startsWith("no: it may lack a late write: ");
    }

    @Test
    void notIfItHadAnotherAnswerThanTheTable() {
        shadow.results.count(copy, key(), Comparison.Outcome.different("row", "1", ""));
        assertThat(isAnswered()).isFalse();
        assertThat(shadow.answers()).isEqualTo("no: it had another answer than the table");
    }

    /** All that is asked before was right when an operator had it made anew. */
    @Test
    void notIfItsDifferencesAreForgottenBeforeTheyAreAsked() {
        shadow.results.count(copy, key(), Comparison.Outcome.different("row", "1", ""));
        assertThat(shadow.doubt(copy)).isEqualTo("it had another answer than the table");
        // Here no directory can be found.
        assertThat(shadow.anew()).startsWith("is made anew, but a restart");
        assertThat(shadow.statistics().different.sum()).isZero();
        assertThat(shadow.doubt(copy)).isEqualTo("it has ended");
    }

    @Test
    void notWhatIsReadByAnotherFormOfTheTable() {
        TableMetadata former =
                TestTables.table("CREATE TABLE t (p int, c int, w int, PRIMARY KEY (p, c))");
        assertThat(isAnswered(former)).isFalse();
    }

    @Test
    void notWhereWhatWasRepairedIsAsked() {
        // One that has nothing to say that it does not track it.
        reading = Hollow.of(ReadExecutionController.class);
        assertThat(reading.isTrackingRepairedStatus()).isTrue();
        assertThat(isAnswered()).isFalse();
    }

    /** Such a read learns from SSTables which deletions it may purge. */
    @Test
    void notWhereOnlyWhatWasRepairedMayBePurged() {
        compaction(Map.of("only_purge_repaired_tombstones", "true"));
        assertThat(isAnswered()).isFalse();
        assertThat(shadow.answers()).isEqualTo("no: the table has only_purge_repaired_tombstones");
    }

    @Test
    void notByAFormOfTheTableThatChangesMeanwhile() {
        meanwhile =
                () ->
                        Hollow.set(
                                cfs,
                                ColumnFamilyStore.class,
                                "metadata",
                                TableMetadataRef.forOfflineTools(
                                        TestTables.table(
                                                "CREATE TABLE t (p int, c int, w int, PRIMARY KEY"
                                                        + " (p, c))")));
        assertThat(isAnswered()).isFalse();
    }

    /** A point read fails here, or not at all. Of a range no row is looked at. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void theTableAnswersWhereItCannotBeRead(int row) {
        failing = isRange ? 0 : row;
        assertThat(isAnswered()).isFalse();
        assertThat(copy.end()).matches(ShadowStore.End::isFault);
    }

    @Test
    void aFailureInTheMidstIsNoneOfADiskOfTheTable() {
        failing = isRange ? 1 : 2;
        failure = new FSReadError(new IllegalStateException("gone"), new File("/nowhere"));
        try (UnfilteredPartitionIterator partitions = answer();
                UnfilteredRowIterator rows = partitions.next()) {
            if (!isRange) assertThat(rows.next()).isNotNull();
            assertThatThrownBy(rows::hasNext)
                    .isExactlyInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("cannot be read to the end")
                    // Cassandra looks there for what is for disk_failure_policy.
                    .hasNoCause();
        }
        assertThat(copy.end()).matches(ShadowStore.End::isFault);
        assertThat(isAnswered()).isFalse();
    }
}
