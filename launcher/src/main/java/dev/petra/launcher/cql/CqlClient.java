// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.ColumnDefinition;
import com.datastax.oss.driver.api.core.cql.ColumnDefinitions;
import com.datastax.oss.driver.api.core.cql.ExecutionInfo;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.loadbalancing.NodeDistance;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.internal.core.ssl.DefaultSslEngineFactory;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.StreamSupport;
import org.jspecify.annotations.Nullable;

/** A connection to one node only, which coordinates all statements. */
public final class CqlClient implements AutoCloseable {
    private static final int EXCERPT = 120;
    private static final Duration AGREEMENT = Duration.ofSeconds(10);
    private static final Pattern SCHEMA_CHANGE =
            Pattern.compile("\\s*(CREATE|ALTER|DROP)\\s", Pattern.CASE_INSENSITIVE);
    private static final Pattern PASSWORD = Pattern.compile("password", Pattern.CASE_INSENSITIVE);
    private static final Pattern POSITION = Pattern.compile("line \\d+:\\d+");
    private static final Duration CONNECT_AT_MOST = Duration.ofMinutes(1);

    private final CqlSession session;

    private CqlClient(CqlSession session) {
        this.session = session;
    }

    /**
     * Connects to a node.
     *
     * @param timeout of each request
     * @throws CqlException if no connection is possible
     */
    public static CqlClient connect(String address, int port, Duration timeout) {
        return connect(address, port, timeout, CqlAccess.OPEN);
    }

    /**
     * Connects to a node.
     *
     * @param timeout of each request
     * @throws CqlException if no connection is possible
     */
    public static CqlClient connect(String address, int port, Duration timeout, CqlAccess access) {
        InetSocketAddress contact = new InetSocketAddress(address, port);
        if (contact.isUnresolved()) throw new CqlException("unknown address " + address);
        knock(contact, timeout);
        CqlSessionBuilder builder =
                CqlSession.builder()
                        .addContactPoint(contact)
                        .withConfigLoader(driver(timeout, access.tls()))
                        .withNodeDistanceEvaluator(
                                (node, datacenter) ->
                                        isAt(node, contact)
                                                ? NodeDistance.LOCAL
                                                : NodeDistance.IGNORED);
        CqlAccess.Login login = access.login();
        if (login != null) builder.withAuthCredentials(login.user(), login.password());
        try {
            return new CqlClient(builder.build());
        } catch (DriverException | IllegalArgumentException e) {
            throw failed(contact, e);
        }
    }

    /**
     * Runs a statement and reads all pages of its result.
     *
     * @param warnings where warnings of the server are written
     * @throws CqlException if the statement fails
     */
    public void run(String statement, RowWriter writer, PrintWriter warnings) {
        try {
            ResultSet result = session.execute(statement);
            ColumnDefinitions columns = result.getColumnDefinitions();
            warn(result.getExecutionInfo(), warnings);
            if (SCHEMA_CHANGE.matcher(statement).lookingAt() && !awaitAgreement()) {
                warnings.println(
                        "Warning: the nodes do not have the same schema yet; some may be down");
                warnings.flush();
            }
            if (columns.size() == 0) return;
            writer.begin(
                    StreamSupport.stream(columns.spliterator(), false)
                            .map(ColumnDefinition::getName)
                            .map(name -> name.asInternal())
                            .toList());
            ExecutionInfo shown = result.getExecutionInfo();
            // The iterator fetches the next page when this one is used up.
            while (result.iterator().hasNext()) {
                if (result.getExecutionInfo() != shown) {
                    shown = result.getExecutionInfo();
                    warn(shown, warnings);
                }
                List<Row> page = new ArrayList<>();
                for (int left = result.getAvailableWithoutFetching(); left > 0; left--)
                    page.add(result.iterator().next());
                writer.page(page);
            }
            writer.end();
        } catch (DriverException | IllegalArgumentException e) {
            throw new CqlException(reason(e, statement) + "\n  in: " + excerpt(statement), e);
        }
    }

