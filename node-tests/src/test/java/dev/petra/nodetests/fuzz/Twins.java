// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import com.google.common.util.concurrent.Uninterruptibles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import org.apache.cassandra.cql3.Attributes;
import org.apache.cassandra.cql3.BatchQueryOptions;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.ColumnSpecification;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.UntypedResultSet;
import org.apache.cassandra.cql3.VariableSpecifications;
import org.apache.cassandra.cql3.statements.BatchStatement;
import org.apache.cassandra.cql3.statements.ModificationStatement;
import org.apache.cassandra.cql3.statements.SelectStatement;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.Digest;
import org.apache.cassandra.db.IMutation;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.ReadQuery;
import org.apache.cassandra.db.SinglePartitionReadQuery;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.partitions.PartitionIterator;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.DeserializationHelper;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.exceptions.RequestValidationException;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexManager;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.service.QueryState;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.transport.Dispatcher;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;

/**
 * Two tables of one definition, {@code rocks} and Cassandra's own, and the same done to both.
 * Statements are those of {@link History}.
 *
 * <p>Normalised, because Cassandra itself gives either answer for the same data:
 *
 * <ul>
 *   <li>iterators are read as a replica reads them for a coordinator ({@code executeLocally}),
 *       which leaves out what is past gc_grace and shows what has expired as deleted, compacted or
 *       not;
 *   <li>paths of list elements, which are made up at each execution, are shown by their order,
 *       unless one mutation went to both;
 *   <li>the deletion of a collection that is as old as that of its row, range or partition, or as
 *       its column's drop, is left out: Cassandra shows it from a memtable, not from SSTables;
 *   <li>columns and elements that are fetched but not selected are left out, of which Cassandra
 *       shows more where they come from several sources;
 *   <li>of queries with a limit, which therefore end at one row or another, only the results are
 *       compared;
 *   <li>of queries by names, for the same reason, the live rows are compared, not the iterators;
 *   <li>where any of these occurs, and where an empty static row comes out of an SSTable, digests
 *       are not compared;
 *   <li>of queries by an index only the results are compared, because stale entries of it lead to
 *       deleted rows, and Cassandra keeps them for another time than the engine. Where the results
 *       differ, what both find without their indexes decides;
 *   <li>timestamps are left out where each execution has one of its own: counters, transactions.
 * </ul>
 */
final class Twins {
    static final String KEYSPACE = "fuzz";

    private static final Pattern LONG_VALUE = Pattern.compile("\\{\\{(\\w+)\\*(\\d+)}}");

    /** What was compared and done, of all twins. */
    static final class Figures {
        static final AtomicLong ACCEPTED = new AtomicLong();
        static final AtomicLong REFUSED = new AtomicLong();
        static final AtomicLong QUERIES = new AtomicLong();
        static final AtomicLong QUERIES_WITH_ROWS = new AtomicLong();
        static final AtomicLong QUERIES_REFUSED = new AtomicLong();
        static final AtomicLong BY_INDEX = new AtomicLong();
        static final AtomicLong BY_INDEX_WITH_ROWS = new AtomicLong();
        static final AtomicLong SWEEPS = new AtomicLong();

        /** What Cassandra's own indexes found wrong. */
        static final AtomicLong LOST = new AtomicLong();

        static final AtomicLong ITERATORS = new AtomicLong();
        static final AtomicLong DIGESTS = new AtomicLong();
        static final AtomicLong UNDECIDED = new AtomicLong();

        private Figures() {}
    }

    private final String name;
    private final boolean hasOwnTimestamps;
    private final boolean isOneMutation;

    Twins(String name, History history) {
        this.name = name;
        this.hasOwnTimestamps = history.hasOwnTimestamps();
        this.isOneMutation = history.isOneMutation();
    }

    String rocks() {
        return name + "_r";
    }

    String stock() {
        return name + "_s";
    }

    private String type() {
        return KEYSPACE + "." + name + "_u";
    }

    /** A statement as it is for one of the tables. */
    private String of(String table, String cql) {
        return LONG_VALUE
                .matcher(cql)
                .replaceAll(found -> found.group(1).repeat(Integer.parseInt(found.group(2))))
                // A new index is in the keyspace of its table.
                .replace("CREATE INDEX @t", "CREATE INDEX " + table)
                .replace("@t", KEYSPACE + "." + table)
                .replace("@u", type());
    }

