// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableParams;

/**
 * An engine on one node: owns what its stores share (native memory, background threads, rate
 * limits). Thread-safe.
 */
public interface StorageEngine extends AutoCloseable {
    /** The provider's name. */
    String name();

    /**
     * Opens the store of one table generation, creating it if its directory does not exist. Blocks
     * on disk, and on replay of the write-ahead log after a crash.
     *
     * @return a store that the caller closes; at most one is open per directory
     * @throws CorruptStoreException if the directory holds something else: another table, another
     *     partitioner, a newer format, damaged files; nothing is changed then
     * @throws org.apache.cassandra.io.FSReadError if the directory cannot be read
     * @throws org.apache.cassandra.io.FSWriteError if the directory cannot be written
     * @throws IllegalStateException if the directory is already open or the engine is closed
     */
    TableStore openStore(StoreSpec spec);

    /**
     * Makes a store of the data of another that is not open: of another node's, another table's, or
     * none that a node ever opened. The source is only read; files are linked where the file system
     * lets, so that it is soon done and takes no room.
     *
     * @param source directory of a store that was closed, or a checkpoint
     * @param spec what the copy is; its directory does not exist, its parent does. The caller knows
     *     that the tables have the same primary key and types
     * @throws CorruptStoreException if there is no store in the source, or one of another
     *     partitioner or a newer format
     * @throws org.apache.cassandra.io.FSWriteError if it cannot be copied; what there is of the
     *     copy is left for {@link #deleteStore}
     * @throws UnsupportedOperationException if this engine cannot
     */
    default void copyStore(Path source, StoreSpec spec) {
        throw new UnsupportedOperationException("Engine " + name() + " does not copy stores.");
    }

    /**
     * Whether this version could read a store, as far as its directory's format says; it is not
     * opened, and what else may be wrong with it is found when it is, damage of what says the
     * format included. A directory without a store is success.
     *
     * @throws CorruptStoreException if another version wrote it that this one does not understand
     */
    default void checkFormat(Path directory) {}

    /**
     * Deletes a store that is not open: the remains of a dropped or truncated generation.
     * Idempotent: a missing directory is success.
     *
     * @throws org.apache.cassandra.io.FSWriteError if a file cannot be deleted
     * @throws IllegalStateException if the store is open, is being opened, or is being deleted
     */
    void deleteStore(Path directory);

    /**
     * Sets how the durability of a write is reached, for all stores, from the next write on.
     *
     * @param interval what the mode needs: the longest time a write may stay unsynced ({@link
     *     WalSync#PERIODIC}), the window of one sync ({@link WalSync#GROUP}); ignored for {@link
     *     WalSync#BATCH}
     */
    void walSync(WalSync mode, Duration interval);

    /**
     * Makes durable what was acknowledged before the call: of {@link WalSync#PERIODIC} only, since
     * in the other modes it is. Whoever is about to make something durable that refers to it calls
     * this first.
     *
     * @param tables of which tables
     * @throws org.apache.cassandra.io.FSWriteError if a log cannot be synced
     */
    default void syncAcknowledged(Predicate<TableId> tables) {}

    /**
     * Limits the bytes that compaction and flush write in a second, over all stores.
     *
     * @param bytesPerSecond at least 1; {@link Long#MAX_VALUE} for no limit
     */
    void compactionThroughput(long bytesPerSecond);

    /**
     * What of a table's options this engine does not honour, a sentence each, for the one who sets
     * them. Empty if it honours all.
     */
    default List<String> reservations(TableParams table) {
        return List.of();
    }

    /** {@link TableStore#hasIndexes}, of all its stores. */
    default boolean hasIndexes() {
        return false;
    }

    /** The settings in force, defaults included, by their names. */
    default Map<String, String> settingsInForce() {
        return Map.of();
    }

    /** The library that the engine is built on, and its version, for operators. */
    default String version() {
        return name();
    }

    /**
     * The version of what its stores send and receive; 0 if they do neither. Stores of one version
     * understand each other.
     */
    default int streamFormat() {
        return 0;
    }

    /** How many bytes one connection sends in one go, about, if there are several to share them. */
    default long sliceBytes() {
        return 512L << 20;
    }

    /** What the whole engine holds and does now. Never blocks. */
    EngineStatistics statistics();

    /**
     * The engine's own metrics, for operators: by name, in an order that makes sense. The names
     * stay from release to release; {@code docs/operations.md} says what they mean. Never blocks.
     */
    default Map<String, Long> metrics() {
        return Map.of();
    }

    /** The flushes and compactions that run now. Never blocks. */
    default List<BackgroundTask> backgroundTasks() {
        return List.of();
    }

    /**
     * Closes every store still open and gives the memory back. Waits for reads in flight.
     * Idempotent. Nothing acknowledged is lost.
     */
    @Override
    void close();
}
