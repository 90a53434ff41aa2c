// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.function.LongPredicate;
import org.apache.cassandra.db.partitions.PurgeFunction;
import org.apache.cassandra.schema.TableMetadata;

/**
 * Removes every deletion that may have been purged as of a moment, by the rules by which
 * Cassandra's compactions do that. Of what is read whole, as a store reads it, this is exact: what
 * the deletions hide is not among it any more.
 */
final class ExactPurge extends PurgeFunction {
    ExactPurge(TableMetadata table, ShadowSource.Moment moment) {
        super(
                moment.clock(),
                moment.gcBefore(),
                Long.MAX_VALUE,
                false,
                table.enforceStrictLiveness());
    }

    /** Nothing that they hide is elsewhere. */
    @Override
    protected LongPredicate getPurgeEvaluator() {
        return timestamp -> true;
    }
}
