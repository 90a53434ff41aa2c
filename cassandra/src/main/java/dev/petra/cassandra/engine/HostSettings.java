// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.WalSync;
import java.time.Duration;
import org.apache.cassandra.config.DatabaseDescriptor;

/**
 * The settings of {@code cassandra.yaml} for Cassandra's own storage that apply to every engine.
 */
final class HostSettings {
    private HostSettings() {}

    /** Applies all of them to a new engine. */
    static void applyTo(StorageEngine engine) {
        switch (DatabaseDescriptor.getCommitLogSync()) {
            case periodic ->
                    engine.walSync(
                            WalSync.PERIODIC,
                            Duration.ofMillis(DatabaseDescriptor.getCommitLogSyncPeriod()));
            case batch -> engine.walSync(WalSync.BATCH, Duration.ZERO);
            case group ->
                    engine.walSync(
                            WalSync.GROUP,
                            Duration.ofMillis(DatabaseDescriptor.getCommitLogSyncGroupWindow()));
        }
        engine.compactionThroughput(compactionThroughput());
    }

    /** {@code compaction_throughput} in bytes per second, where the yaml's 0 means no limit. */
    static long compactionThroughput() {
        long bytes = (long) DatabaseDescriptor.getCompactionThroughputBytesPerSec();
        return bytes == 0 ? Long.MAX_VALUE : bytes;
    }
}
