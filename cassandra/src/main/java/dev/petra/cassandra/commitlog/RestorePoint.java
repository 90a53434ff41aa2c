// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.commitlog;

import com.google.common.base.Splitter;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.UntypedResultSet;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadataRef;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * {@code restore_point_in_time}, where it is from before tables were migrated into an engine.
 *
 * <p>The end of a migration is noted as a truncation's position is, so that nothing before it is
 * replayed, and under the time of the table's last TRUNCATE, because hints are told by that.
 * Cassandra forgets truncations from after the restore point, by that very time, and would replay
 * nothing from before the migration.
 */
final class RestorePoint {
    private static final Logger logger = LoggerFactory.getLogger(RestorePoint.class);

    private static final String SAVED =
            "SELECT writetime(truncated_at[%s]) AS saved FROM system.local WHERE key = 'local'";

    private RestorePoint() {}

    /**
     * Forgets the migrations from after the restore point. Nothing if there is none. Before
     * Cassandra decides what it replays.
     */
    static void forgetLaterMigrations() {
        long point = CommitLog.instance.getRestorePointInTime();
        if (point == Long.MAX_VALUE) return;
        for (ColumnFamilyStore cfs : ColumnFamilyStore.all()) {
            TableId id = cfs.metadata.id;
            if (SystemKeyspace.getTruncatedPosition(id) == null || !isReplayed(cfs.metadata))
                continue;
            long saved = saved(id);
            long truncated = SystemKeyspace.getTruncatedAt(id);
            // Cassandra forgets it itself if the TRUNCATE was later.
            if (saved <= point || truncated > TimeUnit.MICROSECONDS.toMillis(point)) continue;
            if (truncated == Long.MIN_VALUE) {
                logger.info(
                        "The restore point in time {} is before table {} was migrated into its"
                                + " storage engine, at {}: what was logged before the migration is"
                                + " replayed, from snapshot_commitlog_position on if that is set",
                        instant(point),
                        cfs.metadata,
                        instant(saved));
                SystemKeyspace.removeTruncationRecord(id);
            } else
                logger.warn(
                        "The restore point in time {} is between the last TRUNCATE of table {}, at"
                                + " {}, and its migration into its storage engine, at {}. What was"
                                + " logged between the two is not replayed. To have it replayed,"
                                + " set snapshot_commitlog_position in"
                                + " commitlog_archiving.properties to a position after the"
                                + " TRUNCATE",
                        instant(point),
                        cfs.metadata,
                        Instant.ofEpochMilli(truncated),
                        instant(saved));
        }
    }

    /** When the record was written, in microseconds. */
    private static long saved(TableId id) {
        UntypedResultSet rows = QueryProcessor.executeInternal(SAVED.formatted(id));
        return rows.one().getLong("saved");
    }

    private static Instant instant(long micros) {
        return Instant.EPOCH.plus(micros, ChronoUnit.MICROS);
    }

    /** Cassandra keeps the records of what {@code cassandra.replayList} leaves out. */
    private static boolean isReplayed(TableMetadataRef table) {
        String replayed = CassandraRelevantProperties.COMMIT_LOG_REPLAY_LIST.getString();
        if (replayed == null) return true;
        List<String> names = Splitter.on(',').trimResults().splitToList(replayed);
        return names.contains(table.keyspace) || names.contains(table.keyspace + "." + table.name);
    }
}
