// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * A flush or a compaction that an engine is running.
 *
 * @param store of which table
 * @param kind what it is
 * @param doneBytes how much of it is done
 * @param totalBytes how much it is in all; an estimate, which {@code doneBytes} may pass
 */
public record BackgroundTask(StoreSpec store, Kind kind, long doneBytes, long totalBytes) {
    /** What an engine does in the background. */
    public enum Kind {
        /** Writes what is in memory to a file. */
        FLUSH,
        /** Merges files. */
        COMPACTION
    }
}
