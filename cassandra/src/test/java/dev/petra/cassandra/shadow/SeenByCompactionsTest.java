// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.engine.conformance.TestTable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.notifications.SSTableAddedNotification;
import org.apache.cassandra.notifications.SSTableListChangedNotification;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** For which compactions a copy waits, and what in SSTables the others know. */
class SeenByCompactionsTest {
    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");

    @TempDir Path directory;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final List<SSTableReader> made = new ArrayList<>();
    private Tracker tracker;
    private SSTableReader first;
    private SSTableReader second;

    @SuppressWarnings("NullAway.Init")
    private SeenByCompactions seen;

    @BeforeEach
    void create() {
        HollowShadow.begin(cfs, TABLE.metadata());
        tracker = cfs.getTracker();
        first = sstable();
        second = sstable();
        tracker.addInitialSSTables(List.of(first, second));
    }

    @AfterEach
    void release() {
        seen.stop();
        made.forEach(each -> each.selfRef().release());
    }

    private SSTableReader sstable() {
        return sstable(1);
    }

    private SSTableReader sstable(long timestamp) {
        TreeSet<DecoratedKey> keys = new TreeSet<>();
        keys.add(TABLE.key("k"));
        SSTableReader sstable =
                KeyWalkTest.sstable(directory, cfs.metadata, made.size() + 1, keys, timestamp);
        made.add(sstable);
        return sstable;
    }

    private void changed(List<SSTableReader> removed, List<SSTableReader> added) {
        seen.handleNotification(
                new SSTableListChangedNotification(added, removed, OperationType.COMPACTION),
                tracker);
    }

    @Test
    void onlyCompactionsOfBeforeAreWaitedFor() {
        LifecycleTransaction before = tracker.tryModify(first, OperationType.COMPACTION);
        seen = SeenByCompactions.now(cfs);
        assertThat(seen.isSeenByAll()).isFalse();
        LifecycleTransaction later = tracker.tryModify(second, OperationType.COMPACTION);
        before.close();
        assertThat(seen.isSeenByAll()).isTrue();
        later.close();
        // Which may be of the same SSTable.
        later = tracker.tryModify(first, OperationType.COMPACTION);
        assertThat(seen.isSeenByAll()).isTrue();
        later.close();
    }

    @Test
    void whatIsMadeOfWhatWasThereIsNotNew() {
        seen = SeenByCompactions.now(cfs);
        SSTableReader result = sstable();
        assertThat(seen.newFrom(first)).isEqualTo(LateWrites.NOTHING_NEW);
        assertThat(seen.newFrom(result)).isEqualTo(LateWrites.ALL_NEW);
        changed(List.of(first, second), List.of(result));
        assertThat(seen.newFrom(result)).isEqualTo(LateWrites.NOTHING_NEW);
        SSTableReader ofThat = sstable();
        changed(List.of(result), List.of(ofThat));
        assertThat(seen.newFrom(ofThat)).isEqualTo(LateWrites.NOTHING_NEW);
        // What a flush has made visible before the moment may be told after it.
        seen.handleNotification(new SSTableAddedNotification(List.of(first), null), tracker);
        assertThat(seen.newFrom(first)).isEqualTo(LateWrites.NOTHING_NEW);
    }

    /** The first two have timestamp 1. */
    @Test
    void whatIsMadeOfWhatCameIsNewFromTheLowestTimestampOfThatOn() {
        seen = SeenByCompactions.now(cfs);
        SSTableReader came = sstable(7);
        tracker.addInitialSSTables(List.of(came));
        assertThat(seen.newFrom(came)).isEqualTo(7);
        SSTableReader flushed = sstable(5);
        seen.handleNotification(new SSTableAddedNotification(List.of(flushed), null), tracker);
        assertThat(seen.newFrom(flushed)).isEqualTo(5);
        SSTableReader result = sstable();
        changed(List.of(first, came), List.of(result));
        assertThat(seen.newFrom(result)).isEqualTo(7);
        SSTableReader ofThat = sstable();
        changed(List.of(flushed, second, result), List.of(ofThat));
        assertThat(seen.newFrom(ofThat)).isEqualTo(5);
    }

    /** Which is not the timestamp of nothing. */
    @Test
    void whatCameWithTheHighestTimestampIsNew() {
        seen = SeenByCompactions.now(cfs);
        SSTableReader came = sstable(Long.MAX_VALUE);
        tracker.addInitialSSTables(List.of(came));
        assertThat(seen.newFrom(came)).isLessThan(LateWrites.NOTHING_NEW);
    }

    @Test
    void whatIsMadeOfWhatIsNotKnownIsNew() {
        seen = SeenByCompactions.now(cfs);
        SSTableReader unknown = sstable(7);
        SSTableReader result = sstable();
        changed(List.of(first, unknown), List.of(result));
        assertThat(seen.newFrom(result)).isEqualTo(LateWrites.ALL_NEW);
        SSTableReader ofNothing = sstable();
        changed(List.of(), List.of(ofNothing));
        assertThat(seen.newFrom(ofNothing)).isEqualTo(LateWrites.ALL_NEW);
    }

    /** Of that only what a part of its result has is known, and what it has read is there again. */
    @Test
    void aCompactionThatIsAbortedTellsNothing() {
        seen = SeenByCompactions.now(cfs);
        SSTableReader came = sstable(7);
        tracker.addInitialSSTables(List.of(came));
        SSTableReader unknown = sstable(5);
        SSTableReader part = sstable(9);
        changed(List.of(part, first, came, unknown), List.of(first, came, unknown));
        assertThat(seen.newFrom(first)).isEqualTo(LateWrites.NOTHING_NEW);
        assertThat(seen.newFrom(came)).isEqualTo(7);
        assertThat(seen.newFrom(unknown)).isEqualTo(LateWrites.ALL_NEW);
        // Of nothing but what it has opened anew, further behind its beginning.
        changed(List.of(first, came), List.of(first, came));
        assertThat(seen.newFrom(first)).isEqualTo(LateWrites.NOTHING_NEW);
        assertThat(seen.newFrom(came)).isEqualTo(7);
    }
}
