// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.BoundStatementBuilder;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.metadata.Node;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/** What a client sees: the driver here, the nodes in processes of their own. */
final class ClientAccess implements Access {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /** One that has dropped out rests before its table is copied again. */
    private static final Duration SHADOW_PATIENCE = Duration.ofMinutes(20);

    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

    private final Engine engine;
    private final Workload workload;
    private final Target target;
    private final CqlSession session;
    private final PreparedStatement insert;
    private final PreparedStatement select;

    /** The nodes that are asked. */
    interface Target extends AutoCloseable {
        /** Those that run; each row is on up to three of them. */
        List<InetSocketAddress> nodes();

        /** Runs a verb on every node. */
        void nodetool(String... command);

        Probe probe();

        @Override
        void close();
    }

    /** Of nodes that run; they are closed with it. */
    ClientAccess(Engine engine, Workload workload, Target target) {
        this.engine = engine;
        this.workload = workload;
        this.target = target;
        this.session =
                CqlSession.builder()
                        .addContactPoints(target.nodes())
                        .withLocalDatacenter("datacenter1")
                        .withConfigLoader(
                                options()
                                        .withString(
                                                DefaultDriverOption.REQUEST_CONSISTENCY,
                                                "LOCAL_QUORUM")
                                        .withDuration(
                                                DefaultDriverOption.REQUEST_TIMEOUT,
                                                Duration.ofSeconds(30))
                                        .build())
                        .build();
        session.execute(workload.createKeyspace(Math.min(3, target.nodes().size())));
        session.execute(workload.createTable("memtable = '" + engine.memtable() + "'"));
        this.insert = session.prepare(workload.insert());
        this.select = session.prepare(workload.select());
    }

    /** Of a driver whose sessions close at once: by default each takes two seconds for that. */
    static ProgrammaticDriverConfigLoaderBuilder options() {
        return DriverConfigLoader.programmaticBuilder()
                .withInt(DefaultDriverOption.NETTY_IO_SHUTDOWN_QUIET_PERIOD, 0)
                .withInt(DefaultDriverOption.NETTY_ADMIN_SHUTDOWN_QUIET_PERIOD, 0);
    }

    @Override
    public void write(long number, int version) {
        session.execute(bound(insert, workload.row(number, version)));
    }

    /** An insert of a row, as {@link Workload#row} gives it. */
    static BoundStatement bound(PreparedStatement insert, Object[] row) {
        BoundStatementBuilder statement = insert.boundStatementBuilder();
        for (int i = 0; i < row.length; i++)
            if (row[i] instanceof ByteBuffer bytes) statement.setBytesUnsafe(i, bytes);
            else set(statement, i, row[i]);
        return statement.build();
    }

    @SuppressWarnings("unchecked")
    private static void set(BoundStatementBuilder statement, int i, Object value) {
        var unused = statement.set(i, value, (Class<Object>) value.getClass());
    }

    @Override
    public long read(long number) {
        ReadCheck check = new ReadCheck(workload, number);
        for (Row row : session.execute(select.bind(workload.key(number)))) check(row, check);
        return check.end();
    }

    /**
     * Reads and checks as {@link #read} does, without a thread that waits.
     *
     * @return when it is answered
     */
    CompletionStage<Long> readLater(long number) {
        ReadCheck check = new ReadCheck(workload, number);
        return session.executeAsync(select.bind(workload.key(number)))
                .thenApply(
                        rows -> {
                            for (Row row : rows.currentPage()) check(row, check);
                            if (rows.hasMorePages())
                                throw new IllegalStateException(
                                        "row " + number + " is not all on one page");
                            return check.end();
                        });
    }

    /** Writes as {@link #write} does, without a thread that waits. */
    CompletionStage<?> writeLater(long number, int version) {
        return session.executeAsync(bound(insert, workload.row(number, version)));
    }

    /** The columns are those of {@link Workload#select}. */
    private void check(Row row, ReadCheck check) {
        int keys = workload.selected().isEmpty() ? 1 : 0;
        int first = keys + workload.clusterings();
        long head = 0;
        long bytes = 0;
        for (int i = first; i < row.size(); i++) {
            ByteBuffer value = row.getBytesUnsafe(i);
            if (value == null) continue;
            if (i == first && value.remaining() >= Long.BYTES)
                head = value.getLong(value.position());
            bytes += value.remaining();
        }
        check.row(workload.clusterings() == 0 ? 0 : clustering(row, keys), head, bytes);
    }

    private static long clustering(Row row, int column) {
        ByteBuffer value = Objects.requireNonNull(row.getBytesUnsafe(column));
        return value.remaining() == Long.BYTES
                ? value.getLong(value.position())
                : value.getInt(value.position());
    }

