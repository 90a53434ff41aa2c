// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.Host;
import com.datastax.driver.core.RemoteEndpointAwareJdkSSLOptions;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.SSLOptions;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.exceptions.DriverException;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.policies.RoundRobinPolicy;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.EncryptionOptions;
import org.apache.cassandra.schema.CompressionParams;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableParams;
import org.apache.cassandra.security.SSLFactory;
import org.apache.cassandra.streaming.StreamingChannel;
import org.apache.cassandra.tools.BulkLoadConnectionFactory;
import org.apache.cassandra.tools.LoaderOptions;
import org.apache.cassandra.utils.NativeSSTableLoaderClient;
import org.jspecify.annotations.Nullable;

/**
 * Asks the cluster over CQL for what a loader needs: the ring, the table's schema, and which nodes
 * have the table in an engine.
 */
final class LoadClient extends NativeSSTableLoaderClient {
    private final LoaderOptions options;

    LoadClient(LoaderOptions options) throws IOException {
        super(options.hosts, options.storagePort, options.authProvider, ssl(options));
        this.options = options;
    }

    @Override
    public StreamingChannel.Factory getConnectionFactory() {
        return new BulkLoadConnectionFactory(options.serverEncOptions, options.storagePort);
    }

    private static @Nullable SSLOptions ssl(LoaderOptions options) throws IOException {
        EncryptionOptions encryption = options.clientEncOptions;
        if (!encryption.getEnabled()) return null;
        return RemoteEndpointAwareJdkSSLOptions.builder()
                .withSSLContext(SSLFactory.createSSLContext(encryption, true))
                .withCipherSuites(encryption.cipherSuitesArray())
                .build();
    }

    /**
     * The table that the data is loaded into.
     *
     * @param types the user-defined types of its keyspace
     * @param without the IP addresses of the owners that do not have all of the table in an engine;
     *     ignored nodes are not asked
     */
    record Target(TableMetadata table, List<SchemaText.TypeRow> types, Set<String> without) {}

    /**
     * Asks the cluster for what {@link #init} leaves out: compression and bloom filter options,
     * user-defined types, and the nodes without the engine. Opens a connection of its own.
     *
     * @param table the table as {@code init} found it
     * @throws IOException if it is a view, an owner does not say whether it has the table, or TLS
     *     cannot be set up
     */
    Target target(TableMetadata table) throws IOException {
        Cluster.Builder builder =
                Cluster.builder()
                        .addContactPointsWithPorts(options.hosts)
                        // The driver's default connects to one datacenter, and each node is asked.
                        .withLoadBalancingPolicy(new RoundRobinPolicy());
        SSLOptions ssl = ssl(options);
        if (ssl != null) builder.withSSL(ssl);
        if (options.authProvider != null) builder.withAuthProvider(options.authProvider);
        try (Cluster cluster = builder.build();
                Session session = cluster.connect()) {
            Row row =
                    session.execute(
                                    "SELECT compression, bloom_filter_fp_chance FROM"
                                            + " system_schema.tables WHERE keyspace_name = ? AND"
                                            + " table_name = ?",
                                    table.keyspace,
                                    table.name)
                            .one();
            if (row == null)
                throw new IOException(
                        table
                                + " is a materialized view, or was dropped just now. The data of a"
                                + " view is not loaded: load that of its base table, from which the"
                                + " nodes make the view's.");
            TableParams params =
                    TableParams.builder()
                            .compression(
                                    CompressionParams.fromMap(
                                            row.getMap("compression", String.class, String.class)))
                            .bloomFilterFpChance(row.getDouble("bloom_filter_fp_chance"))
                            .build();
            Set<String> owners = new HashSet<>();
            getEndpointToRangesMap()
                    .keySet()
                    .forEach(node -> owners.add(node.getAddress().getHostAddress()));
            Set<String> without = new HashSet<>();
            for (Host host : cluster.getMetadata().getAllHosts())
                if (owners.contains(address(host))
                        && !isIgnored(host)
                        && !hasInEngine(session, host, table)) without.add(address(host));
            return new Target(
                    table.unbuild().params(params).droppedColumns(inMicros(table)).build(),
                    types(session, table.keyspace),
                    without);
        }
    }

    /** {@link #init} leaves drop times in milliseconds, where microseconds are expected. */
    private static Map<ByteBuffer, DroppedColumn> inMicros(TableMetadata table) {
        Map<ByteBuffer, DroppedColumn> dropped = new HashMap<>();
        table.droppedColumns.forEach(
                (name, column) ->
                        dropped.put(
                                name,
                                new DroppedColumn(
                                        column.column,
                                        TimeUnit.MILLISECONDS.toMicros(column.droppedTime))));
        return dropped;
    }

    private static List<SchemaText.TypeRow> types(Session session, String keyspace) {
        List<SchemaText.TypeRow> types = new ArrayList<>();
        for (Row row :
                session.execute(
                        "SELECT type_name, field_names, field_types FROM system_schema.types WHERE"
                                + " keyspace_name = ?",
                        keyspace))
            types.add(
                    new SchemaText.TypeRow(
                            row.getString(0),
                            row.getList(1, String.class),
                            row.getList(2, String.class)));
        return types;
    }

    private static String address(Host host) {
        return host.getEndPoint().resolve().getAddress().getHostAddress();
    }

    private boolean isIgnored(Host host) {
        return options.ignores.stream()
                .anyMatch(node -> node.getAddress().getHostAddress().equals(address(host)));
    }

    private static boolean hasInEngine(Session session, Host host, TableMetadata table)
            throws IOException {
        try {
            Row row =
                    session.execute(
                                    new SimpleStatement(
                                                    "SELECT usable FROM petra.tables WHERE"
                                                            + " keyspace_name = ? AND table_name ="
                                                            + " ?",
                                                    table.keyspace,
                                                    table.name)
                                            .setHost(host))
                            .one();
            return row != null && row.getBool("usable");
        } catch (InvalidQueryException e) {
            // The node has no keyspace petra, so it has no engine.
            return false;
        } catch (DriverException e) {
            throw new IOException(
                    "Node "
                            + address(host)
                            + " cannot be asked whether it has table "
                            + table
                            + " in a storage engine: load when it is up, or --ignore the node and"
                            + " repair it afterwards. "
                            + e.getMessage(),
                    e);
        }
    }
}
