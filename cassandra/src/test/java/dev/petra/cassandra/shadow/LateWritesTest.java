// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.shadow.LateWrites.Moment;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.utils.CounterId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class LateWritesTest {
    private static final long START = UpdateBuilder.NOW;
    private static final int GRACE = 100;

    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text STATIC, v text, m map<text, text>,"
                            + " PRIMARY KEY (k, c))");
    private static final TestTable COUNTERS =
            TestTable.of("CREATE TABLE t (k text, c int, n counter, PRIMARY KEY (k, c))");

    private final LateWrites late = new LateWrites();

    private static Moment after(long seconds) {
        return new Moment(START + seconds, GRACE);
    }

    private static UpdateBuilder update() {
        return TABLE.update("k").now(START);
    }

    private static PartitionUpdate write(long timestamp) {
        return update().at(timestamp).row(1).set("v", "x").end().build();
    }

    private static PartitionUpdate deletion(long timestamp) {
        return update().at(timestamp).deletePartition().build();
    }

    /** Of the copy's first moment. */
    private void copied(PartitionUpdate update, Moment now) {
        late.copied(update, LateWrites.NOTHING_NEW, now);
    }

    private void isLate(boolean expected) {
        if (expected) assertThat(late.reason()).isNotNull();
        else assertThat(late.reason()).isNull();
    }

    private static Arguments kind(String name, UnaryOperator<UpdateBuilder> deletion) {
        return Arguments.of(name, deletion);
    }

    static Stream<Arguments> deletions() {
        return Stream.of(
                kind("partition", UpdateBuilder::deletePartition),
                kind("range", u -> u.deleteRange(Slice.make(TABLE.clustering(1)))),
                kind("row", u -> u.deleteRow(1)),
                kind("cell", u -> u.row(1).unset("v").end()),
                kind("static cell", u -> u.staticRow().unset("s").end()),
                kind("collection", u -> u.row(1).clear("m").end()),
                kind("element", u -> u.row(1).remove("m", "x").end()));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("deletions")
    void aWriteIsLateWhenTheGraceOfADeletionHasPassed(
            String name, UnaryOperator<UpdateBuilder> deletion) {
        late.written(deletion.apply(update().at(10)).build(), after(0));
        late.written(write(10), after(GRACE));
        isLate(false);
        late.written(write(11), after(GRACE + 1));
        isLate(false);
        late.written(write(10), after(GRACE + 1));
        isLate(true);
        assertThat(late.reason()).contains("(timestamp 10)");
    }

    static Stream<Arguments> writes() {
        return Stream.of(
                kind("cell", u -> u.row(1).set("v", "x").end()),
                kind("liveness", u -> u.row(1).liveness().end()),
                kind("static cell", u -> u.staticRow().set("s", "x").end()),
                kind("element", u -> u.row(1).put("m", "x", "y").end()),
                kind("one of many", u -> u.row(1).set("v", "x").at(99).put("m", "x", "y").end()),
                kind("deletion", u -> u.deleteRow(1)),
                kind(
                        "collection that is overwritten",
                        u -> u.at(11).row(1).clearBefore("m").end()));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("writes")
    void theLowestTimestampOfAWriteCounts(String name, UnaryOperator<UpdateBuilder> write) {
        copied(deletion(9), after(GRACE + 1));
        late.written(write.apply(update().at(10)).build(), after(GRACE + 1));
        isLate(false);
        copied(deletion(10), after(0));
        late.written(write.apply(update().at(10)).build(), after(GRACE + 1));
        isLate(true);
    }

    /** It counts as written when it is in the table. */
    @Test
    void whatBeginsIsLateIfItIsHiddenByThen() {
        copied(deletion(10), after(0));
        late.begins(write(10), after(GRACE));
        isLate(false);
        late.begins(write(11), after(GRACE + 1));
        isLate(false);
        late.begins(write(10), after(GRACE + 1));
        isLate(true);
    }

    /** Else each deletion of a table without grace would be late for itself. */
    @Test
    void whatBeginsIsNotKept() {
        late.begins(deletion(10), after(GRACE + 1));
        late.written(deletion(10), after(GRACE + 1));
        late.begins(deletion(11), after(GRACE + 1));
        isLate(false);
        late.begins(write(5), after(GRACE + 1));
        isLate(true);
    }

    @Test
    void whatBeginsIsNotWrittenYet() {
        late.begins(write(10), after(0));
        copied(deletion(10), after(GRACE + 1));
        isLate(false);
    }

    @Test
    void aDeletionMayBeCopiedAfterTheWrite() {
        late.written(write(10), after(0));
        copied(deletion(10), after(GRACE));
        isLate(false);
        copied(deletion(9), after(GRACE + 1));
        isLate(false);
        copied(deletion(10), after(GRACE + 1));
        isLate(true);
    }

    /** Two threads: the one that looked at the clock first comes second. */
    @Test
    void theLatestClockCounts() {
        late.written(write(10), after(GRACE + 1));
        late.written(deletion(10), after(GRACE));
        isLate(true);
    }

    @Test
    void betweenSSTablesOfOneMomentThereIsNoOrder() {
        copied(write(5), after(1_000));
        copied(deletion(10), after(1_000));
        copied(write(5), after(1_000));
        isLate(false);
        late.written(write(11), after(1_000));
        isLate(false);
    }

    /** As where an old SSTable was compacted with a new one. */
    @ParameterizedTest(name = "{0}")
    @MethodSource("writes")
    void ofWhatIsCopiedAsMuchIsWrittenAsMayBeNew(String name, UnaryOperator<UpdateBuilder> write) {
        copied(deletion(10), after(GRACE + 1));
        PartitionUpdate old = write.apply(update().at(10)).build();
        PartitionUpdate added = update().at(100).row(2).liveness().end().build();
        late.copied(PartitionUpdate.merge(List.of(old, added)), 11, after(GRACE + 1));
        isLate(false);
        // Which counts for what comes later, too.
        copied(deletion(99), after(GRACE + 1));
        isLate(name.equals("one of many"));
        late.copied(old, 10, after(GRACE + 1));
        isLate(true);
    }

    /** Nothing is purged later over it. */
    @Test
    void aDeletionOfWhatIsNotNewIsNoneTheLess() {
        late.copied(deletion(10), 11, after(GRACE + 1));
        isLate(false);
        late.written(write(10), after(GRACE + 1));
        isLate(true);
    }

    @Test
    void whatComesTogetherIsNotLate() {
        late.written(
                update().at(10).deletePartition().row(1).set("v", "x").end().build(), after(1_000));
        isLate(false);
        late.written(write(10), after(1_000));
        isLate(true);
    }

    /** It was there when the deletion came, which was not purged before. */
    @Test
    void aDeletionOfSomethingIsNone() {
        late.written(write(10), after(0));
        late.written(deletion(20), after(0));
        late.written(write(30), after(10 * GRACE));
        isLate(false);
    }

    @Test
    void aCellIsADeletionWhenItHasExpiredAndTheGraceSinceItsWriteHasPassed() {
        for (int ttl : new int[] {10, GRACE, 10 * GRACE}) {
            int purgeableFrom = Math.max(ttl, GRACE + 1);
            LateWrites each = new LateWrites();
            each.written(update().at(10).ttl(ttl).row(1).set("v", "x").end().build(), after(0));
            each.written(write(10), after(purgeableFrom - 1));
            assertThat(each.reason()).as("TTL %s", ttl).isNull();
            each.written(write(10), after(purgeableFrom));
            assertThat(each.reason()).as("TTL %s", ttl).isNotNull();
        }
    }

    @Test
    void aMarkerThatHasExpiredIsADeletion() {
        late.written(update().at(10).ttl(50).row(1).liveness().end().build(), after(0));
        late.written(write(10), after(50 + GRACE));
        isLate(false);
        late.written(write(10), after(50 + GRACE + 1));
        isLate(true);
    }

    @Test
    void theShortestGraceCounts() {
        late.written(deletion(10), after(0));
        late.written(write(20), new Moment(START + 1, 0));
        late.written(write(9), after(2));
        isLate(true);
    }

    @Test
    void aGraceThatWasShorterIsRemembered() {
        late.written(write(50), new Moment(START, 1));
        late.written(deletion(60), after(0));
        late.written(write(60), after(1));
        isLate(false);
        late.written(write(60), after(2));
        isLate(true);
    }

    /** Its expiry was counted by the longer one. */
    @Test
    void anExpiringCellByAGraceThatBecameShorter() {
        late.written(update().at(10).ttl(50).row(1).set("v", "x").end().build(), after(0));
        late.written(write(9), new Moment(START + 50, 10));
        isLate(true);
    }

    @Test
    void otherPartitionsAreMostlyLeftAlone() {
        copied(deletion(10), after(1_000));
        for (int i = 0; i < 20; i++)
            if (stripe("other" + i) != stripe("k"))
                late.written(
                        TABLE.update("other" + i).at(5).row(1).set("v", "x").end().build(),
                        after(1_000));
        isLate(false);
    }

    private static int stripe(String key) {
        return WriteClock.stripe(TABLE.key(key)) % 256;
    }

    private static PartitionUpdate count(long timestamp) {
        ByteBuffer one = CounterContext.instance().createGlobal(CounterId.fromInt(1), timestamp, 1);
        return COUNTERS.update("k")
                .row(1)
                .cell(BufferCell.live(COUNTERS.column("n"), timestamp, one))
                .end()
                .build();
    }

    /** Which is not that of nothing. */
    @Test
    void theHighestTimestampIsOneLikeOthers() {
        late.written(deletion(Long.MAX_VALUE), after(0));
        late.written(write(Long.MAX_VALUE), after(GRACE));
        copied(write(Long.MAX_VALUE), after(GRACE + 1));
        isLate(false);
        late.written(write(Long.MAX_VALUE), after(GRACE + 1));
        isLate(true);
    }

    /** It hides counts of any timestamp. */
    @Test
    void theDeletionOfACounterHidesNothingWhereNothingWasWritten() {
        PartitionUpdate deletion =
                COUNTERS.update("k").now(START).at(10).row(1).unset("n").end().build();
        copied(deletion, after(GRACE + 1));
        copied(deletion, after(GRACE + 1));
        late.written(
                COUNTERS.update("k").now(START).at(10).build(), after(GRACE + 1)); // of nothing
        isLate(false);
        late.written(count(5), after(GRACE + 1));
        isLate(true);
    }

    /** Of a row, as any other; but which of its counts are older, their timestamps do not say. */
    @Test
    void theDeletionOfARowOfCounters() {
        late.written(count(5), after(0));
        copied(count(5), after(0));
        late.written(COUNTERS.update("k").now(START).at(10).deletePartition().build(), after(0));
        late.written(count(20), after(GRACE));
        isLate(false);
        late.written(count(20), after(GRACE + 1));
        isLate(true);
        assertThat(late.reason()).contains("of a counter");
    }

    /** The table may purge it at any time over what is newer, whose timestamp counts for it. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theDeletionOfACounterAndACount(boolean isCountFirst) {
        PartitionUpdate deletion =
                COUNTERS.update("k").now(START).at(10).row(1).unset("n").end().build();
        copied(isCountFirst ? count(20) : deletion, after(0));
        isLate(false);
        copied(isCountFirst ? deletion : count(20), after(0));
        isLate(true);
        assertThat(late.reason()).contains("of a counter");
    }

    /** As of every table: what was there is hidden on both sides. */
    @Test
    void whatIsCopiedOfARowOfCountersAndItsDeletion() {
        copied(count(5), after(GRACE + 1));
        copied(COUNTERS.update("k").now(START).at(10).deletePartition().build(), after(GRACE + 1));
        copied(count(5), after(GRACE + 1));
        isLate(false);
    }

    /** Of many times some are kept: what is late by all of them is late by those. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void whatIsForgottenCountsAsPurgeableSooner(long seed) {
        Random random = new Random(seed);
        long[] times = new long[200];
        for (int i = 0; i < times.length; i++) {
            times[i] = START + i * 5_000L + random.nextInt(20_000);
            late.written(
                    TABLE.update("k").now(times[i]).at(i * 10L).deletePartition().build(),
                    after(0));
        }
        assertThat(late.memory(after(0)).deletions()).hasSize(LateWrites.MAX_TIMES);
        for (int round = 0; round < 200; round++) {
            long clock = START + random.nextInt(1_100_000);
            int timestamp = random.nextInt(2_000);
            boolean expected = false;
            for (int i = 0; i < times.length; i++)
                expected |= i * 10L >= timestamp && times[i] < clock - GRACE;
            LateWrites each = new LateWrites(late.memory(after(0)));
            each.written(write(timestamp), new Moment(clock, GRACE));
            if (expected) assertThat(each.reason()).as("round %s", round).isNotNull();
        }
    }

    /** They are written within minutes, and purged days later. */
    @Test
    void timesThatAreCloseAreKeptAsOne() {
        for (int i = 0; i < 1_000; i++)
            late.written(
                    TABLE.update("k").now(START + i).at(10L + i).deletePartition().build(),
                    new Moment(START + i, 864_000));
        assertThat(late.memory(new Moment(START, 864_000)).deletions())
                .hasSize(LateWrites.MAX_TIMES);
        late.written(write(900), new Moment(START + 1_000, 864_000));
        late.written(write(1_011), new Moment(START + 864_000, 864_000));
        isLate(false);
        late.written(write(10), new Moment(START + 864_001, 864_000));
        isLate(true);
    }

    @Test
    void memoryLasts() {
        late.written(write(50), after(0));
        copied(deletion(10), after(GRACE + 1));
        late.written(update().now(START + 1_000).at(60).deletePartition().build(), after(0));
        LateWrites.Memory memory = late.memory(after(0));
        assertThat(memory.late()).isNull();

        LateWrites older = new LateWrites(memory);
        older.written(write(10), after(0));
        assertThat(older.reason()).isNotNull();

        LateWrites later = new LateWrites(memory);
        later.written(write(55), after(1_000 + GRACE));
        assertThat(later.reason()).isNull();
        later.written(write(55), after(1_000 + GRACE + 1));
        assertThat(later.reason()).isNotNull();
        assertThat(later.memory(after(0)).late()).isEqualTo(later.reason());

        LateWrites copying = new LateWrites(memory);
        copying.copied(deletion(50), LateWrites.NOTHING_NEW, after(GRACE + 1));
        assertThat(copying.reason()).isNotNull();

        assertThat(new LateWrites(memory).memory(after(0))).isEqualTo(memory);
        assertThat(new LateWrites(memory.or("why")).reason()).isEqualTo("why");
    }

    /** A compaction may have purged by a grace that nothing was noted under. */
    @Test
    void theShortestGraceLastsThoughNothingWasNotedUnderIt() {
        copied(deletion(10), new Moment(START + 1, 864_000));
        LateWrites.Memory memory = late.memory(new Moment(START + 1, 0));
        LateWrites older = new LateWrites(memory);
        older.written(write(10), new Moment(START + 2, 864_000));
        assertThat(older.reason()).isNotNull();
    }
}
