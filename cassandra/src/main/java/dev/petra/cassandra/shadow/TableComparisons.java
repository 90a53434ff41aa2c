// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.table.TokenRange;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.TableMetadata;

/** The comparisons of whole tables with their shadows, one at a time on this node. Thread-safe. */
public final class TableComparisons {
    private static final ThreadPoolExecutor thread = thread();

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
     * Begins one.
     *
     * @param tokenRange {@code left:right}, or empty: all
     * @throws InvalidRequestException if it cannot be, with the reason
     */
    public static synchronized void begin(String keyspace, String table, String tokenRange) {
        TableMetadata metadata = Host.current().table(keyspace, table);
        Shadow shadow = metadata == null ? null : Shadows.of(metadata.id);
        String name = keyspace + "." + table;
        if (metadata == null) throw refused("there is no table " + name);
        if (shadow == null) throw refused("table " + name + " has no shadow");
        if (Shadows.areStopped()) throw refused("the node is being drained");
        ShadowCopy copy = shadow.copy();
        if (copy == null || !copy.isCaughtUp())
            throw refused("the shadow of " + name + " has not caught up: " + shadow.state());
        TableComparison former = shadow.comparison();
        if (former != null && !former.isOver())
            throw refused("table " + name + " is being compared already, see petra.comparisons");
        TableComparison next =
                new TableComparison(
                        shadow, copy, tokenRange, ranges(metadata.partitioner, tokenRange));
        shadow.comparison(next);
        thread.execute(next::run);
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

    /** Those that wait or run, for {@code nodetool compactionstats}. */
    public static List<CompactionInfo> running() {
        List<CompactionInfo> running = new ArrayList<>();
        for (Shadow each : Shadows.all()) {
            TableComparison comparison = each.comparison();
            if (comparison != null && !comparison.isOver()) running.add(comparison.info());
        }
        return running;
    }

    /** {@code nodetool stop}: ends all of them. */
    public static void stop() {
        for (Shadow each : Shadows.all()) {
            TableComparison comparison = each.comparison();
            if (comparison != null) comparison.stop();
        }
    }
}
