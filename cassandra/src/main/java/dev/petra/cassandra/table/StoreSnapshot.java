// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.MigrationMark;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Supplier;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.service.snapshot.TableSnapshot;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The snapshot of one table under one tag: a copy of a generation, or the generation itself where
 * the table was dropped and no copy could be made.
 */
final class StoreSnapshot {
    private static final Logger logger = LoggerFactory.getLogger(StoreSnapshot.class);

    private static final List<String> CASSANDRA_FILES = List.of("manifest.json", "schema.cql");

    private final String displayName;
    private final StoreLocation place;
    private final String tag;
    private final Disk disk;

    /**
     * @param displayName the table and its keyspace, for messages
     * @param place where the table's stores are
     */
    StoreSnapshot(String displayName, StoreLocation place, String tag) {
        this(displayName, place, tag, Disk.REAL);
    }

    StoreSnapshot(String displayName, StoreLocation place, String tag, Disk disk) {
        this.displayName = displayName;
        this.place = place;
        this.tag = tag;
        this.disk = disk;
    }

    /**
     * Copies a generation. Blocks on disk. After a failure nothing of it is left.
     *
     * @param migration asked after the copy was made: the migration under way, null for none
     * @throws FSWriteError if the disk failed, naming the snapshot
     * @throws IllegalStateException if the store did, naming the snapshot
     */
    void take(TableStore store, long generation, Supplier<@Nullable MigrationMark> migration) {
        StoreLocation target = place.snapshot(tag);
        String failed = "Snapshot '" + tag + "' of " + displayName + " failed: ";
        if (target.live().isPresent())
            throw new IllegalStateException(failed + target + " is already there.");
        // The causes are logged but not passed on: nodetool, to which these exceptions go, has none
        // of the classes that may be among them.
        try {
            target.deleteHalf();
            createDurably(target.root());
            store.checkpoint(target.generation(generation));
            MigrationMark mark = migration.get();
            if (mark != null) target.markMigration(new MigrationMark(mark.configuration(), null));
            target.markCreated(generation);
            // Last: a snapshot is whole once it says which generation it holds.
            target.makeLive(generation);
        } catch (IOException | FSError e) {
            logger.error(failed, e);
            removeHalf(target);
            throw new FSWriteError(
                    new IOException(failed + e.getMessage()), target.root().toString());
        } catch (RuntimeException e) {
            logger.error(failed, e);
            removeHalf(target);
            throw new IllegalStateException(failed + e.getMessage());
        }
    }

    /** The folders from the table's on: a power loss may else leave no name of the snapshot. */
    private void createDurably(Path directory) throws IOException {
        Disk.makeDirectories(disk, place.parent(), directory);
    }

    /** Whether there is a whole copy. */
    boolean isTaken() {
        return place.snapshot(tag).live().isPresent();
    }

    /**
     * Has Cassandra's snapshot include the directory in which the copy is. Cassandra puts its own
     * files into any of the table's directories, and deletes an expired snapshot in those that it
     * then used. They are copied beside the copy, so that it expires after a restart as well, and
     * can be loaded into another cluster. Does not throw: a table may be about to be dropped.
     */
    void complete(TableSnapshot taken) {
        StoreLocation copy = place.snapshot(tag);
        if (!Files.isDirectory(copy.root())) return;
        List<Path> used = taken.getDirectories().stream().map(File::toPath).toList();
        taken.getDirectories().add(new File(copy.parent()).toAbsolute());
        for (String name : CASSANDRA_FILES) {
            Path file = copy.parent().resolve(name);
            try {
                for (Path directory : used)
                    if (!Files.exists(file) && Files.exists(directory.resolve(name)))
                        Files.copy(directory.resolve(name), file);
            } catch (IOException e) {
                logger.error(
                        "{} could not be written beside the copy of {} in snapshot '{}', which is"
                                + " whole. Copy it there from {}, the same snapshot on another"
                                + " disk",
                        file,
                        displayName,
                        tag,
                        used,
                        e);
            }
        }
    }

    private static void removeHalf(StoreLocation snapshot) {
        try {
            snapshot.deleteHalf();
            // Cassandra lists whatever folder there is as a snapshot.
            Files.deleteIfExists(snapshot.parent());
        } catch (DirectoryNotEmptyException e) {
            logger.debug("{} holds more of the snapshot than ours", snapshot);
        } catch (IOException | FSError e) {
            logger.error(
                    "The snapshot in {} is incomplete and could not be removed: remove it by"
                            + " 'nodetool clearsnapshot', and restore nothing from it",
                    snapshot,
                    e);
        }
    }

    /**
     * Moves the data of a dropped table, of which no copy could be made, to where the snapshot
     * would be. Does not throw.
     *
     * @param store closed first, which waits for its readers
     * @return false if it is still in the table's directory, and marked as to be kept
     */
    boolean moveThere(Generation generation, @Nullable TableStore store) {
        try {
            if (store != null) store.close();
            // Without a number it is not known which of what is there is the data: all of it stays.
            if (generation.number() == 0) {
                keepInPlace("it is not known which generation is alive");
                return false;
            }
            // Of what is lost already there is nothing to keep but an empty directory.
            if (place.hasGeneration(generation.number()) && !place.isLost()) {
                createDurably(place.snapshot(tag).parent());
                place.moveToSnapshot(generation.number(), tag);
                logger.error(
                        "The snapshot '{}' of the dropped table {} could not be taken, so its data"
                                + " was not deleted but moved to {}",
                        tag,
                        displayName,
                        place.snapshot(tag));
            }
            place.keepNoMore();
            return true;
        } catch (IOException | RuntimeException | FSError e) {
            logger.error("{} could not be moved to a snapshot", generation, e);
            keepInPlace(e.toString());
            return false;
        }
    }

    private void keepInPlace(String reason) {
        logger.error(
                "The snapshot '{}' of the dropped table {} could not be taken, so its data was not"
                        + " deleted. It is in {} and could not be moved: {}",
                tag,
                displayName,
                place,
                reason);
        markKept(reason);
    }

    /** Leaves a file by which nothing deletes what is in the table's directory. Does not throw. */
    void markKept(String reason) {
        try {
            place.keep("Snapshot " + tag + " failed when the table was dropped: " + reason);
        } catch (IOException e) {
            logger.error(
                    "{} could not be marked as to be kept, so the next start may move or delete"
                            + " it: copy it elsewhere now",
                    place,
                    e);
        }
    }
}
