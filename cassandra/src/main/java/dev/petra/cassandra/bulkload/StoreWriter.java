// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.ColumnSpecification;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.UpdateParameters;
import org.apache.cassandra.cql3.functions.types.TypeCodec;
import org.apache.cassandra.cql3.statements.ModificationStatement;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.SchemaTransformations;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.schema.Tables;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.schema.UserFunctions;
import org.apache.cassandra.schema.Views;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.JavaDriverUtils;
import org.jspecify.annotations.Nullable;

/**
 * Writes the data of one table without a node, for {@code petra load}, as {@code CQLSSTableWriter}
 * does for SSTables. Rows may come in any order. If a value is written twice, the higher timestamp
 * wins.
 *
 * <pre>
 * try (StoreWriter writer =
 *         StoreWriter.create(
 *                 directory,
 *                 "CREATE TABLE ks.t (k int PRIMARY KEY, v text);",
 *                 "INSERT INTO ks.t (k, v) VALUES (?, ?)")) {
 *     writer.addRow(1, "one");
 * }
 * </pre>
 *
 * <p>The copy is complete when {@link #close} has returned. {@code petra load} refuses that of a
 * writer that was not closed, or failed before. It cannot know of a failure between two rows, such
 * as one of what is read: delete the directory after such a failure.
 *
 * <p>It needs Petra's and Cassandra's jars on the class path, and about 64 MiB of native memory
 * besides the heap. A writer is not thread-safe; several writers may write to different directories
 * at the same time. Do not use it in the process of a node.
 */
public final class StoreWriter implements AutoCloseable {
    /** The schema, until the copy is complete. */
    static final String PARTIAL = SchemaText.FILE + ".partial";

    static {
        // CQLSSTableWriter does the same: there is no cassandra.yaml in this process.
        CassandraRelevantProperties.FORCE_LOAD_LOCAL_KEYSPACES.setBoolean(true);
        DatabaseDescriptor.clientInitialization(false);
        if (DatabaseDescriptor.getPartitioner() == null)
            DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
    }

    private final StorageEngine engine;
    private final TableStore store;
    private final TableMetadata table;
    private final ModificationStatement statement;
    private final List<ColumnSpecification> variables;
    private final List<TypeCodec<?>> codecs;
    private final Path directory;
    private boolean closed;

    /** A row was refused, and none was written since: perhaps the caller gives up. */
    private boolean isLastRefused;

    /** Some of what was to be written may be missing. */
    private boolean hasFailed;

    private StoreWriter(
            Path directory,
            StorageEngine engine,
            TableStore store,
            TableMetadata table,
            ModificationStatement statement) {
        this.directory = directory;
        this.engine = engine;
        this.store = store;
        this.table = table;
        this.statement = statement;
        this.variables = statement.getBindVariables();
        this.codecs =
                variables.stream()
                        .<TypeCodec<?>>map(
                                each ->
                                        JavaDriverUtils.codecFor(
                                                JavaDriverUtils.driverType(each.type)))
                        .toList();
    }

    /**
     * Begins to write for a cluster with the {@code Murmur3Partitioner}.
     *
     * @see #create(Path, String, String, IPartitioner)
     */
    public static StoreWriter create(Path directory, String schema, String statement)
            throws IOException {
        return create(directory, schema, statement, Murmur3Partitioner.instance);
    }

    /**
     * Begins to write.
     *
     * @param directory the output, later an argument of {@code petra load}; it must be empty, or
     *     not exist
     * @param schema the table as it is in the cluster: the CREATE TABLE with its keyspace, and a
     *     CREATE TYPE for each of its types; each statement ends with a semicolon and a line break
     * @param statement an INSERT, UPDATE or DELETE with a bind variable for each value; with {@code
     *     USING TIMESTAMP ?} unless the current time is right
     * @param partitioner the cluster's partitioner
     * @throws FileAlreadyExistsException if the directory is not empty
     * @throws InvalidRequestException if the schema or the statement is malformed, or the statement
     *     has conditions (IF) or writes counters
     * @throws IOException if the directory cannot be written
     */
    public static StoreWriter create(
            Path directory, String schema, String statement, IPartitioner partitioner)
            throws IOException {
        return create(directory, schema, statement, partitioner, UnaryOperator.identity());
    }

