// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.DataStorageSpec;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.GuardrailsOptions;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.io.FSReadError;
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

    /**
     * The disks as {@link DiskUsageMonitor} sees them.
     *
     * @param used by files, and by memtables when they will be flushed
     * @param total that Cassandra may use: what its files take and what is free, or {@code
     *     data_disk_usage_max_disk_size} if that is less
     */
    record Disks(BigInteger used, BigInteger total) {
        static Disks of(
                BigInteger files, BigInteger memtables, BigInteger free, @Nullable Long max) {
            BigInteger total = files.add(free);
            return new Disks(
                    files.add(memtables), max == null ? total : total.min(BigInteger.valueOf(max)));
        }

        /** How much would be in use with so many bytes more. */
        double percentWith(long bytes) {
            return 100 * used.add(BigInteger.valueOf(bytes)).doubleValue() / total.doubleValue();
        }
    }

    private static @Nullable Disks disks;
    private static long measuredAt;

    private DiskUsage() {}

    /** Why so many bytes more are too much, or null. */
    static @Nullable String lackOfRoom(long bytes) {
        GuardrailsOptions guardrails = DatabaseDescriptor.getGuardrailsConfig();
        int limit = limit(guardrails);
        if (limit < 0) return null;
        double percent = disks(guardrails).percentWith(bytes);
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

    private static synchronized Disks disks(GuardrailsOptions guardrails) {
        long now = System.nanoTime();
        Disks known = disks;
        if (known != null && now - measuredAt <= VALID_NANOS) return known;
        Disks measured = measure(guardrails);
        disks = measured;
        measuredAt = now;
        return measured;
    }

    private static Disks measure(GuardrailsOptions guardrails) {
        BigInteger files = BigInteger.ZERO;
        Set<FileStore> stores = new HashSet<>();
        for (Directories.DataDirectory each : Directories.dataDirectories.getAllDirectories()) {
            files = files.add(BigInteger.valueOf(each.getRawSize()));
            try {
                stores.add(Files.getFileStore(each.location.toPath()));
            } catch (IOException e) {
                throw new FSReadError(e, each.location);
            }
        }
        BigInteger free = BigInteger.ZERO;
        for (FileStore each : stores)
            free = free.add(BigInteger.valueOf(DiskUsageMonitor.usableSpace(each)));
        DataStorageSpec.LongBytesBound max = guardrails.getDataDiskUsageMaxDiskSize();
        return Disks.of(
                files,
                BigInteger.valueOf(DiskUsageMonitor.instance.getAllMemtableSize()),
                free,
                max == null ? null : max.toBytes());
    }
}
