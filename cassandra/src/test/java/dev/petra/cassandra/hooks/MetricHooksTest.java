// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static dev.petra.cassandra.Hollow.proxy;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.Pair;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MetricHooksTest {
    private static final TableMetadataRef TABLE = TestTables.reference();
    private static final Range<Token> RANGE = new Range<>(new LongToken(1), new LongToken(2));

    @TempDir Path directory;

    /** The memtable of a store that has 10 partitions of 100 bytes in each range. */
    private EngineMemtable ours(long departure) {
        TableStore store =
                proxy(
                        TableStore.class,
                        (self, method, arguments) ->
                                switch (method.getName()) {
                                    case "estimate" -> new RangeEstimate(10, 100);
                                    case "statistics" ->
                                            new StoreStatistics(10, 10, 1_000, 1_000, 0, 0, 0, 0);
                                    default -> null;
                                });
        StorageEngine engine = proxy(StorageEngine.class, (self, method, arguments) -> store);
        TableGenerations stores =
                TableGenerations.open("t", TABLE, () -> engine, List.of(directory), Disk.REAL);
        assertThat(stores.current().writable()).isSameAs(store);
        return HollowMemtable.of(stores, departure);
    }

    private static Map<Range<Token>, Pair<Long, Long>> estimates(Tracker tracker, long partitions) {
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        // Else no table has memtables, for those who ask.
        Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", true);
        try {
            return MetricHooks.sizeEstimates(
                    cfs, List.of(RANGE), Map.of(RANGE, Pair.create(partitions, 400L)));
        } finally {
            Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", false);
        }
    }

    /** Only what is in the engine counted, and most of the table is in SSTables at first. */
    @Test
    void theSizesOfATableOnItsWayInAreThoseOfBothParts() {
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(ours(0));
        assertThat(estimates(tracker, 20)).isEqualTo(Map.of(RANGE, Pair.create(30L, 300L)));
        assertThat(estimates(tracker, 0)).isEqualTo(Map.of(RANGE, Pair.create(10L, 100L)));
    }

    /** Only what is in SSTables counted, which are none at first. */
    @Test
    void theSizesOfATableOnItsWayOutAreThoseOfBothParts() {
        EngineMemtable departing = ours(1);
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(departing);
        tracker.switchMemtable(true, HollowMemtable.cassandras());
        tracker.markFlushing(departing);
        assertThat(estimates(tracker, 20)).isEqualTo(Map.of(RANGE, Pair.create(30L, 300L)));
    }

    @Test
    void theSizesOfATableInNoEngineAreCassandras() {
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(HollowMemtable.cassandras());
        assertThat(estimates(tracker, 20)).isEqualTo(Map.of(RANGE, Pair.create(20L, 400L)));
    }
}
