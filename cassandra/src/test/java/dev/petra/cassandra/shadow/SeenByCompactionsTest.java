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
import org.apache.cassandra.notifications.SSTableListChangedNotification;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** For which compactions a copy waits, and which SSTables the others know. */
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
        TreeSet<DecoratedKey> keys = new TreeSet<>();
        keys.add(TABLE.key("k"));
        SSTableReader sstable = KeyWalkTest.sstable(directory, cfs.metadata, made.size() + 1, keys);
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
        assertThat(seen.has(first)).isTrue();
        assertThat(seen.has(result)).isFalse();
        changed(List.of(first, second), List.of(result));
        assertThat(seen.has(result)).isTrue();
        SSTableReader ofThat = sstable();
        changed(List.of(result), List.of(ofThat));
        assertThat(seen.has(ofThat)).isTrue();
    }

    @Test
    void whatCameSinceIsNewAndSoIsWhatIsMadeOfIt() {
        seen = SeenByCompactions.now(cfs);
        SSTableReader came = sstable();
        tracker.addInitialSSTables(List.of(came));
        assertThat(seen.has(came)).isFalse();
        SSTableReader result = sstable();
        changed(List.of(first, came), List.of(result));
        assertThat(seen.has(result)).isFalse();
        SSTableReader ofNothing = sstable();
        changed(List.of(), List.of(ofNothing));
        assertThat(seen.has(ofNothing)).isFalse();
    }
}