    /**
     * Waits up to 10 seconds until all nodes have the same schema, and returns whether they have.
     * The driver's own check leaves out the nodes that this client ignores.
     */
    private boolean awaitAgreement() {
        long deadline = System.nanoTime() + AGREEMENT.toNanos();
        while (true) {
            Set<UUID> versions = new HashSet<>();
            for (String table : new String[] {"system.local", "system.peers_v2"}) {
                for (Row row : session.execute("SELECT schema_version FROM " + table)) {
                    // It is null for a node that has just joined.
                    versions.add(row.getUuid(0));
                }
            }
            if (versions.size() == 1) return true;
            if (System.nanoTime() > deadline) return false;
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(100));
        }
    }

    @Override
    public void close() {
        session.close();
    }

    /** The timeout of connecting, at most a minute: Netty takes it in milliseconds as an int. */
    private static Duration connectTimeout(Duration timeout) {
        return timeout.compareTo(CONNECT_AT_MOST) < 0 ? timeout : CONNECT_AT_MOST;
    }

    private static boolean isAt(Node node, InetSocketAddress contact) {
        return node.getEndPoint().resolve().equals(contact);
    }

    private static void warn(ExecutionInfo info, PrintWriter warnings) {
        info.getWarnings().forEach(warning -> warnings.println("Warning: " + warning));
        warnings.flush();
    }

    private static DriverConfigLoader driver(Duration timeout, CqlAccess.@Nullable Tls tls) {
        ProgrammaticDriverConfigLoaderBuilder settings = driver(timeout);
        if (tls == null) return settings.build();
        settings.withClass(
                DefaultDriverOption.SSL_ENGINE_FACTORY_CLASS, DefaultSslEngineFactory.class);
        settings.withBoolean(DefaultDriverOption.SSL_HOSTNAME_VALIDATION, tls.checksAddress());
        CqlAccess.Store truststore = tls.truststore();
        if (truststore != null)
            settings.withString(DefaultDriverOption.SSL_TRUSTSTORE_PATH, path(truststore))
                    .withString(DefaultDriverOption.SSL_TRUSTSTORE_PASSWORD, truststore.password());
        CqlAccess.Store keystore = tls.keystore();
        if (keystore != null)
            settings.withString(DefaultDriverOption.SSL_KEYSTORE_PATH, path(keystore))
                    .withString(DefaultDriverOption.SSL_KEYSTORE_PASSWORD, keystore.password());
        return settings.build();
    }

    private static String path(CqlAccess.Store store) {
        if (!Files.isRegularFile(store.file()) || !Files.isReadable(store.file()))
            throw new CqlException("cannot read " + store.file());
        return store.file().toString();
    }

    private static ProgrammaticDriverConfigLoaderBuilder driver(Duration timeout) {
        return DriverConfigLoader.programmaticBuilder()
                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, timeout)
                .withDuration(
                        DefaultDriverOption.CONNECTION_CONNECT_TIMEOUT, connectTimeout(timeout))
                .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, timeout)
                .withDuration(DefaultDriverOption.CONNECTION_SET_KEYSPACE_TIMEOUT, timeout)
                .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, timeout)
                // Else closing the session takes two seconds.
                .withInt(DefaultDriverOption.NETTY_IO_SHUTDOWN_QUIET_PERIOD, 0)
                .withInt(DefaultDriverOption.NETTY_ADMIN_SHUTDOWN_QUIET_PERIOD, 0)
                // Accept the node whatever its datacenter is.
                .withString(
                        DefaultDriverOption.LOAD_BALANCING_POLICY_CLASS,
                        "DcInferringLoadBalancingPolicy")
                // As cqlsh: a page of large rows must fit into the small heap of the image's
                // command.
                .withInt(DefaultDriverOption.REQUEST_PAGE_SIZE, 100)
                .withBoolean(DefaultDriverOption.METADATA_SCHEMA_ENABLED, false)
                .withBoolean(DefaultDriverOption.METADATA_TOKEN_MAP_ENABLED, false)
                .withInt(DefaultDriverOption.NETTY_IO_SIZE, 1)
                .withInt(DefaultDriverOption.NETTY_ADMIN_SIZE, 1);
    }

    /** Tries the port first: for a closed port the driver's message would be less clear. */
    private static void knock(InetSocketAddress contact, Duration timeout) {
        try (Socket socket = new Socket()) {
            socket.connect(contact, Math.toIntExact(connectTimeout(timeout).toMillis()));
        } catch (IOException e) {
            throw failed(contact, e);
        }
    }

    private static CqlException failed(InetSocketAddress contact, Exception e) {
        String reason = e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
        Throwable root = e;
        for (Throwable next = e; next != null; next = next.getCause()) root = next;
        // Of a truststore, for example, only that says what is wrong.
        if (!reason.contains(String.valueOf(root.getMessage()))) reason += ": " + root.getMessage();
        return new CqlException(
                "no CQL on %s:%d: %s".formatted(contact.getHostString(), contact.getPort(), reason),
                e);
    }

    /**
     * Without a password: of a syntax error only where it is, since the message quotes the text.
     */
    static String reason(RuntimeException e, String statement) {
        String message = String.valueOf(e.getMessage());
        if (!(e instanceof SyntaxError) || !PASSWORD.matcher(statement).find()) return message;
        Matcher position = POSITION.matcher(message);
        return "syntax error" + (position.lookingAt() ? " at " + position.group() : "");
    }

    /** The beginning of a statement, and nothing behind the word password, as Cassandra logs it. */
    static String excerpt(String statement) {
        String line = statement.replaceAll("\\s+", " ");
        Matcher password = PASSWORD.matcher(line);
        int end = Math.min(EXCERPT, password.find() ? password.end() : line.length());
        return end == line.length() ? line : line.substring(0, end) + "…";
    }
}
