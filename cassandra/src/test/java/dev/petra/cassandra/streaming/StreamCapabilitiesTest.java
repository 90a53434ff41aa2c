// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.Test;

/** What nodes tell each other of the tables that they take as slices. */
class StreamCapabilitiesTest {
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
}