    /**
     * Something of another table, between the end of a flush and the next write. Without it
     * Cassandra takes the segment of its commit log that has that write for clean, and may delete
     * it: it marks what is dirty by where a record begins, and what is clean up to there, included.
     */
    private static void space() {
        QueryProcessor.process(
                "INSERT INTO " + KEYSPACE + ".spacer (k) VALUES (0)", ConsistencyLevel.ONE);
    }

    /** A statement, executed for both tables, must do the same: results or errors. */
    void execute(String cql) {
        space();
        // Changes of the schema have timestamps too.
        if (cql.matches("(?s)(ALTER|CREATE|DROP).*")) FuzzClock.move(1);
        if (!cql.contains("@t")) {
            count(run(cql, ""));
            return;
        }
        if (isOneMutation && cql.matches("(?s)(INSERT|UPDATE|DELETE|BEGIN).*")) {
            executeOnce(cql);
            return;
        }
        if (!hasOwnTimestamps) FuzzClock.move(1);
        String rocks = run(cql, rocks());
        String stock = run(cql, stock());
        same(cql, rocks, stock);
        count(rocks);
        if (cql.startsWith("CREATE INDEX")) awaitIndexes();
    }

    private static void count(String result) {
        (result.startsWith(ERROR) ? Figures.REFUSED : Figures.ACCEPTED).incrementAndGet();
    }

    /** Both tables are asked for the mutations of a statement, but those of one go to both. */
    private void executeOnce(String cql) {
        List<Mutation> rocks = new ArrayList<>();
        List<Mutation> stock = new ArrayList<>();
        String result = mutations(cql, rocks(), rocks);
        same(cql, result, mutations(cql, stock(), stock));
        count(result);
        boolean isOfRocks = cql.hashCode() % 2 == 0;
        for (Mutation mutation : isOfRocks ? rocks : stock) {
            mutation.apply();
            copy(mutation, isOfRocks ? stock() : rocks()).apply();
        }
    }

    private String mutations(String cql, String table, List<Mutation> mutations) {
        try {
            CQLStatement statement =
                    QueryProcessor.parseStatement(of(table, cql), ClientState.forInternalCalls());
            BatchStatement batch =
                    statement instanceof BatchStatement several
                            ? several
                            : new BatchStatement(
                                    BatchStatement.Type.UNLOGGED,
                                    VariableSpecifications.empty(),
                                    List.of((ModificationStatement) statement),
                                    Attributes.none());
            statement.validate(ClientState.forInternalCalls());
            QueryState state = QueryState.forInternalCalls();
            for (IMutation mutation :
                    batch.getMutations(
                            state.getClientState(),
                            BatchQueryOptions.withoutPerStatementVariables(
                                    QueryOptions.forInternalCalls(ConsistencyLevel.ONE, List.of())),
                            false,
                            state.getTimestamp(),
                            FBUtilities.nowInSeconds(),
                            Dispatcher.RequestTime.forImmediateExecution()))
                mutations.add((Mutation) mutation);
            return "";
        } catch (RuntimeException e) {
            return error(e, table);
        }
    }

