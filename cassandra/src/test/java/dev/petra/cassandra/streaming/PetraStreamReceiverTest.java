// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.PetraMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.cassandra.table.TableGenerations;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.streaming.CassandraStreamReceiver;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexManager;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.big.BigTableReader;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.streaming.StreamOperation;
import org.apache.cassandra.streaming.StreamSession;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class PetraStreamReceiverTest {
    private static final StreamGuards GUARDS = new StreamGuards(() -> 1000);

    /** Whether a deletion might be purged whenever Cassandra was asked for an index. */
    private static final List<Boolean> mayPurge = new ArrayList<>();

    /** Of a table whose indexes cannot be built. */
    static class Indexes extends SecondaryIndexManager {
        Indexes(ColumnFamilyStore cfs) {
            super(cfs);
        }

        @Override
        public boolean validateSSTableAttachedIndexes(
                Collection<SSTableReader> sstables,
                boolean throwOnIncomplete,
                boolean validateChecksum) {
            mayPurge.add(GUARDS.mayPurge(() -> true));
            return false;
        }

        @Override
        public void buildSSTableAttachedIndexesBlocking(Collection<SSTableReader> sstables) {
            mayPurge.add(GUARDS.mayPurge(() -> true));
            throw new IllegalStateException("on purpose");
        }

        @Override
        public Index.@Nullable Group getIndexGroup(Index.Group.Key key) {
            return null;
        }
    }

    static class Table extends ColumnFamilyStore {
        Table(TableMetadataRef metadata) {
            super(null, "t", null, metadata, null, false, false, false);
        }

        @Override
        public String getKeyspaceName() {
            return "ks";
        }
    }

    private static ColumnFamilyStore table() {
        TableGenerations stores = Hollow.of(TableGenerations.class);
        Hollow.set(stores, TableGenerations.class, "streams", GUARDS);
        Generation generation = Hollow.of(Generation.class);
        Hollow.set(generation, Generation.class, "stores", stores);
        PetraMemtable memtable = Hollow.of(PetraMemtable.class);
        Hollow.set(memtable, PetraMemtable.class, "generation", generation);
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(memtable);
        ColumnFamilyStore cfs = Hollow.of(Table.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", TestTables.reference());
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Memtable.Factory factory =
                (bound, metadata, owner) -> {
                    throw new UnsupportedOperationException();
                };
        Hollow.set(cfs, ColumnFamilyStore.class, "memtableFactory", factory);
        Hollow.set(cfs, ColumnFamilyStore.class, "indexManager", Hollow.of(Indexes.class));
        return cfs;
    }

    /**
     * A migration that finds no SSTables ends, and these are live only when their indexes are
     * built, which takes minutes: a deletion might go that hides what they have.
     */
    @Test
    void noDeletionIsPurgedWhileIndexesOfReceivedSSTablesAreBuilt() {
        StreamSession session =
                new TestSession() {
                    @Override
                    public StreamOperation streamOperation() {
                        return StreamOperation.BOOTSTRAP;
                    }
                };
        PetraStreamReceiver receiver = new PetraStreamReceiver(table(), session, 1);
        Hollow.set(
                receiver,
                CassandraStreamReceiver.class,
                "sstables",
                new ArrayList<>(List.of(Hollow.of(BigTableReader.class))));
        // Only where there is a node, tables have memtables; Cassandra's classes are loaded
        // without.
        Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", true);
        try {
            assertThatThrownBy(receiver::finished).hasMessage("on purpose");
        } finally {
            Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", false);
        }
        assertThat(mayPurge).containsExactly(false, false);
        assertThat(GUARDS.mayPurge(() -> true)).isTrue();
    }
}
