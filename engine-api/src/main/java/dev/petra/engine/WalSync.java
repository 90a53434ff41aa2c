// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * When a write is acknowledged relative to its log record reaching the disk: {@code
 * commitlog_sync}.
 */
public enum WalSync {
    /**
     * Acknowledged once the operating system has it; synced at an interval. A crash of the process
     * loses nothing, a crash of the machine at most the interval.
     */
    PERIODIC,
    /** Acknowledged once synced; writers that wait together share a sync. */
    BATCH,
    /** Acknowledged once synced; syncs are at least a window apart. */
    GROUP
}
