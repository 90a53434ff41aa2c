// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.legacy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.DurableFile;
import dev.petra.engine.StoreSpec;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;

/**
 * The files {@value #NAME}, which says whose directory it is, and {@value #WRITTEN}, which is there
 * once anything was written: no SSTable needs to be left of that.
 */
final class StoreMark {
    private static final String NAME = "LEGACY";
    private static final String PART = NAME + ".part";
    private static final String WRITTEN = "WRITTEN";

    private final Path directory;
    private final String identity;

    StoreMark(StoreSpec spec) {
        this.directory = spec.directory();
        this.identity =
                """
                table_id=%s
                column_family=%s
                generation=%d
                partitioner=%s
                """
                        .formatted(
                                spec.metadata().id,
                                spec.columnFamily(),
                                spec.generation(),
                                spec.metadata().get().partitioner.getClass().getName());
    }

    /**
     * Makes the directory, or checks whose it is.
     *
     * @throws CorruptStoreException if it is not this store's; nothing was changed
     */
    void prepare() {
        Path file = directory.resolve(NAME);
        try {
            if (Files.exists(file)) {
                String found = Files.readString(file);
                if (!found.equals(identity))
                    throw new CorruptStoreException(
                            directory
                                    + " is another store: "
                                    + file
                                    + " says\n"
                                    + found
                                    + "where\n"
                                    + identity
                                    + "belongs. Move the directory back to where it came from.");
                return;
            }
            if (Files.exists(directory))
                try (var files = Files.list(directory)) {
                    if (files.anyMatch(each -> !each.endsWith(PART)))
                        throw new CorruptStoreException(
                                directory
                                        + " is not empty and has no file "
                                        + NAME
                                        + ": it is no store of this engine. Move it away.");
                }
            Files.createDirectories(directory);
            write(directory);
        } catch (NoSuchFileException e) {
            throw new FSReadError(e, file);
        } catch (IOException e) {
            throw new FSWriteError(e, file);
        }
    }

    boolean isWritten() {
        return Files.exists(directory.resolve(WRITTEN));
    }

    void written() {
        try {
            Files.write(directory.resolve(WRITTEN), new byte[0]);
        } catch (IOException e) {
            throw new FSWriteError(e, directory);
        }
    }

    /** Writes the same into another directory. */
    void copyTo(Path target) throws IOException {
        if (isWritten()) Files.write(target.resolve(WRITTEN), new byte[0]);
        write(target);
    }

    /** A mark that is cut off would be another store's. */
    private void write(Path target) throws IOException {
        DurableFile.write(target.resolve(NAME), target.resolve(PART), identity);
    }
}
