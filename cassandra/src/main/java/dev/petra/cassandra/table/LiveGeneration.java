// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.disk.StoreMarker;
import dev.petra.engine.CorruptStoreException;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.SortedSet;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which generation of a table is alive on disk.
 *
 * <h2>What a crash leaves</h2>
 *
 * <p>{@link dev.petra.cassandra.disk.LivePointer} decides. It names generation {@code n} before
 * {@code n} has a directory, so that a directory above it cannot exist, and one below it is dead.
 * TRUNCATE moves it, durably, before the switch to the next generation and so before TRUNCATE is
 * acknowledged:
 *
 * <pre>
 *   LIVE=1, 1/              before TRUNCATE: all rows
 *   LIVE=2, 1/              truncated; 1/ is garbage, deleted when its readers are gone or at start
 *   LIVE=2, 1/, 2/          the first write since
 *   LIVE=2, 2/
 * </pre>
 *
 * <p>What is alive may have no directory yet, as in the second. {@code CREATED} tells that from one
 * whose directory is gone, which is refused:
 *
 * <pre>
 *   LIVE=2, 1/, 2/, CREATED=1    before the first write is acknowledged
 *   LIVE=2, 2/, CREATED=2        from then on
 *   LIVE=2, CREATED=2            lost
 * </pre>
 *
 * <p>A store that is made of a shadow is dead until it is the table's:
 *
 * <pre>
 *   LIVE=2, MOVING          before there is anything
 *   LIVE=2, MOVING, 1/      garbage, deleted at start: the table is in SSTables and the commit log
 *   LIVE=1, MOVING, 1/      the table's, together with the SSTables
 * </pre>
 *
 * <p>Writes that were under way when the pointer moved go to the old generation; they count as
 * before the TRUNCATE.
 *
 * <p>For one thread at a time per table: its lock is that of the {@link TableGenerations}.
 */
final class LiveGeneration {
    private static final Logger logger = LoggerFactory.getLogger(LiveGeneration.class);

    private LiveGeneration() {}

    /**
     * The generation that is alive, which may have no directory yet; empty if the table never had
     * one.
     *
     * @throws CorruptStoreException if what is there is not what any crash can leave, or was kept
     *     by DROP: an operator must say what it is
     * @throws FSReadError if the disk failed
     */
    static OptionalLong find(StoreLocation place) {
        if (place.isKept())
            throw new CorruptStoreException(
                    place
                            + " holds the data of a table with this ID that was dropped, and"
                            + " whose snapshot failed; the file "
                            + StoreLocation.KEEP
                            + " says why. Move the directory away, "
                            + StoreMarker.WITH_MARKERS
                            + ", or remove that"
                            + " file if it is this table's data, and restart the node.");
        OptionalLong live = place.live();
        SortedSet<Long> found = place.generations();
        if (live.isEmpty() && (!found.isEmpty() || place.isLost()))
            throw new CorruptStoreException(
                    place
                            + " holds the generations "
                            + found
                            + (found.isEmpty() ? missing(place) : "")
                            + " but no file LIVE. Create it, with the number of the one"
                            + " that holds the table's data, or with the next number if none does"
                            + " because the table was truncated or migrated out;"
                            + " docs/operations.md, \"If LIVE is lost\", says how to find out.");
        if (live.isPresent() && !found.tailSet(live.getAsLong() + 1).isEmpty())
            throw new CorruptStoreException(
                    place
                            + " holds the generations "
                            + found
                            + " but LIVE says that "
                            + live.getAsLong()
                            + " is the newest. Move away what does not belong there, or correct"
                            + " LIVE.");
        return live;
    }

    private static String missing(StoreLocation place) {
        long created = place.created().orElse(0);
        return " (its file CREATED says that there was "
                + created
                + ", so the next number is "
                + (created + 1)
                + ")";
    }

