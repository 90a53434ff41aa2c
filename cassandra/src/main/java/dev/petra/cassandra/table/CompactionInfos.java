// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.TimeUUID;

/**
 * Makes what Cassandra shows of work in the background. Since 5.0.9 that has one number more, the
 * compressed size of the whole.
 */
public final class CompactionInfos {
    private static final String NAME = "withoutSSTables";
    private static final MethodType SINCE_5_0_9 =
            MethodType.methodType(
                    CompactionInfo.class,
                    TableMetadata.class,
                    OperationType.class,
                    long.class,
                    long.class,
                    long.class,
                    CompactionInfo.Unit.class,
                    TimeUUID.class);

    private static final MethodHandle MAKE = find();

    private CompactionInfos() {}

    /** Makes it, of a work that has so much to do. */
    public static CompactionInfo withoutSSTables(
            TableMetadata table,
            OperationType type,
            long done,
            long total,
            CompactionInfo.Unit unit,
            TimeUUID id) {
        try {
            return (CompactionInfo) MAKE.invokeExact(table, type, done, total, total, unit, id);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("it declares no exception", e);
        }
    }

    private static MethodHandle find() {
        MethodHandles.Lookup lookup = MethodHandles.publicLookup();
        try {
            return lookup.findStatic(CompactionInfo.class, NAME, SINCE_5_0_9);
        } catch (NoSuchMethodException e) {
            return before509(lookup);
        } catch (IllegalAccessException e) {
            throw new LinkageError(e.getMessage(), e);
        }
    }

    private static MethodHandle before509(MethodHandles.Lookup lookup) {
        try {
            return MethodHandles.dropArguments(
                    lookup.findStatic(
                            CompactionInfo.class, NAME, SINCE_5_0_9.dropParameterTypes(4, 5)),
                    4,
                    long.class);
        } catch (NoSuchMethodException | IllegalAccessException e) {
            throw new LinkageError(e.getMessage(), e);
        }
    }
}
