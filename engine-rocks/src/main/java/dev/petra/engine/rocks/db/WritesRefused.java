// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.WriteStallException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Why a store takes no writes until its database was opened anew.
 *
 * @param detail what RocksDB said
 * @param cause why it could not be opened; null if that was not tried
 */
record WritesRefused(Kind kind, String detail, @Nullable Throwable cause) {
    /** What has to be different. */
    enum Kind {
        /** The database is opened without its indexes. */
        DAMAGED_INDEX,
        /** There must be room on the disk first. */
        FULL_DISK,
        /** It was closed to be opened anew, and cannot be: neither read nor written. */
        DAMAGED_STORE,
        /** The same, and nothing is known of its files: as where too many others are open. */
        NOT_OPENED
    }

    static WritesRefused damagedIndex(String detail) {
        return new WritesRefused(Kind.DAMAGED_INDEX, detail, null);
    }

    static WritesRefused fullDisk(String detail) {
        return new WritesRefused(Kind.FULL_DISK, detail, null);
    }

    static WritesRefused damagedStore(CorruptStoreException cause) {
        return new WritesRefused(Kind.DAMAGED_STORE, String.valueOf(cause.getMessage()), cause);
    }

    static WritesRefused notOpened(Throwable cause) {
        return new WritesRefused(Kind.NOT_OPENED, String.valueOf(cause.getMessage()), cause);
    }

    boolean isFullDisk() {
        return kind == Kind.FULL_DISK;
    }

    boolean isDamagedStore() {
        return kind == Kind.DAMAGED_STORE;
    }

    /** What whoever wants to write is told. */
    RuntimeException exception(String table, Path directory) {
        return switch (kind) {
            case DAMAGED_INDEX ->
                    new WriteStallException(
                            "A file of the indexes of "
                                    + table
                                    + " is damaged: its store is opened anew without them. Try"
                                    + " again.");
            case FULL_DISK -> RocksErrors.full(table, directory, detail);
            case NOT_OPENED ->
                    new WriteStallException(
                            "The store of "
                                    + table
                                    + " could not be opened anew ("
                                    + detail
                                    + "), so that it can be neither read nor written. That is"
                                    + " tried again by itself.");
            case DAMAGED_STORE ->
                    new CorruptStoreException(detail, cause == null ? null : cause.getCause());
        };
    }
}
