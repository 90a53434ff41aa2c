// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.commitlog;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.TestTables;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.function.Predicate;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DataStorageSpec;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What a record of the commit log relies on is synced before the record is valid. */
class CommitLogOrderTest {
    private static final TableId A = TableId.fromUUID(new UUID(0, 1));
    private static final TableId B = TableId.fromUUID(new UUID(0, 2));

    /** Which of the two it was asked to sync. */
    private static final class AskedEngine implements StorageEngine {
        final List<String> asked = new ArrayList<>();
        volatile Runnable meanwhile = () -> {};
        boolean failing;

        @Override
        public void syncAcknowledged(Predicate<TableId> tables) {
            asked.add((tables.test(A) ? "A" : "") + (tables.test(B) ? "B" : ""));
            meanwhile.run();
            if (failing) throw new FSWriteError(new IOException("gone"), Path.of("log"));
        }

        @Override
        public String name() {
            return "asked";
        }

        @Override
        public TableStore openStore(StoreSpec spec) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void deleteStore(Path directory) {}

        @Override
        public void walSync(WalSync mode, Duration interval) {}

        @Override
        public void compactionThroughput(long bytesPerSecond) {}

        @Override
        public EngineStatistics statistics() {
            throw new UnsupportedOperationException();
        }

        @Override
        public void close() {}
    }

    private final AskedEngine engine = new AskedEngine();

    @BeforeEach
    void nothingIsNoted() {
        // Cassandra's settings are loaded by it, but one that a mutation asks for.
        TestTables.table("CREATE TABLE t (p int PRIMARY KEY)");
        DatabaseDescriptor.getRawConfig().max_mutation_size =
                new DataStorageSpec.IntKibibytesBound("16MiB");
        marker();
        engine.asked.clear();
    }

    private void marker() {
        CommitLogOrder.beforeMarker(() -> List.of(engine));
    }

    private static TableMetadata table(String keyspace, String name) {
        return CreateTableStatement.parse(
                        "CREATE TABLE "
                                + name
                                + " (row_key blob, cf_id uuid, v int, PRIMARY KEY (row_key,"
                                + " cf_id))",
                        keyspace)
                .build();
    }

    private static Mutation row(String keyspace, String name, TableId of) {
        PartitionUpdate.SimpleBuilder update =
                PartitionUpdate.simpleBuilder(table(keyspace, name), ByteBuffer.allocate(1));
        update.row(of.asUUID()).add("v", 1);
        return new Mutation(update.build());
    }

    @Test
    void aTransactionsTableIsSyncedOnce() {
        CommitLogOrder.note(row("system", "paxos", B));
        marker();
        marker();
        assertThat(engine.asked).containsExactly("B");
    }

    @Test
    void otherRecordsOfTheSystemMayRelyOnAnyTable() {
        CommitLogOrder.note(row("system", "batches", A));
        marker();
        marker();
        assertThat(engine.asked).containsExactly("AB");
    }

    @Test
    void whatRemovesTransactionsMayRelyOnAnyTable() {
        CommitLogOrder.note(
                new Mutation(
                        PartitionUpdate.fullPartitionDelete(
                                table("system", "paxos"), ByteBuffer.allocate(1), 1, 1)));
        marker();
        assertThat(engine.asked).containsExactly("AB");
    }

    @Test
    void aUsersRecordsRelyOnNothing() {
        CommitLogOrder.note(row("ks", "paxos", A));
        marker();
        assertThat(engine.asked).isEmpty();
    }

    /** The section is not valid then, and its records come before the next marker. */
    @Test
    void whatCouldNotBeSyncedIsTriedAgain() {
        CommitLogOrder.note(row("system", "paxos", A));
        engine.failing = true;
        assertThatThrownBy(this::marker).isInstanceOf(FSWriteError.class);
        engine.failing = false;
        marker();
        marker();
        assertThat(engine.asked).containsExactly("A", "A");
    }

