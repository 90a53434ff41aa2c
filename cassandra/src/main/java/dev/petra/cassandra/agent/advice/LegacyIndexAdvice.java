// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent.advice;

import dev.petra.cassandra.hooks.IndexHooks;
import dev.petra.cassandra.table.EngineMemtable;
import java.util.concurrent.Callable;
import net.bytebuddy.asm.Advice;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.jspecify.annotations.Nullable;

/** Code that is copied into methods of Cassandra's legacy indexes. */
// By assigning to its parameter an advice changes a value of the method that it is copied into.
@SuppressWarnings("UnusedVariable")
final class LegacyIndexAdvice {
    private LegacyIndexAdvice() {}

    static final class QueryIndex {
        private QueryIndex() {}

        @Advice.OnMethodEnter
        static @Nullable EngineMemtable enter(@Advice.FieldValue("index") CassandraIndex index) {
            return IndexHooks.searched(index);
        }

        @Advice.OnMethodExit
        static void exit(
                @Advice.FieldValue("index") CassandraIndex index,
                @Advice.Enter @Nullable EngineMemtable memtable,
                @Advice.Argument(0) DecoratedKey value,
                @Advice.Argument(1) ReadCommand command,
                @Advice.Return(readOnly = false) UnfilteredRowIterator hits) {
            hits = IndexHooks.hits(index, memtable, value, command, hits);
        }
    }

    static final class DeleteStaleEntry {
        private DeleteStaleEntry() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.This CassandraIndex index) {
            return IndexHooks.keepsStaleEntry(index);
        }
    }

    static final class FilterStaleEntries {
        private FilterStaleEntries() {}

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.FieldValue("index") CassandraIndex index,
                @Advice.Argument(0) UnfilteredRowIterator rows,
                @Advice.Return @Nullable UnfilteredRowIterator filtered) {
            IndexHooks.afterStaleEntries(index, rows, filtered);
        }
    }

    static final class InitializationTask {
        private InitializationTask() {}

        @Advice.OnMethodExit
        static void exit(
                @Advice.This CassandraIndex index,
                @Advice.Return(readOnly = false) @Nullable Callable<?> task) {
            task = IndexHooks.initializationTask(index, task);
        }
    }
}
