// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.index.LegacyTerms.Part;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.marshal.SetType;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

class LegacyTermsTest {
    private static final TableMetadata TABLE =
            TestTables.table(
                    "CREATE TABLE t (p int, q int, c int, d int, s int static, v int, w text,"
                            + " m map<text, int>, PRIMARY KEY ((p, q), c, d))");

    private static final DecoratedKey KEY =
            TABLE.partitioner.decorateKey(((CompositeType) TABLE.partitionKeyType).decompose(1, 2));

    private static final Clustering<?> ROW = Clustering.make(bytes(5), bytes(6));

    private static ByteBuffer bytes(int value) {
        return ByteBufferUtil.bytes(value);
    }

    private static ColumnMetadata column(String name) {
        return column(TABLE, name);
    }

    private static ColumnMetadata column(TableMetadata table, String name) {
        ColumnMetadata column = table.getColumn(ColumnIdentifier.getInterned(name, true));
        if (column == null) throw new AssertionError(name);
        return column;
    }

    private static Row.Builder row(Clustering<?> clustering) {
        Row.Builder row = BTreeRow.unsortedBuilder();
        row.newRow(clustering);
        return row;
    }

    private static List<ByteBuffer> terms(String column, Part part, Row row) {
        List<ByteBuffer> terms = new ArrayList<>();
        if (RowTerms.hasLiveData(row))
            LegacyTerms.derive(TABLE, column(column), part, KEY, row, terms::add);
        return terms;
    }

    private static List<ByteBuffer> terms(String column, Row row) {
        return terms(column, Part.VALUE, row);
    }

    @Test
    void aPartOfARowIsFoundByItsKeyColumnsAndByWhatItHas() {
        Row.Builder builder = row(ROW);
        builder.addCell(BufferCell.live(column("v"), 1, bytes(3)));
        Row part = builder.build();
        assertThat(terms("p", part)).containsExactly(bytes(1));
        assertThat(terms("q", part)).containsExactly(bytes(2));
        assertThat(terms("c", part)).containsExactly(bytes(5));
        assertThat(terms("d", part)).containsExactly(bytes(6));
        assertThat(terms("v", part)).containsExactly(bytes(3));
        assertThat(terms("w", part)).isEmpty();
        assertThat(terms("s", part)).isEmpty();
    }

    @Test
    void aRowWithoutCellsIsFoundByItsKeyColumns() {
        Row.Builder builder = row(ROW);
        builder.addPrimaryKeyLivenessInfo(LivenessInfo.create(1, 1));
        assertThat(terms("d", builder.build())).containsExactly(bytes(6));
    }

    @Test
    void theStaticRowIsFoundByStaticAndPartitionKeyColumns() {
        Row.Builder builder = row(Clustering.STATIC_CLUSTERING);
        builder.addCell(BufferCell.live(column("s"), 1, bytes(4)));
        Row row = builder.build();
        assertThat(terms("s", row)).containsExactly(bytes(4));
        assertThat(terms("q", row)).containsExactly(bytes(2));
        assertThat(terms("c", row)).isEmpty();
        assertThat(terms("v", row)).isEmpty();
    }

    @Test
    void aDeletionGivesNothing() {
        Row.Builder row = row(ROW);
        row.addRowDeletion(Row.Deletion.regular(DeletionTime.build(2, 2)));
        row.addCell(BufferCell.tombstone(column("v"), 3, 3));
        Row deletion = row.build();
        for (String column : List.of("p", "q", "c", "d", "v"))
            assertThat(terms(column, deletion)).as(column).isEmpty();
    }

    @Test
    void whatHasExpiredIsFoundByAClockThatIsBehind() {
        Row.Builder builder = row(ROW);
        builder.addCell(BufferCell.expiring(column("v"), 1, 10, 1_000, bytes(3)));
        assertThat(terms("v", builder.build())).containsExactly(bytes(3));
    }

    @Test
    void aMapIsFoundByKeysValuesAndEntries() {
        Row.Builder builder = row(ROW);
        ByteBuffer a = ByteBufferUtil.bytes("a");
        builder.addCell(BufferCell.live(column("m"), 1, bytes(1), CellPath.create(a)));
        builder.addCell(
                BufferCell.tombstone(
                        column("m"), 1, 1, CellPath.create(ByteBufferUtil.bytes("gone"))));
        Row row = builder.build();
        assertThat(terms("m", Part.KEY, row)).containsExactly(a);
        assertThat(terms("m", Part.VALUE, row)).containsExactly(bytes(1));
        assertThat(terms("m", Part.ENTRY, row))
                .containsExactly(CompositeType.build(ByteBufferAccessor.instance, a, bytes(1)));
    }

