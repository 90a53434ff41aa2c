// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.ColumnSpecification;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.UntypedResultSet;
import org.apache.cassandra.cql3.statements.SelectStatement;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.Digest;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.ReadQuery;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;

/**
 * Two tables of one definition, {@code rocks} and Cassandra's own, and the same done to both.
 * Statements name the table by {@code @t}.
 *
 * <p>Normalised, because Cassandra itself gives either answer for the same data: iterators are read
 * as a replica reads them for a coordinator ({@code executeLocally}), which leaves out what is past
 * gc_grace and shows what has expired as deleted, compacted or not; and the paths of list elements,
 * which are made up at each execution, are shown by their order.
 */
final class Twins {
    static final String KEYSPACE = "fuzz";

    private final String name;

    Twins(String name) {
        this.name = name;
    }

    String rocks() {
        return name + "_r";
    }

    String stock() {
        return name + "_s";
    }

    /** What a statement did to both: results or errors, as text. */
    void execute(String cql) {
        String rocks = run(cql, rocks());
        String stock = run(cql, stock());
        same(cql, rocks, stock);
    }

    void create(String cql) {
        String options = cql.contains(" WITH ") ? " AND " : " WITH ";
        QueryProcessor.process(
                cql.replace("@t", KEYSPACE + "." + rocks()) + options + "memtable = 'rocks'",
                ConsistencyLevel.ONE);
        QueryProcessor.process(cql.replace("@t", KEYSPACE + "." + stock()), ConsistencyLevel.ONE);
    }

    void drop() {
        for (String table : List.of(rocks(), stock()))
            QueryProcessor.process(
                    "DROP TABLE IF EXISTS " + KEYSPACE + "." + table, ConsistencyLevel.ONE);
    }

    void flush() {
        for (String table : List.of(rocks(), stock()))
            wrap(() -> StorageService.instance.forceKeyspaceFlush(KEYSPACE, table));
    }

