// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.OptionalLong;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSReadError;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The file {@code CREATED} beside a table's generations: the number of the newest that has, or had,
 * a directory, as {@link ChecksummedText}. {@link LivePointer} names a generation before it has
 * one; by this file one that is gone is told from one that nothing was written to yet.
 *
 * <p>It is written when there is a store in the directory, before anything is acknowledged, and
 * goes before {@link LivePointer}.
 */
final class CreatedMark {
    private static final Logger logger = LoggerFactory.getLogger(CreatedMark.class);

    /** The file's name. */
    static final String NAME = "CREATED";

    private static final String MEND =
            "If the folder of the generation that LIVE names is missing beside it, put that folder"
                    + " back; otherwise delete this file. Then restart the node, which writes it"
                    + " anew.";

    private CreatedMark() {}

    /**
     * The number, or nothing if no generation had a directory, or an earlier version made it.
     *
     * @throws CorruptStoreException if the file is damaged
     * @throws FSReadError if it cannot be read
     */
    static OptionalLong read(Path directory) {
        Path file = directory.resolve(NAME);
        String text = ChecksummedText.read(file, MEND);
        if (text == null) return OptionalLong.empty();
        return OptionalLong.of(
                LivePointer.parse(file, text.strip(), "the newest generation of the table", MEND));
    }

    /**
     * Has the file say that a generation has a directory, durably, unless it does. A disk that
     * fails does not keep the table from being used: it only lacks this guard, which the log says.
     */
    static void write(Disk disk, Path directory, long generation) {
        Path file = directory.resolve(NAME);
        try {
            if (says(directory, generation)) return;
            // The name of the generation before a file that says that it is there.
            disk.syncDirectory(directory);
            ChecksummedText.write(disk, file, generation + "\n");
        } catch (IOException | FSError e) {
            logger.warn(
                    "{} could not be written. If the folder of generation {} is missing at a later"
                            + " start, the table may look empty. Each start tries again",
                    file,
                    generation,
                    e);
        }
    }

    private static boolean says(Path directory, long generation) {
        try {
            return read(directory).equals(OptionalLong.of(generation));
        } catch (CorruptStoreException e) {
            logger.warn("{} is written anew", directory.resolve(NAME), e);
            return false;
        }
    }
}
