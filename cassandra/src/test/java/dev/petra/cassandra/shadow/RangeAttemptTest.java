// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.Hollow;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.mutants.NamedMutations;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.filter.DataLimits;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.Range;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Reads of ranges, of a table and of a shadow in another store. */
class RangeAttemptTest {
    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k int, c int, s text STATIC, v text, PRIMARY KEY (k, c))");
    private static final int KEYS = 8;
    private static final int WRITES = 40;
    private static final int READS = 20;
    private static final int HISTORIES = 100;

    /** In the order of their tokens. */
    private static final List<DecoratedKey> ORDERED =
            IntStream.range(0, KEYS).mapToObj(TABLE::key).sorted().toList();

    @TempDir Path directory;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final StorageEngine engine =
            new MemoryEngineProvider().open(new EngineSettings(Map.of()));
    private TableStore table;
    private TableStore store;
    private Shadow shadow;
    private ShadowCopy copy;
    private int opened;

    /** What happens while both sides are read. */
    private Runnable meanwhile = () -> {};

    /** What happens with each row of the table. */
    private Runnable eachRow = () -> {};

    @BeforeEach
    void begin() {
        HollowShadow.begin(cfs, TABLE.metadata());
        begin(engine);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private void begin(StorageEngine ofShadow) {
        table = engine.openStore(TABLE.spec(directory.resolve("t" + ++opened)));
        store = ofShadow.openStore(TABLE.spec(directory.resolve("s" + opened)));
        shadow = HollowShadow.of(cfs, false);
        copy =
                new ShadowCopy(
                        cfs,
                        store,
                        1,
                        new LateWrites(),
                        () -> new LateWrites.Moment(UpdateBuilder.NOW, 10));
        copy.resume(List.of(), null);
        HollowShadow.has(shadow, copy);
    }

    private void write(PartitionUpdate update) {
        table.write(update);
        store.write(update);
    }

    private void writeRow(int key) {
        write(TABLE.update(key).at(1).row(1).set("v", "x").end().build());
    }

    private static PartitionRangeReadCommand command(DataRange range, ColumnFilter columns) {
        return PartitionRangeReadCommand.create(
                TABLE.metadata(),
                UpdateBuilder.NOW,
                columns,
                RowFilter.none(),
                DataLimits.NONE,
                range);
    }

    private static PartitionRangeReadCommand all() {
        return command(DataRange.allData(TABLE.metadata().partitioner), TABLE.all());
    }

    private @Nullable List<RangeAttempt.Compared> run(PartitionRangeReadCommand command) {
        return new RangeAttempt(shadow, copy, command, 1_000) {
            @Override
            long nowInSeconds() {
                return UpdateBuilder.NOW;
            }

            @Override
            ReadExecutionController controller(PartitionRangeReadCommand whole) {
                return null;
            }

            @Override
            Opening ofTable(PartitionRangeReadCommand whole, ReadExecutionController reading) {
                return () -> {
                    var opened = table.scan(whole.dataRange(), whole.columnFilter());
                    meanwhile.run();
                    return Transformation.apply(opened, new EachRow());
                };
            }
        }.run();
    }

    private final class EachRow extends Transformation<UnfilteredRowIterator> {
        @Override
        protected UnfilteredRowIterator applyToPartition(UnfilteredRowIterator partition) {
            return Transformation.apply(partition, this);
        }

        @Override
        protected Row applyToRow(Row row) {
            eachRow.run();
            return row;
        }
    }

    private boolean differs(PartitionRangeReadCommand command, String of) {
        List<RangeAttempt.Compared> compared = run(command);
        assertThat(compared).as(of).isNotNull();
        boolean differs = false;
        for (RangeAttempt.Compared each : compared) {
            assertThat(each.outcome()).as(of).isNotNull();
            differs |= each.outcome().result() == Comparison.Result.DIFFERENT;
        }
        return differs;
    }

    // Random histories

    private static PartitionUpdate update(Random random) {
        UpdateBuilder update = TABLE.update(random.nextInt(KEYS)).at(random.nextInt(10));
        switch (random.nextInt(8)) {
            case 0 -> update.deletePartition();
            case 1 -> update.deleteRange(slice(random));
            case 2 -> update.deleteRow(random.nextInt(4));
            case 3 -> update.staticRow().set("s", "s" + random.nextInt(3)).end();
            default -> update.row(random.nextInt(4)).set("v", "v" + random.nextInt(3)).end();
        }
        return update.build();
    }

    private static Slice slice(Random random) {
        int from = random.nextInt(4);
        return Slice.make(
                ClusteringBound.create(
                        TABLE.metadata().comparator, true, random.nextBoolean(), from),
                ClusteringBound.create(TABLE.metadata().comparator, false, true, from + 1));
    }

    private static DataRange range(Random random) {
        int left = random.nextInt(KEYS);
        int right = left + random.nextInt(KEYS - left);
        PartitionPosition from = ORDERED.get(left);
        PartitionPosition to = ORDERED.get(right);
        AbstractBounds<PartitionPosition> keys =
                switch (random.nextInt(3)) {
                    case 0 -> DataRange.allData(TABLE.metadata().partitioner).keyRange();
                    // All of the ring if both were the same.
                    case 1 -> left == right ? new Bounds<>(from, to) : new Range<>(from, to);
                    default -> new Bounds<>(from, to);
                };
        Slices slices =
                random.nextBoolean()
                        ? Slices.ALL
                        : Slices.with(TABLE.metadata().comparator, slice(random));
        return new DataRange(keys, new ClusteringIndexSliceFilter(slices, random.nextBoolean()));
    }

    private boolean isDifferenceFound(StorageEngine ofShadow) {
        for (int seed = 0; seed < HISTORIES; seed++) {
            Random random = new Random(seed);
            begin(ofShadow);
            for (int i = 0; i < WRITES; i++) write(update(random));
            for (int i = 0; i < READS; i++) {
                ColumnFilter columns = random.nextBoolean() ? TABLE.all() : TABLE.only("v");
                if (differs(command(range(random), columns), "seed " + seed)) return true;
            }
            table.drop();
            store.drop();
        }
        return false;
    }

    @Test
    void nothingDiffersWithoutAMutant() {
        assertThat(isDifferenceFound(engine)).isFalse();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "scans-left-inclusively",
                "scans-without-clustering-filter",
                "skips-partitions-in-scans",
                "loses-row-deletions",
                "loses-static-rows"
            })
    void mutantsAreFound(String name) {
        assertThat(isDifferenceFound(NamedMutations.of(name).apply(engine))).as(name).isTrue();
    }

    @Test
    void whatOnlyOneSideHasDiffers() {
        writeRow(1);
        assertThat(differs(all(), "equal")).isFalse();
        table.write(TABLE.update(2).at(1).row(1).set("v", "x").end().build());
        assertThat(differs(all(), "of the table")).isTrue();
        store.write(TABLE.update(2).at(1).row(1).set("v", "x").end().build());
        assertThat(differs(all(), "equal again")).isFalse();
        store.write(TABLE.update(3).at(1).row(1).set("v", "x").end().build());
        assertThat(differs(all(), "of the shadow")).isTrue();
    }

    // One moment

    @Test
    void whatIsWrittenMeanwhileIsNotComparedAndTheRestIs() {
        for (int key = 0; key < KEYS; key++) writeRow(key);
        DecoratedKey written = TABLE.key(3);
        meanwhile =
                () -> {
                    copy.clock.begin(WriteClock.stripe(written));
                    table.write(TABLE.update(3).at(2).row(1).set("v", "y").end().build());
                };
        List<RangeAttempt.Compared> compared = run(all());
        assertThat(compared).hasSize(KEYS);
        for (RangeAttempt.Compared each : compared)
            if (each.key().equals(written)) assertThat(each.outcome()).isNull();
            else assertThat(each.outcome()).isEqualTo(Comparison.Outcome.EQUAL);
        // It is not in the shadow yet.
        meanwhile = () -> {};
        assertThat(run(all()))
                .filteredOn(each -> each.outcome() == null)
                .extracting(RangeAttempt.Compared::key)
                .containsExactly(written);
    }

    @Test
    void notOfOneMomentIfAnSSTableArrives() {
        writeRow(1);
        meanwhile = () -> Hollow.set(copy, ShadowCopy.class, "arrivals", 1L);
        assertThat(run(all())).isNull();
    }

    @Test
    void notWhileTheShadowHasNotCaughtUp() {
        copy.end("for a test");
        assertThat(run(all())).isNull();
    }

    // How long

    /** The table took at least 20 ms. */
    private void assertTimed() {
        Latencies ranges = shadow.statistics().ranges;
        assertThat(run(all())).hasSize(KEYS);
        assertThat(ranges.tableMicros.getCount()).isOne();
        assertThat(ranges.shadowMicros.getCount()).isOne();
        assertThat(ranges.tableMicros.getSnapshot().getMax()).isGreaterThan(10_000);
        assertThat(ranges.shadowMicros.getSnapshot().getMax()).isPositive();
        assertThat(shadow.statistics().reads.tableMicros.getCount()).isZero();
    }

    @Test
    void aRangeIsTimedOnBothSides() {
        for (int key = 0; key < KEYS; key++) writeRow(key);
        meanwhile = () -> Uninterruptibles.sleepUninterruptibly(20, TimeUnit.MILLISECONDS);
        assertTimed();
    }

    @Test
    void theRowsOfARangeCount() {
        for (int key = 0; key < KEYS; key++) writeRow(key);
        eachRow = () -> Uninterruptibles.sleepUninterruptibly(3, TimeUnit.MILLISECONDS);
        assertTimed();
    }

    // How much

    @Test
    void theFirstPartitionsAreCompared() {
        for (int key = 0; key < RangeAttempt.MAX_PARTITIONS + 5; key++) writeRow(key);
        assertThat(run(all())).hasSize(RangeAttempt.MAX_PARTITIONS);
    }

    /** The rows before those of a page are not in it, and are the same all the same. */
    @Test
    void aPageThatBeginsWithinAPartitionIsComparedWithAllOfThat() {
        for (int row = 0; row < 5; row++)
            write(TABLE.update(1).at(1).row(row).set("v", "x").end().build());
        table.write(TABLE.update(1).at(2).row(0).set("v", "y").end().build());
        DecoratedKey key = TABLE.key(1);
        DataRange page =
                new DataRange(
                                new Bounds<>(key, key),
                                new ClusteringIndexSliceFilter(Slices.ALL, false))
                        .forPaging(
                                new Bounds<>(key, key),
                                TABLE.metadata().comparator,
                                TABLE.clustering(2),
                                false);
        assertThat(differs(command(page, TABLE.all()), "row 0")).isTrue();
    }
}
