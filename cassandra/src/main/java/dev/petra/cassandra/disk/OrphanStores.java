// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.SortedSet;
import java.util.UUID;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.DurationSpec;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.snapshot.SnapshotManifest;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The stores of tables that the schema does not know: what a crash in the middle of DROP leaves, or
 * a {@code system_schema} that was lost or is an old one. What DROP had already ended is deleted at
 * start. All else becomes a snapshot, by one renaming: such as DROP takes where {@code
 * auto_snapshot} is on, and otherwise one that expires, so that an operator has time to see it.
 * Cassandra lists snapshots, and deletes those that have expired. A store whose directory has no ID
 * stays where it is: any folder may be called so, as one that an operator has copied.
 */
public final class OrphanStores {
    private static final Logger logger = LoggerFactory.getLogger(OrphanStores.class);

    /** Those that Cassandra before 2.1 made have no ID, and later ones go on with them. */
    private static final Pattern TABLE_DIRECTORY =
            Pattern.compile(
                    "(\\w+)(-([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})"
                            + "([0-9a-f]{12}))?");

    /** The system property that says how long such a store is kept without auto_snapshot. */
    static final String TTL = "petra.unknown_table_ttl";

    private static final String DEFAULT_TTL = "7d";

    private OrphanStores() {}

    /**
     * How long such a store is kept; null for ever.
     *
     * @throws ConfigurationException if the property is ill-formed
     */
    public static DurationSpec.@Nullable IntSecondsBound ttl() {
        if (DatabaseDescriptor.isAutoSnapshot()) return DatabaseDescriptor.getAutoSnapshotTtl();
        String value = System.getProperty(TTL, DEFAULT_TTL);
        try {
            return new DurationSpec.IntSecondsBound(value);
        } catch (IllegalArgumentException e) {
            throw new ConfigurationException(
                    "-D" + TTL + " is '" + value + "', but must be a time such as 7d or 12h", e);
        }
    }

    /**
     * Deletes stores that DROP had ended, and moves the others into snapshots. Failures are logged
     * and leave the data where it is.
     *
     * @param tableDirectories all directories of tables on the node
     * @param exists whether the schema has a table
     * @param isNamed whether it has one of a keyspace and a name
     * @param doubt why a table may be missing in the schema and come back, as from the node's
     *     peers; nothing is touched then. Null if what is missing was dropped
     * @param ttl how long what is moved aside is kept; null for ever
     * @param now for the snapshot's name
     */
    public static void remove(
            List<Path> tableDirectories,
            Predicate<TableId> exists,
            BiPredicate<String, String> isNamed,
            @Nullable String doubt,
            DurationSpec.@Nullable IntSecondsBound ttl,
            Instant now) {
        for (Path table : tableDirectories) {
            Matcher name = TABLE_DIRECTORY.matcher(String.valueOf(table.getFileName()));
            if (!name.matches()) continue;
            boolean hasId = name.group(2) != null;
            if (hasId ? exists.test(id(name)) : isNamed.test(keyspace(table), name.group(1)))
                continue;
            StoreLocation store = new StoreLocation(table, Disk.REAL);
            if (doubt == null && hasId) deleteMarker(table);
            try {
                if (!Files.isDirectory(store.root())) continue;
                if (!hasId && store.generations().isEmpty() && store.live().isEmpty()) continue;
                String reason = doubt != null ? doubt : whyLeft(store, hasId);
                if (reason != null)
                    logger.warn(
                            "{} belongs to no table of the schema. It is left alone, because {}",
                            store,
                            reason);
                else finish(store, name.group(1), new SnapshotManifest(List.of(), ttl, now, false));
            } catch (IOException | RuntimeException | FSError e) {
                logger.error(
                        "{} belongs to no table of the schema and could not be removed; it takes"
                                + " disk space until the node is restarted, when its removal is"
                                + " tried again",
                        store,
                        e);
            }
        }
    }

    private static @Nullable String whyLeft(StoreLocation store, boolean hasId) {
        // What was to be kept may be in its snapshot already.
        if (store.isKept() && !store.generations().isEmpty())
            return "the snapshot of the dropped table failed";
        return hasId
                ? null
                : "its directory, as Cassandra before 2.1 named it, does not say which table's it"
                        + " is. Delete it, without what is beside it, if that table was dropped, or"
                        + " move it out of the data directory: once another table of that name has"
                        + " been created, the node would not start";
    }

    private static String keyspace(Path table) {
        Path keyspace = table.getParent();
        return keyspace == null ? "" : String.valueOf(keyspace.getFileName());
    }

    /** It must not refuse a table that is created with this ID. */
    private static void deleteMarker(Path table) {
        try {
            StoreMarker.delete(Disk.REAL, List.of(table));
        } catch (FSError e) {
            logger.error(
                    "{} of a table that is not there could not be deleted. The next start tries"
                            + " again",
                    table.resolve(StoreMarker.NAME),
                    e);
        }
    }

    private static void finish(StoreLocation store, String table, SnapshotManifest manifest)
            throws IOException {
        if (!store.holdsData()) {
            SortedSet<Long> generations = store.generations();
            if (!generations.isEmpty())
                logger.warn(
                        "{} belongs to no table of the schema. Its generations {} are deleted:"
                                + " LIVE says that the oldest one alive is {}, so the table was"
                                + " dropped or truncated.",
                        store,
                        generations,
                        store.live().orElse(0));
            store.delete();
            logger.info("Removed {}, what was left of a dropped table", store);
            return;
        }
        // The name that DROP gives to its snapshots.
        String tag = "dropped-" + manifest.createdAt.toEpochMilli() + "-" + table;
        StoreLocation snapshot = store.moveAside(tag, manifest);
        logger.warn(
                "{} belongs to no table of the schema. It was moved to {}, where {}. If the table"
                        + " was not dropped, create it again with its former columns and ID: the"
                        + " folder is then moved back. 'nodetool listsnapshots' shows such folders"
                        + " as snapshot {}.",
                store,
                snapshot,
                manifest.expiresAt == null
                        ? "it stays until its snapshot is cleared"
                        : "it is deleted after " + manifest.expiresAt,
                tag);
    }

    /**
     * Puts the store of a table that the schema knows after all, by its peers or a statement, where
     * it was: else the table would be empty, and in the end its data deleted.
     *
     * @param tableDirectories the table's directories, one per data directory of the node
     * @throws CorruptStoreException if it is not clear which store that is
     * @throws FSWriteError if it could not be moved
     */
    public static void bringBack(List<Path> tableDirectories) {
        Path snapshot = StoreLocation.bringBack(tableDirectories);
        if (snapshot != null)
            logger.warn(
                    "The store in {}, which belonged to no table when the node started, is that of"
                            + " a table of the schema now, and was moved back to it",
                    snapshot);
    }

    private static TableId id(Matcher name) {
        return TableId.fromUUID(
                UUID.fromString(
                        String.join(
                                "-",
                                name.group(3),
                                name.group(4),
                                name.group(5),
                                name.group(6),
                                name.group(7))));
    }
}
