// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.SSTableSet;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.notifications.INotification;
import org.apache.cassandra.notifications.INotificationConsumer;
import org.apache.cassandra.notifications.SSTableListChangedNotification;

/**
 * The SSTables that a table had at one moment, and what was made of them since. A compaction looks
 * at its beginning which SSTables there are besides those that it reads, and later purges a
 * deletion over something in one that came meanwhile. So each compaction that begins after that
 * moment takes all of these into account, and {@link #isSeenByAll} once the others are over.
 * Follows the table until {@link #stop}. Thread-safe.
 */
final class SeenByCompactions implements INotificationConsumer {
    private final long at = System.nanoTime();
    private final Tracker tracker;
    private final Set<Descriptor> seen = new HashSet<>();

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
        for (SSTableReader each : view.select(SSTableSet.CANONICAL)) seen.add(each.descriptor);
        for (SSTableReader each : view.liveSSTables()) seen.add(each.descriptor);
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

    /** Whether all of it was there at that moment. */
    synchronized boolean has(SSTableReader sstable) {
        return seen.contains(sstable.descriptor);
    }

    void stop() {
        tracker.unsubscribe(this);
    }

    @Override
    public synchronized void handleNotification(INotification notification, Object sender) {
        if (!(notification instanceof SSTableListChangedNotification changed)) return;
        // Of a compaction that was aborted, parts are removed that were never noted here.
        boolean areSeen = !changed.removed.isEmpty();
        for (SSTableReader each : changed.removed) areSeen &= seen.contains(each.descriptor);
        if (areSeen) for (SSTableReader each : changed.added) seen.add(each.descriptor);
    }
}
