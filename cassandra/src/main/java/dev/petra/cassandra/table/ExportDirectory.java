// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.engine.DirectoryTree;
import java.nio.file.Path;
import org.apache.cassandra.io.FSError;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A directory for an SSTable that is to be sent. The folder of all generations, in which it is,
 * stays until this is closed: else Cassandra, which writes there, would take it that the disk
 * failed, and might stop the node.
 */
public final class ExportDirectory implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(ExportDirectory.class);

    private final StoreLocation place;
    private final Path path;

    ExportDirectory(StoreLocation place, Path path) {
        this.place = place;
        this.path = path;
    }

    /** The directory, which exists and is empty at first. */
    public Path path() {
        return path;
    }

    /** Deletes it, and what waited for that. Does not throw. */
    @Override
    public void close() {
        try {
            DirectoryTree.delete(path);
        } catch (FSError e) {
            logger.error(
                    "The temporary directory {} could not be deleted; it is deleted when the node"
                            + " starts again",
                    path,
                    e);
        }
        TableGenerations owner = StoreFolders.endExport(place, path);
        if (owner != null) owner.exportEnded();
    }
}