    void compact() {
        for (String table : List.of(rocks(), stock()))
            wrap(() -> StorageService.instance.forceKeyspaceCompaction(false, KEYSPACE, table));
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void wrap(Work work) {
        try {
            work.run();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static String run(String cql, String table) {
        try {
            UntypedResultSet result =
                    QueryProcessor.process(
                            cql.replace("@t", KEYSPACE + "." + table), ConsistencyLevel.ONE);
            return text(result);
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName() + ": " + e.getMessage().replace(table, "t");
        }
    }

    /** Compares a query's results, whole and by pages, and the iterators behind it. */
    void compare(String select, int page) {
        execute(select);
        if (page > 0)
            same(
                    select + " by " + page,
                    paged(select, rocks(), page),
                    paged(select, stock(), page));
        same("iterators of " + select, iterators(select, rocks()), iterators(select, stock()));
    }

    private static void same(String what, String rocks, String stock) {
        if (!rocks.equals(stock)) throw new Difference(what, rocks, stock);
    }

    private static String paged(String select, String table, int page) {
        try {
            return text(
                    QueryProcessor.executeInternalWithPaging(
                            select.replace("@t", KEYSPACE + "." + table), page));
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName();
        }
    }

    private static String text(UntypedResultSet result) {
        if (result == null) return "";
        StringBuilder text = new StringBuilder();
        List<ColumnSpecification> columns = result.metadata();
        for (UntypedResultSet.Row row : result) {
            for (ColumnSpecification column : columns) {
                String name = column.name.toString();
                ByteBuffer value = row.has(name) ? row.getBlob(name) : null;
                text.append(name).append('=');
                text.append(value == null ? "null" : ByteBufferUtil.bytesToHex(value)).append(' ');
            }
            text.append('\n');
        }
        return text.toString();
    }

    private static String iterators(String select, String table) {
        CQLStatement statement;
        try {
            statement =
                    QueryProcessor.parseStatement(
                            select.replace("@t", KEYSPACE + "." + table),
                            ClientState.forInternalCalls());
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName();
        }
        ReadQuery query =
                ((SelectStatement) statement)
                        .getQuery(QueryOptions.DEFAULT, FBUtilities.nowInSeconds());
        StringBuilder text = new StringBuilder();
        try (ReadExecutionController controller = query.executionController();
                UnfilteredPartitionIterator partitions = query.executeLocally(controller)) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator partition = partitions.next()) {
                    partition(partition, text);
                }
        }
        // Digests hold the paths of lists, which differ.
        if (text.indexOf(" #") < 0) text.append(digest(query));
        return text.toString();
    }

    /** As a repair's validation digests partitions. */
    private static String digest(ReadQuery query) {
        StringBuilder text = new StringBuilder();
        try (ReadExecutionController controller = query.executionController();
                UnfilteredPartitionIterator partitions = query.executeLocally(controller)) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator partition = partitions.next()) {
                    if (partition.isEmpty()) continue;
                    Digest digest = Digest.forValidator();
                    UnfilteredRowIterators.digest(
                            partition, digest, MessagingService.current_version);
                    text.append(ByteBufferUtil.bytesToHex(ByteBuffer.wrap(digest.digest())))
                            .append('\n');
                }
        }
        return text.toString();
    }

    private static void partition(UnfilteredRowIterator partition, StringBuilder text) {
        int start = text.length();
        text.append(ByteBufferUtil.bytesToHex(partition.partitionKey().getKey()));
        deletion(partition.partitionLevelDeletion(), text);
        text.append('\n');
        int empty = text.length();
        if (!partition.staticRow().isEmpty()) row(partition.staticRow(), text);
        while (partition.hasNext()) {
            Unfiltered next = partition.next();
            if (next.isRow()) row((Row) next, text);
            else marker((RangeTombstoneMarker) next, partition.isReverseOrder(), text);
        }
        if (text.length() == empty && partition.partitionLevelDeletion().isLive())
            text.setLength(start);
    }

    private static void deletion(DeletionTime deletion, StringBuilder text) {
        if (!deletion.isLive())
            text.append(" del@")
                    .append(deletion.markedForDeleteAt())
                    .append('/')
                    .append(deletion.localDeletionTime());
    }

    private static void marker(RangeTombstoneMarker marker, boolean reversed, StringBuilder text) {
        text.append("  marker ").append(marker.clustering().kind());
        for (ByteBuffer value : marker.clustering().getBufferArray())
            text.append(' ').append(hex(value));
        if (marker.isClose(reversed))
            deletion(marker.closeDeletionTime(reversed), text.append(" close"));
        if (marker.isOpen(reversed))
            deletion(marker.openDeletionTime(reversed), text.append(" open"));
        text.append('\n');
    }

    private static String hex(ByteBuffer value) {
        return value == null ? "null" : ByteBufferUtil.bytesToHex(value);
    }

    private static void row(Row row, StringBuilder text) {
        text.append("  ");
        Clustering<?> clustering = row.clustering();
        if (row.isStatic()) text.append("static");
        else
            for (ByteBuffer value : clustering.getBufferArray())
                text.append(hex(value)).append(' ');
        if (!row.primaryKeyLivenessInfo().isEmpty()) text.append(row.primaryKeyLivenessInfo());
        deletion(row.deletion().time(), text);
        for (ColumnData data : row) {
            text.append(' ').append(data.column().name).append(':');
            if (data instanceof Cell<?> cell) {
                cell(cell, "", text);
                continue;
            }
            ComplexColumnData complex = (ComplexColumnData) data;
            deletion(complex.complexDeletion(), text);
            boolean list = data.column().type instanceof ListType;
            List<Cell<?>> cells = new ArrayList<>();
            for (Cell<?> cell : complex) cells.add(cell);
            for (int i = 0; i < cells.size(); i++)
                cell(
                        cells.get(i),
                        list ? "#" + i : hex(cells.get(i).path().get(0)),
                        text.append(' '));
        }
        text.append('\n');
    }

    private static void cell(Cell<?> cell, String path, StringBuilder text) {
        text.append(path).append('=').append(hex(cell.buffer()));
        text.append('@').append(cell.timestamp());
        if (cell.ttl() != Cell.NO_TTL) text.append(" ttl ").append(cell.ttl());
        if (cell.localDeletionTime() != Cell.NO_DELETION_TIME)
            text.append(" ldt ").append(cell.localDeletionTime());
    }

    /** The two tables do not give the same. */
    static final class Difference extends RuntimeException {
        @java.io.Serial private static final long serialVersionUID = 1;

        Difference(String what, String rocks, String stock) {
            super(what + "\n--- rocks\n" + rocks + "\n--- stock\n" + stock);
        }
    }
}
