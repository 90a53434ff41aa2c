// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.table.CompactionInfos;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.Throttle;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.TimeUUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way of one table's data into its engine or out of it, in steps that can each be repeated
 * after a crash. {@link Migrations} takes them one after the other. The table is read and written
 * all the while: what is in both places merges to the same as what is in one.
 */
public abstract class Migration {
    private static final Logger logger = LoggerFactory.getLogger(Migration.class);

    /** How long a migration rests that has to wait for something. */
    static final Duration SOON = Duration.ofSeconds(1);

    /** How long after {@code nodetool stop}, or after a failure. */
    static final Duration LATER = Duration.ofSeconds(10);

    public final ColumnFamilyStore cfs;
    final TableGenerations stores;
    final long number;

    private final AtomicLong doneBytes = new AtomicLong();
    private volatile Progress progress = new Progress();
    private volatile String state = "waiting to begin";

    /** The table's, as long as their disks could be read. */
    private final List<Set<File>> directories;

    private final ReentrantLock stepping = new ReentrantLock();

    Migration(ColumnFamilyStore cfs, TableGenerations stores, long number) {
        this.cfs = cfs;
        this.stores = stores;
        this.number = number;
        this.directories = directories(cfs.metadata());
    }

    private static List<Set<File>> directories(TableMetadata table) {
        return Arrays.stream(DatabaseDescriptor.getNonLocalSystemKeyspacesDataFileLocations())
                .map(data -> names(new File(data, table.keyspace), table))
                .toList();
    }

    /** Each that one may have: Cassandra goes by where links lead. */
    private static Set<File> names(File keyspace, TableMetadata table) {
        Set<File> names = new HashSet<>();
        for (String name : StoreLocation.directoryNames(table)) {
            File directory = new File(keyspace, name);
            names.add(directory);
            try {
                names.add(directory.toCanonical());
            } catch (RuntimeException | FSError e) {
                logger.warn("{} cannot be looked at: is its disk failing?", directory, e);
            }
        }
        return names;
    }

    /**
     * Goes on for a while.
     *
     * @return when to go on; null if it is over, because all is done or another migration began
     */
    abstract @Nullable Duration step();

    /** As {@link #step}, which {@link #awaitStep} waits for. */
    final @Nullable Duration takeStep() {
        stepping.lock();
        try {
            return step();
        } finally {
            stepping.unlock();
        }
    }

    /** Whether no step is under way, or it ended within the time. */
    final boolean awaitStep(Duration patience) throws InterruptedException {
        if (!stepping.tryLock(patience.toNanos(), TimeUnit.NANOSECONDS)) return false;
        stepping.unlock();
        return true;
    }

    /** {@code in} or {@code out}. */
    public abstract String direction();

    /** About how many bytes are left. */
    public abstract long bytesLeft();

    /** Whether to stop now: this is no longer the table's migration, or the node shuts down. */
    final boolean isOver() {
        return Migrations.areStopped() || !stores.migration().isCurrent(number);
    }

    /** Whether to stop for now. */
    final boolean isHalted() {
        return progress.isStopRequested() || isOver();
    }

    /**
     * In how many data directories Cassandra reads nothing of the table any more since their disk
     * has failed, by disk_failure_policy: best_effort. Their SSTables are not among the table's.
     */
    final long unreadableDirectories() {
        return directories.stream()
                .filter(names -> names.stream().anyMatch(DisallowedDirectories::isUnreadable))
                .count();
    }

    /** Begins a step, which nobody has stopped yet. */
    final void newProgress() {
        progress = new Progress();
    }

    /** Whether {@code nodetool stop}, or what needs the SSTables, has stopped this step. */
    final boolean isStopRequested() {
        return progress.isStopRequested();
    }

    /**
     * Does what {@code nodetool compactionstats} shows and {@code nodetool stop} ends. A step that
     * only waits is neither shown nor counted as a compaction.
     */
    final <T> T shown(Supplier<T> work) {
        Progress shown = progress;
        CompactionManager.instance.active.beginCompaction(shown);
        try {
            return work.get();
        } finally {
            shown.end();
            CompactionManager.instance.active.finishCompaction(shown);
        }
    }

    /** What it does or waits for. */
    public final String state() {
        return state;
    }

    final void state(String now) {
        state = now;
    }

    public final long doneBytes() {
        return doneBytes.get();
    }

    /** Counts what was migrated, and waits as {@code compaction_throughput} wants it. */
    final void migrated(long bytes) {
        if (bytes <= 0) return;
        doneBytes.addAndGet(bytes);
        Throttle.asCompactions(bytes, this::isHalted);
    }

    private final class Progress extends CompactionInfo.Holder {
        private final TimeUUID id = TimeUUID.Generator.nextTimeUUID();
        private final long before = doneBytes();
        private volatile boolean ended;

        /** From now on it is about this step alone: Cassandra adds it to what was compacted. */
        void end() {
            ended = true;
        }

        @Override
        public CompactionInfo getCompactionInfo() {
            long done = ended ? doneBytes() - before : doneBytes();
            long total = ended ? done : done + bytesLeft();
            return CompactionInfos.withoutSSTables(
                    cfs.metadata(),
                    OperationType.UNKNOWN,
                    done,
                    total,
                    CompactionInfo.Unit.BYTES,
                    id);
        }

        @Override
        public boolean isGlobal() {
            return false;
        }
    }

    @Override
    public String toString() {
        return "The migration of "
                + stores.displayName()
                + (direction().equals("in") ? " into" : " out of")
                + " its engine";
    }
}
