// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How many reads wait to be compared, and for how long. */
@Timeout(60)
class ComparedReadsTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");
    private static final SinglePartitionReadCommand READ =
            SinglePartitionReadCommand.create(
                    TABLE,
                    1,
                    TABLE.partitioner.decorateKey(ByteBufferUtil.bytes(1)),
                    ColumnFilter.all(TABLE),
                    new ClusteringIndexSliceFilter(Slices.ALL, false));

    private final ComparedReads reads = new ComparedReads();
    private Shadow shadow;
    private ShadowCopy copy;

    @BeforeEach
    void begin() {
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        HollowShadow.begin(cfs, TABLE);
        shadow = HollowShadow.of(cfs, false);
        copy = HollowShadow.copy(cfs, 1, 1, () -> null);
        HollowShadow.has(shadow, copy);
    }

    private long passedOver() {
        return shadow.statistics().passedOver.sum();
    }

    @Test
    void soManyWaitAndTheOthersArePassedOver() {
        for (int i = 0; i < ComparedReads.MAX_WAITING; i++) reads.add(shadow, READ);
        assertThat(passedOver()).isZero();
        for (int i = 0; i < 4; i++) reads.add(shadow, READ);
        assertThat(passedOver()).isEqualTo(4);
    }

    @Test
    void noneWaitsForWhatHasNotCaughtUp() {
        copy.end("for a test");
        reads.add(shadow, READ);
        assertThat(passedOver()).isOne();
    }

    /** No attempt could compare it, and others wait behind it. */
    @Test
    void whatIsTakenIntoItsTableIsPassedOver() throws InterruptedException {
        reads.start();
        shadow.promote();
        reads.add(shadow, READ);
        while (passedOver() == 0) TimeUnit.MILLISECONDS.sleep(1);
        assertThat(shadow.statistics().compared.sum()).isZero();
    }

    /** A long scan, or a node that is overloaded, must not do this work besides. */
    @Test
    void noneWaitsThatTheNodeHasNotAnswered() {
        copy.end("for a test");
        UnfilteredPartitionIterator answer =
                reads.addWhenClosed(shadow, READ, EmptyIterators.unfilteredPartition(TABLE));
        assertThat(answer.hasNext()).isFalse();
        assertThat(passedOver()).isZero();
        answer.close();
        assertThat(passedOver()).isOne();
        answer.close();
        assertThat(passedOver()).isOne();
    }

    /** So that the client has its answer first. What it finds here is that the copy is over. */
    @Test
    void noneIsComparedBeforeItsTime() throws InterruptedException {
        reads.start();
        long began = System.nanoTime();
        reads.add(shadow, READ);
        copy.end("for a test");
        while (passedOver() == 0) TimeUnit.MILLISECONDS.sleep(1);
        assertThat(System.nanoTime() - began)
                .isGreaterThanOrEqualTo(TimeUnit.MILLISECONDS.toNanos(100));
    }
}