    /**
     * Refuses a generation that is alive and had a directory, which is gone or empty.
     *
     * @throws CorruptStoreException if so: the table would look empty
     * @throws FSReadError if the disk failed
     */
    static void requireThere(long live, StoreLocation place) {
        if (!place.isLost()) return;
        Path pointer = place.root().resolve("LIVE");
        long next = Math.max(live, place.created().orElse(live)) + 1;
        throw new CorruptStoreException(
                "The table's data is missing: "
                        + pointer
                        + " says that it is in "
                        + place.generation(live)
                        + ", and the file CREATED beside it that it was there, but that directory"
                        + " is not there or is empty. Stop the node, mount its disk, or put the"
                        + " directory back as a whole, and start it again. If the data is lost,"
                        + " restore a snapshot; or begin without that data on this node: while it"
                        + " is stopped, run 'echo "
                        + next
                        + " > "
                        + pointer
                        + "', start it, and run 'nodetool repair --full' of the table;"
                        + " docs/operations.md, \"If a generation is missing\", says more.");
    }

    /**
     * Has a generation be dead on disk until {@link #begin}, before it has a directory: whatever
     * crashes until then, the next start deletes it.
     *
     * @throws FSWriteError if that cannot be made durable
     */
    static void prepare(long generation, StoreLocation place) {
        place.makeLive(generation + 1);
    }

    /**
     * Has a generation be alive that was {@link #prepare prepared}.
     *
     * @throws FSWriteError if that cannot be made durable; it is dead then
     */
    static void begin(Generation generation, StoreLocation place) {
        try {
            place.makeLive(generation.number());
        } catch (FSWriteError e) {
            try {
                place.makeLive(generation.number() + 1);
            } catch (FSError again) {
                e.addSuppressed(again);
                logger.error(
                        "{} is a copy of table {} that is not gone on with, and LIVE there cannot"
                                + " be written. If it cannot be deleted either, delete it before"
                                + " the node is restarted: it would be taken for the table",
                        place,
                        generation.stores().displayName(),
                        again);
            }
            throw e;
        }
    }

    /**
     * Ends a generation: once this has returned it is dead, whatever crashes.
     *
     * @throws FSWriteError if that cannot be made durable; the generation is alive then, or fails
     *     from here on if even that cannot be made sure
     */
    static void end(Generation generation, StoreLocation place) {
        try {
            place.makeLive(generation.number() + 1);
        } catch (FSWriteError e) {
            // The pointer may have moved all the same. Going on with this generation would then
            // acknowledge writes that a restart throws away.
            if (!isUnmoved(generation, place, e) && !moveBack(generation, place, e)) {
                generation.fail(e);
                logger.error(
                        "Table {} cannot be used until the node is restarted: its file LIVE could"
                                + " not be written or read, so it is not known whether {} is still"
                                + " the table's data",
                        generation.stores().displayName(),
                        place.generation(generation.number()),
                        e);
            }
            throw e;
        }
    }

    private static boolean isUnmoved(Generation generation, StoreLocation place, Throwable e) {
        try {
            return place.live().orElse(1) == generation.number();
        } catch (RuntimeException | FSError unreadable) {
            e.addSuppressed(unreadable);
            return false;
        }
    }

    private static boolean moveBack(Generation generation, StoreLocation place, Throwable e) {
        try {
            place.makeLive(generation.number());
            return true;
        } catch (FSError again) {
            e.addSuppressed(again);
            return false;
        }
    }

    /**
     * Ends the last generation of a table that is dropped, if it has any data. It may be read for a
     * while: neither a crash nor a table that is created WITH the same ID must find it alive then.
     * Does not throw.
     */
    static void endDropped(Generation generation, StoreLocation place) {
        if (generation.number() == 0) return;
        try {
            if (place.hasGeneration(generation.number()) || place.isLost())
                place.makeLive(generation.number() + 1);
        } catch (CorruptStoreException | FSError e) {
            logger.error(
                    "{} was dropped, but its file LIVE could not be written. If its files are not"
                            + " deleted before the node stops, they are moved to a snapshot at the"
                            + " next start",
                    generation,
                    e);
        }
    }
}
