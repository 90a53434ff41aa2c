// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.collect.ImmutableMap;
import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.cassandra.config.DataStorageSpec;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DataHooksTest {
    /** A table whose memtable is not an engine's, though its schema may say so. */
    private static ColumnFamilyStore table(Memtable.Factory factory) {
        MemtableParams params = Hollow.of(MemtableParams.class);
        Hollow.set(params, MemtableParams.class, "factory", factory);
        Hollow.set(params, MemtableParams.class, "configurationKey", "test");
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(
                cfs,
                ColumnFamilyStore.class,
                "metadata",
                TableMetadataRef.forOfflineTools(
                        TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)")
                                .unbuild()
                                .memtable(params)
                                .build()));
        return cfs;
    }

    /** The commit log forgot its rows, which were in Cassandra's memtable only. */
    @Test
    void aTableOnItsWayIntoAnEngineNeedsTheCommitLog() {
        ColumnFamilyStore onItsWay = table(new PetraMemtableFactory(Hollow.of(EngineKey.class)));
        assertThat(DataHooks.writesAreDurable(onItsWay, true)).isFalse();
        assertThat(DataHooks.writesAreDurable(onItsWay, false)).isFalse();
    }

    @Test
    void whatOtherConfigurationsSayIsLeft() {
        ColumnFamilyStore other =
                table(
                        (bound, metadata, owner) -> {
                            throw new UnsupportedOperationException();
                        });
        assertThat(DataHooks.writesAreDurable(other, true)).isTrue();
        assertThat(DataHooks.writesAreDurable(other, false)).isFalse();
    }

    private static PartitionUpdate update(String table) {
        TableMetadata metadata =
                TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)")
                        .unbuild()
                        .id(TableId.fromUUID(UUID.nameUUIDFromBytes(table.getBytes(UTF_8))))
                        .build();
        PartitionUpdate.SimpleBuilder update = PartitionUpdate.simpleBuilder(metadata, 1);
        update.timestamp(1).row().add("v", 1);
        return update.build();
    }

    private static final PartitionUpdate STORED = update("stored");
    private static final PartitionUpdate LOGGED = update("logged");

    private static boolean isStored(PartitionUpdate update) {
        return update.metadata().id.equals(STORED.metadata().id);
    }

    private static Mutation mutation(PartitionUpdate... updates) {
        DatabaseDescriptor.getRawConfig().max_mutation_size =
                new DataStorageSpec.IntKibibytesBound("16MiB");
        ImmutableMap.Builder<TableId, PartitionUpdate> all = ImmutableMap.builder();
        for (PartitionUpdate update : updates) all.put(update.metadata().id, update);
        return new Mutation("ks", updates[0].partitionKey(), all.build(), 0);
    }

    /**
     * The record of the other table has a position, by which the row goes to the memtable that the
     * switch has made, Cassandra's: a crash lost it.
     */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aRowWhoseMemtableIsSwitchedWhileTheOtherTablesIsLoggedIsLoggedToo(boolean isOfSchema) {
        AtomicBoolean switched = new AtomicBoolean();
        List<Set<TableId>> records = new ArrayList<>();
        CommitLogPosition position =
                DataHooks.logInstead(
                        mutation(STORED, LOGGED),
                        // Of a statement that was prepared before or after an ALTER.
                        update -> isOfSchema && isStored(update),
                        update -> isStored(update) && !switched.get(),
                        record -> {
                            records.add(Set.copyOf(record.getTableIds()));
                            switched.set(true);
                            return new CommitLogPosition(1, records.size());
                        });
        assertThat(records)
                .containsExactly(Set.of(LOGGED.metadata().id), Set.of(STORED.metadata().id));
        assertThat(position).isEqualTo(new CommitLogPosition(1, 1));
    }

    @Test
    void withoutASwitchOnlyTheOtherTableIsLogged() {
        List<Set<TableId>> records = new ArrayList<>();
        CommitLogPosition position =
                DataHooks.logInstead(
                        mutation(STORED, LOGGED),
                        DataHooksTest::isStored,
                        DataHooksTest::isStored,
                        record -> {
                            records.add(Set.copyOf(record.getTableIds()));
                            return new CommitLogPosition(1, 1);
                        });
        assertThat(records).containsExactly(Set.of(LOGGED.metadata().id));
        assertThat(position).isEqualTo(new CommitLogPosition(1, 1));
    }

    /** What Cassandra does by itself is right, and it has no position by which a row could go. */
    @Test
    void aMutationOfTablesThatAreAlikeIsLeft() {
        for (PartitionUpdate update : List.of(STORED, LOGGED))
            assertThat(
                            DataHooks.logInstead(
                                    mutation(update),
                                    DataHooksTest::isStored,
                                    DataHooksTest::isStored,
                                    record -> {
                                        throw new AssertionError(record);
                                    }))
                    .isNull();
        assertThat(
                        DataHooks.logInstead(
                                mutation(STORED),
                                each -> false,
                                each -> true,
                                record -> {
                                    throw new AssertionError(record);
                                }))
                .isEqualTo(CommitLogPosition.NONE);
    }
}
