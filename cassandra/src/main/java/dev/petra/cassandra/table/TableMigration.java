// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.MigrationMark;
import dev.petra.cassandra.disk.StoreLocation;
import java.nio.ByteBuffer;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;

/**
 * How far one table is on its way into its engine or out of it. That is kept on disk, so that it
 * lasts over restarts. Each migration has a number: one that is not the table's latest can take no
 * further step. Thread-safe, by the lock of the {@link TableGenerations}.
 */
public final class TableMigration {
    private final TableGenerations stores;
    private volatile @Nullable MigrationMark mark;
    private long latest;

    TableMigration(TableGenerations stores) {
        this.stores = stores;
    }

    /** Reads from disk whether there is one. */
    void open(StoreLocation place) {
        mark = place.migrationMark();
    }

    /** What is on disk of it; null if there is none. Does not block. */
    @Nullable MigrationMark mark() {
        return mark;
    }

    /**
     * Whether the table's data is on its way into the engine or out of it: then what is in the
     * store and what is in SSTables belongs together, and no deletion may be purged. Does not
     * block.
     */
    public boolean isUnderWay() {
        return mark != null;
    }

    /**
     * Says, durably, that the data is on its way to where the schema now says. Ends the migration
     * that is under way, if there is one.
     *
     * @param configuration the memtable configuration of the table's engine
     * @return the number of this migration
     * @throws FSWriteError if it cannot be made durable; nothing has changed then
     */
    public long begin(String configuration) {
        synchronized (stores) {
            note(new MigrationMark(configuration, null));
            return ++latest;
        }
    }

    /**
     * Says once more, durably, what is said already: where that fails, {@link #begin} would.
     *
     * @throws FSWriteError if it cannot be made durable
     */
    public void repeat() {
        synchronized (stores) {
            MigrationMark now = mark;
            if (now != null) note(now);
        }
    }

    private void note(MigrationMark next) {
        stores.usableDirectory().markMigration(next);
        mark = next;
    }

    /** The number of the migration that was under way when the table was opened. */
    public long resume() {
        synchronized (stores) {
            if (!isUnderWay())
                throw new IllegalStateException(stores.displayName() + " is not being migrated");
            return ++latest;
        }
    }

    /** How many began since the table was opened. */
    public long begun() {
        synchronized (stores) {
            return latest;
        }
    }

    /** Whether this migration is still the one under way. */
    public boolean isCurrent(long number) {
        synchronized (stores) {
            return isUnderWay() && number == latest && !stores.isDropped();
        }
    }

    /** Takes a step, unless the migration is over or another began. False if it did not. */
    public boolean step(long number, Runnable step) {
        synchronized (stores) {
            if (!isCurrent(number)) return false;
            step.run();
            return true;
        }
    }

    /** Up to which partition key the data was migrated out before; null if none was. */
    public @Nullable ByteBuffer migratedUpTo() {
        MigrationMark now = mark;
        return now == null ? null : now.after();
    }

    /** Says, durably, up to where the data was migrated out. */
    public void migratedUpTo(long number, ByteBuffer key) {
        synchronized (stores) {
            MigrationMark now = mark;
            if (now == null || !isCurrent(number)) return;
            note(new MigrationMark(now.configuration(), key));
        }
    }

    /**
     * Says, durably, that nothing was migrated out: the SSTables are not all there. False if it is
     * not the one under way.
     */
    public boolean beginAnew(long number) {
        return step(number, this::beginAnew);
    }

    /** The same of the one that was under way when the table was opened. */
    void beginAnew() {
        synchronized (stores) {
            MigrationMark now = mark;
            if (now != null) note(new MigrationMark(now.configuration(), null));
        }
    }

    /** Ends a migration into the engine, durably. False if it is not the one under way. */
    public boolean arrived(long number) {
        return step(
                number,
                () -> {
                    stores.usableDirectory().unmarkMigration();
                    mark = null;
                });
    }

    /**
     * Ends a migration out of the engine: the store is dead on disk once this has returned. False
     * if it is not the one under way.
     */
    public boolean departed(long number) {
        return step(
                number,
                () -> {
                    stores.endCurrent();
                    mark = null;
                });
    }
}
