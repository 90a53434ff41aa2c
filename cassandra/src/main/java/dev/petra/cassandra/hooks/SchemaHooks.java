// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import dev.petra.cassandra.AgentMissing;
import dev.petra.cassandra.PetraMemtable;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.MigrationMark;
import dev.petra.cassandra.disk.OrphanStores;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.disk.StoreMarker;
import dev.petra.cassandra.migration.Migrations;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Join points of the schema: statements, and tables that come and go. */
public final class SchemaHooks {
    private static final Logger logger = LoggerFactory.getLogger(SchemaHooks.class);

    /** How long DROP, which holds up the schema, waits for its files to be deleted. */
    private static final Duration DROP_PATIENCE = Duration.ofSeconds(5);

    private SchemaHooks() {}

    /**
     * Before the change that a statement makes is written to the schema tables.
     *
     * @throws org.apache.cassandra.exceptions.InvalidRequestException if it is refused
     */
    public static void beforeSchemaChange(Keyspaces.KeyspacesDiff change) {
        SchemaGate.check(change);
    }

    /**
     * When a table was opened. Data that is in an engine although the table belongs elsewhere now,
     * by its schema or by {@code cassandra.yaml}, is migrated out.
     *
     * @throws IllegalStateException while the node starts, if there is such data and it cannot be
     *     read, or it is not known whether it belongs there: the table would look empty
     */
    public static void afterOpen(ColumnFamilyStore cfs) {
        TableMetadata table = cfs.metadata.get();
        if (DatabaseDescriptor.isDaemonInitialized()) Shadows.opened(cfs);
        if (!DatabaseDescriptor.isDaemonInitialized()
                || table.isIndex()
                || PetraMemtableFactory.owns(table)
                || table.params.memtable.factory() instanceof AgentMissing) return;
        bringBack(cfs);
        migrateOut(cfs);
        refuseIfMissing(cfs);
    }

    private static void migrateOut(ColumnFamilyStore cfs) {
        try {
            for (Path directory : TableRegistry.directories(cfs))
                migrateOut(cfs, new StoreLocation(directory, Disk.REAL));
        } catch (RuntimeException | FSError e) {
            // An exception would leave the schema half applied, as in cannotBeRead.
            if (!StorageService.instance.isDaemonSetupCompleted()) throw e;
            logger.error(
                    "Data of table {} that is in a storage engine cannot be read, so the table may"
                            + " look empty, and the node will not start again. Correct what the"
                            + " error names and restart the node, or drop the table",
                    cfs.metadata(),
                    e);
        }
    }

    private static void migrateOut(ColumnFamilyStore cfs, StoreLocation store) {
        TableMetadata table = cfs.metadata.get();
        MigrationMark mark = store.migrationMark();
        if (mark == null && !store.holdsData()) return;
        if (store.isKept()) {
            logger.error(
                    "{} has data of a dropped table that could not be moved to a snapshot, and"
                            + " table {} has its id; it is left alone",
                    store.parent(),
                    cfs);
            return;
        }
        PetraMemtableFactory reader = readerOf(table, mark);
        if (reader != null) TableLifecycle.resumeMigrationOut(cfs, reader);
        else cannotBeRead(table, store);
    }

    private static void refuseIfMissing(ColumnFamilyStore cfs) {
        List<Path> directories = TableRegistry.directories(cfs);
        String missing;
        try {
            missing = missing(directories, cfs.metadata());
        } catch (RuntimeException | FSError e) {
            if (!StorageService.instance.isDaemonSetupCompleted()) throw e;
            logger.error("It is not known whether data of table {} is missing", cfs, e);
            return;
        }
        if (missing != null) refuse(missing);
    }

    /**
     * What is left in an engine may be on a missing disk, or in a directory that is passed over:
     * the SSTables are not all of the data.
     */
    static @Nullable String missing(List<Path> directories, TableMetadata table) {
        String hidden = StoreLocation.hidden(directories, table);
        return hidden != null
                ? hidden
                : StoreMarker.missing(directories, table.id, table.toString());
    }

