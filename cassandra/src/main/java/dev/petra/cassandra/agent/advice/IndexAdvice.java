// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent.advice;

import dev.petra.cassandra.hooks.IndexHooks;
import java.util.Collection;
import java.util.Set;
import java.util.concurrent.Callable;
import net.bytebuddy.asm.Advice;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.index.sai.memory.MemtableIndex;

/** Code that is copied into methods of Storage-Attached Indexes. */
// By assigning to its parameter an advice changes a value of the method that it is copied into.
@SuppressWarnings("UnusedVariable")
final class IndexAdvice {
    private IndexAdvice() {}

    static final class MemtableIndexes {
        private MemtableIndexes() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.FieldValue("index") StorageAttachedIndex index,
                @Advice.Return(readOnly = false) Collection<MemtableIndex> indexes) {
            indexes = IndexHooks.memtableIndexes(index, indexes);
        }
    }

    static final class InitializationTask {
        private InitializationTask() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This StorageAttachedIndex index,
                @Advice.Return(readOnly = false) Callable<?> task) {
            task = IndexHooks.initializationTask(index, task);
        }
    }

    static final class PreJoinTask {
        private PreJoinTask() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This StorageAttachedIndex index,
                @Advice.Return(readOnly = false) Callable<?> task) {
            task = IndexHooks.preJoinTask(index, task);
        }
    }

    static final class BuildTask {
        private BuildTask() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.Argument(0) ColumnFamilyStore cfs,
                @Advice.Argument(1) Set<Index> indexes,
                @Advice.Argument(3) boolean isFullRebuild,
                @Advice.Return(readOnly = false) SecondaryIndexBuilder builder) {
            builder = IndexHooks.buildTask(cfs, indexes, isFullRebuild, builder);
        }
    }
}
