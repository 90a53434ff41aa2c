// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * How far the purge of deletions and expired values older than {@code gc_grace_seconds} is, in one
 * store.
 *
 * @param phase what is done now
 * @param done the part of the phase that is done, 0 to 1; 0 where it is not known
 * @param waitsSinceSeconds when the last removal ended or, before the first, when there was first
 *     something to remove, in seconds since 1970; 0 if neither
 * @param removed deletions and expired values removed since the store was opened
 */
public record PurgeProgress(Phase phase, double done, long waitsSinceSeconds, long removed) {
    /** What is done in turn. */
    public enum Phase {
        /** Nothing is under way. */
        IDLE,

        /** Deletions that cover several rows are pushed down to those rows. */
        COVERING,

        /** What is written in several places is merged into one. */
        SETTLING,

        /** Tombstones are removed. */
        PURGING,

        /** Large cells that no row refers to any more are removed. */
        SWEEPING
    }

    /** The progress of a store that removes nothing by itself. */
    public static final PurgeProgress NONE = new PurgeProgress(Phase.IDLE, 0, 0, 0);
}