    /** The same mutation of another table: serialised, with the other's id put in. */
    private static Mutation copy(Mutation mutation, String table) {
        TableId id = Schema.instance.getTableMetadata(KEYSPACE, table).id;
        int version = MessagingService.current_version;
        PartitionUpdate update = mutation.getPartitionUpdates().iterator().next();
        if (mutation.getPartitionUpdates().size() != 1) throw new AssertionError("one table");
        try (DataOutputBuffer out = new DataOutputBuffer();
                DataOutputBuffer changed = new DataOutputBuffer()) {
            PartitionUpdate.serializer.serialize(update, out, version);
            id.serialize(changed);
            changed.write(
                    out.getData(), id.serializedSize(), out.getLength() - id.serializedSize());
            try (DataInputBuffer in = new DataInputBuffer(changed.asNewBuffer(), false)) {
                return new Mutation(
                        PartitionUpdate.serializer.deserialize(
                                in, version, DeserializationHelper.Flag.LOCAL));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    void create(String cql) {
        QueryProcessor.process("CREATE TYPE " + type() + " (a int, b text)", ConsistencyLevel.ONE);
        String options = cql.contains(" WITH ") ? " AND " : " WITH ";
        String rocks = cql;
        if (cql.contains("TimeWindow")) rocks = cql.replace(History.NOT_COMPACTED, "");
        QueryProcessor.process(
                of(rocks(), rocks) + options + "memtable = 'rocks'", ConsistencyLevel.ONE);
        QueryProcessor.process(of(stock(), cql), ConsistencyLevel.ONE);
    }

    void drop() {
        for (String table : List.of(rocks(), stock()))
            QueryProcessor.process(
                    "DROP TABLE IF EXISTS " + KEYSPACE + "." + table, ConsistencyLevel.ONE);
        QueryProcessor.process("DROP TYPE IF EXISTS " + type(), ConsistencyLevel.ONE);
    }

    void flush() {
        for (String table : List.of(rocks(), stock())) flush(table);
    }

    private static void flush(String table) {
        wrap(() -> StorageService.instance.forceKeyspaceFlush(KEYSPACE, table));
    }

    void compact() {
        for (String table : List.of(rocks(), stock())) compact(table);
    }

    private static void compact(String table) {
        wrap(() -> StorageService.instance.forceKeyspaceCompaction(false, KEYSPACE, table));
    }

    /**
     * Removes stale entries from the indexes of the table {@code rocks}, which changes no answer.
     * Alone, as in the background: {@code nodetool garbagecollect} compacts the table first.
     */
    void sweep() {
        wrap(
                () -> {
                    // Of the engine, of which only the node knows the classes.
                    boolean done =
                            (boolean)
                                    Class.forName("dev.petra.cassandra.index.IndexSweeps")
                                            .getMethod("sweep", ColumnFamilyStore.class)
                                            .invoke(null, store(rocks()));
                    if (!done) throw new IllegalStateException("The sweep was aborted");
                });
        Figures.SWEEPS.incrementAndGet();
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

    private static final String ERROR = "ERROR ";

    private static String error(RuntimeException e, String table) {
        // Some have no message.
        String message = String.valueOf(e.getMessage()).replace(table, "t");
        return ERROR + e.getClass().getSimpleName() + ": " + message;
    }

    private String run(String cql, String table) {
        try {
            return text(QueryProcessor.process(of(table, cql), ConsistencyLevel.ONE));
        } catch (RuntimeException e) {
            return error(e, table);
        }
    }

    /**
     * Cassandra gives now one answer and now the other, by where it finds the same data: both
     * tables hold the same, and both give the same when all of it is in one file, purged.
     */
    static final class Undecided extends RuntimeException {
        private static final long serialVersionUID = 1;

        Undecided(Difference difference) {
            super(difference);
        }
    }

    /**
     * Compares a query's results, whole and by pages, and the iterators behind it.
     *
     * @throws Difference if they differ
     * @throws Undecided if both are right: Cassandra leaves out cells that are fetched but not
     *     selected where they are older than their row's liveness, also one that has expired, but
     *     only where it finds the two together
     */
    void compare(String select, int page) {
        if (isByIndex(select)) {
            compareByIndex(select, page);
            return;
        }
        try {
            compareOnce(select, page);
        } catch (Difference difference) {
            if (select.startsWith("SELECT * ") || select.startsWith("SELECT JSON *"))
                throw difference;
            compareOnce("SELECT * FROM @t", page);
            flush();
            compact();
            try {
                compareOnce(select, page);
            } catch (Difference still) {
                throw difference;
            }
            throw new Undecided(difference);
        }
    }

    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /** Waits until all indexes of both tables are built. */
    void awaitIndexes() {
        for (String table : List.of(rocks(), stock())) {
            SecondaryIndexManager indexes = store(table).indexManager;
            long end = System.nanoTime() + PATIENCE.toNanos();
            for (Index index : indexes.listIndexes()) {
                String of = index.getIndexMetadata().name;
                while (indexes.isIndexBuilding(of) && System.nanoTime() - end < 0)
                    Uninterruptibles.sleepUninterruptibly(1, TimeUnit.MILLISECONDS);
                if (!indexes.isIndexQueryable(index))
                    throw new IllegalStateException("The index " + of + " was not built");
            }
        }
    }

    private static ColumnFamilyStore store(String table) {
        return Keyspace.open(KEYSPACE).getColumnFamilyStore(table);
    }

    /** What either of the tables reads for a query; null if it is refused. */
    private @Nullable ReadQuery query(String select, String table) {
        try {
            SelectStatement statement =
                    (SelectStatement)
                            QueryProcessor.parseStatement(
                                    of(table, select), ClientState.forInternalCalls());
            return statement.getQuery(QueryOptions.DEFAULT, FBUtilities.nowInSeconds());
        } catch (RequestValidationException | ClassCastException e) {
            // The latter where {} is a map among several clusterings; both tables must do the same.
            return null;
        }
    }

    private boolean isByIndex(String select) {
        ReadQuery query = query(select, stock());
        return query != null
                && singly(query).stream()
                        .anyMatch(
                                one ->
                                        one instanceof ReadCommand command
                                                && command.indexQueryPlan() != null);
    }

    private void compareByIndex(String select, int page) {
        ReadQuery query = query(select, stock());
        boolean filtersStatics =
                query.rowFilter().getExpressions().size() > 1
                        && query.rowFilter().getExpressions().stream()
                                .anyMatch(expression -> expression.column().isStatic());
        // There Cassandra loses rows by pages and by LIMIT, also without an index.
        if (filtersStatics && !query.limits().isUnlimited()) return;
        Figures.BY_INDEX.incrementAndGet();
        String rocks = run(select, rocks());
        String stock = run(select, stock());
        if (!rocks.isEmpty() && !rocks.startsWith(ERROR))
            Figures.BY_INDEX_WITH_ROWS.incrementAndGet();
        if (!rocks.equals(stock)) withoutIndexes(select, rocks, stock);
        if (page == 0 || filtersStatics || rocks.startsWith(ERROR)) return;
        String paged = paged(select, rocks(), page);
        if (!paged.equals(rocks)) same(select + " by " + page, paged, paged(select, stock(), page));
    }

    /** What was found by indexes must be what is found without them. */
    private void withoutIndexes(String select, String rocks, String stock) {
        List<String> create = new ArrayList<>();
        for (String table : List.of(rocks(), stock())) {
            TableMetadata metadata = store(table).metadata();
            for (IndexMetadata index : metadata.indexes) {
                create.add(index.toCqlString(metadata, false));
                FuzzClock.move(1);
                QueryProcessor.process(
                        "DROP INDEX " + KEYSPACE + "." + index.name, ConsistencyLevel.ONE);
            }
        }
        String found = run(select, rocks());
        same(select + " without indexes", found, run(select, stock()));
        for (String index : create) {
            FuzzClock.move(1);
            QueryProcessor.process(index, ConsistencyLevel.ONE);
        }
        awaitIndexes();
        if (!rocks.equals(found))
            throw new Difference(
                    select
                            + " by indexes, which Cassandra's own "
                            + (stock.equals(found) ? "answers as without any" : "answers wrong too")
                            + ":",
                    rocks,
                    found);
        Figures.LOST.incrementAndGet();
        System.err.println("Cassandra's own index answers wrong: " + name + " " + select);
    }

    private void compareOnce(String select, int page) {
        String result = run(select, rocks());
        same(select, result, run(select, stock()));
        Figures.QUERIES.incrementAndGet();
        if (result.startsWith(ERROR)) {
            Figures.QUERIES_REFUSED.incrementAndGet();
            return;
        }
        if (!result.isEmpty()) Figures.QUERIES_WITH_ROWS.incrementAndGet();
        if (page > 0)
            same(
                    select + " by " + page,
                    paged(select, rocks(), page),
                    paged(select, stock(), page));
        Content rocks = content(select, rocks());
        Content stock = content(select, stock());
        same("iterators of " + select, rocks.text, stock.text);
        Figures.ITERATORS.incrementAndGet();
        if (rocks.isExact && stock.isExact) {
            same("digests of " + select, rocks.digest, stock.digest);
            Figures.DIGESTS.incrementAndGet();
        }
    }

    private static void same(String what, String rocks, String stock) {
        if (!rocks.equals(stock)) throw new Difference(what, rocks, stock);
    }

    /** More than any history can write. */
    private static final int MAX_ROWS = 20_000;

    private String paged(String select, String table, int page) {
        try {
            return text(QueryProcessor.executeInternalWithPaging(of(table, select), page));
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName();
        }
    }

    private static String text(UntypedResultSet result) {
        if (result == null) return "";
        StringBuilder text = new StringBuilder();
        List<ColumnSpecification> columns = result.metadata();
        int rows = 0;
        for (UntypedResultSet.Row row : result) {
            // Pages that begin anew have no end.
            if (++rows > MAX_ROWS) return text.append("and so on\n").toString();
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

    private Content content(String select, String table) {
        Content content = new Content();
        SelectStatement statement =
                (SelectStatement)
                        QueryProcessor.parseStatement(
                                of(table, select), ClientState.forInternalCalls());
        ReadQuery query = statement.getQuery(QueryOptions.DEFAULT, FBUtilities.nowInSeconds());
        if (!query.limits().isUnlimited() && !query.columnFilter().allFetchedColumnsAreQueried()) {
            content.isExact = false;
            return content;
        }
        Printer printer =
                new Printer(
                        query.metadata(), query.columnFilter(), hasOwnTimestamps, isOneMutation);
        if (isByNames(query)) {
            content.isExact = false;
            for (ReadQuery one : singly(query))
                try (ReadExecutionController controller = one.executionController();
                        PartitionIterator partitions = one.executeInternal(controller)) {
                    while (partitions.hasNext())
                        try (RowIterator partition = partitions.next()) {
                            printer.live(partition);
                        }
                }
            content.text = printer.text.toString();
            return content;
        }
        for (ReadQuery one : singly(query))
            try (ReadExecutionController controller = one.executionController();
                    UnfilteredPartitionIterator partitions = one.executeLocally(controller)) {
                while (partitions.hasNext())
                    try (UnfilteredRowIterator partition = partitions.next()) {
                        printer.partition(partition);
                    }
            }
        content.text = printer.text.toString();
        content.isExact = printer.isExact;
        if (content.isExact) content.digest = digest(query);
        return content;
    }

    /**
     * The queries of several partitions, one by one, as a coordinator sends them. Together and with
     * a limit Cassandra opens all of them and closes only those that it came to.
     */
    private static List<? extends ReadQuery> singly(ReadQuery query) {
        return query instanceof SinglePartitionReadQuery.Group<?> group
                ? group.queries
                : List.of(query);
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
        for (ReadQuery one : singly(query))
            try (ReadExecutionController controller = one.executionController();
                    UnfilteredPartitionIterator partitions = one.executeLocally(controller)) {
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
        private final boolean withTimestamps;
        private final boolean withPaths;
        private DeletionTime partitionDeletion = DeletionTime.LIVE;
        private DeletionTime open = DeletionTime.LIVE;

        Printer(
                TableMetadata table,
                ColumnFilter filter,
                boolean withTimestamps,
                boolean withPaths) {
            this.table = table;
            this.filter = filter;
            this.withTimestamps = withTimestamps;
            this.withPaths = withPaths;
            this.isExact = withTimestamps && filter.allFetchedColumnsAreQueried();
        }

        /** What a client can see of a partition. */
        void live(RowIterator partition) {
            text.append(hex(partition.partitionKey().getKey())).append('\n');
            if (!partition.staticRow().isEmpty()) row(partition.staticRow());
            while (partition.hasNext()) row(partition.next());
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
            if (deletion.isLive()) return;
            text.append(" del@");
            if (withTimestamps) text.append(deletion.markedForDeleteAt());
            text.append('/').append(deletion.localDeletionTime());
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
            LivenessInfo liveness = row.primaryKeyLivenessInfo();
            if (!liveness.isEmpty()) {
                text.append("row@");
                if (withTimestamps) text.append(liveness.timestamp());
                if (liveness.isExpiring())
                    text.append(" ttl ")
                            .append(liveness.ttl())
                            .append(" ldt ")
                            .append(liveness.localExpirationTime());
            }
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
            ColumnFilter.Tester tester = filter.newTester(complex.column());
            if (tester != null) isExact = false;
            List<Cell<?>> cells = new ArrayList<>();
            for (Cell<?> cell : complex)
                if (tester == null || tester.fetchedCellIsQueried(cell.path())) cells.add(cell);
            if (!stands && cells.isEmpty()) return;
            text.append(' ').append(complex.column().name).append(':');
            if (stands) deletion(deletion);
            boolean list = complex.column().type instanceof ListType && !withPaths;
            if (list) isExact = false;
            int at = 0;
            for (Cell<?> cell : cells) {
                text.append(' ');
                cell(cell, list ? "#" + at++ : hex(cell.path().get(0)));
            }
        }

        private void cell(Cell<?> cell, String path) {
            text.append(path).append('=').append(hex(cell.buffer()));
            text.append('@');
            if (withTimestamps) text.append(cell.timestamp());
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
                    stock.startsWith(ERROR + "ReadFailureException")
                            && !rocks.startsWith(ERROR + "ReadFailureException");
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
