// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.commitlog.LogArchive;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.disk.StoreMarker;
import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.metrics.VirtualTables;
import dev.petra.cassandra.shadow.PromotionDoubts;
import dev.petra.cassandra.shadow.ShadowFactory;
import dev.petra.cassandra.table.IndexSupport;
import dev.petra.cassandra.table.TableRegistry;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.SchemaConstants;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.ViewMetadata;
import org.apache.cassandra.service.ClientWarn;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses the statements that an engine table cannot honour yet.
 *
 * <p>It sees the change that a statement on this node would make, before anything of it is written.
 * Changes that other nodes made, and the schema read at start, do not come this way: refusing those
 * would leave the schema half applied.
 */
final class SchemaGate {
    private static final Logger logger = LoggerFactory.getLogger(SchemaGate.class);

    private static final String NO_BACKUPS =
            "incremental_backups does not include it, take snapshots instead";

    private static final String NO_ARCHIVE =
            "archived commit logs (commitlog_archiving.properties) do not include it, take"
                    + " snapshots instead";

    private static final String NO_CDC =
            "change data capture reads Cassandra's commit log, which its writes skip.";

    private static final String NO_TRANSIENT_REPLICAS =
            "transient replication of its keyspace is not supported.";

    private SchemaGate() {}

    /**
     * @throws InvalidRequestException if the change is refused
     */
    static void check(Keyspaces.KeyspacesDiff change) {
        for (KeyspaceMetadata keyspace : change.created) {
            if (keyspace.name.equals(VirtualTables.KEYSPACE))
                throw new InvalidRequestException(
                        "Keyspace '"
                                + keyspace.name
                                + "' holds the virtual tables of this node's storage engines:"
                                + " choose another name.");
            check(null, keyspace);
        }
        for (KeyspaceMetadata.KeyspaceDiff keyspace : change.altered)
            check(keyspace.before, keyspace.after);
    }

    private static void check(@Nullable KeyspaceMetadata before, KeyspaceMetadata after) {
        for (TableMetadata table : after.tables) {
            TableMetadata old = before == null ? null : before.tables.getNullable(table.id);
            if (table.equals(old)) continue;
            if (old == null) checkCreated(table);
            else checkAltered(old, table);
            checkShadow(old, table);
            checkIndexes(old, table);
            checkViews(old, table, after);
            warn(old, table);
            warnOfWindows(old, table);
            warnOfShadow(old, before, table, after);
            warnOfTheWayBack(old, table);
            // Cassandra checks this for a new table, but not where ALTER TABLE sets nothing else.
            if (PetraMemtableFactory.owns(table) && table.params.cdc) throw refused(table, NO_CDC);
        }
        for (ViewMetadata view : after.views) {
            ViewMetadata old = before == null ? null : before.views.getNullable(view.name());
            if (!view.equals(old)) checkView(old, view, after.tables.getNullable(view.baseTableId));
        }
        if (DatabaseDescriptor.isTransientReplicationEnabled()) checkReplication(after);
    }

    private static void checkView(
            @Nullable ViewMetadata before, ViewMetadata after, @Nullable TableMetadata base) {
        if (ShadowFactory.of(after.metadata) != null)
            throw noShadow(after.metadata, "materialized views have none.");
        if (PetraMemtableFactory.owns(after.metadata))
            throw refused(after.metadata, "materialized views in an engine are not supported yet.");
        if (before != null || base == null) return;
        if (PetraMemtableFactory.owns(base))
            throw refused(base, "materialized views on it are not supported yet.");
        if (ShadowFactory.of(base) != null) warnOfObstacle(base, onIt(after));
    }

    private static String onIt(ViewMetadata view) {
        return "materialized views on it ('" + view.name() + "') are not supported yet.";
    }

    private static void checkReplication(KeyspaceMetadata keyspace) {
        if (!Host.current().hasTransientReplicas(keyspace)) return;
        for (TableMetadata table : keyspace.tables)
            if (PetraMemtableFactory.owns(table)) throw refused(table, NO_TRANSIENT_REPLICAS);
    }

    private static void checkCreated(TableMetadata table) {
        if (PetraMemtableFactory.owns(table)) {
            if (SchemaConstants.isSystemKeyspace(table.keyspace))
                throw refused(table, "system tables cannot be.");
            if (table.isCompactTable())
                throw refused(table, "a table WITH COMPACT STORAGE cannot be.");
            return;
        }
        for (String data : DatabaseDescriptor.getNonLocalSystemKeyspacesDataFileLocations())
            for (String name : StoreLocation.directoryNames(table))
                checkEmpty(table, Path.of(data, table.keyspace, name));
    }