    /** By either form, Cassandra finds what was written in both: a sweep must keep both entries. */
    @Test
    void aTermIsOfARowThatHasAnEqualValueOfAnotherForm() {
        TableMetadata table =
                TestTables.table(
                        "CREATE TABLE t (p decimal, q int, c decimal, v decimal, e set<decimal>, l"
                                + " list<decimal>, m map<decimal, decimal>, f frozen<set<decimal>>,"
                                + " PRIMARY KEY ((p, q), c))");
        ByteBuffer kept = decimal("1.0");
        ByteBuffer other = decimal("1.00");
        Row.Builder builder = row(Clustering.make(kept));
        builder.addCell(BufferCell.live(column(table, "v"), 1, kept));
        builder.addCell(BufferCell.live(column(table, "f"), 1, set(kept)));
        for (String column : List.of("e", "l", "m"))
            builder.addCell(BufferCell.live(column(table, column), 1, kept, CellPath.create(kept)));
        Row row = builder.build();
        assertEqual(table, "c", Part.VALUE, row, other, decimal("1.1"));
        assertEqual(table, "v", Part.VALUE, row, other, decimal("1.1"));
        assertEqual(table, "f", Part.VALUE, row, set(other), set(decimal("1.1")));
        assertEqual(table, "e", Part.KEY, row, other, decimal("1.1"));
        assertEqual(table, "l", Part.VALUE, row, other, decimal("1.1"));
        assertEqual(table, "m", Part.KEY, row, other, decimal("1.1"));
        assertEqual(table, "m", Part.VALUE, row, other, decimal("1.1"));
        assertEqual(table, "m", Part.ENTRY, row, pair(other, other), pair(other, decimal("1.1")));
    }

    private static void assertEqual(
            TableMetadata table,
            String name,
            Part part,
            Row row,
            ByteBuffer equal,
            ByteBuffer other) {
        ColumnMetadata column = column(table, name);
        assertThat(LegacyTerms.isOf(table, column, part, KEY, row, equal))
                .as("%s %s", name, part)
                .isTrue();
        assertThat(LegacyTerms.isOf(table, column, part, KEY, row, other))
                .as("%s %s", name, part)
                .isFalse();
    }

    private static ByteBuffer decimal(String value) {
        return DecimalType.instance.decompose(new BigDecimal(value));
    }

    private static ByteBuffer set(ByteBuffer element) {
        return SetType.getInstance(DecimalType.instance, false)
                .decompose(Set.of(DecimalType.instance.compose(element)));
    }

    private static ByteBuffer pair(ByteBuffer key, ByteBuffer value) {
        return CompositeType.build(ByteBufferAccessor.instance, key, value);
    }

    /** Cassandra refuses to write or to look for such a value. */
    @Test
    void aTooLargeValueIsLeftOut() {
        for (int length : new int[] {0, 65_534, 65_535, 70_000}) {
            Row.Builder builder = row(ROW);
            builder.addCell(BufferCell.live(column("w"), 1, ByteBuffer.allocate(length)));
            assertThat(terms("w", builder.build())).hasSize(length < 65_535 ? 1 : 0);
        }
    }

    private static List<ByteBuffer> hidden(String indexed, int columns, Clustering<?> clustering) {
        return List.of(
                LegacyTerms.hidden(TABLE, column(indexed), columns, KEY, clustering)
                        .getBufferArray());
    }

    @Test
    void theHiddenTableHasTheRestOfThePrimaryKey() {
        ByteBuffer key = KEY.getKey();
        assertThat(hidden("v", 3, ROW)).containsExactly(key, bytes(5), bytes(6));
        assertThat(hidden("q", 3, ROW)).containsExactly(key, bytes(5), bytes(6));
        assertThat(hidden("c", 2, ROW)).containsExactly(key, bytes(6));
        assertThat(hidden("d", 2, ROW)).containsExactly(key, bytes(5));
        // The path of a cell in a collection is behind them.
        assertThat(hidden("m", 4, ROW))
                .containsExactly(key, bytes(5), bytes(6), ByteBufferUtil.EMPTY_BYTE_BUFFER);
    }

    @Test
    void theHiddenTableHasOnlyThePartitionOfAStaticRow() {
        assertThat(
                        LegacyTerms.hidden(TABLE, column("s"), 3, KEY, Clustering.STATIC_CLUSTERING)
                                .getBufferArray())
                .containsExactly(KEY.getKey(), null, null);
    }

    @Test
    void theEntriesOfARowDifferInThePathAlone() {
        for (String column : List.of("p", "v", "m"))
            assertThat(LegacyTerms.rowColumns(TABLE, column(column))).as(column).isEqualTo(3);
        assertThat(LegacyTerms.rowColumns(TABLE, column("c"))).isEqualTo(2);
        assertThat(LegacyTerms.rowColumns(TABLE, column("s"))).isEqualTo(1);
    }
}
