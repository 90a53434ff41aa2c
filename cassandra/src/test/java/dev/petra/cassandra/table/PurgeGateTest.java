// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import java.util.Set;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.big.BigTableReader;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;

/** Each reason for which a table's store may remove no deletion. */
class PurgeGateTest {
    private static final TableMetadataRef TABLE = TestTables.reference();

    /** What Cassandra says of a table. */
    private static class Table extends ColumnFamilyStore {
        private Set<SSTableReader> sstables = Set.of();
        private boolean never;

        Table() {
            super(null, "t", null, TABLE, null, false, false, false);
        }

        static Table of(Set<SSTableReader> sstables, boolean never) {
            Table table = Hollow.of(Table.class);
            table.sstables = sstables;
            table.never = never;
            return table;
        }

        @Override
        public Set<SSTableReader> getLiveSSTables() {
            return sstables;
        }

        @Override
        public boolean getNeverPurgeTombstones() {
            return never;
        }
    }

    private static TableMetadataRef onlyRepaired(boolean is) {
        return TableMetadataRef.forOfflineTools(
                TestTables.table(
                        ("CREATE TABLE t (p int PRIMARY KEY) WITH compaction = {'class':"
                                        + " 'SizeTieredCompactionStrategy',"
                                        + " 'only_purge_repaired_tombstones': '%s'}")
                                .formatted(is)));
    }

    private static boolean isForbidden(TableMetadataRef metadata, Table table) {
        Hollow.set(table, ColumnFamilyStore.class, "metadata", metadata);
        return PurgeGate.isForbidden(table);
    }

    @Test
    void eachReasonAlone() {
        Table table = Table.of(Set.of(), false);
        assertThat(PurgeGate.isOpen(TABLE, table)).isTrue();
        assertThat(PurgeGate.isOpen(TABLE, null)).isFalse();
        assertThat(PurgeGate.isOpen(onlyRepaired(false), table)).isTrue();
        assertThat(PurgeGate.isOpen(onlyRepaired(true), table)).isFalse();
        assertThat(PurgeGate.isOpen(TABLE, Table.of(Set.of(), true))).isFalse();
        SSTableReader sstable = Hollow.of(BigTableReader.class);
        Table besides = Table.of(Set.of(sstable), false);
        assertThat(PurgeGate.isOpen(TABLE, besides)).isFalse();
        // A table that is migrated has some.
        assertThat(isForbidden(TABLE, besides)).isFalse();
        assertThat(isForbidden(onlyRepaired(true), besides)).isTrue();
        assertThat(isForbidden(TABLE, Table.of(Set.of(sstable), true))).isTrue();
        CassandraRelevantProperties.NEVER_PURGE_TOMBSTONES.setBoolean(true);
        try {
            assertThat(PurgeGate.isOpen(TABLE, table)).isFalse();
            assertThat(isForbidden(TABLE, besides)).isTrue();
        } finally {
            CassandraRelevantProperties.NEVER_PURGE_TOMBSTONES.clearValue();
        }
    }
}
