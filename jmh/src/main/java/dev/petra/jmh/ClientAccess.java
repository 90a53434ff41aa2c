// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.BoundStatementBuilder;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.launcher.NodeProcess;
import dev.petra.launcher.NodeTool;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;

/** What a client sees: the driver here, the node in a process of its own. */
final class ClientAccess implements Access {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private final Workload workload;
    private final Path directory;
    private final NodeProcess node;
    private final CqlSession session;
    private final PreparedStatement insert;
    private final PreparedStatement select;

    ClientAccess(
            Engine engine,
            Workload workload,
            Path directory,
            String gc,
            int heapMiB,
            int nativeMiB) {
        this.workload = workload;
        this.directory = directory;
        this.node = Nodes.node(directory, engine, gc, heapMiB, nativeMiB);
        node.start();
        node.awaitCql(PATIENCE);
        this.session =
                CqlSession.builder()
                        .addContactPoint(new InetSocketAddress(node.address(), node.nativePort()))
                        .withLocalDatacenter("datacenter1")
                        .withConfigLoader(
                                DriverConfigLoader.programmaticBuilder()
                                        .withDuration(
                                                DefaultDriverOption.REQUEST_TIMEOUT,
                                                Duration.ofSeconds(30))
                                        .build())
                        .build();
        session.execute(workload.createKeyspace());
        session.execute(workload.createTable("memtable = '" + engine.memtable() + "'"));
        this.insert = session.prepare(workload.insert());
        this.select = session.prepare(workload.select());
    }

    @Override
    public void write(long number, int version) {
        Object[] row = workload.row(number, version);
        BoundStatementBuilder statement = insert.boundStatementBuilder();
        for (int i = 0; i < row.length; i++)
            if (row[i] instanceof ByteBuffer bytes) statement.setBytesUnsafe(i, bytes);
            else set(statement, i, row[i]);
        session.execute(statement.build());
    }

    @SuppressWarnings("unchecked")
    private static void set(BoundStatementBuilder statement, int i, Object value) {
        var unused = statement.set(i, value, (Class<Object>) value.getClass());
    }

    @Override
    public long read(long number) {
        long bytes = 0;
        for (Row row : session.execute(select.bind(workload.key(number)))) bytes += bytes(row);
        if (bytes == 0) throw new IllegalStateException("row " + number + " is not there");
        return bytes;
    }

    private static long bytes(Row row) {
        long bytes = 0;
        for (int i = 0; i < row.size(); i++) {
            ByteBuffer value = row.getBytesUnsafe(i);
            if (value != null) bytes += value.remaining();
        }
        return bytes;
    }

    @Override
    public long scan() {
        long count = 0;
        for (Row row :
                session.execute(
                        SimpleStatement.newInstance("SELECT * FROM " + Workload.KEYSPACE + ".t")
                                .setTimeout(PATIENCE))) if (row.size() > 0) count++;
        if (count < workload.rows())
            throw new IllegalStateException(count + " rows of " + workload.rows());
        return count;
    }

    @Override
    public void settle() {
        nodetool("flush", Workload.KEYSPACE, "t");
        nodetool("compact", Workload.KEYSPACE, "t");
    }

    private void nodetool(String... command) {
        NodeTool.Result result = node.nodetool(command);
        if (result.exitCode() != 0) throw new IllegalStateException(result.output());
    }

    @Override
    public Probe probe() {
        return new Probe(node.pid(), directory);
    }

    @Override
    public void close() {
        session.close();
        node.stop();
    }
}
