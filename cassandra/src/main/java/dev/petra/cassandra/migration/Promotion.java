// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import java.time.Duration;
import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives a table's SSTables up unread, whose shadow has become its store by {@link Takeover}: all
 * that is in them is there. Whatever goes wrong before, in one transaction, they go, {@link
 * MigrateIn} migrates them.
 */
final class Promotion {
    private static final Logger logger = LoggerFactory.getLogger(Promotion.class);

    /** How long writes that have ended in the table may take to be in the store. */
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    private final MigrateIn migration;
    private final ColumnFamilyStore cfs;
    private final TableGenerations stores;
    private final ShadowSource shadow;

    Promotion(MigrateIn migration, ShadowSource shadow) {
        this.migration = migration;
        this.cfs = migration.cfs;
        this.stores = migration.stores;
        this.shadow = shadow;
    }

    /** Why the SSTables are migrated. */
    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused(String reason) {
            super(reason);
        }
    }

    /**
     * Goes on, while the table's memtable is the engine's.
     *
     * @return when to go on; null if it is over, because all is done or it cannot be
     */
    @Nullable Duration step() {
        try {
            return tryStep();
        } catch (Refused e) {
            logger.info(
                    "The SSTables of {} are migrated, although its shadow has become its store: {}",
                    stores.displayName(),
                    e.getMessage());
        } catch (RuntimeException | Error e) {
            if (migration.isOver()) logger.debug("{} is over", migration, e);
            else {
                logger.warn(
                        "The SSTables of {} are migrated, although its shadow has become its store",
                        stores.displayName(),
                        e);
                Migrations.inspect(e);
            }
        }
        return null;
    }

    private @Nullable Duration tryStep() {
        check();
        if (EngineMemtables.hasFailedFlush(cfs, 0))
            throw new Refused("a flush of the table has failed");
        if (!EngineMemtables.areWritesOurs(cfs)) {
            migration.state("waiting for the flush of the former memtable");
            return Migration.SOON;
        }
        complete();
        if (migration.shown(this::claimAndGiveUp)) return null;
        migration.state("waiting for a compaction of the table's SSTables");
        return Migration.SOON;
    }

    private void check() {
        if (migration.isOver()) throw over();
        if (migration.isHalted()) throw new Refused("it was stopped");
        String lacks = shadow.lacks();
        if (lacks != null) throw new Refused(lacks);
        // What was written twice has no entries.
        if (!cfs.indexManager.listIndexes().isEmpty()) throw new Refused("the table got an index");
    }

    private static Refused over() {
        return new Refused(
                Migrations.areStopped()
                        ? "the node shuts down"
                        : "the table was altered or dropped");
    }

    /** Until the store has all writes that did not begin there. They are in the table by now. */
    private void complete() {
        shadow.complete();
        if (!shadow.awaitTold(PATIENCE, this::check))
            throw new Refused("writes of before are not there after a minute");
    }

    /** False if somebody else has some of the SSTables. */
    private boolean claimAndGiveUp() {
        // What a compaction has just made of some is compacting until the shadow was told of it.
        boolean isCompacting = !cfs.getTracker().getCompacting().isEmpty();
        Set<SSTableReader> all = shadow.accounted(cfs.getLiveSSTables());
        int count = all.size();
        // A compaction may be long, and be followed by the next one.
        all.removeAll(cfs.getTracker().getCompacting());
        return (all.isEmpty() || claimAndGiveUp(all)) && all.size() == count && !isCompacting;
    }

    private boolean claimAndGiveUp(Set<SSTableReader> all) {
        try (LifecycleTransaction claimed =
                cfs.getTracker().tryModify(all, OperationType.RELOCATE)) {
            // Whoever had one meanwhile may have made others of it.
            if (claimed == null || !shadow.accounted(all).equals(all)) return false;
            stores.current().writable().syncLog();
            // The SSTables say that what the commit log has of them is not to be replayed, as long
            // as they are there.
            if (!migration.passCommitLog(() -> {})) throw over();
            if (!giveUp(claimed)) throw over();
            logger.info(
                    "The shadow of {} is its store; {} SSTables were given up unread",
                    stores.displayName(),
                    all.size());
            return true;
        }
    }

    private boolean giveUp(LifecycleTransaction claimed) {
        stores.lockContent();
        try {
            check();
            return stores.migration()
                    .step(
                            migration.number,
                            () -> {
                                claimed.obsoleteOriginals();
                                claimed.finish();
                            });
        } finally {
            stores.unlockContent();
        }
    }
}
