// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import dev.petra.cassandra.disk.StoreDirectory;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
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
 * Writes the data of one table without a node, for {@code petra load}: what {@code
 * CQLSSTableWriter} is for SSTables. Rows may come in any order, and more than once: the newest
 * counts.
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
 * <p>It needs Cassandra's jars and Petra's on the class path, and native memory of some 64 MiB
 * beside the heap. One thread uses it; several of them may write to several directories. Not for a
 * process that is a node.
 */
public final class StoreWriter implements AutoCloseable {
    static {
        // As CQLSSTableWriter does, whose process knows no node's configuration either.
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
    private boolean closed;

    private StoreWriter(
            StorageEngine engine,
            TableStore store,
            TableMetadata table,
            ModificationStatement statement) {
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
     * Begins to write for a cluster with the usual partitioner.
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
     * @param directory empty or not there; afterwards {@code petra load} is given it
     * @param schema the table, as in the cluster: its CREATE TABLE with keyspace, and before it a
     *     CREATE TYPE for each of its types; each ends with a semicolon and a line's end
     * @param statement an INSERT, UPDATE or DELETE with a bind variable for each value, {@code
     *     USING TIMESTAMP ?} among them where the time is not now
     * @param partitioner the cluster's
     * @throws FileAlreadyExistsException if there is something in the directory
     * @throws InvalidRequestException if a statement is not such, or none that can be written this
     *     way: with conditions, of counters
     */
    public static StoreWriter create(
            Path directory, String schema, String statement, IPartitioner partitioner)
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
        Files.writeString(directory.resolve(SchemaText.FILE), schema);
        Path stores = Files.createDirectory(directory.resolve(StoreDirectory.NAME));
        StorageEngine engine = OfflineEngine.open();
        try {
            TableStore store =
                    engine.openStore(
                            new StoreSpec(
                                    stores.resolve("1"),
                                    table.name,
                                    1,
                                    TableMetadataRef.forOfflineTools(table)));
            return new StoreWriter(engine, store, table, prepared);
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
        // Statements are prepared against the schema of the process.
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
     * Writes what the statement says with these values, of the driver's types: {@code Integer},
     * {@code String}, {@code List} and so on; null for no value.
     *
     * @throws InvalidRequestException if there are more or fewer than variables, or one is wrong
     */
    public void addRow(@Nullable Object... values) {
        if (values.length != variables.size()) throw wrongNumber(values.length);
        ByteBuffer[] bytes = new ByteBuffer[values.length];
        for (int i = 0; i < values.length; i++) bytes[i] = serialize(values[i], i);
        addBytes(bytes);
    }

    @SuppressWarnings("unchecked") // The codec says what is wrong with a value.
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

    /** The same with values as Cassandra serializes them. */
    public void addBytes(@Nullable ByteBuffer... values) {
        if (closed) throw new IllegalStateException("The writer is closed.");
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
            store.write(update.build());
        }
    }

    /** Completes the data. Idempotent; without it there is nothing to load. */
    @Override
    public void close() {
        if (closed) return;
        closed = true;
        try (engine;
                store) {
            store.flush();
        }
    }
}
