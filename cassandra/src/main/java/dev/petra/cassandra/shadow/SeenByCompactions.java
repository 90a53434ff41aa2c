// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.SSTableSet;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.notifications.INotification;
import org.apache.cassandra.notifications.INotificationConsumer;
import org.apache.cassandra.notifications.InitialSSTableAddedNotification;
import org.apache.cassandra.notifications.SSTableAddedNotification;
import org.apache.cassandra.notifications.SSTableListChangedNotification;

/**
 * What was in a table's SSTables at one moment. A compaction looks at its beginning which SSTables
 * there are besides those that it reads, and later purges a deletion over something in one that
 * came meanwhile. So each compaction that begins after that moment takes all of this into account,
 * and {@link #isSeenByAll} once the others are over. Follows the table until {@link #stop}.
 * Thread-safe.
 *
 * <h2>Why what is older than {@link #newFrom} is not new</h2>
 *
 * A compaction makes nothing older than it was: it keeps each timestamp, and gives a counter the
 * highest of its parts. So what an SSTable has from one that came since is not older than the
 * lowest timestamp of that one, however often it was compacted; and all that is older was there at
 * that moment. Cassandra itself goes by an SSTable's lowest timestamp when it purges. Where it is
 * not known of what an SSTable was made, all of it is new.
 */
final class SeenByCompactions implements INotificationConsumer {
    private final long at = System.nanoTime();
    private final Tracker tracker;

    /** By SSTable; what is missing is not known. None changes, so that no abort can raise it. */
    private final Map<Descriptor, Long> newFrom = new HashMap<>();

    /** What was compacted at that moment, and has been ever since. */
    private final Set<SSTableReader> compacted = new HashSet<>();

    private SeenByCompactions(Tracker tracker) {
        this.tracker = tracker;
    }

    /** Of this moment. */
    static SeenByCompactions now(ColumnFamilyStore cfs) {
        SeenByCompactions now = new SeenByCompactions(cfs.getTracker());
        now.begin();
        return now;
    }

    private synchronized void begin() {
        tracker.subscribe(this);
        View view = tracker.getView();
        // Of what is being compacted, one may have all that is read already, and the other has not
        // all that is written.
        for (SSTableReader each : view.select(SSTableSet.CANONICAL))
            newFrom.put(each.descriptor, LateWrites.NOTHING_NEW);
        for (SSTableReader each : view.liveSSTables())
            newFrom.put(each.descriptor, LateWrites.NOTHING_NEW);
        // Asked last: what is not among these begins later.
        compacted.addAll(tracker.getCompacting());
    }

    /** Whether the compactions are over that had begun before. Once it is true, it stays so. */
    synchronized boolean isSeenByAll() {
        compacted.retainAll(tracker.getCompacting());
        return compacted.isEmpty();
    }

    /** Since that moment. */
    Duration age() {
        return Duration.ofNanos(System.nanoTime() - at);
    }

    /**
     * What is older was there at that moment: {@link LateWrites#NOTHING_NEW} if that is all of it,
     * {@link LateWrites#ALL_NEW} if that is not known.
     */
    synchronized long newFrom(SSTableReader sstable) {
        return newFrom.getOrDefault(sstable.descriptor, LateWrites.ALL_NEW);
    }

    void stop() {
        tracker.unsubscribe(this);
    }

    @Override
    public synchronized void handleNotification(INotification notification, Object sender) {
        if (notification instanceof SSTableAddedNotification added)
            added.added.forEach(this::arrived);
        else if (notification instanceof InitialSSTableAddedNotification added)
            added.added.forEach(this::arrived);
        else if (notification instanceof SSTableListChangedNotification changed) changed(changed);
    }

    private void arrived(SSTableReader sstable) {
        long lowest = Math.min(sstable.getMinTimestamp(), LateWrites.NOTHING_NEW - 1);
        // It may have been there at that moment: this is told later.
        newFrom.putIfAbsent(sstable.descriptor, lowest);
    }

    private void changed(SSTableListChangedNotification change) {
        if (change.removed.isEmpty()) return;
        long lowest = LateWrites.NOTHING_NEW;
        for (SSTableReader each : change.removed) {
            Long from = newFrom.get(each.descriptor);
            // Also a part of what a compaction has written that is aborted: it tells nothing of
            // what is there again.
            if (from == null) return;
            lowest = Math.min(lowest, from);
        }
        for (SSTableReader each : change.added) newFrom.putIfAbsent(each.descriptor, lowest);
    }
}
