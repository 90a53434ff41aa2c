// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.engine.EngineSettings;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.concurrent.Future;
import org.apache.cassandra.utils.concurrent.ImmediateFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OverdueSwitchesTest {
    /** The switches that were asked for. The first fails. */
    private static final List<Memtable> switches = new ArrayList<>();

    /** Only to be made hollow. */
    static class Table extends ColumnFamilyStore {
        Table(TableMetadataRef metadata) {
            super(null, "t", null, metadata, null, false, false, false);
        }

        @Override
        public Future<CommitLogPosition> switchMemtableIfCurrent(
                Memtable memtable, FlushReason reason) {
            switches.add(memtable);
            if (switches.size() == 1) throw new IllegalStateException("on purpose");
            getTracker().reset(null);
            return ImmediateFuture.success(null);
        }
    }

    @BeforeEach
    void nothingIsSwitched() {
        switches.clear();
    }

    /** A table whose schema says that memtable. */
    private static ColumnFamilyStore table(Memtable memtable, Memtable.Factory wanted) {
        MemtableParams params = Hollow.of(MemtableParams.class);
        Hollow.set(params, MemtableParams.class, "factory", wanted);
        Hollow.set(params, MemtableParams.class, "configurationKey", "test");
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(memtable);
        ColumnFamilyStore cfs = Hollow.of(Table.class);
        Hollow.set(
                cfs,
                ColumnFamilyStore.class,
                "metadata",
                TableMetadataRef.forOfflineTools(
                        TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)")
                                .unbuild()
                                .memtable(params)
                                .build()));
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(cfs, ColumnFamilyStore.class, "valid", true);
        return cfs;
    }

    /** Cassandra asks no memtable again: the table would stay where its schema does not have it. */
    @Test
    void aWayOutThatBeganButDidNotSwitchIsTriedAgain() {
        long[] departure = {0};
        EngineMemtable memtable =
                (EngineMemtable)
                        Proxy.newProxyInstance(
                                OverdueSwitchesTest.class.getClassLoader(),
                                new Class<?>[] {EngineMemtable.class},
                                (proxy, method, arguments) ->
                                        switch (method.getName()) {
                                            case "departure" -> departure[0];
                                            case "shouldSwitch" -> ++departure[0] > 0;
                                            case "equals" -> proxy == arguments[0];
                                            case "hashCode" -> 1;
                                            default ->
                                                    throw new UnsupportedOperationException(
                                                            method.getName());
                                        });
        ColumnFamilyStore cfs =
                table(
                        memtable,
                        (bound, metadata, owner) -> {
                            throw new UnsupportedOperationException();
                        });
        OverdueSwitches.run(List.of(cfs));
        assertThat(departure[0]).isEqualTo(1);
        assertThat(switches).containsExactly(memtable);
        OverdueSwitches.run(List.of(cfs));
        assertThat(departure[0]).isEqualTo(2);
        assertThat(switches).containsExactly(memtable, memtable);
    }

    /** It would be flushed every half a minute for nothing, which fails on a full disk. */
    @Test
    void aTableIsNotSwitchedBeforeItsWayInCanBegin(@TempDir Path data) throws IOException {
        Memtable memtable = HollowMemtable.cassandras();
        EngineKey engine = new EngineKey("rocks", new EngineSettings(Map.of()));
        ColumnFamilyStore cfs = table(memtable, new PetraMemtableFactory(engine));
        Directories directories = Hollow.of(Directories.class);
        Hollow.set(directories, Directories.class, "dataPaths", new File[] {new File(data)});
        Hollow.set(cfs, ColumnFamilyStore.class, "directories", directories);
        Path inTheWay = Files.createDirectories(data.resolve("rocksdb/MOVING.next"));
        OverdueSwitches.run(List.of(cfs));
        assertThat(switches).isEmpty();
        Files.delete(inTheWay);
        OverdueSwitches.run(List.of(cfs));
        assertThat(switches).containsExactly(memtable);
    }
}