    private static void checkEmpty(TableMetadata table, Path directory) {
        StoreLocation left = new StoreLocation(directory, Disk.REAL);
        if (left.holdsData())
            throw new InvalidRequestException(
                    "Table "
                            + table
                            + " would not show the data in "
                            + left.root()
                            + ", which is in a storage engine: create it WITH memtable = the"
                            + " engine's configuration AND ID = the ID that it had, or move that"
                            + " directory away, "
                            + StoreMarker.WITH_MARKERS
                            + ".");
    }

    private static void checkAltered(TableMetadata before, TableMetadata after) {
        if (!PetraMemtableFactory.owns(after)
                || before.params.memtable.factory().equals(after.params.memtable.factory())) return;
        if (PetraMemtableFactory.owns(before))
            throw refused(
                    after,
                    "it cannot be migrated to an engine with other settings directly. Alter it to a"
                        + " memtable of Cassandra's, wait until petra.migrations no longer shows it"
                        + " on any node, and alter it again.");
        if (SchemaConstants.isSystemKeyspace(after.keyspace))
            throw refused(after, "system tables cannot be.");
        if (after.isCompactTable())
            throw refused(
                    after,
                    "a table WITH COMPACT STORAGE cannot be. ALTER TABLE … DROP COMPACT STORAGE"
                            + " first.");
    }

    private static void checkShadow(@Nullable TableMetadata before, TableMetadata after) {
        boolean was = before != null && ShadowFactory.of(before) != null;
        if (was && PetraMemtableFactory.owns(after)) checkAnswers(after);
        if (was || ShadowFactory.of(after) == null) return;
        if (SchemaConstants.isSystemKeyspace(after.keyspace))
            throw noShadow(after, "system tables have none.");
        if (after.isCompactTable())
            throw noShadow(after, "a table WITH COMPACT STORAGE cannot be in an engine.");
        if (before == null) return;
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(after.id);
        if (PetraMemtableFactory.owns(before) || (cfs != null && TableRegistry.find(cfs) != null))
            throw noShadow(
                    after,
                    "its data is in a storage engine, or leaving one. Alter it to a memtable of"
                            + " Cassandra's, wait until petra.migrations no longer shows it on any"
                            + " node, and alter it again.");
    }

    private static void checkAnswers(TableMetadata after) {
        String doubt = PromotionDoubts.of(after.id);
        if (doubt != null)
            throw noShadow(
                    after,
                    "the table is not migrated into an engine, because "
                            + doubt
                            + ". To migrate it all the same, alter it to a memtable of Cassandra's"
                            + " first, which deletes the shadow: the table is then migrated from"
                            + " its SSTables. If you know why the two differed, 'petra shadow anew "
                            + after
                            + "' copies the shadow anew on a node, without the differences.");
    }

    private static InvalidRequestException noShadow(TableMetadata table, String reason) {
        return new InvalidRequestException("Shadow of table " + table + ": " + reason);
    }

    private static void checkIndexes(@Nullable TableMetadata before, TableMetadata after) {
        if (!PetraMemtableFactory.owns(after)) return;
        boolean was = before != null && PetraMemtableFactory.owns(before);
        for (IndexMetadata index : after.indexes) {
            if (was && before != null && before.indexes.has(index.name)) continue;
            String reason = reason(after.params.memtable.factory(), after, index);
            if (reason == null) continue;
            String first =
                    before == null || was
                            ? ""
                            : ". DROP INDEX "
                                    + ColumnIdentifier.maybeQuote(after.keyspace)
                                    + "."
                                    + ColumnIdentifier.maybeQuote(index.name)
                                    + " first; queries by it fail until the other is built.";
            throw refused(after, "index '" + index.name + "': " + reason + first);
        }
    }

    /** Why a table cannot have an index in an engine, or null. */
    private static @Nullable String reason(
            Memtable.Factory engine, TableMetadata table, IndexMetadata index) {
        return engine instanceof PetraMemtableFactory factory && factory.open().hasIndexes()
                ? IndexSupport.reason(table, index)
                : IndexSupport.ENGINE_HAS_NONE;
    }

    /** Refuses a statement that would put a table with views into an engine. */
    private static void checkViews(
            @Nullable TableMetadata before, TableMetadata after, KeyspaceMetadata keyspace) {
        if (before == null
                || PetraMemtableFactory.owns(before)
                || !PetraMemtableFactory.owns(after)) return;
        for (ViewMetadata view : keyspace.views)
            if (view.baseTableId.equals(after.id)) throw refused(after, onIt(view));
    }

