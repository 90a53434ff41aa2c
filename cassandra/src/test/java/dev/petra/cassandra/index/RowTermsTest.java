// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.cql3.statements.schema.IndexTarget;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.index.sai.analyzer.AbstractAnalyzer;
import org.apache.cassandra.index.sai.utils.IndexTermType;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class RowTermsTest {
    private static final TableMetadata TABLE =
            TestTables.table(
                    "CREATE TABLE t (p int, q int, c int, s int static, v int, w text,"
                            + " m map<text, int>, PRIMARY KEY ((p, q), c))");

    private static final DecoratedKey KEY =
            TABLE.partitioner.decorateKey(
                    ((org.apache.cassandra.db.marshal.CompositeType) TABLE.partitionKeyType)
                            .decompose(1, 2));

    private static ColumnMetadata column(String name) {
        ColumnMetadata column = TABLE.getColumn(ColumnIdentifier.getInterned(name, true));
        if (column == null) throw new AssertionError(name);
        return column;
    }

    private static IndexTermType type(String name, IndexTarget.Type target) {
        return IndexTermType.create(column(name), TABLE.partitionKeyColumns(), target);
    }

    private static Row.Builder row(Clustering<?> clustering) {
        Row.Builder row = BTreeRow.unsortedBuilder();
        row.newRow(clustering);
        return row;
    }

    private static Clustering<?> clustering(int c) {
        return Clustering.make(ByteBufferUtil.bytes(c));
    }

    private static List<ByteBuffer> terms(IndexTermType type, Row row) {
        return terms(type, null, term -> true, row);
    }

    private static List<ByteBuffer> terms(
            IndexTermType type,
            @Nullable AbstractAnalyzer analyzer,
            Predicate<ByteBuffer> fits,
            Row row) {
        List<ByteBuffer> terms = new ArrayList<>();
        if (RowTerms.hasLiveData(row)) RowTerms.derive(type, analyzer, fits, KEY, row, terms::add);
        return terms;
    }

    private static ByteBuffer term(IndexTermType type, ByteBuffer value) {
        return RowTerms.comparable(type, type.asIndexBytes(value));
    }

    private static BufferCell live(String column, int value) {
        return BufferCell.live(column(column), 1, ByteBufferUtil.bytes(value));
    }

    @Test
    void aPartOfARowIsFoundByItsKeyColumnsAndByWhatItHas() {
        Row.Builder builder = row(clustering(5));
        builder.addCell(live("v", 3));
        Row part = builder.build();
        for (Map.Entry<String, Integer> expected :
                Map.of("p", 1, "q", 2, "c", 5, "v", 3).entrySet()) {
            IndexTermType type = type(expected.getKey(), IndexTarget.Type.SIMPLE);
            assertThat(terms(type, part))
                    .as(expected.getKey())
                    .containsExactly(term(type, ByteBufferUtil.bytes(expected.getValue())));
        }
        assertThat(terms(type("w", IndexTarget.Type.SIMPLE), part)).isEmpty();
        assertThat(terms(type("s", IndexTarget.Type.SIMPLE), part)).isEmpty();
    }

    @Test
    void aRowWithoutCellsIsFoundByItsKeyColumns() {
        Row.Builder builder = row(clustering(5));
        builder.addPrimaryKeyLivenessInfo(LivenessInfo.create(1, 1));
        IndexTermType type = type("c", IndexTarget.Type.SIMPLE);
        assertThat(terms(type, builder.build()))
                .containsExactly(term(type, ByteBufferUtil.bytes(5)));
    }

    @Test
    void aDeletionGivesNothing() {
        Row.Builder row = row(clustering(5));
        row.addRowDeletion(Row.Deletion.regular(DeletionTime.build(2, 2)));
        row.addCell(BufferCell.tombstone(column("v"), 3, 3));
        Row deletion = row.build();
        for (String column : List.of("p", "q", "c", "v"))
            assertThat(terms(type(column, IndexTarget.Type.SIMPLE), deletion)).as(column).isEmpty();
    }

    @Test
    void whatHasExpiredIsFoundByAClockThatIsBehind() {
        Row.Builder builder = row(clustering(5));
        builder.addCell(BufferCell.expiring(column("v"), 1, 10, 1_000, ByteBufferUtil.bytes(3)));
        Row row = builder.build();
        assertThat(terms(type("v", IndexTarget.Type.SIMPLE), row)).hasSize(1);
        assertThat(terms(type("c", IndexTarget.Type.SIMPLE), row)).hasSize(1);
    }

    @Test
    void theStaticRowIsFoundByStaticAndPartitionKeyColumns() {
        Row.Builder builder = row(Clustering.STATIC_CLUSTERING);
        builder.addCell(live("s", 4));
        Row row = builder.build();
        assertThat(terms(type("s", IndexTarget.Type.SIMPLE), row)).hasSize(1);
        assertThat(terms(type("q", IndexTarget.Type.SIMPLE), row)).hasSize(1);
        assertThat(terms(type("c", IndexTarget.Type.SIMPLE), row)).isEmpty();
    }

    @Test
    void aMapIsFoundByKeysValuesAndEntries() {
        Row.Builder builder = row(clustering(5));
        for (Map.Entry<String, Integer> entry : Map.of("a", 1, "b", 2).entrySet())
            builder.addCell(
                    BufferCell.live(
                            column("m"),
                            1,
                            Int32Type.instance.decompose(entry.getValue()),
                            CellPath.create(UTF8Type.instance.decompose(entry.getKey()))));
        builder.addCell(
                BufferCell.tombstone(
                        column("m"), 1, 1, CellPath.create(UTF8Type.instance.decompose("gone"))));
        Row row = builder.build();
        for (IndexTarget.Type target :
                List.of(
                        IndexTarget.Type.KEYS,
                        IndexTarget.Type.VALUES,
                        IndexTarget.Type.KEYS_AND_VALUES))
            assertThat(terms(type("m", target), row))
                    .as("%s", target)
                    .hasSize(2)
                    .doesNotHaveDuplicates();
    }

    @Test
    void analyzersMakeTheTermsAndTooLargeOnesAreLeftOut() {
        IndexTermType type = type("w", IndexTarget.Type.SIMPLE);
        AbstractAnalyzer.AnalyzerFactory factory =
                AbstractAnalyzer.fromOptions(type, Map.of("case_sensitive", "false"));
        Row.Builder builder = row(clustering(5));
        builder.addCell(BufferCell.live(column("w"), 1, UTF8Type.instance.decompose("Some Text")));
        Row row = builder.build();
        assertThat(terms(type, factory.create(), term -> true, row))
                .containsExactly(term(type, UTF8Type.instance.decompose("some text")));
        assertThat(terms(type, factory.create(), term -> false, row)).isEmpty();
        assertThat(terms(type, null, term -> term.remaining() < 3, row)).isEmpty();
    }

    @Test
    void anEmptyTextHasATermAndAnEmptyNumberNone() {
        Row.Builder builder = row(clustering(5));
        builder.addCell(BufferCell.live(column("w"), 1, ByteBufferUtil.EMPTY_BYTE_BUFFER));
        builder.addCell(BufferCell.live(column("v"), 1, ByteBufferUtil.EMPTY_BYTE_BUFFER));
        Row row = builder.build();
        assertThat(terms(type("w", IndexTarget.Type.SIMPLE), row))
                .containsExactly(ByteBuffer.allocate(0));
        assertThat(terms(type("v", IndexTarget.Type.SIMPLE), row)).isEmpty();
    }

    /** A row that lives by a cell of it alone would not be there otherwise. */
    @Test
    void aColumnThatIsAddedMeanwhileIsReadFromThenOn() {
        TermColumns columns = new TermColumns(List.of(column("c")), true);
        TableMetadata altered =
                TABLE.unbuild()
                        .addRegularColumn("added", Int32Type.instance)
                        .addStaticColumn("fixed", Int32Type.instance)
                        .build();
        for (TableMetadata now : List.of(TABLE, altered, TABLE))
            for (ColumnMetadata column : altered.regularAndStaticColumns())
                assertThat(columns.of(now).fetchedColumns().contains(column))
                        .as(column.name + " of " + now)
                        .isEqualTo(now.getColumn(column.name) != null);
    }

    /** An entry whose term is that of a value which was not read would be swept. */
    @Test
    void theValuesOfAllIndexedColumnsAreReadAlsoAfterAnAlter() {
        TableMetadata altered =
                TABLE.unbuild().addRegularColumn("added", Int32Type.instance).build();
        List<String> indexed = List.of("v", "w", "m");
        TermColumns columns =
                new TermColumns(indexed.stream().map(RowTermsTest::column).toList(), true);
        for (TableMetadata now : List.of(TABLE, altered, TABLE))
            for (ColumnMetadata column : now.regularAndStaticColumns())
                assertThat(columns.of(now).fetchedColumnIsQueried(column))
                        .as(column.name + " of " + now)
                        .isEqualTo(indexed.contains(column.name.toString()));
    }
}
