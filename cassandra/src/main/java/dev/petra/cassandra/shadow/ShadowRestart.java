// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.disk.Disk;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How the copy of one table goes on over a restart: a clean stop notes where it is, and keeps what
 * it has yet to copy; the next start finds that. It is made anew wherever it is not certain that it
 * is one of the table.
 */
final class ShadowRestart {
    private static final Logger logger = LoggerFactory.getLogger(ShadowRestart.class);

    private final ColumnFamilyStore cfs;
    private final String name;

    ShadowRestart(ColumnFamilyStore cfs) {
        this.cfs = cfs;
        this.name = cfs.metadata.toString();
    }

    // At a stop

    /**
     * What the next start goes on with.
     *
     * @param left of the copy
     */
    record Ending(ShadowCopy copy, ShadowCopy.Position position, List<ShadowFolder.Left> left) {
        /** What is noted of it, when what the copy has is durable. */
        ShadowFolder.Closed closed(PurgeTimes times) {
            DecoratedKey nextKey = position.nextKey();
            return new ShadowFolder.Closed(
                    copy.number,
                    times.gcBefore(),
                    times.latest(),
                    copy.late().memory(times.moment()).or(Shadows.purgeDoubt(copy.cfs.metadata())),
                    ShadowCopy.names(position.sstables()),
                    left,
                    nextKey == null ? null : ByteBufferUtil.bytesToHex(nextKey.getKey()));
        }
    }

    /**
     * When the node has drained: where the copy is, and keeps what it has yet to copy. Throws
     * nothing.
     *
     * @param deadline until when it waits for writes that are under way, as {@link System#nanoTime}
     * @return null if it is made anew
     */
    @Nullable Ending ending(ShadowCopy copy, long deadline) {
        try {
            while (copy.queued.get() > 0 && System.nanoTime() - deadline < 0)
                TimeUnit.MILLISECONDS.sleep(10);
            ShadowCopy.Position position = copy.position();
            if (position != null && areMemtablesClean())
                return new Ending(copy, position, keep(position, deadline));
            logger.info(
                    "It is not certain what the shadow of {} has of its table: it is only"
                            + " beginning, a write still waits, a compaction, cleanup or scrub"
                            + " has not ended, or a memtable was not flushed. The next start"
                            + " makes it anew",
                    name);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            logger.info("Interrupted; the next start makes the shadow of {} anew", name);
        } catch (IOException | RuntimeException | Error e) {
            logger.error("The next start makes the shadow of {} anew", name, e);
        }
        return null;
    }

    /** Whether the drain has flushed all. What it could not may be lost with the commit log. */
    private boolean areMemtablesClean() {
        for (Memtable memtable : cfs.getTracker().getView().getAllMemtables())
            if (!memtable.isClean()) return false;
        return true;
    }

    /** Has what is to be copied outlive the node, durably. */
    private static List<ShadowFolder.Left> keep(ShadowCopy.Position position, long deadline)
            throws IOException {
        long stop = System.currentTimeMillis();
        List<ShadowFolder.Left> left = new ArrayList<>();
        Set<Path> directories = new HashSet<>();
        for (CopySource each : position.toCopy()) {
            if (System.nanoTime() - deadline > 0)
                throw new IOException("there was no time to keep the SSTables that it has to copy");
            ShadowFolder.Left kept = each.keep(position.sstables(), stop, Disk.REAL);
            left.add(kept);
            directories.add(Objects.requireNonNull(Path.of(kept.path()).getParent()));
        }
        for (Path directory : directories) Disk.REAL.syncDirectory(directory);
        return left;
    }

    // At a start

    /**
     * What a clean stop has left.
     *
     * @param toCopy what is to be copied yet
     */
    record Found(ShadowFolder folder, ShadowFolder.Closed closed, List<CopySource> toCopy) {
        /** The partition with which the first of these goes on; null if it was not begun. */
        @Nullable DecoratedKey nextKey(ColumnFamilyStore cfs) {
            String key = closed.nextKey();
            return key == null ? null : cfs.decorateKey(ByteBufferUtil.hexToBytes(key));
        }

        /** If no copy goes on with it. */
        void release() {
            toCopy.forEach(CopySource::release);
        }
    }

    /**
     * Takes what the last stop has left, before anything is written to the table.
     *
     * @return null if there is no copy that can go on
     */
    @Nullable Found take() throws IOException {
        ShadowFolder folder = null;
        ShadowFolder.Closed closed = null;
        boolean isOne = true;
        List<ShadowFolder> folders = ShadowFolder.allOf(cfs);
        for (ShadowFolder each : folders) {
            ShadowFolder.Closed found = each.take();
            if (found == null) continue;
            isOne = closed == null;
            folder = each;
            closed = found;
        }
        if (folder == null || closed == null || !isOne) return null;
        Set<SSTableReader> live = cfs.getLiveSSTables();
        if (!folder.copies().contains(closed.copy())
                || !closed.sstables().equals(ShadowCopy.names(live))) {
            logger.info(
                    "The SSTables of {} are not those that it had when the node was stopped; its"
                            + " shadow is made anew",
                    name);
            return null;
        }
        List<CopySource> toCopy = toCopy(closed, live, folders);
        return toCopy == null ? null : new Found(folder, closed, toCopy);
    }

    /**
     * What is to be copied yet, or null if not all of it is there. Deletes what was kept by other
     * stops.
     */
    private @Nullable List<CopySource> toCopy(
            ShadowFolder.Closed closed, Set<SSTableReader> sstables, List<ShadowFolder> folders)
            throws IOException {
        Map<Path, SSTableReader> live = new HashMap<>();
        for (SSTableReader each : sstables) live.put(CopySource.path(each), each);
        List<CopySource> all = new ArrayList<>();
        boolean isWhole = false;
        try {
            for (ShadowFolder.Left each : closed.left()) {
                SSTableReader sstable = live.get(Path.of(each.path()));
                if (sstable != null) all.add(CopySource.of(sstable.ref(), each.newFrom()));
                else if (CopySource.isThere(each, folders)) all.add(CopySource.kept(each));
                else {
                    logger.info(
                            "{} is not there; the shadow of {} is made anew", each.path(), name);
                    return null;
                }
            }
            for (ShadowFolder each : folders) CopySource.deleteOthers(each, closed.left());
            isWhole = true;
            return all;
        } finally {
            if (!isWhole) all.forEach(CopySource::release);
        }
    }
}
