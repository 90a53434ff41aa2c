// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.FullDisk;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.wal.FailedSyncError;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.sstable.CorruptSSTableException;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

/** RocksDB's errors as those of the SPI, naming the table and the mend. */
public final class RocksErrors {
    /**
     * As in {@code env/io_posix.cc}. By the text, as {@link #SYNC}: no code of a {@link Status}
     * says which file it was and what was done with it, and a line of RocksDB's log has no status.
     */
    private static final Pattern APPEND =
            Pattern.compile("While appending to file: .*\\d\\.log\\b");

    /** Of a log, or of the directory that has its name. */
    private static final Pattern SYNC =
            Pattern.compile(
                    "While (fsync|fdatasync|sync_file_range)[^:]*:"
                            + " (a directory|(.*/)?\\d+\\.log)(:|$)");

    private RocksErrors() {}

    public static RuntimeException onRead(RocksDBException e, String table, Path directory) {
        if (isDamage(e)) return corrupt(e, table, directory);
        return error(new FSReadError(e, directory));
    }

    static RuntimeException onWrite(RocksDBException e, String table, Path directory) {
        if (e instanceof LogSync.SyncFailure) return error(new FailedSyncError(e, directory));
        if (isDamage(e)) return corrupt(e, table, directory);
        if (isFull(e)) return full(table, directory, e.getMessage());
        return error(new FSWriteError(e, directory));
    }

    static WriteStallException full(String table, Path directory, @Nullable String detail) {
        return new WriteStallException(
                "The disk of "
                        + table
                        + " is full ("
                        + directory
                        + "): "
                        + detail
                        + ". Free space; writing goes on by itself then.",
                true);
    }

    /** Of a file that a write to has failed before: RocksDB has no code of its own for it. */
    static boolean isAfterFailure(RocksDBException e) {
        return isAfterFailure(String.valueOf(e.getMessage()));
    }

    static boolean isAfterFailure(String message) {
        return message.contains("previous error");
    }

    /** A write found no room in the log. What is before it there is as it was. */
    static boolean isLogFull(RocksDBException e) {
        // Not of a sync: what a disk has refused then may be gone.
        return isFull(e) && APPEND.matcher(String.valueOf(e.getMessage())).find();
    }

    /** The same of a line of RocksDB's log. */
    static boolean isLogFull(String message) {
        return APPEND.matcher(message).find() && FullDisk.isSaidBy(message);
    }

    /** The log could not be synced. */
    public static boolean isLogSync(String message) {
        return SYNC.matcher(message).find();
    }

    /** The store says that it cannot take the write now, without having taken it. */
    public static boolean isStall(RocksDBException e) {
        return isIncomplete(e);
    }

    /** Of a compaction: it was told to end before it was done. */
    public static boolean isIncomplete(RocksDBException e) {
        return isCode(e, Status.Code.Incomplete);
    }

    /** Of what ran when the database was being closed, or all that it does was being ended. */
    public static boolean isShutdown(RocksDBException e) {
        return isCode(e, Status.Code.ShutdownInProgress);
    }

    private static boolean isCode(RocksDBException e, Status.Code code) {
        return e.getStatus() != null && e.getStatus().getCode() == code;
    }

    /**
     * The disk is full. RocksDB refuses all writes from then on, also when there is room again: its
     * log's writer remembers the error ("Writer has previous error", facebook/rocksdb #11643), so
     * the database must be opened anew.
     */
    static boolean isFull(RocksDBException e) {
        Status status = e.getStatus();
        if (status == null) return false;
        return status.getSubCode() == Status.SubCode.NoSpace || isFullByText(status);
    }

    /**
     * Whether only the text says so. RocksDB has no code for a quota that is used up ({@code
     * IOError} in env/io_posix.cc). Nor does it give the code of the OPTIONS file, which is written
     * whenever a database is opened: that error is a text within another error ("Unable to persist
     * Options file" in db/db_impl/db_impl_open.cc).
     */
    private static boolean isFullByText(Status status) {
        return status.getCode() == Status.Code.IOError && FullDisk.isSaidBy(status.getState());
    }

    /** Bytes are wrong or a file is gone: nothing that trying again would mend. */
    public static boolean isDamage(RocksDBException e) {
        Status status = e.getStatus();
        if (status == null) return false;
        return switch (status.getCode()) {
            case Corruption -> true;
            // Java has no name for kPathNotFound (toJavaStatusSubCode in java/rocksjni/portal.h).
            // The others without a name (kSpaceLimit, kIOFenced) come of what is not used here.
            case IOError -> status.getSubCode() == Status.SubCode.Undefined;
            default -> false;
        };
    }

    public static CorruptStoreException corrupt(Exception e, String table, Path directory) {
        return new CorruptStoreException(
                "The store of "
                        + table
                        + " in "
                        + directory
                        + " is damaged: "
                        + e.getMessage()
                        + ". Restore it from a snapshot, or remove the directory and repair the"
                        + " table.",
                // By this Cassandra's disk_failure_policy tells damage.
                new CorruptSSTableException(e, directory.toString()));
    }

    /** FSError is an Error in Cassandra: thrown here, so that callers can say {@code throw}. */
    private static RuntimeException error(Error e) {
        throw e;
    }
}