    private static void bringBack(ColumnFamilyStore cfs) {
        try {
            OrphanStores.bringBack(TableRegistry.directories(cfs));
        } catch (RuntimeException | FSError e) {
            // An exception would leave the schema half applied, as in cannotBeRead.
            if (!StorageService.instance.isDaemonSetupCompleted()) throw e;
            logger.error(
                    "The data of table {} that a snapshot holds could not be moved back, so the"
                            + " table may look empty. Correct what the error names, and restart"
                            + " the node",
                    cfs,
                    e);
        }
    }

    /**
     * The configuration by which a store is read whose table is not in an engine by its schema.
     * Null if the configuration that the schema names is missing in {@code cassandra.yaml}, or
     * cannot be used: it may be an engine's.
     */
    private static @Nullable PetraMemtableFactory readerOf(
            TableMetadata table, @Nullable MigrationMark mark) {
        if (!PetraMemtableFactory.isUsable(table.params.memtable.configurationKey())) return null;
        PetraMemtableFactory marked =
                mark == null ? null : PetraMemtableFactory.named(mark.configuration());
        return marked != null ? marked : PetraMemtableFactory.any();
    }

    private static void cannotBeRead(TableMetadata table, StoreLocation store) {
        String message =
                "Table "
                        + table
                        + " has its data in a storage engine, in "
                        + store
                        + ", but its memtable configuration '"
                        + table.params.memtable.configurationKey()
                        + "' is not in cassandra.yaml of this node, or cannot be used, which would"
                        + " show an empty table. Add or correct that configuration, with the class "
                        + PetraMemtable.class.getName()
                        + ", or move the directory away, "
                        + StoreMarker.WITH_MARKERS
                        + ".";
        refuse(message);
    }

    private static void refuse(String message) {
        if (!StorageService.instance.isDaemonSetupCompleted())
            throw new IllegalStateException(message);
        // Throwing here would leave the schema half applied on this node.
        logger.error(message);
    }

    /**
     * When DROP has unloaded a table: its files are gone on return, unless it is still read, or
     * their deletion takes long.
     */
    public static void afterUnload(ColumnFamilyStore cfs) {
        Shadows.unloaded(cfs, DROP_PATIENCE);
        TableGenerations stores = TableRegistry.find(cfs);
        if (stores == null) return;
        EngineMemtable departing = EngineMemtables.departing(cfs);
        EngineMemtable current = EngineMemtables.current(cfs);
        if (current != null && !PetraMemtableFactory.owns(cfs.metadata())) {
            // An ALTER out of the engine could not begin. The next memtable would be Cassandra's,
            // which ends no store; and what kept the ALTER from it may keep this one too.
            if (TableLifecycle.drop(cfs)) current.generation().discard();
        } else if (current != null && stores.current().isLive()) {
            // While the table is being migrated Cassandra asks for a flush instead.
            FBUtilities.waitOnFuture(cfs.dumpMemtable());
        } else if (departing != null && TableLifecycle.drop(cfs)) {
            // Beside one that stands for the dropped table, where an ALTER back could not begin.
            Migrations.awaitStep(stores, DROP_PATIENCE);
            EngineMemtables.forget(cfs, departing);
            departing.generation().discard();
        }
        TableRegistry.remove(cfs);
        try {
            if (!stores.awaitDisposed(DROP_PATIENCE))
                logger.warn(
                        "The files of {}, which was dropped, are not yet deleted, because the"
                                + " table is still being read, or has many of them. They are"
                                + " deleted in the background when the last read ends, or when the"
                                + " node is restarted",
                        stores.displayName());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            logger.warn(
                    "Interrupted while the files of {}, which was dropped, are deleted; the rest"
                            + " is deleted later, or when the node is restarted",
                    stores.displayName());
        }
    }
}
