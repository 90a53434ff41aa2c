// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import com.google.common.math.LongMath;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToLongFunction;
import javax.management.openmbean.CompositeData;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.SessionInfo;
import org.apache.cassandra.streaming.StreamManager;
import org.apache.cassandra.streaming.StreamOperation;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamSummary;
import org.apache.cassandra.streaming.management.StreamStateCompositeData;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses a session that would fill a disk, before anything of it moves. Cassandra asks that of
 * repairs alone, and of all disks of a table as if they were filled evenly; a store lies on one.
 */
public final class StreamRoom {
    private static final Logger logger = LoggerFactory.getLogger(StreamRoom.class);

    private StreamRoom() {}

    /** What a session sends for one table, which lies there. */
    record Incoming(String table, Path directory, long bytes) {}

    /**
     * Checks what a session is to receive for tables in engines.
     *
     * @param summaries all that its peer will send
     * @throws IllegalStateException if there is no room for it beside what other sessions receive
     */
    public static void check(StreamSession session, Collection<StreamSummary> summaries) {
        if (session.isPreview() || DatabaseDescriptor.getSkipStreamDiskSpaceCheck()) return;
        List<Incoming> incoming = new ArrayList<>();
        for (StreamSummary summary : summaries) {
            ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(summary.tableId);
            if (cfs == null) continue;
            String name = cfs.getKeyspaceName() + "." + cfs.name;
            TableGenerations stores = TableRegistry.find(name);
            Path directory = stores == null ? null : stores.tableDirectory();
            if (directory != null) incoming.add(new Incoming(name, directory, summary.totalSize));
        }
        if (incoming.isEmpty()) return;
        try {
            check(
                    session.peer.toString(),
                    incoming,
                    // This session is not among them yet.
                    others(ongoing(), disks(DatabaseDescriptor.getAllDataFileLocations())),
                    Directories::getAvailableSpaceForCompactions);
        } catch (IllegalStateException e) {
            // Cassandra takes the node for removed, whether its replicas were restored or not.
            if (session.getStreamOperation() != StreamOperation.RESTORE_REPLICA_COUNT) throw e;
            logger.warn(
                    "The stream from {} restores replicas of a removed node, so it goes on"
                            + " although it may fill the disk: free space in the data directories",
                    session.peer,
                    e);
        }
    }

    /**
     * What all sessions will bring yet. Cassandra's own sum has what is left of sessions that have
     * failed, and takes the bytes that came of a slice, which are packed, for those that were
     * planned: so a session might seem to bring something when it has all, or less than nothing.
     */
    private static long ongoing() {
        long bytes = 0;
        for (CompositeData stream : StreamManager.instance.getCurrentStreams())
            for (SessionInfo session : StreamStateCompositeData.fromCompositeData(stream).sessions)
                bytes = LongMath.saturatedAdd(bytes, left(session));
        return bytes;
    }

    /**
     * What a session will bring yet. Of what a store sends, the planned sizes are in another unit
     * than the bytes that come: then by how much of its files has come.
     */
    static long left(SessionInfo session) {
        if (session.state.isFinalState()) return 0;
        Collection<ProgressInfo> begun = session.getReceivingFiles();
        long files = session.getTotalFilesToReceive();
        double come =
                begun.stream()
                        // As in the plan, each component of an SSTable that comes whole is one.
                        .mapToDouble(
                                file ->
                                        file.isCompleted()
                                                ? 1
                                                : (double) file.currentBytes / file.totalBytes)
                        .sum();
        if (come >= files) return 0;
        long bytes = session.getTotalSizeToReceive();
        long left = bytes - session.getTotalSizeReceived();
        // Of SSTables, which may be of any size, bytes say more than files. Those that a store
        // writes look like others, until more has come than was planned.
        if (left > 0 && begun.stream().noneMatch(file -> SliceProgress.isOfSlice(file.fileName)))
            return left;
        return (long) Math.max(0, bytes * (1 - come / files));
    }

    /**
     * What other sessions will bring to a disk. Which table each brings what to is not looked at:
     * as if all the node's data were spread over its disks evenly.
     *
     * @param ongoing bytes that they will bring yet, wherever
     * @param disks of the node's data
     */
    static ToLongFunction<FileStore> others(long ongoing, Set<FileStore> disks) {
        long each = Math.max(0, ongoing) / Math.max(1, disks.size());
        return disk -> disks.contains(disk) ? each : 0;
    }

    private static Set<FileStore> disks(String[] directories) {
        Set<FileStore> disks = new HashSet<>();
        for (String directory : directories) {
            FileStore disk = disk(Path.of(directory));
            if (disk != null) disks.add(disk);
        }
        return disks;
    }

    /** Null if that is not known: the stream finds out whether there is room. */
    private static @Nullable FileStore disk(Path directory) {
        try {
            return Files.getFileStore(directory);
        } catch (IOException e) {
            logger.warn(
                    "The disk of {} cannot be determined, so it is not known whether a stream has"
                            + " room there. If the disk gets full, the stream fails",
                    directory,
                    e);
            return null;
        }
    }

    /**
     * @param others how many bytes other sessions will bring to a disk
     * @param free how many bytes streams may fill of it
     */
    static void check(
            String peer,
            List<Incoming> incoming,
            ToLongFunction<FileStore> others,
            ToLongFunction<FileStore> free) {
        Map<FileStore, List<Incoming>> disks = new HashMap<>();
        for (Incoming table : incoming) {
            FileStore disk = disk(table.directory());
            if (disk != null) disks.computeIfAbsent(disk, d -> new ArrayList<>()).add(table);
        }
        disks.forEach(
                (disk, tables) -> {
                    long room;
                    try {
                        room = free.applyAsLong(disk);
                    } catch (FSReadError e) {
                        // This error would not end the session, only this thread.
                        logger.warn(
                                "The free space of {} cannot be read, so it is not known whether a"
                                        + " stream has room there. If the disk gets full, the"
                                        + " stream fails",
                                disk,
                                e);
                        return;
                    }
                    check(peer, tables, others.applyAsLong(disk), room);
                });
    }

    private static void check(String peer, List<Incoming> tables, long others, long room) {
        // The peer sends the sizes, so they may be wrong.
        long needed =
                tables.stream()
                        .mapToLong(table -> Math.max(0, table.bytes()))
                        .reduce(0, LongMath::saturatedAdd);
        if (needed == 0 || LongMath.saturatedAdd(needed, others) <= room) return;
        Incoming largest =
                tables.stream().max(Comparator.comparingLong(Incoming::bytes)).orElseThrow();
        throw new IllegalStateException(
                ("There is no room for a stream from %s. It needs %d bytes on the disk of %s, of"
                                + " which table %s needs %d; other streams need %d more there. %d"
                                + " bytes are free for them, without what cassandra.yaml reserves"
                                + " (min_free_space_per_drive,"
                                + " max_space_usable_for_compactions_in_percentage). Free space and"
                                + " repeat the operation that streams.")
                        .formatted(
                                peer,
                                needed,
                                largest.directory(),
                                largest.table(),
                                largest.bytes(),
                                others,
                                room));
    }
}
