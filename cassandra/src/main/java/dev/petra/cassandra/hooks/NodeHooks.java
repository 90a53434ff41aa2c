// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import dev.petra.cassandra.StartupCheck;
import dev.petra.cassandra.commitlog.CommitLogOrder;
import dev.petra.cassandra.commitlog.LogArchive;
import dev.petra.cassandra.commitlog.LogReplay;
import dev.petra.cassandra.commitlog.ReplayPlan;
import dev.petra.cassandra.disk.OrphanStores;
import dev.petra.cassandra.disk.StoreGuard;
import dev.petra.cassandra.engine.Allocator;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.index.IndexSweeps;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.metrics.NodeGauges;
import dev.petra.cassandra.metrics.VirtualTables;
import dev.petra.cassandra.migration.Migrations;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.shadow.PromotionDoubts;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.streaming.StreamCapabilities;
import dev.petra.cassandra.table.Disposals;
import dev.petra.cassandra.table.TableRegistry;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.exceptions.StartupException;
import org.apache.cassandra.gms.ApplicationState;
import org.apache.cassandra.gms.VersionedValue;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Join points of the node: its start, its end, its commit log. */
public final class NodeHooks {
    private static final Logger logger = LoggerFactory.getLogger(NodeHooks.class);

    /** How often it is looked whether there is something new to tell other nodes. */
    private static final Duration ANNOUNCE = Duration.ofSeconds(1);

    /** How often Cassandra's metrics are told how large the tables are, besides after each verb. */
    private static final Duration DISK_SPACE = Duration.ofSeconds(10);

    private static final Duration UNANNOUNCED = Duration.ofSeconds(10);
    private static final Duration OVERDUE = Duration.ofSeconds(30);

    /** What other nodes hear by gossip, which waits for no store and no change of the schema. */
    private static final PeriodicTasks announcements = new PeriodicTasks("PetraAnnouncements");

    private static final PeriodicTasks upkeep = new PeriodicTasks("PetraUpkeep");

    private NodeHooks() {}

    /**
     * First of the start-up checks. Keeps its name and descriptor: a jar that another version wove
     * calls it too, and what it calls refuses that jar.
     *
     * @throws StartupException if the node must not start
     */
    public static void beforeStart() throws StartupException {
        StartupCheck.run();
    }

    /**
     * Whether the check of SSTables at start looks at a file.
     *
     * @param stock whether it would without Petra
     */
    public static boolean isCheckedAsSSTable(File file, boolean stock) {
        return stock && !StoreGuard.isNameOf(file.name());
    }

    /** When all tables are open and the node has not joined yet. */
    public static void afterTablesOpened() {
        LogReplay.ended();
        // The end of a migration needs the commit log, which is closed before the engines.
        boolean added =
                StorageService.instance.addPreShutdownHook(NodeHooks::stopMigrations)
                        && StorageService.instance.addPostShutdownHook(NodeHooks::afterShutdown);
        if (!added)
            logger.info("The node shuts down already; its storage engines close by themselves");
        VirtualTables.register();
        NodeGauges.register();
        if (!TableRegistry.isEmpty()) Allocator.check();
        TableRegistry.forEachOwner(StoreIndexes::dropFormer);
        Migrations.start();
        List<Path> directories = allTableDirectories();
        Shadows.start(directories);
        IndexSweeps.start();
        if (DatabaseDescriptor.isIncrementalBackupsEnabled() && !TableRegistry.isEmpty())
            logger.warn(
                    "incremental_backups does not include the tables in storage engines: take"
                            + " snapshots of them");
        if (LogArchive.isConfigured() && !TableRegistry.isEmpty())
            logger.warn(
                    "The commit logs that commitlog_archiving.properties archives or restores do"
                            + " not include the tables in storage engines: take and restore"
                            + " snapshots of them");
        // Else nothing would stop them before the engines close.
        if (added) startPeriodicTasks();
        OrphanStores.remove(
                directories,
                id -> Host.current().table(id) != null,
                (keyspace, table) -> Host.current().table(keyspace, table) != null,
                schemaDoubt(),
                OrphanStores.ttl(),
                FBUtilities.now());
    }

    private static void startPeriodicTasks() {
        announcements.every(
                ANNOUNCE, "The announcement of tables in engines", StreamCapabilities::publish);
        announcements.every(ANNOUNCE, "The announcement of shadows", PromotionDoubts::publish);
        upkeep.every(DISK_SPACE, "The count of disk space", TableRegistry::countDiskSpace);
        upkeep.every(
                UNANNOUNCED,
                "The search for SSTables that nobody announced",
                TableLifecycle::migrateUnannounced);
        upkeep.every(OVERDUE, "The switch of overdue memtables", OverdueSwitches::run);
    }

    /** Those of user tables, also of tables that are no more. */
    private static List<Path> allTableDirectories() {
        List<Path> directories = new ArrayList<>();
        for (String directory : DatabaseDescriptor.getNonLocalSystemKeyspacesDataFileLocations())
            directories.add(Path.of(directory));
        try {
            return StartupCheck.tableDirectories(directories);
        } catch (IOException e) {
            logger.error(
                    "The data directories cannot be searched for stores of dropped tables. Such"
                            + " stores take disk space until the node is restarted, which searches"
                            + " again",
                    e);
            return List.of();
        }
    }

    /**
     * Before gossip starts.
     *
     * @param states what other nodes hear first of this one
     */
    public static void beforeGossip(Map<ApplicationState, VersionedValue> states) {
        StreamCapabilities.publishWith(states);
        PromotionDoubts.publishWith(states);
    }

    private static void stopMigrations() {
        // First: they begin migrations, and switch memtables.
        upkeep.stop();
        try {
            try {
                Shadows.stop();
            } finally {
                Migrations.stop();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            logger.warn(
                    "Interrupted while migrations of tables stop; they go on at the next start");
        }
    }

    private static void afterShutdown() {
        // Gossip has ended, without which it tells nothing.
        announcements.stop();
        IndexSweeps.stop();
        Shadows.close();
        Disposals.logLeft();
        Engines.closeAll();
    }

    private static @Nullable String schemaDoubt() {
        if (Host.current().userKeyspaces().isEmpty()) return "the schema has no tables at all";
        // A crash while the tables of the schema are flushed leaves tables without columns.
        return CassandraRelevantProperties.IGNORE_CORRUPTED_SCHEMA_TABLES.getBoolean()
                ? "the node leaves out what it cannot read of the schema"
                : null;
    }

    /** Around the decision which records of the commit log are replayed. */
    public static void replayPlanBegins() {
        ReplayPlan.begin();
    }

    /** The end of {@link #replayPlanBegins}, also after an exception. */
    public static void replayPlanEnds() {
        ReplayPlan.end();
    }

    /**
     * When the records of a section of the commit log are complete, and before they are made valid.
     *
     * @throws org.apache.cassandra.io.FSError if an engine cannot sync what they rely on
     */
    public static void beforeCommitLogMarker() {
        CommitLogOrder.beforeMarker(Engines::opened);
    }
}