    /**
     * The same.
     *
     * @param seen a test's view of the store that is written to
     */
    static StoreWriter create(
            Path directory,
            String schema,
            String statement,
            IPartitioner partitioner,
            UnaryOperator<TableStore> seen)
            throws IOException {
        SchemaText text = SchemaText.parse(schema);
        Types types = text.types(List.of());
        TableMetadata table = text.table(partitioner, types);
        ModificationStatement prepared = prepare(table, types, statement);
        Files.createDirectories(directory);
        try (var files = Files.newDirectoryStream(directory)) {
            if (files.iterator().hasNext())
                throw new FileAlreadyExistsException(
                        directory + " has something in it: name an empty directory.");
        }
        // Under its own name it says that the copy is complete.
        Disk.REAL.write(directory.resolve(PARTIAL), schema.getBytes(UTF_8));
        Path stores = Files.createDirectory(directory.resolve(StoreLocation.NAME));
        StorageEngine engine = OfflineEngine.open();
        try {
            TableStore store =
                    engine.openStore(
                            new StoreSpec(
                                    stores.resolve("1"),
                                    table.name,
                                    1,
                                    TableMetadataRef.forOfflineTools(table)));
            return new StoreWriter(directory, engine, seen.apply(store), table, prepared);
        } catch (RuntimeException | Error e) {
            engine.close();
            throw e;
        }
    }

    private static ModificationStatement prepare(
            TableMetadata table, Types types, String statement) {
        ModificationStatement.Parsed parsed =
                SchemaText.parse(
                        statement, ModificationStatement.Parsed.class, "INSERT/UPDATE/DELETE");
        // Cassandra prepares statements against the schema of the process, which all writers share.
        synchronized (StoreWriter.class) {
            Schema.instance.transform(
                    SchemaTransformations.addKeyspace(
                            KeyspaceMetadata.create(
                                    table.keyspace,
                                    KeyspaceParams.simple(1),
                                    Tables.none(),
                                    Views.none(),
                                    types,
                                    UserFunctions.none()),
                            true));
            Schema.instance.transform(SchemaTransformations.addTypes(types, true));
            TableMetadata known = Schema.instance.getTableMetadata(table.keyspace, table.name);
            if (known == null)
                Schema.instance.transform(SchemaTransformations.addTable(table, true));
            else requireSame(known, table);
        }
        ClientState nobody = ClientState.forInternalCalls();
        ModificationStatement prepared = parsed.prepare(nobody);
        prepared.validate(nobody);
        if (!prepared.metadata.name.equals(table.name)
                || !prepared.metadata.keyspace.equals(table.keyspace))
            throw new InvalidRequestException(
                    "The statement writes to " + prepared.metadata + " and not to " + table + ".");
        if (prepared.hasConditions())
            throw new InvalidRequestException(
                    "A StoreWriter cannot check conditions (IF): it does not read the table.");
        if (prepared.isCounter())
            throw new InvalidRequestException(
                    "A StoreWriter cannot write counters: only nodes can add to them.");
        return prepared;
    }

    private static void requireSame(TableMetadata known, TableMetadata table) {
        List<String> differences = SchemaCompatibility.difference(known, table);
        if (!differences.isEmpty())
            throw new InvalidRequestException(
                    "Another table " + table + " was written by this process: " + differences);
    }

    /**
     * Executes the statement with these values. Their classes are those of the Java driver: {@code
     * Integer}, {@code String}, {@code List} and so on. As in CQL, an INSERT or UPDATE of null
     * deletes the value.
     *
     * @throws InvalidRequestException if the number of values is not that of the variables, or a
     *     value is of the wrong type
     * @throws IllegalStateException if the writer is closed
     */
    public void addRow(@Nullable Object... values) {
        add(
                () -> {
                    if (values.length != variables.size()) throw wrongNumber(values.length);
                    ByteBuffer[] bytes = new ByteBuffer[values.length];
                    for (int i = 0; i < values.length; i++) bytes[i] = serialize(values[i], i);
                    return updates(bytes);
                });
    }

