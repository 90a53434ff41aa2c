// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import dev.petra.engine.CorruptStoreException;
import java.nio.file.Path;
import java.util.OptionalLong;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;

/**
 * The file {@code LIVE} beside a table's generations: one number, the lowest generation that is
 * alive, as {@link ChecksummedText}. What is below it is garbage. Not thread-safe.
 */
final class LivePointer {
    /** The file's name. */
    static final String NAME = "LIVE";

    private static final String MEND =
            "Write the number of the directory beside it that holds the table's data, alone on one"
                    + " line that ends with a line feed (as 'echo 2 > LIVE' does), and restart the"
                    + " node; docs/operations.md, \"If LIVE is lost\", says"
                    + " how to find out which one that is. What has a lower number is deleted.";

    private final Path directory;
    private final Disk disk;

    LivePointer(Path directory, Disk disk) {
        this.directory = directory;
        this.disk = disk;
    }

    /**
     * The number, or nothing if no generation was ever alive.
     *
     * @throws CorruptStoreException if the file holds anything but a line with a number of at least
     *     1, or another number than was written
     * @throws FSReadError if it cannot be read
     */
    OptionalLong read() {
        Path file = directory.resolve(NAME);
        String text = ChecksummedText.read(file, MEND);
        if (text == null) return OptionalLong.empty();
        // "13" and a line feed, cut off, may be "1": what is dead may be there under that number.
        if (text.matches(StoreLocation.GENERATION))
            throw new CorruptStoreException(
                    file
                            + " must end with a line feed, but holds '"
                            + text
                            + "' alone: it may be the beginning of another number. "
                            + MEND);
        String number = text.endsWith("\n") ? text.substring(0, text.length() - 1) : text;
        return OptionalLong.of(
                parse(file, number, "the generation of the table that is alive", MEND));
    }

    /**
     * The number of a generation that a file holds.
     *
     * @param meaning of the number
     * @param mend what an operator is to do if it is none, as a sentence
     * @throws CorruptStoreException if it is none
     */
    static long parse(Path file, String number, String meaning, String mend) {
        if (!number.matches(StoreLocation.GENERATION))
            throw new CorruptStoreException(
                    file
                            + " must hold one number, "
                            + meaning
                            + ", but holds '"
                            + number.strip()
                            + "'. "
                            + mend);
        return Long.parseLong(number);
    }

    /**
     * Makes the number durable: after a crash at any point the file holds the old number or the new
     * one, and the new one once this has returned. Creates the directory.
     *
     * @throws FSWriteError if that failed; the file then holds the old number or the new one
     */
    void write(long generation) {
        ChecksummedText.write(disk, directory.resolve(NAME), generation + "\n");
    }
}
