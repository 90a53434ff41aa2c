// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.nodetests.fixture.TestNode;
import harry.core.Configuration;
import harry.core.Run;
import harry.ddl.SchemaGenerators;
import harry.ddl.SchemaSpec;
import harry.model.OpSelectors.OperationKind;
import harry.model.QuiescentChecker;
import harry.model.clock.OffsetClock;
import harry.model.sut.SystemUnderTest;
import harry.visitors.AllPartitionsValidator;
import harry.visitors.MutatingVisitor;
import harry.visitors.QueryLogger;
import harry.visitors.RandomPartitionValidator;
import harry.visitors.Visitor;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A second opinion: Cassandra's own model checker, Harry, writes and deletes in tables in the
 * engine and says what each query ought to answer. It shares no code with the engine, with the
 * reference model of the engine's tests, or with Cassandra's storage.
 */
class HarryIT {
    private static final int STEPS = 400;

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node = TestNode.start(directory);
        session = node.plainSession();
        TestNode.createKeyspace(session, "harry", 1);
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    @Test
    void answersAsHarryExpects() {
        long seed = Long.getLong("petra.seed", new Random().nextLong());
        Duration patience = Duration.ofSeconds(Integer.getInteger("petra.harry.seconds"));
        long end = System.nanoTime() + patience.toNanos();
        int schemas = 0;
        do {
            history(seed + schemas);
            schemas++;
        } while (System.nanoTime() < end);
        System.out.printf(
                "Harry: -Dpetra.seed=%d, %d schemas, %d steps%n", seed, schemas, schemas * STEPS);
    }

    /** A history on the next schema, and then one deletion of which the model does not know. */
    private static void history(long seed) {
        int kind = (int) Math.floorMod(seed, (long) SchemaGenerators.PROGRESSIVE_GENERATORS.length);
        SchemaSpec schema = schema(kind, seed);
        String table = schema.keyspace + "." + schema.table;
        String create = schema.compile().cql().replace(";", "");
        String with = create.contains(" WITH ") ? " AND" : " WITH";
        session.execute(create + with + " memtable = 'rocks'");
        Run run = configuration(seed, schema).createRun();
        Visitor writer = new MutatingVisitor(run);
        Visitor every =
                new AllPartitionsValidator(run, 1, QuiescentChecker::new, QueryLogger.NO_OP);
        Visitor some = new RandomPartitionValidator(run, QuiescentChecker::new, QueryLogger.NO_OP);
        try {
            for (int step = 1; step <= STEPS; step++) {
                writer.visit();
                some.visit();
                if (step % 80 == 0) {
                    every.visit();
                    node.nodetool(
                            step % 160 == 0 ? "compact" : "flush", schema.keyspace, schema.table);
                    every.visit();
                }
            }
        } catch (Throwable e) {
            throw new AssertionError("-Dpetra.seed=" + seed + ": " + create, e);
        }
        // The checker does not miss a partition that has nothing but a static row.
        Row row =
                session.execute("SELECT * FROM " + table).all().stream()
                        .filter(
                                each ->
                                        schema.clusteringKeys.stream()
                                                .noneMatch(column -> each.isNull(column.name)))
                        .findFirst()
                        .orElseThrow();
        String key =
                schema.partitionKeys.stream()
                        .map(column -> column.name + " = ?")
                        .collect(Collectors.joining(" AND "));
        Object[] values =
                schema.partitionKeys.stream().map(column -> row.getObject(column.name)).toArray();
        session.execute(
                SimpleStatement.newInstance("DELETE FROM " + table + " WHERE " + key, values));
        assertThatThrownBy(every::visit).as("-Dpetra.seed=%d: %s", seed, create).isNotNull();
        session.execute("DROP TABLE " + table);
    }

    /** Of that kind; Harry makes some that it refuses itself, for keys of too few values. */
    private static SchemaSpec schema(int kind, long seed) {
        for (long derived = seed; ; derived += 7919) {
            SchemaSpec schema = SchemaGenerators.PROGRESSIVE_GENERATORS[kind].inflate(derived);
            try {
                schema.validate();
                return schema;
            } catch (AssertionError e) {
                assertThat(e).hasMessageStartingWith("[");
            }
        }
    }

    private static Configuration configuration(long seed, SchemaSpec schema) {
        return new Configuration.ConfigurationBuilder()
                .setSeed(seed)
                .setClock(() -> new OffsetClock(100_000))
                .setSchemaProvider((ignored, sut) -> schema)
                .setClusteringDescriptorSelector(
                        builder ->
                                builder.setNumberOfModificationsDistribution(
                                                new Configuration.ConstantDistributionConfig(2))
                                        .setRowsPerModificationDistribution(
                                                new Configuration.ConstantDistributionConfig(2))
                                        .setMaxPartitionSize(100)
                                        .setOperationKindWeights(
                                                new Configuration.OperationKindSelectorBuilder()
                                                        .addWeight(OperationKind.DELETE_ROW, 2)
                                                        .addWeight(OperationKind.DELETE_COLUMN, 4)
                                                        .addWeight(OperationKind.DELETE_RANGE, 1)
                                                        .addWeight(OperationKind.DELETE_SLICE, 1)
                                                        .addWeight(
                                                                OperationKind.DELETE_PARTITION, 1)
                                                        .addWeight(
                                                                OperationKind
                                                                        .DELETE_COLUMN_WITH_STATICS,
                                                                4)
                                                        .addWeight(
                                                                OperationKind.INSERT_WITH_STATICS,
                                                                20)
                                                        .addWeight(OperationKind.INSERT, 20)
                                                        .addWeight(
                                                                OperationKind.UPDATE_WITH_STATICS,
                                                                22)
                                                        .addWeight(OperationKind.UPDATE, 25)
                                                        .build()))
                .setPartitionDescriptorSelector(
                        new Configuration.DefaultPDSelectorConfiguration(
                                5, 40, null, null, 0L, Long.MAX_VALUE))
                .setSUT(DriverSut::new)
                .build();
    }

    /** The node, asked through the driver. */
    private static final class DriverSut implements SystemUnderTest {
        @Override
        public boolean isShutdown() {
            return false;
        }

        @Override
        public void shutdown() {}

        @Override
        public Object[][] execute(String cql, ConsistencyLevel level, Object... values) {
            return session.execute(SimpleStatement.newInstance(cql, values)).all().stream()
                    .map(row -> IntStream.range(0, row.size()).mapToObj(row::getObject).toArray())
                    .toArray(Object[][]::new);
        }

        @Override
        public CompletableFuture<Object[][]> executeAsync(
                String cql, ConsistencyLevel level, Object... values) {
            return CompletableFuture.completedFuture(execute(cql, level, values));
        }
    }
}
