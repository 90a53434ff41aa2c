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
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.Digest;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.ReadQuery;
import org.apache.cassandra.db.SinglePartitionReadQuery;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
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
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;

/**
 * Two tables of one definition, {@code rocks} and Cassandra's own, and the same done to both.
 * Statements name the table by {@code @t}.
 *
 * <p>Normalised, because Cassandra itself gives either answer for the same data:
 *
 * <ul>
 *   <li>iterators are read as a replica reads them for a coordinator ({@code executeLocally}),
 *       which leaves out what is past gc_grace and shows what has expired as deleted, compacted or
 *       not;
 *   <li>paths of list elements, which are made up at each execution, are shown by their order;
 *   <li>the deletion of a collection that is as old as that of its row, range or partition, or as
 *       its column's drop, is left out: Cassandra shows it from a memtable, not from SSTables;
 *   <li>columns that are fetched but not selected are left out, of which Cassandra shows more where
 *       they come from several sources, and queries by names altogether, for the same reason;
 *   <li>where any of these occurs, and where an empty static row comes out of an SSTable, digests
 *       are not compared;
 *   <li>counters' iterators are not compared: each execution has a timestamp of its own.
 * </ul>
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
        Content rocks = content(select, rocks());
        Content stock = content(select, stock());
        same("iterators of " + select, rocks.text, stock.text);
        if (rocks.isExact && stock.isExact)
            same("digests of " + select, rocks.digest, stock.digest);
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
                text.append(hex(value)).append(' ');
            }
            text.append('\n');
        }
        return text.toString();
    }

    /** What the iterators of a query give, as text and as repair's digests. */
    private static final class Content {
        String text = "";
        String digest = "";
        boolean isExact = true;
    }

    private static Content content(String select, String table) {
        Content content = new Content();
        CQLStatement statement;
        try {
            statement =
                    QueryProcessor.parseStatement(
                            select.replace("@t", KEYSPACE + "." + table),
                            ClientState.forInternalCalls());
        } catch (RuntimeException e) {
            content.text = e.getClass().getSimpleName();
            return content;
        }
        ReadQuery query =
                ((SelectStatement) statement)
                        .getQuery(QueryOptions.DEFAULT, FBUtilities.nowInSeconds());
        // Counters have timestamps of their own at each execution.
        if (isByNames(query) || query.metadata().isCounter()) return content;
        Printer printer = new Printer(query.metadata(), query.columnFilter());
        try (ReadExecutionController controller = query.executionController();
                UnfilteredPartitionIterator partitions = query.executeLocally(controller)) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator partition = partitions.next()) {
                    printer.partition(partition);
                }
        }
        content.text = printer.text.toString();
        content.isExact = printer.isExact;
        content.digest = digest(query);
        return content;
    }

    /** Of such queries Cassandra gives only as much as they need, and that by where it finds it. */
    private static boolean isByNames(ReadQuery query) {
        return query instanceof SinglePartitionReadQuery.Group<?> group
                && group.queries.stream()
                        .anyMatch(
                                one ->
                                        one.clusteringIndexFilter()
                                                instanceof ClusteringIndexNamesFilter);
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

    private static String hex(ByteBuffer value) {
        if (value == null) return "null";
        String hex = ByteBufferUtil.bytesToHex(value);
        return hex.length() <= 80
                ? hex
                : hex.substring(0, 8) + "~" + hex.length() / 2 + "~" + hex.hashCode();
    }

    /** Writes iterators as text. */
    private static final class Printer {
        final StringBuilder text = new StringBuilder();
        boolean isExact;
        private final ColumnFilter filter;
        private final TableMetadata table;
        private DeletionTime partitionDeletion = DeletionTime.LIVE;
        private DeletionTime open = DeletionTime.LIVE;

        Printer(TableMetadata table, ColumnFilter filter) {
            this.table = table;
            this.filter = filter;
            this.isExact = filter.allFetchedColumnsAreQueried();
        }

        void partition(UnfilteredRowIterator partition) {
            int start = text.length();
            text.append(hex(partition.partitionKey().getKey()));
            partitionDeletion = partition.partitionLevelDeletion();
            open = DeletionTime.LIVE;
            deletion(partitionDeletion);
            text.append('\n');
            int empty = text.length();
            if (!partition.staticRow().isEmpty()) row(partition.staticRow());
            // To digests an empty static row out of an SSTable is not none.
            else if (!partition.columns().statics.isEmpty()) isExact = false;
            while (partition.hasNext()) {
                Unfiltered next = partition.next();
                if (next.isRow()) row((Row) next);
                else marker((RangeTombstoneMarker) next, partition.isReverseOrder());
            }
            if (text.length() == empty && partitionDeletion.isLive()) text.setLength(start);
        }

        private void deletion(DeletionTime deletion) {
            if (!deletion.isLive())
                text.append(" del@")
                        .append(deletion.markedForDeleteAt())
                        .append('/')
                        .append(deletion.localDeletionTime());
        }

        private void marker(RangeTombstoneMarker marker, boolean reversed) {
            text.append("  marker ").append(marker.clustering().kind());
            for (ByteBuffer value : marker.clustering().getBufferArray())
                text.append(' ').append(hex(value));
            if (marker.isClose(reversed)) {
                text.append(" close");
                deletion(marker.closeDeletionTime(reversed));
            }
            open = DeletionTime.LIVE;
            if (marker.isOpen(reversed)) {
                text.append(" open");
                open = marker.openDeletionTime(reversed);
                deletion(open);
            }
            text.append('\n');
        }

        private void row(Row row) {
            int start = text.length();
            text.append("  ");
            if (row.isStatic()) text.append("static");
            else
                for (ByteBuffer value : row.clustering().getBufferArray())
                    text.append(hex(value)).append(' ');
            int content = text.length();
            if (!row.primaryKeyLivenessInfo().isEmpty()) text.append(row.primaryKeyLivenessInfo());
            deletion(row.deletion().time());
            for (ColumnData data : row) {
                if (!filter.fetchedColumnIsQueried(data.column())) continue;
                if (data instanceof Cell<?> cell) {
                    text.append(' ').append(data.column().name).append(':');
                    cell(cell, "");
                } else complex((ComplexColumnData) data, row);
            }
            // Nothing but what was left out.
            if (text.length() == content) text.setLength(start);
            else text.append('\n');
        }

        private void complex(ComplexColumnData complex, Row row) {
            DeletionTime deletion = complex.complexDeletion();
            boolean stands = !deletion.isLive();
            for (DeletionTime over : List.of(row.deletion().time(), open, partitionDeletion))
                stands &= deletion.supersedes(over);
            DroppedColumn dropped = table.droppedColumns.get(complex.column().name.bytes);
            if (dropped != null) stands &= deletion.markedForDeleteAt() > dropped.droppedTime;
            if (!deletion.isLive() && !stands) isExact = false;
            if (!stands && complex.cellsCount() == 0) return;
            text.append(' ').append(complex.column().name).append(':');
            if (stands) deletion(deletion);
            boolean list = complex.column().type instanceof ListType;
            if (list) isExact = false;
            int at = 0;
            for (Cell<?> cell : complex) {
                text.append(' ');
                cell(cell, list ? "#" + at++ : hex(cell.path().get(0)));
            }
        }

        private void cell(Cell<?> cell, String path) {
            text.append(path).append('=').append(hex(cell.buffer()));
            text.append('@').append(cell.timestamp());
            if (cell.ttl() != Cell.NO_TTL) text.append(" ttl ").append(cell.ttl());
            if (cell.localDeletionTime() != Cell.NO_DELETION_TIME)
                text.append(" ldt ").append(cell.localDeletionTime());
        }
    }

    /** The two tables do not give the same: --- rocks, +++ stock. */
    static final class Difference extends RuntimeException {
        @java.io.Serial private static final long serialVersionUID = 1;

        /** Cassandra's own table could not be read at all. */
        final boolean stockFailed;

        Difference(String what, String rocks, String stock) {
            super(what + "\n" + lines(rocks, stock, "--- ") + lines(stock, rocks, "+++ "));
            this.stockFailed =
                    stock.startsWith("ReadFailureException")
                            && !rocks.startsWith("ReadFailureException");
        }

        /** Lines that the other text has not. */
        private static String lines(String text, String other, String mark) {
            List<String> lines = new ArrayList<>(List.of(text.split("\n", -1)));
            for (String line : other.split("\n", -1)) lines.remove(line);
            return lines.isEmpty()
                    ? mark + "(another order)\n"
                    : mark + String.join("\n" + mark, lines) + "\n";
        }
    }
}
