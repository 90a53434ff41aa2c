// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import dev.petra.cassandra.disk.SnapshotNames;
import dev.petra.cassandra.disk.StoreLocation;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.KeyReader;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.snapshot.SnapshotManifest;
import org.jspecify.annotations.Nullable;

/**
 * The SSTables of a snapshot that Cassandra has taken of a table. They are read where they are, and
 * are part of no table.
 */
public final class SnapshotFiles {
    private static final int KEYS_BETWEEN_CHECKS = 4_096;

    private final List<Descriptor> sstables;
    private final @Nullable Instant takenAt;

    private SnapshotFiles(List<Descriptor> sstables, @Nullable Instant takenAt) {
        this.sstables = sstables;
        this.takenAt = takenAt;
    }

    /**
     * Finds them. Reads no SSTable.
     *
     * @param tableDirectories one per data directory of the node
     * @throws IllegalArgumentException if there is no such snapshot, or not all of it can be read
     *     as SSTables, with the reason
     * @throws UncheckedIOException if the directories cannot be read
     */
    public static SnapshotFiles find(TableMetadata table, List<Path> tableDirectories, String tag) {
        SnapshotNames.check(tag);
        List<Descriptor> sstables = new ArrayList<>();
        Set<String> found = new HashSet<>();
        Set<String> wanted = new HashSet<>();
        Instant takenAt = null;
        boolean isThere = false;
        for (Path each : tableDirectories) {
            Path directory = each.resolve(Directories.SNAPSHOT_SUBDIR).resolve(tag);
            if (!Files.isDirectory(directory)) continue;
            isThere = true;
            if (Files.exists(directory.resolve(StoreLocation.NAME)))
                throw new IllegalArgumentException(
                        "snapshot '"
                                + tag
                                + "' was taken when the table was in the engine, or on its way: "
                                + directory.resolve(StoreLocation.NAME)
                                + " is a store. Only a snapshot of SSTables alone can be compared");
            try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*-Data.db")) {
                for (Path file : files) {
                    sstables.add(
                            Descriptor.fromFileWithComponent(
                                            new File(file), table.keyspace, table.name)
                                    .left);
                    found.add(String.valueOf(file.getFileName()));
                }
                Path written = directory.resolve("manifest.json");
                if (!Files.exists(written)) continue;
                SnapshotManifest manifest =
                        SnapshotManifest.deserializeFromJsonFile(new File(written));
                if (manifest.files != null) wanted.addAll(manifest.files);
                if (takenAt == null) takenAt = manifest.createdAt;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        if (!isThere)
            throw new IllegalArgumentException(
                    "there is no snapshot '"
                            + tag
                            + "' of table "
                            + table
                            + " in "
                            + tableDirectories
                            + "; a table that was dropped and created anew has a directory of its"
                            + " own");
        // Those of a hidden index table are in a folder of its own.
        wanted.removeIf(name -> name.startsWith("."));
        wanted.removeAll(found);
        if (!wanted.isEmpty())
            throw new IllegalArgumentException(
                    "snapshot '"
                            + tag
                            + "' lacks SSTables that its manifest.json names: "
                            + String.join(", ", wanted));
        return new SnapshotFiles(List.copyOf(sstables), takenAt);
    }

    /** When it was taken: it has all that was flushed until then. Null if it does not say. */
    public @Nullable Instant takenAt() {
        return takenAt;
    }

    /**
     * Opens them. They can be read to their end also if the snapshot is deleted meanwhile.
     *
     * @param table by which they are read, also if it is altered meanwhile
     * @param checkpoint called now and then; what it throws ends this
     * @return the caller {@linkplain #release releases} them
     * @throws IOException if one cannot be opened
     * @throws RuntimeException the same, with what Cassandra says of it
     * @throws IllegalArgumentException if one is of a kind that cannot be compared, with the reason
     */
    public List<SSTableReader> open(TableMetadata table, Runnable checkpoint) throws IOException {
        // Of each chunk the checksum is looked at.
        TableMetadataRef reference =
                TableMetadataRef.forOfflineTools(table.unbuild().crcCheckChance(1).build());
        List<SSTableReader> open = new ArrayList<>();
        boolean isWhole = false;
        try {
            for (Descriptor each : sstables) {
                checkpoint.run();
                SSTableReader sstable = DetachedSSTables.open(each, reference);
                open.add(sstable);
                checkIndex(sstable, checkpoint);
                if (sstable.getSSTableMetadata().hasLegacyCounterShards)
                    throw new IllegalArgumentException(
                            each
                                    + " has counts from before Cassandra 2.1 (local or remote"
                                    + " shards), which cannot be compared");
            }
            isWhole = true;
            return open;
        } finally {
            if (!isWhole) release(open);
        }
    }

    /** Closes what {@link #open} has opened. */
    public static void release(List<SSTableReader> sstables) {
        for (SSTableReader each : sstables) each.selfRef().release();
    }

    /**
     * Looks whether an SSTable's index leads to all of its partitions. It has no checksum, and what
     * it does not lead to would be overlooked; the statistics, which have one, have the number of
     * partitions.
     */
    private static void checkIndex(SSTableReader sstable, Runnable checkpoint) throws IOException {
        long wanted = sstable.getEstimatedPartitionSize().count();
        long found = 0;
        DecoratedKey last = null;
        try (KeyReader keys = sstable.keyReader()) {
            for (boolean isThere = !keys.isExhausted(); isThere; isThere = keys.advance()) {
                if (found % KEYS_BETWEEN_CHECKS == 0) checkpoint.run();
                DecoratedKey key = sstable.decorateKey(keys.key());
                if (last != null && key.compareTo(last) <= 0)
                    throw new IOException(
                            "the index of " + sstable + " is damaged: its keys are not in order");
                last = key;
                found++;
            }
        }
        if (found != wanted)
            throw new IOException(
                    "the index of "
                            + sstable
                            + " is damaged: it has "
                            + found
                            + " partitions, and by its statistics there are "
                            + wanted);
    }
}
