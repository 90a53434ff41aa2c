// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.collect.Iterables;
import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.table.CompactionInfos;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.CompactionStrategyManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.utils.TimeUUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** How the SSTables of a table are claimed, in whose place its shadow comes. */
class PromotionTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c))");
    private static final TableMetadataRef REFERENCE = TableMetadataRef.forOfflineTools(TABLE);

    static {
        // What shows and ends compactions needs these.
        DatabaseDescriptor.setConcurrentCompactors(1);
        DatabaseDescriptor.setConcurrentValidations(1);
        DatabaseDescriptor.setConcurrentViewBuilders(1);
    }

    @TempDir Path temp;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final CompactionStrategyManager strategies = Hollow.of(CompactionStrategyManager.class);
    private final List<SSTableReader> sstables = new ArrayList<>();
    private final List<Work> works = new ArrayList<>();

    @BeforeEach
    void begin() {
        for (int number = 1; number <= 2; number++) sstables.add(sstable(number));
        Tracker tracker = Tracker.newDummyTracker();
        tracker.addInitialSSTables(sstables);
        Hollow.set(
                strategies,
                CompactionStrategyManager.class,
                "writeLock",
                new ReentrantReadWriteLock().writeLock());
        strategies.resume();
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", REFERENCE);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(cfs, ColumnFamilyStore.class, "compactionStrategyManager", strategies);
    }

    @AfterEach
    void release() {
        works.forEach(Work::end);
        sstables.forEach(each -> each.selfRef().release());
    }

    private SSTableReader sstable(int number) {
        PartitionUpdate.SimpleBuilder update = PartitionUpdate.simpleBuilder(TABLE, number);
        update.row(1).add("v", 7);
        try (SSTableTxnWriter writer =
                        SSTableTxnWriter.create(
                                REFERENCE,
                                new Descriptor(
                                        new File(temp),
                                        "ks",
                                        "t",
                                        new SequenceBasedSSTableId(number)),
                                1,
                                ActiveRepairService.UNREPAIRED_SSTABLE,
                                ActiveRepairService.NO_PENDING_REPAIR,
                                false,
                                SerializationHeader.makeWithoutStats(TABLE),
                                List.of(),
                                null);
                UnfilteredRowIterator partition = update.build().unfilteredIterator()) {
            writer.append(partition);
            return Iterables.getOnlyElement(writer.finish(true));
        }
    }

    /** Has an SSTable until it is stopped, or ends. */
    private final class Work extends CompactionInfo.Holder {
        private final OperationType type;
        private final LifecycleTransaction claimed;

        Work(OperationType type, SSTableReader sstable) {
            this.type = type;
            this.claimed = cfs.getTracker().tryModify(sstable, type);
        }

        @Override
        public CompactionInfo getCompactionInfo() {
            return CompactionInfos.withoutSSTables(
                    TABLE,
                    type,
                    0,
                    1,
                    CompactionInfo.Unit.BYTES,
                    TimeUUID.Generator.nextTimeUUID());
        }

        @Override
        public boolean isGlobal() {
            return false;
        }

        @Override
        public void stop() {
            super.stop();
            // Else the next one would begin.
            assertThat(strategies.isActive()).isFalse();
            end();
        }

        void end() {
            claimed.close();
            CompactionManager.instance.active.finishCompaction(this);
        }
    }

    private Work begin(OperationType type, SSTableReader sstable) {
        Work work = new Work(type, sstable);
        works.add(work);
        CompactionManager.instance.active.beginCompaction(work);
        return work;
    }

    private void assertAllAreClaimed() {
        try (LifecycleTransaction claimed = Promotion.claim(cfs, true)) {
            assertThat(claimed).isNotNull();
            assertThat(claimed.originals()).containsExactlyInAnyOrderElementsOf(sstables);
            assertThat(cfs.getTracker().getCompacting()).hasSize(2);
        }
        assertThat(strategies.isActive()).isTrue();
    }

    /** The shadow was refused after ten minutes in which there was something to compact. */
    @ParameterizedTest
    @EnumSource(names = {"COMPACTION", "TOMBSTONE_COMPACTION"})
    void whatCassandraCompactsByItselfIsEnded(OperationType type) {
        Work work = begin(type, sstables.get(0));
        assertAllAreClaimed();
        assertThat(work.isStopRequested()).isTrue();
    }

    /** However long it takes. */
    @ParameterizedTest
    @EnumSource(
            names = {
                "MAJOR_COMPACTION",
                "CLEANUP",
                "UPGRADE_SSTABLES",
                "GARBAGE_COLLECT",
                "ANTICOMPACTION",
                "INDEX_BUILD"
            })
    void whatAnOperatorOrARepairHasBegunIsWaitedFor(OperationType type) {
        Work work = begin(type, sstables.get(0));
        Work compaction = begin(OperationType.COMPACTION, sstables.get(1));
        assertThat(Promotion.claim(cfs, true)).isNull();
        assertThat(work.isStopRequested()).isFalse();
        assertThat(compaction.isStopRequested()).isFalse();
        assertThat(strategies.isActive()).isTrue();
        work.end();
        assertAllAreClaimed();
    }

    /** It would be stopped with the compactions, and copy for a second in ten. */
    @Test
    void nothingIsEndedWhileTheShadowCopies() {
        Work work = begin(OperationType.COMPACTION, sstables.get(0));
        assertThat(Promotion.claim(cfs, false)).isNull();
        assertThat(work.isStopRequested()).isFalse();
    }
}
