// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.TableId;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The stores of tables that no longer exist: what a crash in the middle of DROP leaves. At start
 * the DROP is finished as it would have been, with a snapshot where {@code auto_snapshot} says so.
 */
final class OrphanStores {
    private static final Logger logger = LoggerFactory.getLogger(OrphanStores.class);

    private static final Pattern TABLE_DIRECTORY =
            Pattern.compile(
                    "(.+)-([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})");

    private OrphanStores() {}

    /**
     * Finishes interrupted drops. Failures are logged and leave the data where it is.
     *
     * @param tableDirectories all directories of tables on the node
     * @param exists whether the schema has a table
     * @param doubt why a table may be missing in the schema and come back, as from the node's
     *     peers; nothing is touched then. Null if what is missing was dropped
     * @param snapshot whether DROP keeps a snapshot
     * @param now for the snapshot's name, in milliseconds since 1970
     */
    static void remove(
            List<Path> tableDirectories,
            Predicate<TableId> exists,
            @Nullable String doubt,
            boolean snapshot,
            long now) {
        for (Path table : tableDirectories) {
            Matcher name = TABLE_DIRECTORY.matcher(String.valueOf(table.getFileName()));
            if (!name.matches() || exists.test(id(name))) continue;
            StoreDirectory store = new StoreDirectory(table, Disk.REAL);
            try {
                if (!Files.isDirectory(store.root())) continue;
                if (store.isKept() || doubt != null)
                    logger.warn(
                            "{} belongs to no table of the schema. It is left alone, because {}",
                            store,
                            doubt != null ? doubt : "the snapshot of the dropped table failed");
                else finish(store, name.group(1), snapshot, now);
            } catch (IOException | RuntimeException | FSError e) {
                logger.error(
                        "{} belongs to no table of the schema and could not be removed", store, e);
            }
        }
    }

    private static void finish(StoreDirectory store, String table, boolean snapshot, long now)
            throws IOException {
        if (snapshot && store.holdsData()) {
            // The name that DROP gives to its snapshots.
            String tag = "dropped-" + now + "-" + table;
            long live = store.live().orElse(store.generations().last());
            store.moveToSnapshot(live, tag);
            logger.info("Moved the data of a dropped table to {}", store.snapshot(tag));
        }
        store.delete();
        logger.info("Removed {}, the store of a dropped table", store);
    }

    private static TableId id(Matcher name) {
        return TableId.fromUUID(
                UUID.fromString(
                        String.join(
                                "-",
                                name.group(2),
                                name.group(3),
                                name.group(4),
                                name.group(5),
                                name.group(6))));
    }
}
