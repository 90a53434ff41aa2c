// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import dev.petra.jmh.querylog.Player;
import dev.petra.jmh.querylog.TableSchema;
import dev.petra.launcher.NodeException;
import dev.petra.launcher.NodeProcess;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** A node with the tables as they were when the log began. */
final class ReplayNode implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /** How long a table may get no further on its way into an engine. */
    private static final Duration MIGRATION_PATIENCE = Duration.ofMinutes(30);

    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

    private final List<TableSchema> tables;
    private final Engine engine;
    private final @Nullable MemoryLimit limit;
    private final CqlSession session;
    private final ProcessTarget process;

    final Player player;

    ReplayNode(ReplayOptions options, List<TableSchema> tables, Engine engine, Path directory)
            throws IOException {
        this.tables = tables;
        this.engine = engine;
        limit = limit(options, directory);
        boolean complete = false;
        try {
            process = start(options, engine, directory, limit);
            complete = true;
        } finally {
            if (!complete && limit != null) limit.close();
        }
        complete = false;
        try {
            session =
                    CqlSession.builder()
                            .addContactPoints(process.nodes())
                            .withLocalDatacenter("datacenter1")
                            .withConfigLoader(
                                    ClientAccess.options()
                                            .withDuration(
                                                    DefaultDriverOption.REQUEST_TIMEOUT, PATIENCE)
                                            .withInt(
                                                    DefaultDriverOption.CONNECTION_MAX_REQUESTS,
                                                    2 * ReplayOptions.MOST_IN_FLIGHT)
                                            .build())
                            .build();
            player = new Player(session);
            for (TableSchema table : tables) load(table);
            complete = true;
        } finally {
            if (!complete) end();
        }
    }

    private static @Nullable MemoryLimit limit(ReplayOptions options, Path directory)
            throws IOException {
        if (options.totalMemory == 0) return null;
        try {
            return MemoryLimit.create(
                    "replay-" + directory.getFileName(), (long) options.totalMemory << 20);
        } catch (MemoryLimit.NoLimitException e) {
            throw options.wrong(String.valueOf(e.getMessage()));
        }
    }

    private static ProcessTarget start(
            ReplayOptions options, Engine engine, Path directory, @Nullable MemoryLimit limit) {
        NodeProcess node =
                Nodes.patient(directory, engine, options.gc, options.heap, options.memory, limit);
        return ProcessTarget.start(node, directory);
    }

    private void load(TableSchema schema) {
        schema.create(session, engine.memtable());
        Path snapshot = schema.snapshot();
        if (snapshot == null) return;
        for (TableSchema.Table table : schema.tables())
            process.nodetool(
                    "import",
                    "--copy-data",
                    "--no-tokens",
                    table.keyspace(),
                    table.name(),
                    snapshot.toAbsolutePath().toString());
    }

    /**
     * Compacts, so that no engine answers from files that another format or another engine left,
     * nor compacts while it is timed. What was imported is in its engine by then.
     */
    void settle() {
        if (engine.isPetra()) awaitMigrations(this::migrations, MIGRATION_PATIENCE);
        for (TableSchema.Table table : TableSchema.tablesOf(tables)) {
            process.nodetool("flush", table.keyspace(), table.name());
            process.nodetool("compact", table.keyspace(), table.name());
        }
        Quiet.await(process.probe());
        Quiet.sync();
    }

    /**
     * A row of {@code petra.migrations}.
     *
     * @param table on its way
     * @param leftBytes null as long as it could not begin
     * @param text the row, for a message
     */
    record Migrating(String table, @Nullable Long leftBytes, String text) {}

    /**
     * Waits until no table is on its way into its engine. A compaction would interrupt that for
     * seconds in which the node is at rest.
     *
     * @param migrations what {@code petra.migrations} has now
     * @param patience for how long there may be as many as before, and none may have less left than
     *     it ever had: one that is stuck may change its state all the time
     * @throws NodeException if it stays so for longer
     */
    static void awaitMigrations(Supplier<List<Migrating>> migrations, Duration patience) {
        Map<String, Long> least = new HashMap<>();
        int fewest = Integer.MAX_VALUE;
        long further = System.nanoTime();
        while (true) {
            List<Migrating> now = migrations.get();
            if (now.isEmpty()) return;
            boolean isFurther = now.size() < fewest;
            fewest = Math.min(fewest, now.size());
            for (Migrating each : now) {
                Long left = each.leftBytes();
                if (left == null || left >= least.getOrDefault(each.table(), Long.MAX_VALUE))
                    continue;
                least.put(each.table(), left);
                isFurther = true;
            }
            if (isFurther) further = System.nanoTime();
            else if (System.nanoTime() - further > patience.toNanos())
                throw new NodeException(
                        "for "
                                + patience.toMinutes()
                                + " minutes, what was imported has not got further on its way into"
                                + " the engine: "
                                + now.stream()
                                        .map(Migrating::text)
                                        .collect(Collectors.joining("; ")));
            LockSupport.parkNanos(LOOK_NANOS);
        }
    }

    private List<Migrating> migrations() {
        return session.execute("SELECT * FROM petra.migrations").all().stream()
                .map(
                        row ->
                                new Migrating(
                                        row.getString("keyspace_name")
                                                + "."
                                                + row.getString("table_name"),
                                        row.isNull("left_bytes") ? null : row.getLong("left_bytes"),
                                        row.getFormattedContents()))
                .toList();
    }

    /** Of its process, and of how long its engine took no writes. */
    Probe probe() {
        return ClientAccess.probe(engine, process, session);
    }

    /** What the tables take on disk; there are no others in their keyspaces. */
    long dataBytes() throws IOException {
        long bytes = 0;
        Path data = process.directory().resolve("data");
        for (String keyspace :
                TableSchema.tablesOf(tables).stream()
                        .map(TableSchema.Table::keyspace)
                        .distinct()
                        .toList()) bytes += Quiet.dataBytes(data.resolve(keyspace));
        return bytes;
    }

    private void end() throws IOException {
        try {
            process.close();
        } finally {
            if (limit != null) limit.close();
        }
    }

    @Override
    public void close() throws IOException {
        session.close();
        end();
    }
}
