// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent.advice;

import dev.petra.cassandra.hooks.NodetoolHooks;
import java.util.Collection;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import net.bytebuddy.asm.Advice;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.CompactionManager.AllSSTableOpStatus;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.IVerifier;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.jspecify.annotations.Nullable;

/** Code that is copied into the methods behind {@code nodetool}. */
// By assigning to its parameter an advice changes a value of the method that it is copied into.
@SuppressWarnings("UnusedVariable")
final class NodetoolAdvice {
    private NodetoolAdvice() {}

    static final class Compact {
        private Compact() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.This ColumnFamilyStore cfs) {
            return NodetoolHooks.compact(cfs);
        }
    }

    static final class CompactRanges {
        private CompactRanges() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Argument(0) Collection<Range<Token>> ranges) {
            return NodetoolHooks.compact(cfs, ranges);
        }
    }

    static final class CompactRangesAsText {
        private CompactRangesAsText() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(
                @Advice.This ColumnFamilyStore cfs, @Advice.Argument(0) String[] ranges) {
            return NodetoolHooks.compact(cfs, ranges);
        }
    }

    static final class Verify {
        private Verify() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static @Nullable AllSSTableOpStatus enter(
                @Advice.This ColumnFamilyStore cfs, @Advice.Argument(0) IVerifier.Options options) {
            return NodetoolHooks.verify(cfs, options);
        }

        @Advice.OnMethodExit
        static void exit(
                @Advice.Enter @Nullable AllSSTableOpStatus done,
                @Advice.Return(readOnly = false) @Nullable AllSSTableOpStatus status) {
            if (done != null) status = done;
        }
    }

    static final class Cleanup {
        private Cleanup() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static @Nullable AllSSTableOpStatus enter(@Advice.This ColumnFamilyStore cfs) {
            return NodetoolHooks.cleanup(cfs);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Enter @Nullable AllSSTableOpStatus done,
                @Advice.Return(readOnly = false) @Nullable AllSSTableOpStatus status) {
            if (done == null) NodetoolHooks.afterSSTables(cfs);
            else status = done;
        }
    }

    static final class CleanupOfOne {
        private CleanupOfOne() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) ColumnFamilyStore cfs) {
            NodetoolHooks.cleanupOfOne(cfs);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.Argument(0) ColumnFamilyStore cfs) {
            NodetoolHooks.afterSSTables(cfs);
        }
    }

    static final class Scrub {
        private Scrub() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.This ColumnFamilyStore cfs) {
            NodetoolHooks.scrub(cfs);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.This ColumnFamilyStore cfs) {
            NodetoolHooks.afterSSTables(cfs);
        }
    }

    static final class ForceCompact {
        private ForceCompact() {}

        @Advice.OnMethodEnter
        static Set<SSTableReader> enter(
                @Advice.This ColumnFamilyStore cfs, @Advice.Argument(0) String[] keys) {
            return NodetoolHooks.forceCompact(cfs, keys);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.This ColumnFamilyStore cfs, @Advice.Enter Set<SSTableReader> before) {
            NodetoolHooks.afterForceCompact(cfs, before);
        }
    }

    static final class Refuse {
        private Refuse() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.This ColumnFamilyStore cfs, @Advice.Origin("#m") String method) {
            NodetoolHooks.refuse(cfs, method);
        }
    }

    static final class GarbageCollect {
        private GarbageCollect() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static @Nullable AllSSTableOpStatus enter(@Advice.This ColumnFamilyStore cfs) {
            return NodetoolHooks.garbageCollect(cfs);
        }

        @Advice.OnMethodExit
        static void exit(
                @Advice.Enter @Nullable AllSSTableOpStatus done,
                @Advice.Return(readOnly = false) @Nullable AllSSTableOpStatus status) {
            if (done != null) status = done;
        }
    }

    static final class Rewrite {
        private Rewrite() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static @Nullable AllSSTableOpStatus enter(
                @Advice.This ColumnFamilyStore cfs,
                @Advice.Argument(0) boolean onlyOldFormat,
                @Advice.Argument(1) long newest)
                throws ExecutionException {
            return NodetoolHooks.rewrite(cfs, onlyOldFormat, newest);
        }

        @Advice.OnMethodExit
        static void exit(
                @Advice.Enter @Nullable AllSSTableOpStatus done,
                @Advice.Return(readOnly = false) @Nullable AllSSTableOpStatus status) {
            if (done != null) status = done;
        }
    }

    static final class NeverPurge {
        private NeverPurge() {}

        @Advice.OnMethodEnter
        static void enter(
                @Advice.This ColumnFamilyStore cfs, @Advice.Argument(0) boolean neverPurge) {
            if (neverPurge) NodetoolHooks.refuse(cfs, "setNeverPurgeTombstones");
        }
    }
}
