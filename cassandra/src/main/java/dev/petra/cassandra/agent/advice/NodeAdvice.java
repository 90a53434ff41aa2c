// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent.advice;

import com.codahale.metrics.Gauge;
import dev.petra.cassandra.hooks.DataHooks;
import dev.petra.cassandra.hooks.MetricHooks;
import dev.petra.cassandra.hooks.NodeHooks;
import dev.petra.cassandra.hooks.NodetoolHooks;
import dev.petra.cassandra.hooks.SchemaHooks;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import net.bytebuddy.asm.Advice;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.StartupException;
import org.apache.cassandra.gms.ApplicationState;
import org.apache.cassandra.gms.VersionedValue;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.metrics.MetricNameFactory;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.utils.Pair;
import org.jspecify.annotations.Nullable;

/** Code that is copied into methods of the node: start-up, metrics, schema, reads and writes. */
final class NodeAdvice {
    private NodeAdvice() {}

    static final class BeforeStart {
        private BeforeStart() {}

        @Advice.OnMethodEnter
        static void enter() throws StartupException {
            NodeHooks.beforeStart();
        }
    }

    static final class IsCheckedAsSSTable {
        private IsCheckedAsSSTable() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.Argument(0) File file, @Advice.Return(readOnly = false) boolean checked) {
            checked = NodeHooks.isCheckedAsSSTable(file, checked);
        }
    }

    static final class AfterTablesOpened {
        private AfterTablesOpened() {}

        @Advice.OnMethodExit
        static void exit() {
            NodeHooks.afterTablesOpened();
        }
    }

    static final class BeforeGossip {
        private BeforeGossip() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(1) Map<ApplicationState, VersionedValue> states) {
            NodeHooks.beforeGossip(states);
        }
    }

    static final class AfterCompactionThroughput {
        private AfterCompactionThroughput() {}

        @Advice.OnMethodExit
        static void exit() {
            NodetoolHooks.afterCompactionThroughput();
        }
    }

    static final class Compactions {
        private Compactions() {}

        @Advice.OnMethodExit
        static void exit(@Advice.Return List<Map<String, String>> shown) {
            NodetoolHooks.compactions(shown);
        }
    }

    static final class StopCompactions {
        private StopCompactions() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) String type) {
            NodetoolHooks.stopCompactions(type);
        }
    }

    static final class TableGauge {
        private TableGauge() {}

        // By assigning to its parameter an advice changes an argument of Cassandra's method.
        @SuppressWarnings("UnusedVariable")
        @Advice.OnMethodEnter
        static void enter(
                @Advice.FieldValue("factory") MetricNameFactory factory,
                @Advice.Argument(0) String name,
                @Advice.Argument(value = 2, readOnly = false) Gauge<?> gauge) {
            gauge = MetricHooks.gauge(factory.createMetricName(name).getScope(), name, gauge);
        }
    }

    static final class ReplayPlan {
        private ReplayPlan() {}

        @Advice.OnMethodEnter
        static void enter() {
            NodeHooks.replayPlanBegins();
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit() {
            NodeHooks.replayPlanEnds();
        }
    }

    static final class SizeEstimates {
        private SizeEstimates() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.Argument(0) ColumnFamilyStore cfs,
                @Advice.Argument(1) Collection<Range<Token>> ranges,
                @Advice.Return(readOnly = false) Map<Range<Token>, Pair<Long, Long>> estimates) {
            estimates = MetricHooks.sizeEstimates(cfs, ranges, estimates);
        }
    }

    static final class RepairEstimate {
        private RepairEstimate() {}

        // By assigning to its parameters an advice changes arguments of Cassandra's method.
        @SuppressWarnings("UnusedVariable")
        @Advice.OnMethodEnter
        static void enter(
                @Advice.Argument(1) String keyspace,
                @Advice.Argument(2) String table,
                @Advice.Argument(3) Range<Token> range,
                @Advice.Argument(value = 4, readOnly = false) long partitions,
                @Advice.Argument(value = 5, readOnly = false) long sizeInRange,
                @Advice.Argument(value = 6, readOnly = false) long totalSize) {
            long[] ours = MetricHooks.repairEstimate(keyspace, table, range);
            partitions += ours[0];
            sizeInRange += ours[1];
            totalSize += ours[1];
        }
    }

    static final class BeforeSchemaChange {
        private BeforeSchemaChange() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) Keyspaces.KeyspacesDiff change) {
            SchemaHooks.beforeSchemaChange(change);
        }
    }

    static final class BeforeWrite {
        private BeforeWrite() {}

        @Advice.OnMethodEnter
        static void enter(
                @Advice.Argument(0) Mutation mutation, @Advice.Argument(1) boolean durable) {
            DataHooks.beforeWrite(mutation, durable);
        }
    }

    static final class Read {
        private Read() {}

        @Advice.OnMethodEnter
        static @Nullable Object enter(@Advice.This ReadCommand command) {
            return DataHooks.beforeRead(command);
        }

        // By assigning to its parameter an advice changes what Cassandra's method returns.
        @SuppressWarnings("UnusedVariable")
        @Advice.OnMethodExit
        static void exit(
                @Advice.This ReadCommand command,
                @Advice.Enter @Nullable Object sampled,
                @Advice.Return(readOnly = false) UnfilteredPartitionIterator read) {
            if (sampled != null) read = DataHooks.afterRead(sampled, command, read);
        }
    }

    static final class Answer {
        private Answer() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static @Nullable UnfilteredPartitionIterator enter(
                @Advice.This ReadCommand command,
                @Advice.Argument(0) ColumnFamilyStore cfs,
                @Advice.Argument(1) ReadExecutionController reading) {
            return DataHooks.answer(command, cfs, reading);
        }

        // By assigning to its parameter an advice changes what Cassandra's method returns.
        @SuppressWarnings("UnusedVariable")
        @Advice.OnMethodExit
        static void exit(
                @Advice.Enter @Nullable UnfilteredPartitionIterator answer,
                @Advice.Return(readOnly = false) UnfilteredPartitionIterator read) {
            if (answer != null) read = answer;
        }
    }

    static final class BeforeCommitLogMarker {
        private BeforeCommitLogMarker() {}

        @Advice.OnMethodExit
        static void exit() {
            NodeHooks.beforeCommitLogMarker();
        }
    }

    static final class AddToCommitLog {
        private AddToCommitLog() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static @Nullable CommitLogPosition enter(@Advice.Argument(0) Mutation mutation) {
            return DataHooks.logInstead(mutation);
        }

        // By assigning to its parameter an advice changes what Cassandra's method returns.
        @SuppressWarnings("UnusedVariable")
        @Advice.OnMethodExit
        static void exit(
                @Advice.Enter @Nullable CommitLogPosition done,
                @Advice.Return(readOnly = false) @Nullable CommitLogPosition position) {
            if (done != null) position = done.equals(CommitLogPosition.NONE) ? null : done;
        }
    }
}