    /** The node goes on, and the table is synced before the next marker that finds room. */
    @Test
    void aTableWhoseDiskIsFullIsTriedAgain() {
        CommitLogOrder.note(row("system", "paxos", A));
        engine.meanwhile =
                () -> {
                    throw new WriteStallException("disk full", true);
                };
        marker();
        marker();
        engine.meanwhile = () -> {};
        marker();
        marker();
        assertThat(engine.asked).containsExactly("A", "A", "A");
        CommitLogOrder.note(row("system", "batches", B));
        engine.meanwhile =
                () -> {
                    throw new WriteStallException("disk full", true);
                };
        marker();
        engine.meanwhile = () -> {};
        marker();
        marker();
        assertThat(engine.asked).containsExactly("A", "A", "A", "AB", "AB");
    }

    /** Another segment's marker may make the same record valid. */
    @Test
    void aMarkerWaitsForTheSyncThatAnotherBegan() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch answered = new CountDownLatch(1);
        engine.meanwhile =
                () -> {
                    begun.countDown();
                    Uninterruptibles.awaitUninterruptibly(answered);
                };
        CommitLogOrder.note(row("system", "paxos", A));
        Thread first = new Thread(this::marker);
        first.start();
        begun.await();
        Thread second = new Thread(this::marker);
        second.start();
        second.join(200);
        assertThat(second.isAlive()).isTrue();
        answered.countDown();
        first.join();
        second.join();
        assertThat(engine.asked).containsExactly("A");
    }

    /** The thread would come again, with a hole in the section where this marker's place is. */
    @Test
    void nothingEscapesWhereTheCommitLogGoesOn() {
        Config.CommitFailurePolicy before = DatabaseDescriptor.getCommitFailurePolicy();
        DatabaseDescriptor.setCommitFailurePolicy(Config.CommitFailurePolicy.ignore);
        try {
            CommitLogOrder.note(row("system", "paxos", A));
            engine.meanwhile =
                    () -> {
                        throw new AssertionError("no such engine");
                    };
            marker();
            engine.meanwhile = () -> {};
            marker();
            assertThat(engine.asked).containsExactly("A", "A");
        } finally {
            DatabaseDescriptor.setCommitFailurePolicy(before);
        }
    }

    @Test
    void aSystemTablesFlushSyncsAll() {
        CommitLogOrder.beforeFlush(List.of(engine));
        assertThat(engine.asked).containsExactly("AB");
    }

    /** A flush that failed is not tried again before the node is restarted. */
    @Test
    void aSystemTablesFlushGoesOnWhereFailuresAreIgnored() {
        engine.failing = true;
        Config.CommitFailurePolicy commit = DatabaseDescriptor.getCommitFailurePolicy();
        Config.DiskFailurePolicy disk = DatabaseDescriptor.getDiskFailurePolicy();
        try {
            DatabaseDescriptor.setCommitFailurePolicy(Config.CommitFailurePolicy.stop);
            DatabaseDescriptor.setDiskFailurePolicy(Config.DiskFailurePolicy.stop);
            assertThatThrownBy(() -> CommitLogOrder.beforeFlush(List.of(engine)))
                    .isInstanceOf(FSWriteError.class);
            DatabaseDescriptor.setCommitFailurePolicy(Config.CommitFailurePolicy.ignore);
            CommitLogOrder.beforeFlush(List.of(engine));
            DatabaseDescriptor.setCommitFailurePolicy(Config.CommitFailurePolicy.stop);
            DatabaseDescriptor.setDiskFailurePolicy(Config.DiskFailurePolicy.ignore);
            CommitLogOrder.beforeFlush(List.of(engine));
        } finally {
            DatabaseDescriptor.setCommitFailurePolicy(commit);
            DatabaseDescriptor.setDiskFailurePolicy(disk);
        }
        assertThat(engine.asked).containsExactly("AB", "AB", "AB");
    }
}
