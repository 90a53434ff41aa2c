// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.OpenEngines;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Generation;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.streaming.wire.Frame;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** What nodes tell each other of the tables that they take as slices. */
class StreamCapabilitiesTest {
    private static final EngineKey ENGINE =
            new EngineKey("announced", new EngineSettings(Map.of()));
    private static final EngineKey SILENT = new EngineKey("silent", new EngineSettings(Map.of()));

    private static List<TableId> tables(int from, int to) {
        List<TableId> tables = new ArrayList<>();
        for (int i = from; i < to; i++)
            tables.add(TableId.fromUUID(new UUID(0, i * 0x9E3779B97F4A7C15L)));
        return tables;
    }

    /** Others are streamed as SSTables, and cannot be repaired incrementally. */
    @Test
    void thousandsOfTablesAreTold() {
        List<TableId> some = tables(1, 2_001);
        List<TableId> others = tables(2_001, 4_001);
        String said = StreamCapabilities.said(new TreeMap<>(Map.of("a/1", some, "b/1", others)));
        assertThat(some).allMatch(table -> StreamCapabilities.isSaid(said, "a/1", table));
        assertThat(others).allMatch(table -> StreamCapabilities.isSaid(said, "b/1", table));
        assertThat(tables(4_001, 4_011))
                .noneMatch(table -> StreamCapabilities.isSaid(said, "a/1", table));
        assertThat(StreamCapabilities.isSaid(said, "c/1", some.get(0))).isFalse();
        assertThat(StreamCapabilities.said(Map.of())).isEmpty();
    }

    /** Cassandra writes it with its length in two bytes. */
    @Test
    void noMoreIsToldThanGossipCarries() {
        List<TableId> all = tables(1, 10_001);
        String said = StreamCapabilities.said(new TreeMap<>(Map.of("a/1", all, "b/1", all)));
        assertThat(said.length()).isBetween(60_000, 65_535);
        assertThat(StreamCapabilities.isSaid(said, "a/1", all.get(0))).isTrue();
        assertThat(StreamCapabilities.isSaid(said, "b/1", all.get(0))).isFalse();
    }

    /** One of a version that this one does not know, or a part of it: SSTables are for all. */
    @Test
    void whatIsNotUnderstoodTakesNoSlices() {
        TableId table = tables(1, 2).get(0);
        String number = StreamCapabilities.said(new TreeMap<>(Map.of("a/1", List.of(table))));
        number = number.substring("a/1:".length());
        for (String said :
                List.of(
                        "",
                        ";",
                        ":",
                        "a/1",
                        "a/1:",
                        ":" + number,
                        number,
                        "a/1" + number,
                        "a/1;" + number,
                        "a/1:;" + number,
                        "a/1.1:" + number,
                        "b/1:" + number,
                        "a/1:" + number + "0",
                        "a/1: " + number,
                        "a/1=" + number,
                        "?;;a/1::" + number))
            assertThat(StreamCapabilities.isSaid(said, "a/1", table)).as("%s", said).isFalse();
        assertThat(StreamCapabilities.isSaid("?;a/1:" + number, "a/1", table)).isTrue();
        assertThat(StreamCapabilities.isSaid("a/1:x,,:," + number, "a/1", table)).isTrue();
    }

    /** Wherever it is cut. */
    @Test
    void ofTornTextOnlyWhatIsWholeCounts() {
        List<TableId> some = tables(1, 10);
        List<TableId> others = tables(10, 20);
        String said = StreamCapabilities.said(new TreeMap<>(Map.of("a/1", some, "b/1", others)));
        int before = 0;
        for (int end = 0; end <= said.length(); end++) {
            String torn = said.substring(0, end);
            int whole = 0;
            for (TableId table : some) {
                if (StreamCapabilities.isSaid(torn, "a/1", table)) whole++;
                assertThat(StreamCapabilities.isSaid(torn, "b/1", table)).isFalse();
            }
            for (TableId table : others) {
                if (StreamCapabilities.isSaid(torn, "b/1", table)) whole++;
                assertThat(StreamCapabilities.isSaid(torn, "a/1", table)).isFalse();
            }
            assertThat(whole).isBetween(before, before + 1);
            before = whole;
        }
        assertThat(before).isEqualTo(some.size() + others.size());
    }

    /** An engine whose stores send and receive slices of a version; 0 if they do not. */
    private static StorageEngine engine(EngineKey key, int streamFormat) {
        return Hollow.proxy(
                StorageEngine.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "name" -> key.engine();
                            case "streamFormat" -> streamFormat;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }

    /**
     * @param failure of its generation, or null
     */
    private static EngineMemtable memtable(
            EngineKey engine, long departure, @Nullable Throwable failure) {
        Generation generation = Hollow.of(Generation.class);
        if (failure != null) Hollow.set(generation, Generation.class, "failure", failure);
        return Hollow.proxy(
                EngineMemtable.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "engine" -> engine;
                            case "departure" -> departure;
                            case "generation" -> generation;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }

    private static ColumnFamilyStore table(TableId id, boolean cdc, Memtable memtable) {
        TableMetadata plain = TestTables.table("CREATE TABLE t (p int PRIMARY KEY)");
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(memtable);
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(
                cfs,
                ColumnFamilyStore.class,
                "metadata",
                TableMetadataRef.forOfflineTools(
                        plain.unbuild()
                                .id(id)
                                .params(plain.params.unbuild().cdc(cdc).build())
                                .build()));
        return cfs;
    }

    /** What a peer sends as slices must be taken. */
    @Test
    void aNodeTellsOfTablesThatTakeSlicesNow() {
        List<TableId> ids = tables(1, 9);
        Memtable ours = memtable(ENGINE, 0, null);
        List<ColumnFamilyStore> tables =
                List.of(
                        table(ids.get(0), false, ours),
                        table(ids.get(1), false, HollowMemtable.cassandras()),
                        table(ids.get(2), false, memtable(ENGINE, 1, null)),
                        table(ids.get(3), false, memtable(ENGINE, 0, new Exception("damaged"))),
                        table(ids.get(4), true, ours),
                        table(ids.get(5), false, memtable(SILENT, 0, null)),
                        table(ids.get(6), false, ours),
                        // Before it is open.
                        Hollow.of(ColumnFamilyStore.class));
        Map<EngineKey, StorageEngine> engines = OpenEngines.map();
        engines.put(ENGINE, engine(ENGINE, 7));
        engines.put(SILENT, engine(SILENT, 0));
        try {
            String form = "announced/7." + Frame.VERSION;
            String said = StreamCapabilities.saidOf(tables);
            assertThat(said).startsWith(form + ":").doesNotContain(";");
            for (int i = 0; i < ids.size(); i++)
                assertThat(StreamCapabilities.isSaid(said, form, ids.get(i)))
                        .as("table %d", i)
                        .isEqualTo(i == 0 || i == 6);
            // Gossip is not told the same again and again.
            assertThat(StreamCapabilities.saidOf(tables)).isEqualTo(said);
            assertThat(StreamCapabilities.saidOf(List.of())).isEmpty();
        } finally {
            engines.remove(ENGINE);
            engines.remove(SILENT);
        }
    }
}