    /**
     * Writes one row, after all of it was computed.
     *
     * @param updates may refuse it
     */
    private void add(Supplier<List<PartitionUpdate>> updates) {
        if (closed) throw new IllegalStateException("The writer is closed.");
        isLastRefused = true;
        List<PartitionUpdate> computed;
        try {
            computed = updates.get();
        } catch (Error e) {
            // The row is not to blame.
            hasFailed = true;
            throw e;
        }
        boolean isWritten = false;
        try {
            computed.forEach(store::write);
            isWritten = true;
        } finally {
            if (!isWritten) hasFailed = true;
        }
        isLastRefused = false;
    }

    @SuppressWarnings("unchecked") // The codec throws for a value of the wrong class.
    private @Nullable ByteBuffer serialize(@Nullable Object value, int variable) {
        if (value == null) return null;
        try {
            return ((TypeCodec<Object>) codecs.get(variable))
                    .serialize(value, ProtocolVersion.CURRENT);
        } catch (ClassCastException e) {
            throw new InvalidRequestException(
                    "%s is a %s, which is no %s."
                            .formatted(
                                    variables.get(variable).name,
                                    value.getClass().getName(),
                                    variables.get(variable).type.asCQL3Type()));
        }
    }

    private InvalidRequestException wrongNumber(int values) {
        return new InvalidRequestException(
                "The statement has " + variables.size() + " variables, not " + values + ".");
    }

    /**
     * Executes the statement with values that are serialized already, in Cassandra's form.
     *
     * @throws InvalidRequestException if the number of values is not that of the variables, or a
     *     value is invalid
     * @throws IllegalStateException if the writer is closed
     */
    public void addBytes(@Nullable ByteBuffer... values) {
        add(() -> updates(values));
    }

    private List<PartitionUpdate> updates(@Nullable ByteBuffer... values) {
        if (values.length != variables.size()) throw wrongNumber(values.length);
        QueryOptions options = QueryOptions.forInternalCalls(null, Arrays.asList(values));
        ClientState nobody = ClientState.forInternalCalls();
        long now = System.currentTimeMillis();
        UpdateParameters parameters =
                new UpdateParameters(
                        table,
                        statement.updatedColumns(),
                        nobody,
                        options,
                        statement.getTimestamp(TimeUnit.MILLISECONDS.toMicros(now), options),
                        options.getNowInSec(TimeUnit.MILLISECONDS.toSeconds(now)),
                        statement.getTimeToLive(options),
                        Map.of());
        List<PartitionUpdate> updates = new ArrayList<>();
        for (ByteBuffer key : statement.buildPartitionKeyNames(options, nobody)) {
            PartitionUpdate.Builder update =
                    new PartitionUpdate.Builder(
                            table,
                            table.partitioner.decorateKey(key),
                            statement.updatedColumns(),
                            1);
            if (statement.hasSlices()) {
                Slices slices = statement.createSlices(options);
                for (Slice slice : slices) statement.addUpdateForKey(update, slice, parameters);
            } else
                for (Clustering<?> clustering : statement.createClustering(options, nobody))
                    statement.addUpdateForKey(update, clustering, parameters);
            updates.add(update.build());
        }
        return updates;
    }

    /**
     * Flushes all rows to files, and says that the copy is complete, unless a row could not be
     * written, or the last one was refused: nobody knows then whether others were to follow.
     * Idempotent.
     *
     * @throws FSError if the files could not be written; the copy is incomplete
     */
    @Override
    public void close() {
        if (closed) return;
        closed = true;
        try (engine;
                store) {
            store.flush();
        }
        if (hasFailed || isLastRefused) return;
        Path schema = directory.resolve(SchemaText.FILE);
        try {
            Disk.REAL.syncDirectory(directory.resolve(StoreLocation.NAME));
            Disk.REAL.syncDirectory(directory);
            Disk.REAL.rename(directory.resolve(PARTIAL), schema);
            Disk.REAL.syncDirectory(directory);
        } catch (IOException e) {
            throw new FSWriteError(e, schema.toString());
        }
    }
}
