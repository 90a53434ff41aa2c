// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent.advice;

import dev.petra.cassandra.hooks.DataHooks;
import dev.petra.cassandra.hooks.MetricHooks;
import dev.petra.cassandra.hooks.SchemaHooks;
import dev.petra.cassandra.hooks.TableHooks;
import java.util.Collection;
import java.util.Collections;
import net.bytebuddy.asm.Advice;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.repair.TableRepairManager;
import org.apache.cassandra.service.snapshot.TableSnapshot;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamSummary;
import org.apache.cassandra.streaming.TableStreamManager;
import org.apache.cassandra.streaming.messages.PrepareSynAckMessage;
import org.apache.cassandra.utils.concurrent.Future;
import org.jspecify.annotations.Nullable;

/** Code that is copied into methods of a table: life cycle, streaming, repair and estimates. */
// By assigning to its parameter an advice changes a value of the method that it is copied into.
@SuppressWarnings("UnusedVariable")
final class TableAdvice {
    private TableAdvice() {}

    static final class Dump {
        private Dump() {}

        @Advice.OnMethodEnter
        static void enter() {
            TableHooks.dumpBegins();
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.This ColumnFamilyStore cfs, @Advice.Thrown @Nullable Throwable failure) {
            TableHooks.dumpEnds(cfs, failure);
        }
    }

    static final class WritesAreDurable {
        private WritesAreDurable() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Return(readOnly = false) boolean durable) {
            durable = DataHooks.writesAreDurable(cfs, durable);
        }
    }

    static final class Apply {
        private Apply() {}

        @Advice.OnMethodEnter
        static @Nullable Object enter(
                @Advice.This ColumnFamilyStore cfs, @Advice.Argument(0) PartitionUpdate update) {
            return DataHooks.beforeApply(cfs, update);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.Enter @Nullable Object doubled,
                @Advice.Thrown @Nullable Throwable failure) {
            if (doubled != null) DataHooks.afterApply(doubled, failure);
        }
    }

    static final class TruncateBlocking {
        private TruncateBlocking() {}

        @Advice.OnMethodEnter
        static long enter(@Advice.This ColumnFamilyStore cfs) {
            return TableHooks.beforeTruncate(cfs);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Enter long before,
                @Advice.Thrown @Nullable Throwable failure) {
            TableHooks.truncationEnds(cfs);
            if (failure == null) TableHooks.afterTruncate(cfs, before);
        }
    }

    static final class DiscardSSTables {
        private DiscardSSTables() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.This ColumnFamilyStore cfs) {
            TableHooks.truncate(cfs);
        }
    }

    static final class TruncationPosition {
        private TruncationPosition() {}

        @Advice.OnMethodEnter
        static void enter(
                @Advice.Argument(0) ColumnFamilyStore cfs,
                @Advice.Argument(value = 2, readOnly = false) CommitLogPosition position) {
            position = TableHooks.truncationPosition(cfs, position);
        }
    }

    static final class AfterUnload {
        private AfterUnload() {}

        @Advice.OnMethodExit
        static void exit(@Advice.This ColumnFamilyStore cfs) {
            SchemaHooks.afterUnload(cfs);
        }
    }

    static final class AfterForceFlush {
        private AfterForceFlush() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Argument(0) ColumnFamilyStore.FlushReason reason,
                @Advice.Return(readOnly = false) Future<CommitLogPosition> flush) {
            flush = TableHooks.afterForceFlush(cfs, reason, flush);
        }
    }

    static final class Snapshot {
        private Snapshot() {}

        @Advice.OnMethodEnter
        static @Nullable Object enter(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Argument(0) String tag,
                @Advice.Argument(value = 3, readOnly = false) boolean skipMemtable) {
            skipMemtable = TableHooks.snapshotSkipsMemtable(cfs, skipMemtable);
            return TableHooks.snapshotBegins(cfs, tag);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.Enter @Nullable Object begun,
                @Advice.Return @Nullable TableSnapshot taken) {
            TableHooks.snapshotEnds(begun, taken);
        }
    }

    static final class ActiveMemtables {
        private ActiveMemtables() {}

        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false) Iterable<Memtable> memtables) {
            memtables = TableHooks.activeMemtables(memtables);
        }
    }

    static final class AfterOpen {
        private AfterOpen() {}

        @Advice.OnMethodExit
        static void exit(@Advice.Return ColumnFamilyStore cfs) {
            SchemaHooks.afterOpen(cfs);
        }
    }

    static final class Import {
        private Import() {}

        @Advice.OnMethodEnter
        static @Nullable Object enter(@Advice.FieldValue("cfs") ColumnFamilyStore cfs) {
            return TableHooks.importBegins(cfs);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.FieldValue("cfs") ColumnFamilyStore cfs,
                @Advice.Enter @Nullable Object begun) {
            TableHooks.importEnds(cfs, begun);
        }
    }

    static final class FlushMemtable {
        private FlushMemtable() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(
                @Advice.Argument(0) ColumnFamilyStore cfs, @Advice.Argument(1) Memtable memtable) {
            return TableHooks.flushMemtable(cfs, memtable);
        }

        @Advice.OnMethodExit
        static void exit(
                @Advice.Enter boolean done,
                @Advice.Return(readOnly = false) Collection<SSTableReader> flushed) {
            if (done) flushed = Collections.emptyList();
        }
    }

    static final class StreamManager {
        private StreamManager() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Return(readOnly = false) TableStreamManager manager) {
            manager = TableHooks.streamManager(cfs, manager);
        }
    }

    static final class BeforeReceiving {
        private BeforeReceiving() {}

        @Advice.OnMethodEnter
        static void enter(
                @Advice.This StreamSession session,
                @Advice.Argument(1) Collection<StreamSummary> summaries) {
            TableHooks.beforeReceiving(session, summaries);
        }
    }

    static final class BeforeReceivingAnswer {
        private BeforeReceivingAnswer() {}

        @Advice.OnMethodEnter
        static void enter(
                @Advice.This StreamSession session, @Advice.Argument(0) PrepareSynAckMessage msg) {
            TableHooks.beforeReceiving(session, msg.summaries);
        }
    }

    static final class RepairManager {
        private RepairManager() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Return(readOnly = false) TableRepairManager manager) {
            manager = TableHooks.repairManager(cfs, manager);
        }
    }

    static final class EstimateKeys {
        private EstimateKeys() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs, @Advice.Return(readOnly = false) long keys) {
            keys = MetricHooks.estimateKeys(cfs, keys);
        }
    }

    static final class MeanCells {
        private MeanCells() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs, @Advice.Return(readOnly = false) int cells) {
            cells = MetricHooks.meanCellsPerPartition(cfs, cells);
        }
    }

    static final class EstimatedKeysForRange {
        private EstimatedKeysForRange() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Argument(0) Range<Token> range,
                @Advice.Return(readOnly = false) long keys) {
            keys = MetricHooks.estimatedKeysForRange(cfs, range, keys);
        }
    }

    static final class KeySamples {
        private KeySamples() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Argument(0) Range<Token> range,
                @Advice.Return(readOnly = false) Iterable<DecoratedKey> keys) {
            keys = MetricHooks.keySamples(cfs, range, keys);
        }
    }
}
