// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.TestTables;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

class TimedTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");
    private static final DecoratedKey KEY = TABLE.partitioner.decorateKey(ByteBufferUtil.bytes(1));

    /** One that reads when it is asked, as those of a scan of Cassandra's. */
    private static final class Lazy implements WrappingUnfilteredRowIterator {
        private final UnfilteredRowIterator none = EmptyIterators.unfilteredRow(TABLE, KEY, false);

        private static void read() {
            Uninterruptibles.sleepUninterruptibly(10, TimeUnit.MILLISECONDS);
        }

        @Override
        public UnfilteredRowIterator wrapped() {
            return none;
        }

        @Override
        public DeletionTime partitionLevelDeletion() {
            read();
            return none.partitionLevelDeletion();
        }

        @Override
        public Row staticRow() {
            read();
            return none.staticRow();
        }
    }

    @Test
    void whatIsReadBeforeTheFirstRowCounts() {
        try (Timed timed = Timed.open(Lazy::new, false, () -> true, any -> {})) {
            long before = timed.nanos();
            assertThat(timed.partitionLevelDeletion().isLive()).isTrue();
            long between = timed.nanos();
            assertThat(between - before).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(5));
            assertThat(timed.staticRow().isEmpty()).isTrue();
            assertThat(timed.nanos() - between).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(5));
            assertThat(timed.hasNext()).isFalse();
        }
    }
}