    @Override
    public long scan() {
        long there = workload.written().there();
        long count = 0;
        for (Row row :
                session.execute(
                        SimpleStatement.newInstance("SELECT * FROM " + Workload.KEYSPACE + ".t")
                                .setTimeout(PATIENCE))) if (row.size() > 0) count++;
        workload.checkScan(there, count);
        return count;
    }

    @Override
    public void flush() {
        target.nodetool("flush", Workload.KEYSPACE, "t");
    }

    @Override
    public void settle() {
        flush();
        target.nodetool("compact", Workload.KEYSPACE, "t");
        if (engine.isShadowed()) awaitShadows();
    }

    private void awaitShadows() {
        long deadline = System.nanoTime() + SHADOW_PATIENCE.toNanos();
        for (InetSocketAddress node : target.nodes()) {
            Row shadow = shadow(node);
            while (!shadow.getBoolean("caught_up") || shadow.getLong("queued_writes") > 0) {
                if (System.nanoTime() - deadline > 0)
                    throw new IllegalStateException(
                            "the shadow does not catch up: " + shadow.getString("state"));
                LockSupport.parkNanos(LOOK_NANOS);
                shadow = shadow(node);
            }
        }
    }

    /**
     * What the table's shadows did since the nodes were started.
     *
     * @param copies that were begun, the first and one after each that has dropped out
     * @param caughtUp whether those of now have all of the table
     * @param compared reads
     * @param answered reads that they have answered
     */
    record Shadowed(long copies, boolean caughtUp, long compared, long answered) {
        /** Whether one has dropped out since another moment, when all had caught up. */
        boolean hasDroppedOutSince(Shadowed before) {
            return !caughtUp || copies > before.copies;
        }
    }

    /**
     * On all nodes, together; null if the table has no shadow.
     *
     * @throws IllegalStateException if table and shadow had different answers
     */
    @Nullable Shadowed shadowed() {
        if (!engine.isShadowed()) return null;
        long copies = 0;
        boolean caughtUp = true;
        long compared = 0;
        long answered = 0;
        for (InetSocketAddress node : target.nodes()) {
            Row shadow = shadow(node);
            if (shadow.getLong("different") > 0)
                throw new IllegalStateException(
                        "table and shadow differ: SELECT * FROM petra.shadow_differences");
            copies += shadow.getLong("copies");
            caughtUp &= shadow.getBoolean("caught_up");
            compared += shadow.getLong("compared");
            answered += shadow.getLong("answered");
        }
        return new Shadowed(copies, caughtUp, compared, answered);
    }

    private Row shadow(InetSocketAddress address) {
        return Objects.requireNonNull(
                ask(session, address, "SELECT * FROM petra.shadow").one(),
                "the table has no shadow");
    }

    @Override
    public void compacting(boolean automatic) {
        target.nodetool(
                automatic ? "enableautocompaction" : "disableautocompaction",
                Workload.KEYSPACE,
                "t");
    }

    @Override
    public Probe probe() {
        return probe(engine, target, session);
    }

    /** Of nodes, with how long their engine took no writes, which the nodes are asked. */
    static Probe probe(Engine engine, Target target, CqlSession session) {
        return stalling(engine, target, node -> stalledNanos(session, node));
    }

    /** The same of what {@code stalledNanos} says of each node. */
    static Probe stalling(
            Engine engine, Target target, ToLongFunction<InetSocketAddress> stalledNanos) {
        Probe probe = target.probe();
        if (!engine.isPetra()) return probe;
        List<Probe.Watched> watched = new ArrayList<>();
        for (int i = 0; i < probe.processes().size(); i++) {
            InetSocketAddress node = target.nodes().get(i);
            watched.add(probe.processes().get(i).with(() -> stalledNanos.applyAsLong(node)));
        }
        return new Probe(watched);
    }

    private static long stalledNanos(CqlSession session, InetSocketAddress node) {
        long micros = 0;
        for (Row row : ask(session, node, "SELECT * FROM petra.engine_metrics"))
            if (Probe.STALL_METRIC.equals(row.getString("metric"))) micros += row.getLong("value");
        return micros * 1000;
    }

    /** What one node alone knows. */
    private static ResultSet ask(CqlSession session, InetSocketAddress address, String query) {
        Node node =
                session.getMetadata().getNodes().values().stream()
                        .filter(known -> known.getEndPoint().resolve().equals(address))
                        .findFirst()
                        .orElseThrow(() -> new IllegalStateException("the driver lost " + address));
        return session.execute(
                SimpleStatement.newInstance(query)
                        .setConsistencyLevel(ConsistencyLevel.ONE)
                        .setNode(node));
    }

    /** No more requests; the nodes go on. */
    void disconnect() {
        session.close();
    }

    @Override
    public void close() {
        session.close();
        target.close();
    }
}
