// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.Engines;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.FSError;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The copies of one table that are over, until nothing of them is on disk; also those that an
 * earlier run of the node has left. Only in a step of the {@link Shadow}.
 */
final class FormerCopies {
    private static final Logger logger = LoggerFactory.getLogger(FormerCopies.class);

    private final ColumnFamilyStore cfs;
    private final String name;
    private final EngineKey engine;

    /** Those whose files are there yet, because they were still read. */
    private final List<ShadowCopy> open = new ArrayList<>();

    FormerCopies(ColumnFamilyStore cfs, EngineKey engine) {
        this.cfs = cfs;
        this.name = cfs.metadata.toString();
        this.engine = engine;
    }

    /** Takes one that is over. */
    void add(ShadowCopy over) {
        open.add(over);
    }

    /** Drops those that are read no more. */
    void drop() {
        open.removeIf(this::isDropped);
    }

    /** Whether all were dropped. */
    boolean areDropped() {
        return open.isEmpty();
    }

    private boolean isDropped(ShadowCopy over) {
        try {
            over.store.drop();
            return true;
        } catch (IllegalStateException e) {
            logger.debug("The former shadow of {} is still read", name, e);
            return false;
        } catch (RuntimeException | FSError e) {
            logger.warn(
                    "The files of the former shadow of {} cannot be deleted; they are deleted when"
                            + " the next copy begins",
                    name,
                    e);
            return true;
        }
    }

    /** Where a copy is to be. */
    record Place(ShadowFolder folder, long number) {}

    /**
     * A place for the next copy. Deletes what former ones have left; where that fails, as on a disk
     * that has become read-only, it is not.
     *
     * @throws IllegalStateException if that fails on each disk
     */
    Place nextPlace() {
        List<ShadowFolder> free = new ArrayList<>();
        long number = 1;
        for (ShadowFolder each : ShadowFolder.allOf(cfs)) {
            try {
                // No number comes twice, wherever it is.
                number = Math.max(number, each.next());
                // None is there, unless it could not be taken at the start. It goes first: what it
                // names must be whole.
                var unused = each.take();
                deleteLeft(each);
                CopySource.deleteOthers(each, List.of());
                free.add(each);
            } catch (IOException | RuntimeException | FSError e) {
                logger.warn(
                        "The next copy of {} is not made in {}, where a former one cannot be"
                                + " deleted",
                        name,
                        each,
                        e);
            }
        }
        if (free.isEmpty())
            throw new IllegalStateException(
                    "former copies can be deleted on none of its disks, see the log");
        return new Place(ShadowFolder.roomiest(free), number);
    }

    /** Deletes all that is left on disk, when no copy follows. */
    void deleteLeft() {
        for (ShadowFolder folder : ShadowFolder.allOf(cfs)) {
            deleteLeft(folder);
            folder.deleteIfEmpty();
        }
    }

    private void deleteLeft(ShadowFolder folder) {
        for (long number : folder.copies()) deleteLeft(folder, number);
    }

    private void deleteLeft(ShadowFolder folder, long number) {
        for (ShadowCopy each : open) if (each.number == number) return;
        try {
            Engines.get(engine).deleteStore(folder.copy(number));
        } catch (IllegalStateException e) {
            logger.debug("A former shadow of {} is still read", name, e);
        }
    }
}