    /** Warns of options that the engine does not honour, and that the statement sets. */
    private static void warn(@Nullable TableMetadata before, TableMetadata after) {
        if (!(after.params.memtable.factory() instanceof PetraMemtableFactory factory)) return;
        List<String> reservations = new ArrayList<>(factory.open().reservations(after.params));
        if (before != null && PetraMemtableFactory.owns(before))
            reservations.removeAll(factory.open().reservations(before.params));
        // Not options of the table, so they are said once.
        else {
            if (DatabaseDescriptor.isIncrementalBackupsEnabled()) reservations.add(NO_BACKUPS);
            if (LogArchive.isConfigured()) reservations.add(NO_ARCHIVE);
        }
        for (String reservation : reservations) {
            String warning =
                    "Table "
                            + after
                            + " is in storage engine '"
                            + factory.engine().engine()
                            + "': "
                            + reservation
                            + ".";
            warn(warning);
        }
    }

    /**
     * Warns of a table with time windows that leaves its engine. Its store is written to SSTables
     * in the order of its partitions, so that each has data of all windows. None of them expires
     * before the newest data in it does, and because of the oldest in them none that comes later is
     * dropped before.
     */
    private static void warnOfWindows(@Nullable TableMetadata before, TableMetadata after) {
        if (before == null
                || !PetraMemtableFactory.owns(before)
                || PetraMemtableFactory.owns(after)
                || !TimeWindowCompactionStrategy.class.isAssignableFrom(
                        after.params.compaction.klass())) return;
        warn(
                "Table "
                        + after
                        + " leaves its storage engine: each SSTable that is written of it has data"
                        + " of all time windows, so "
                        + after.params.compaction.klass().getSimpleName()
                        + " drops no expired SSTable of the table until its time to live and"
                        + " gc_grace_seconds have passed since. The disk must have room for what"
                        + " expires until then.");
    }

    /** Warns that a table with a shadow, which is back at once until now, is not any more. */
    private static void warnOfTheWayBack(@Nullable TableMetadata before, TableMetadata after) {
        if (before == null || ShadowFactory.of(before) == null || !PetraMemtableFactory.owns(after))
            return;
        warn(
                "Table "
                        + after
                        + " goes into its storage engine: from now on the way back is a migration,"
                        + " which takes as long as the table is large. A table with a shadow of"
                        + " 'mode: fallback' is back at once.");
    }

    private static void warn(String warning) {
        logger.warn(warning);
        ClientWarn.instance.warn(warning);
    }

    /** Warns of what a shadow changes besides, and of what keeps the table from its engine. */
    private static void warnOfShadow(
            @Nullable TableMetadata before,
            @Nullable KeyspaceMetadata keyspaceBefore,
            TableMetadata after,
            KeyspaceMetadata keyspace) {
        ShadowFactory shadow = ShadowFactory.of(after);
        if (shadow == null) return;
        List<String> obstacles = obstacles(shadow, after, keyspace);
        ShadowFactory former = before == null ? null : ShadowFactory.of(before);
        if (before != null && keyspaceBefore != null && former != null)
            obstacles.removeAll(obstacles(former, before, keyspaceBefore));
        else if (before != null
                && !before.params.memtable.factory().equals(MemtableParams.DEFAULT.factory()))
            warn(
                    "Table "
                            + after
                            + " has a shadow: its memtable is that of the configuration 'default'"
                            + " from now on. To go back, alter it to '"
                            + before.params.memtable.configurationKey()
                            + "', which it had before.");
        for (String obstacle : obstacles) warnOfObstacle(after, obstacle);
    }

    private static void warnOfObstacle(TableMetadata table, String obstacle) {
        warn(
                "Table "
                        + table
                        + " has a shadow, but could not be migrated into its engine: "
                        + obstacle);
    }

    /** Why a table with a shadow could not be migrated into the engine as it is. */
    private static List<String> obstacles(
            ShadowFactory shadow, TableMetadata table, KeyspaceMetadata keyspace) {
        List<String> obstacles = new ArrayList<>();
        Memtable.Factory engine = new PetraMemtableFactory(shadow.engine());
        for (IndexMetadata index : table.indexes) {
            String reason = reason(engine, table, index);
            if (reason != null) obstacles.add("index '" + index.name + "': " + reason);
        }
        for (ViewMetadata view : keyspace.views)
            if (view.baseTableId.equals(table.id)) obstacles.add(onIt(view));
        if (table.params.cdc) obstacles.add(NO_CDC);
        if (DatabaseDescriptor.isTransientReplicationEnabled()
                && Host.current().hasTransientReplicas(keyspace))
            obstacles.add(NO_TRANSIENT_REPLICAS);
        return obstacles;
    }

    private static InvalidRequestException refused(TableMetadata table, String reason) {
        return new InvalidRequestException(
                "Table " + table + " is, or would be, in a storage engine: " + reason);
    }
}
