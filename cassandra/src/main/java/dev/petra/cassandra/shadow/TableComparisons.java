// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.sstable.SnapshotFiles;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.TokenRange;
import dev.petra.engine.TableStore;
import java.io.UncheckedIOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * The comparisons of whole tables, with their shadows or with snapshots of them, one at a time on
 * this node. Thread-safe.
 */
public final class TableComparisons {
    private static final ThreadPoolExecutor thread = thread();

    /** The last one with a snapshot of each table. */
    private static final Map<TableId, TableComparison> withSnapshots = new ConcurrentHashMap<>();

    private TableComparisons() {}

    private static ThreadPoolExecutor thread() {
        ThreadPoolExecutor made =
                new ThreadPoolExecutor(
                        1,
                        1,
                        1,
                        TimeUnit.MINUTES,
                        new LinkedBlockingQueue<>(),
                        work -> {
                            Thread each = new Thread(work, "PetraShadowCompare");
                            each.setDaemon(true);
                            return each;
                        });
        made.allowCoreThreadTimeOut(true);
        return made;
    }

    /**
     * Begins one of a table and its shadow, or of a table in an engine and a snapshot of it.
     *
     * @param tokenRange {@code left:right}, or empty: all
     * @param snapshot its tag; empty: the shadow
     * @throws InvalidRequestException if it cannot be, with the reason
     */
    public static synchronized void begin(
            String keyspace, String table, String tokenRange, String snapshot) {
        TableMetadata metadata = Host.current().table(keyspace, table);
        if (metadata == null) throw refused("there is no table " + keyspace + "." + table);
        if (Shadows.areStopped()) throw refused("the node is being drained");
        for (TableComparison former : all())
            if (former.cfs.metadata.id.equals(metadata.id) && !former.isOver())
                throw refused(
                        "table " + metadata + " is being compared already, see petra.comparisons");
        List<Range<Token>> ranges = ranges(metadata.partitioner, tokenRange);
        TableComparison next;
        if (snapshot.isEmpty()) next = withShadow(metadata, tokenRange, ranges);
        else {
            next = withSnapshot(metadata, snapshot, tokenRange, ranges);
            withSnapshots.put(metadata.id, next);
        }
        thread.execute(next::run);
    }

    private static TableComparison withShadow(
            TableMetadata table, String tokenRange, List<Range<Token>> ranges) {
        Shadow shadow = Shadows.of(table.id);
        if (shadow == null)
            throw refused(
                    "table "
                            + table
                            + " has no shadow; a table in an engine is compared with a snapshot");
        ShadowCopy copy = shadow.copy();
        if (copy == null || !copy.isCaughtUp())
            throw refused("the shadow of " + table + " has not caught up: " + shadow.state());
        TableComparison next = new ShadowComparison(shadow, copy, tokenRange, ranges);
        shadow.results.comparison(next);
        return next;
    }

    private static TableComparison withSnapshot(
            TableMetadata table, String tag, String tokenRange, List<Range<Token>> ranges) {
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(table.id);
        TableGenerations stores = cfs == null ? null : TableRegistry.find(cfs);
        if (cfs == null || stores == null || EngineMemtables.current(cfs) == null)
            throw refused(
                    "table "
                            + table
                            + " is not in an engine"
                            + (Shadows.of(table.id) == null
                                    ? ""
                                    : "; without a snapshot it is compared with its shadow"));
        EngineStore store = new EngineStore(cfs, stores, stores.current());
        String unusable = store.end();
        if (unusable != null) throw refused(unusable);
        SnapshotFiles snapshot;
        try {
            snapshot = SnapshotFiles.find(table, TableRegistry.directories(cfs), tag);
        } catch (IllegalArgumentException | UncheckedIOException e) {
            throw refused(String.valueOf(e.getMessage()));
        }
        refuseIfTruncated(table, tag, snapshot.takenAt());
        return new SnapshotComparison(
                cfs,
                store,
                tag,
                snapshot,
                token ->
                        Host.current().ownAndPendingRanges(table.keyspace).stream()
                                .anyMatch(range -> range.contains(token)),
                tokenRange,
                ranges);
    }

    private static void refuseIfTruncated(
            TableMetadata table, String tag, @Nullable Instant takenAt) {
        long truncatedAt = SystemKeyspace.getTruncatedAt(table.id);
        if (takenAt == null ? truncatedAt < 0 : truncatedAt < takenAt.toEpochMilli()) return;
        throw refused(
                "table "
                        + table
                        + " was truncated at "
                        + Instant.ofEpochMilli(truncatedAt)
                        + (takenAt == null
                                ? ", and snapshot '" + tag + "' does not say when it was taken"
                                : ", since snapshot '" + tag + "' was taken at " + takenAt));
    }

    /**
     * The store that a table has in its engine.
     *
     * @param generation it ends with this one
     */
    private record EngineStore(
            ColumnFamilyStore cfs, TableGenerations stores, Generation generation)
            implements SnapshotComparison.Store {
        @Override
        public @Nullable TableStore existing() {
            return generation.existing();
        }

        @Override
        public @Nullable String end() {
            if (stores.migration().isUnderWay())
                return "table " + cfs.metadata + " is being migrated, see petra.migrations";
            if (!generation.isLive() || EngineMemtables.current(cfs) == null)
                return "table " + cfs.metadata + " was truncated, dropped or migrated";
            Throwable failure = generation.failure();
            return failure == null ? null : "the store cannot be used: " + failure.getMessage();
        }
    }

    private static List<Range<Token>> ranges(IPartitioner partitioner, String text) {
        Token minimum = partitioner.getMinimumToken();
        if (text.isEmpty()) return List.of(new Range<>(minimum, minimum));
        try {
            return new ArrayList<>(TokenRange.parse(partitioner, text).unwrap());
        } catch (IllegalArgumentException e) {
            throw refused(String.valueOf(e.getMessage()));
        }
    }

    private static InvalidRequestException refused(String reason) {
        return new InvalidRequestException("Nothing is compared: " + reason);
    }

    /** The last one of each table that there is, by name. */
    public static List<TableComparison> all() {
        // Those of tables that were dropped, or have left their engine and have a shadow now.
        withSnapshots
                .keySet()
                .removeIf(id -> Host.current().table(id) == null || Shadows.of(id) != null);
        List<TableComparison> sorted = new ArrayList<>(withSnapshots.values());
        for (Shadow each : Shadows.all()) {
            TableComparison comparison = each.comparison();
            if (comparison != null) sorted.add(comparison);
        }
        sorted.sort(
                Comparator.comparing(TableComparison::keyspace)
                        .thenComparing(TableComparison::table));
        return sorted;
    }

    /** Those that wait or run, for {@code nodetool compactionstats}. */
    public static List<CompactionInfo> running() {
        return all().stream().filter(each -> !each.isOver()).map(TableComparison::info).toList();
    }

    /** {@code nodetool stop}: ends all of them. */
    public static void stop() {
        all().forEach(TableComparison::stop);
    }
}
