// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** What keeps a table from its engine, on this node and, as they tell it, on the others. */
class PromotionDoubtsTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);

    /** One that has all of the table. */
    private final Shadow shadow;

    private final ShadowCopy copy;

    PromotionDoubtsTest() {
        HollowShadow.begin(cfs, TABLE);
        shadow = HollowShadow.of(cfs, false);
        copy = HollowShadow.copy(cfs, 1, 0, () -> null);
        HollowShadow.has(shadow, copy);
    }

    private void findDifference() {
        shadow.results.count(
                copy,
                cfs.decorateKey(ByteBufferUtil.bytes(1)),
                Comparison.Outcome.different("row", "1", ""));
    }

    private static List<TableId> others(int count) {
        List<TableId> tables = new ArrayList<>();
        for (int i = 0; i < count; i++) tables.add(TableId.fromUUID(new UUID(1, i)));
        return tables;
    }

    /** Why the table is not moved when another node has told that. */
    private @Nullable String doubt(String told) throws UnknownHostException {
        return PromotionDoubts.of(
                TABLE.id, shadow, Map.of(InetAddressAndPort.getByName("127.0.0.7"), told));
    }

    @Test
    void nothingIsToldOfAShadowThatMayBecomeItsTable() throws Exception {
        assertThat(PromotionDoubts.said(List.of(shadow))).isEmpty();
        assertThat(doubt("")).isNull();
        assertThat(PromotionDoubts.of(TABLE.id, shadow, Map.of())).isNull();
    }

    @Test
    void theShadowOfThisNodeCountsFirst() {
        assertThat(PromotionDoubts.of(TABLE.id, null, Map.of())).isEqualTo("this node has none");
        findDifference();
        assertThat(PromotionDoubts.of(TABLE.id, shadow, Map.of()))
                .startsWith("it had another answer than the table");
        assertThat(PromotionDoubts.of(TABLE.id, HollowShadow.of(cfs, false), Map.of()))
                .startsWith("it does not have all of the table yet");
    }

    @Test
    void anotherNodesShadowThatDiffersCounts() throws Exception {
        String former = PromotionDoubts.said(List.of(shadow));
        findDifference();
        String told = PromotionDoubts.said(List.of(shadow));
        Shadow own = HollowShadow.of(cfs, false);
        HollowShadow.has(own, HollowShadow.copy(cfs, 2, 0, () -> null));
        Map<InetAddressAndPort, String> all =
                Map.of(
                        InetAddressAndPort.getByName("127.0.0.7"), told,
                        InetAddressAndPort.getByName("127.0.0.8"), former);
        assertThat(PromotionDoubts.of(TABLE.id, own, all))
                .startsWith("on 127.0.0.7:7000 it had another answer than the table");
        assertThat(PromotionDoubts.of(others(1).get(0), own, all)).isNull();
    }

    /** Also one that has dropped out. */
    @Test
    void anotherNodesShadowThatIsNotWholeCounts() throws Exception {
        String told = PromotionDoubts.said(List.of(HollowShadow.of(cfs, false)));
        assertThat(doubt(told))
                .startsWith("on 127.0.0.7:7000 it does not have all of the table yet");
    }

    /** By an ALTER to a name that means the engine there, and a shadow elsewhere. */
    @Test
    void nothingIsToldOfATableThatIsInItsEngineAlready() {
        findDifference();
        shadow.promote();
        assertThat(PromotionDoubts.said(List.of(shadow))).isEmpty();
    }

    @Test
    void bothKindsAreToldOfAsManyTablesAsThereMayBe() throws Exception {
        List<TableId> most = others(PromotionDoubts.MOST_TABLES);
        List<TableId> own = List.of(TABLE.id);
        assertThat(doubt(PromotionDoubts.said(most, own))).contains("does not have all");
        assertThat(doubt(PromotionDoubts.said(own, most))).contains("another answer");
        assertThat(doubt(PromotionDoubts.said(most, most))).isNull();
        // Cassandra writes it with its length in two bytes.
        assertThat(PromotionDoubts.said(most, most).length()).isBetween(50_000, 65_535);
    }

    /** Those that cannot be named are not passed over. */
    @Test
    void ofMoreTablesEachIsInDoubt() throws Exception {
        List<TableId> more = others(PromotionDoubts.MOST_TABLES + 1);
        assertThat(doubt(PromotionDoubts.said(more, List.of())))
                .startsWith("on 127.0.0.7:7000 (or that of another table: there are more than 800)")
                .contains("another answer");
        assertThat(doubt(PromotionDoubts.said(List.of(), more))).contains("does not have all");
    }

    /** By another version. */
    @Test
    void whatIsNotKnownTellsNothing() throws Exception {
        assertThat(doubt("rocks/1.3:" + TABLE.id.asUUID() + ";other:many;different")).isNull();
    }
}
