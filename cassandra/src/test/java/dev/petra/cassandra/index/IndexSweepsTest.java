// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static dev.petra.cassandra.Hollow.proxy;
import static dev.petra.cassandra.index.HollowTable.asOnANode;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermIndexes;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.sstable.format.big.BigTableReader;
import org.apache.cassandra.io.util.File;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What {@code nodetool garbagecollect} says of the indexes of a table. */
class IndexSweepsTest {
    @TempDir Path directory;

    private final Map<UUID, TermIndexes.State> states = new HashMap<>();
    private HollowTable table;
    private int sweeps;

    /** What happens in the middle of a sweep. */
    private Runnable meanwhile = () -> {};

    @BeforeEach
    void open() {
        TermIndexes indexes =
                proxy(
                        TermIndexes.class,
                        (self, method, arguments) ->
                                switch (method.getName()) {
                                    case "states" -> states;
                                    case "incarnation" -> 1L;
                                    case "sweep" -> {
                                        sweeps++;
                                        meanwhile.run();
                                        ((SweepCheck) arguments[1]).pause();
                                        yield 0L;
                                    }
                                    default ->
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                });
        TableStore store =
                proxy(
                        TableStore.class,
                        (self, method, arguments) ->
                                switch (method.getName()) {
                                    case "hasIndexes" -> true;
                                    case "indexes" -> indexes;
                                    case "metrics" -> Map.of();
                                    case "toString" -> "store";
                                    default ->
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                });
        StorageEngine engine = proxy(StorageEngine.class, (self, method, arguments) -> store);
        table = new HollowTable(directory, engine);
        assertThat(table.stores.current().writable()).isSameAs(store);
        states.put(StoreIndexes.id(table.index), TermIndexes.State.BUILT);
    }

    private boolean isSwept() throws Exception {
        return asOnANode(() -> IndexSweeps.sweep(table.cfs));
    }

    @Test
    void anIndexThatIsCompleteIsSwept() throws Exception {
        assertThat(isSwept()).isTrue();
        assertThat(sweeps).isOne();
    }

    /** It reported success. */
    @Test
    void anIndexThatIsBeingBuiltIsNotSwept() throws Exception {
        states.put(StoreIndexes.id(table.index), TermIndexes.State.BUILDING);
        assertThat(isSwept()).isFalse();
        assertThat(sweeps).isZero();
    }

    /** They came after the table was compacted; it reported success. */
    @Test
    void nothingIsSweptWhileThereAreSSTables() throws Exception {
        View view = table.tracker.getView();
        BigTableReader sstable = Hollow.of(BigTableReader.class);
        Hollow.set(
                sstable,
                SSTable.class,
                "descriptor",
                new Descriptor(new File("/t"), "ks", "t", new SequenceBasedSSTableId(1)));
        Hollow.set(view, View.class, "sstables", Set.of(sstable));
        assertThat(isSwept()).isFalse();
        assertThat(sweeps).isZero();
    }

    /** Others may not have been swept. */
    @Test
    void aSweepDuringWhichAnIndexIsDroppedEndsEarly() throws Exception {
        meanwhile = () -> table.registered.remove("t_v");
        assertThat(isSwept()).as("it was the only one").isTrue();
        table.registered.put("t_v", table.index);
        meanwhile =
                () -> {
                    table.registered.remove("t_v");
                    table.registered.put("t_w", table.index);
                };
        assertThat(isSwept()).as("another is left").isFalse();
    }
}
