// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import java.nio.file.Path;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.FBUtilities;

/**
 * Which store: one table generation.
 *
 * @param directory where it lives; belongs to the store alone
 * @param columnFamily the column family's name: hidden index tables share their base's table id, so
 *     the name is part of the identity
 * @param generation counts the table's stores, from 1; TRUNCATE starts a new one
 * @param metadata the table; read again at each call, so that ALTER is seen
 * @param mayPurge whether deletions may be removed now, asked every second or so and by {@link
 *     TableStore#stopPurging()}: not while data that they delete may lie outside of the store
 * @param gcBefore before which local deletion time, in seconds since 1970, deletions may be removed
 *     now, asked as often: now less {@code gc_grace_seconds}, or earlier while deletions are still
 *     needed. The store does not look at {@code gc_grace_seconds} itself
 * @param mayCompact whether the store may merge its files by itself now, asked every second or so;
 *     it does what it is asked to all the same
 * @param isDurable whether what was written must outlive a crash as {@link WalSync} says; otherwise
 *     only what {@link TableStore#syncLog()} returned for does, and outlives {@link
 *     TableStore#close()}, so that it needs no log, no write waits for its disk, and {@link
 *     StorageEngine#syncAcknowledged} leaves it out. After its disk was full it may take no writes
 *     any more, and be read as before
 */
public record StoreSpec(
        Path directory,
        String columnFamily,
        long generation,
        TableMetadataRef metadata,
        BooleanSupplier mayPurge,
        LongSupplier gcBefore,
        BooleanSupplier mayCompact,
        boolean isDurable) {
    /** One that removes deletions as soon as {@code gc_grace_seconds} has passed. */
    public StoreSpec(
            Path directory,
            String columnFamily,
            long generation,
            TableMetadataRef metadata,
            BooleanSupplier mayPurge,
            BooleanSupplier mayCompact) {
        this(
                directory,
                columnFamily,
                generation,
                metadata,
                mayPurge,
                () -> FBUtilities.nowInSeconds() - metadata.get().params.gcGraceSeconds,
                mayCompact,
                true);
    }

    /** One that compacts by itself as the table's options say. */
    public StoreSpec(
            Path directory,
            String columnFamily,
            long generation,
            TableMetadataRef metadata,
            BooleanSupplier mayPurge) {
        this(
                directory,
                columnFamily,
                generation,
                metadata,
                mayPurge,
                () -> metadata.get().params.compaction.isEnabled());
    }

    /** A store that never removes deletions. */
    public StoreSpec(
            Path directory, String columnFamily, long generation, TableMetadataRef metadata) {
        this(directory, columnFamily, generation, metadata, () -> false);
    }

    /** The same store, of which nobody relies on what a crash takes. */
    public StoreSpec withoutDurability() {
        return new StoreSpec(
                directory,
                columnFamily,
                generation,
                metadata,
                mayPurge,
                gcBefore,
                mayCompact,
                false);
    }

    /** Checks the arguments. */
    public StoreSpec {
        Objects.requireNonNull(directory, "directory");
        Objects.requireNonNull(columnFamily, "columnFamily");
        Objects.requireNonNull(metadata, "metadata");
        Objects.requireNonNull(mayPurge, "mayPurge");
        Objects.requireNonNull(gcBefore, "gcBefore");
        Objects.requireNonNull(mayCompact, "mayCompact");
        if (generation < 1)
            throw new IllegalArgumentException("generation must be at least 1, not " + generation);
    }

    /** The table as keyspace.columnfamily, for messages. */
    public String displayName() {
        return metadata.keyspace + "." + columnFamily;
    }
}
