// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.GuardrailsOptions;
import org.apache.cassandra.service.disk.usage.DiskUsageMonitor;
import org.jspecify.annotations.Nullable;

/**
 * Whether Cassandra's guardrail {@code data_disk_usage_percentage} lets the node take more data. At
 * its fail threshold the coordinators of all nodes refuse writes to this one, and a shadow must not
 * be why. Thread-safe.
 */
final class DiskUsage {
    /** Where there is no warn threshold. */
    private static final int BELOW_FAIL_THRESHOLD = 5;

    /** It adds up the sizes of all files. */
    private static final long VALID_NANOS = TimeUnit.SECONDS.toNanos(30);

    private static double usage;
    private static long measuredAt;
    private static boolean measured;

    private DiskUsage() {}

    /** Why so many bytes more are too much, or null. */
    static @Nullable String lackOfRoom(long bytes) {
        int limit = limit(DatabaseDescriptor.getGuardrailsConfig());
        if (limit < 0) return null;
        double percent = 100 * (usage() + (double) bytes / DiskUsageMonitor.totalDiskSpace());
        return percent < limit
                ? null
                : "with it %.0f %% of the disks would be in use, and the guardrail data_disk_usage_percentage lets shadows have them up to %d %%"
                        .formatted(percent, limit);
    }

    private static int limit(GuardrailsOptions guardrails) {
        int warn = guardrails.getDataDiskUsagePercentageWarnThreshold();
        int fail = guardrails.getDataDiskUsagePercentageFailThreshold();
        return warn >= 0 ? warn : fail >= 0 ? Math.max(0, fail - BELOW_FAIL_THRESHOLD) : -1;
    }

    private static synchronized double usage() {
        long now = System.nanoTime();
        if (!measured || now - measuredAt > VALID_NANOS) {
            usage = DiskUsageMonitor.instance.getDiskUsage();
            measuredAt = now;
            measured = true;
        }
        return usage;
    }
}
