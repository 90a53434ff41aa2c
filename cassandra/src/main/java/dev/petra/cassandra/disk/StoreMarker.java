// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableId;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The file {@code PETRA_STORE} in a table's directory on each data directory but the one with the
 * table's store, and also on that one if the folder of stores is on another disk: without the
 * store's disk the table would look empty, and get a second store. Three lines, as {@link
 * ChecksummedText}:
 *
 * <pre>
 *   version=1
 *   table_id=11111111-2222-3333-4444-555555555555
 *   store=/data1/ks/t-11111111222233334444555555555555/rocksdb     where it was, for people
 * </pre>
 *
 * <p>It is written between {@link LivePointer} and the first generation, and goes between the last
 * generation and {@link LivePointer}: a store with data always has it, and where it is alone, a
 * disk is missing.
 */
public final class StoreMarker {
    private static final Logger logger = LoggerFactory.getLogger(StoreMarker.class);

    /** The file's name. */
    public static final String NAME = "PETRA_STORE";

    /** What else goes with a store that an operator moves away, as messages say it. */
    public static final String WITH_MARKERS =
            "with the files " + NAME + " that the table's data directories have";

    private static final String ID = "table_id=";
    private static final String STORE = "store=";

    private StoreMarker() {}

    /**
     * Where the store of a table is that none of its directories has.
     *
     * @return the reason why the table must not be used, or null if there is a store, or no marker
     * @throws CorruptStoreException if a marker is damaged, and there is no store
     * @throws FSReadError if nobody can tell
     */
    public static @Nullable String missing(List<Path> tableDirectories, TableId id, String table) {
        for (Path directory : tableDirectories)
            if (new StoreLocation(directory, Disk.REAL).isBegun()) return null;
        for (Path directory : tableDirectories) {
            String text = ChecksummedText.read(directory.resolve(NAME), mend(tableDirectories));
            if (text == null || !text.lines().toList().contains(ID + id)) continue;
            String store =
                    text.lines()
                            .filter(line -> line.startsWith(STORE))
                            .map(line -> line.substring(STORE.length()))
                            .findFirst()
                            .orElse("another data directory");
            return "The data of table "
                    + table
                    + " is missing: "
                    + directory.resolve(NAME)
                    + " says that it was in "
                    + store
                    + ", and no data directory has it. "
                    + mend(tableDirectories);
        }
        return null;
    }

    /** Whether a directory has a marker of this table. False if nobody can tell. */
    static boolean isIn(Path directory, TableId id) {
        try {
            String text = ChecksummedText.read(directory.resolve(NAME), "");
            return text != null && text.lines().toList().contains(ID + id);
        } catch (CorruptStoreException | FSError e) {
            logger.warn("{} cannot be read", directory.resolve(NAME), e);
            return false;
        }
    }

    private static String mend(List<Path> tableDirectories) {
        StringBuilder files = new StringBuilder();
        for (Path directory : tableDirectories) files.append(' ').append(directory.resolve(NAME));
        return "Stop the node, mount the disk, or put the directory back into"
                + " data_file_directories, and start it again. If the data is lost, replace the"
                + " node, with all its data directories empty; or begin without that data on this"
                + " node: while it is stopped, delete the files that say so, by 'rm -f"
                + files
                + "', start it, and run 'nodetool repair --full' of the table. Delete them also if"
                + " you moved the table's folder rocksdb away yourself; or if the table was"
                + " dropped, or left the engine, while a disk with such a file was away: then"
                + " nothing is missing.";
    }

    /**
     * Has each of these directories say where the store is, durably, unless it does. A disk that
     * fails does not keep the table from being used: it only lacks this guard, which the log says.
     */
    static void write(Disk disk, List<Path> others, TableId id, Path store) {
        String text = "version=1\n" + ID + id + "\n" + STORE + store.toAbsolutePath() + "\n";
        for (Path directory : others) {
            Path file = directory.resolve(NAME);
            try {
                if (!says(file, text)) ChecksummedText.write(disk, file, text);
            } catch (FSError e) {
                logger.warn(
                        "{} could not be written. If the disk with {} is missing at a later start,"
                                + " the table may look empty. Each start tries again",
                        file,
                        store,
                        e);
            }
        }
    }

    private static boolean says(Path file, String text) {
        try {
            return text.equals(ChecksummedText.read(file, ""));
        } catch (CorruptStoreException e) {
            logger.warn("{} is written anew: {}", file, e.getMessage());
            return false;
        }
    }

    /**
     * Deletes the markers in these directories, durably. Idempotent.
     *
     * @throws FSWriteError if one could not be deleted
     */
    public static void delete(Disk disk, List<Path> tableDirectories) {
        List<Path> marked = new ArrayList<>();
        for (Path directory : tableDirectories)
            if (StoreLocation.isThere(directory.resolve(NAME))) marked.add(directory);
        for (Path directory : marked) {
            disk.delete(directory.resolve(NAME));
            try {
                disk.syncDirectory(directory);
            } catch (IOException e) {
                throw new FSWriteError(e, directory.toString());
            }
        }
    }
}
