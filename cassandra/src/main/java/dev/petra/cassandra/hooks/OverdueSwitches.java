// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static org.apache.cassandra.db.ColumnFamilyStore.FlushReason.SCHEMA_CHANGE;

import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.table.EngineMemtable;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.utils.NoSpamLogger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has tables switch their memtables that are not where the schema has them: one whose way out of an
 * engine could not begin, or which was truncated just when it was to begin; one whose way into an
 * engine could not begin; and one that got another memtable of Cassandra's in the midst of an ALTER
 * into an engine. Cassandra asks no memtable again, and the commit log would keep all that is
 * written to the former.
 */
final class OverdueSwitches {
    private static final Logger logger = LoggerFactory.getLogger(OverdueSwitches.class);

    private OverdueSwitches() {}

    /** To be called now and then. Throws nothing; what fails is tried again by the next call. */
    static void run() {
        run(ColumnFamilyStore.all());
    }

    static void run(Iterable<ColumnFamilyStore> tables) {
        for (ColumnFamilyStore cfs : tables) {
            if (!isOverdue(cfs)) continue;
            try {
                // In the midst of one, the next memtable would be of the former configuration.
                Host.current()
                        .betweenSchemaChanges(
                                () -> {
                                    if (isOverdue(cfs))
                                        switchMemtable(cfs, cfs.getCurrentMemtable());
                                });
            } catch (RuntimeException | FSError e) {
                NoSpamLogger.log(
                        logger,
                        NoSpamLogger.Level.ERROR,
                        1,
                        TimeUnit.HOURS,
                        "Table {} is not yet in the memtable that its schema says; this is tried"
                                + " again",
                        cfs.metadata,
                        e);
            }
        }
    }

    private static void switchMemtable(ColumnFamilyStore cfs, Memtable current) {
        Memtable.Factory wanted = cfs.metadata().params.memtable.factory();
        // An engine's begins the migration where it is asked. Cassandra's would answer no: it was
        // made when the schema was as it is now.
        if (current instanceof EngineMemtable) {
            if (!current.shouldSwitch(SCHEMA_CHANGE)) return;
        } else if (wanted instanceof PetraMemtableFactory engine) {
            TableLifecycle.prepareArrival(cfs, engine.engine());
        }
        // Cassandra logs a flush that fails, and a migration logs for itself.
        var unused = cfs.switchMemtableIfCurrent(current, SCHEMA_CHANGE);
    }

    private static boolean isOverdue(ColumnFamilyStore cfs) {
        // Without a tracker it is being created.
        if (cfs.getTracker() == null || !cfs.isValid()) return false;
        // It is switched when its shadow is its store.
        if (TableLifecycle.isTakenOver(cfs)) return false;
        // A TRUNCATE that has begun would be refused half-way; a cleanup or scrub ends.
        if (Shadows.isShrinking(cfs)) return false;
        boolean isOurs = PetraMemtableFactory.owns(cfs.metadata());
        // Also if the switch failed after the way out had begun.
        return cfs.getCurrentMemtable() instanceof EngineMemtable ? !isOurs : isOurs;
    }
}
