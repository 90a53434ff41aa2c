// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static dev.petra.cassandra.Hollow.proxy;
import static dev.petra.cassandra.index.HollowTable.asOnANode;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.TermIndexes;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.utils.TimeUUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreIndexBuilderTest {
    @TempDir Path directory;

    /** The store that the table's engine makes. */
    private final AtomicReference<TableStore> opens = new AtomicReference<>();

    /** {@code nodetool stop INDEX_BUILD}, TRUNCATE and Cassandra's own interrupts. */
    @Test
    @SuppressWarnings("NullAway") // of no table
    void whoStopsABuildStopsThatOfItsSSTables() {
        SecondaryIndexBuilder first =
                new SecondaryIndexBuilder() {
                    @Override
                    public void build() {}

                    @Override
                    public CompactionInfo getCompactionInfo() {
                        throw new UnsupportedOperationException();
                    }
                };
        new StoreIndexBuilder(null, List.of(), true, first).stop();
        assertThat(first.isStopRequested()).isTrue();
    }

    /** Builds a table's index in a store whose disk is full. Something happens meanwhile. */
    private void buildOnAFullDisk(Consumer<HollowTable> meanwhile) throws Exception {
        AtomicInteger attempts = new AtomicInteger();
        AtomicReference<HollowTable> table = new AtomicReference<>();
        TermIndexes full =
                proxy(
                        TermIndexes.class,
                        (self, method, arguments) -> {
                            if (!method.getName().equals("define"))
                                throw new UnsupportedOperationException(method.getName());
                            if (attempts.incrementAndGet() == 2) meanwhile.accept(table.get());
                            if (attempts.get() > 20) throw new AssertionError("it waits on");
                            throw new WriteStallException("full");
                        });
        TableStore store = proxy(TableStore.class, (self, method, arguments) -> full);
        opens.set(store);
        table.set(
                new HollowTable(
                        directory,
                        proxy(StorageEngine.class, (self, method, arguments) -> opens.get())));
        assertThat(table.get().stores.current().writable()).isSameAs(store);
        // Before there seems to be a node, which has directories for keyspaces, and an address.
        Keyspace unused = Hollow.of(Keyspace.class);
        TimeUUID unusedId = TimeUUID.Generator.nextTimeUUID();
        asOnANode(
                () -> {
                    new StoreIndexBuilder(table.get().cfs, List.of(table.get().index), false, null)
                            .build();
                    return true;
                });
        assertThat(attempts).hasValue(2);
    }

    /** It waited for room until the node stopped, and with it the builds of all other tables. */
    @Test
    void aBuildThatWaitsForRoomEndsWithItsIndex() throws Exception {
        buildOnAFullDisk(table -> table.registered.clear());
    }

    @Test
    void aBuildThatWaitsForRoomEndsWithItsGeneration() throws Exception {
        buildOnAFullDisk(
                table -> {
                    var unused = table.stores.successor();
                });
    }

    /** It took the index of the new store for incomplete, and queries failed until it was built. */
    @Test
    void aBuildEndsWithAStoreThatIsMadeWithTheIndexMeanwhile() throws Exception {
        buildOnAFullDisk(
                table -> {
                    Map<UUID, TermIndexes.State> states =
                            Map.of(StoreIndexes.id(table.index), TermIndexes.State.BUILT);
                    TermIndexes complete =
                            proxy(
                                    TermIndexes.class,
                                    (self, method, arguments) -> {
                                        if (method.getName().equals("states")) return states;
                                        throw new UnsupportedOperationException(method.getName());
                                    });
                    TableStore made =
                            proxy(TableStore.class, (self, method, arguments) -> complete);
                    opens.set(made);
                    assertThat(table.stores.successor().writable()).isSameAs(made);
                });
    }
}
