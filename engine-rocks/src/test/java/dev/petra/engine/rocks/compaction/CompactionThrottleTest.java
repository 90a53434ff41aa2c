// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.Tables;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CompactionThrottleTest {
    private static final long MIB = 1 << 20;

    @TempDir Path directory;

    @Test
    void theBudgetIsTheLimitAndWhatFlushesNeed() {
        // For its native library.
        Tables.engine().close();
        try (CompactionThrottle throttle = new CompactionThrottle()) {
            long unlimited = throttle.limiter.getBytesPerSecond();
            throttle.written(100 * MIB);
            assertThat(throttle.limiter.getBytesPerSecond()).isEqualTo(unlimited);
            throttle.limit(64 * MIB);
            assertThat(throttle.limiter.getBytesPerSecond()).isEqualTo(264 * MIB);
            for (int second = 0; second < 9; second++) throttle.written(0);
            assertThat(throttle.limiter.getBytesPerSecond()).isEqualTo(264 * MIB);
            throttle.written(MIB);
            assertThat(throttle.limiter.getBytesPerSecond()).isEqualTo(66 * MIB);
            throttle.limit(Long.MAX_VALUE);
            assertThat(throttle.limiter.getBytesPerSecond()).isEqualTo(unlimited);
        }
    }

    /**
     * RocksDB keeps what is left of a refill when the rate falls: 110 GB once, for which a limit
     * was void after none was set for a moment.
     */
    @Test
    void whatALimitFindsLeftOfNoLimitIsWithinASecondOfTheDefault() {
        // For its native library.
        Tables.engine().close();
        try (CompactionThrottle throttle = new CompactionThrottle()) {
            // Of a refill, by the limiter's own account.
            assertThat(throttle.limiter.getSingleBurstBytes()).isLessThan(64 * MIB);
            throttle.limit(64 * MIB);
            for (int second = 0; second < 10; second++) throttle.written(Long.MAX_VALUE / 4);
            assertThat(throttle.limiter.getSingleBurstBytes()).isLessThan(64 * MIB);
        }
    }

    /**
     * A low limit on compaction once made flushes wait, and with them writers, until they failed.
     */
    @Test
    void writersDoNotWaitForTheLimitOfCompaction() {
        TableMetadata table = Tables.table("CREATE TABLE t (k int PRIMARY KEY, v blob)");
        try (StorageEngine engine =
                Tables.engine(
                        Map.of(
                                "memory", "64MiB",
                                "write_buffers", "16MiB",
                                "write_stall_timeout", "30s"))) {
            TableStore store = Tables.open(engine, directory.resolve("1"), table);
            // By which a flush alone would take longer than a write waits.
            engine.compactionThroughput(100_000);
            byte[] value = new byte[15 << 10];
            Random random = new Random(1);
            for (int i = 0; i < 8_000; i++) {
                random.nextBytes(value);
                PartitionUpdate.SimpleBuilder update = Tables.update(table, i);
                update.row().add("v", ByteBuffer.wrap(value.clone()));
                store.write(update.build());
            }
        }
    }
}
