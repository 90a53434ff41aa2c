// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;

/** Checks whether the stored data of one table can be loaded into another. */
final class SchemaCompatibility {
    private static final String FROZEN = "frozen<";

    private SchemaCompatibility() {}

    /**
     * Finds the differences that keep the stored data of {@code from} out of {@code to}. The names
     * of keyspaces, tables and primary-key columns may differ, and {@code to} may have more
     * columns.
     *
     * @return a sentence for each difference; empty if the data fits
     */
    static List<String> difference(TableMetadata from, TableMetadata to) {
        List<String> found = new ArrayList<>();
        compare("partition key", from.partitionKeyColumns(), to.partitionKeyColumns(), found);
        compare("clustering", from.clusteringColumns(), to.clusteringColumns(), found);
        for (ColumnMetadata column : from.regularAndStaticColumns()) {
            ColumnMetadata there = to.getColumn(column.name);
            if (there == null) found.add("there is no column " + column.name);
            else if (there.kind != column.kind || !Objects.equals(type(there), type(column)))
                found.add(
                        "column %s is %s %s, not %s %s"
                                .formatted(
                                        column.name,
                                        column.kind,
                                        type(column),
                                        there.kind,
                                        type(there)));
        }
        from.droppedColumns.forEach(
                (name, dropped) -> {
                    DroppedColumn there = to.droppedColumns.get(name);
                    // The schema tables store this time in milliseconds only.
                    if (there == null || millis(there) < millis(dropped))
                        found.add(
                                "column %s was dropped from it, and what it has left of its values"
                                                .formatted(dropped.column.name)
                                        + " would come back: drop such a column (ALTER TABLE … ADD,"
                                        + " DROP) from the table first");
                });
        return found;
    }

    private static void compare(
            String what, List<ColumnMetadata> from, List<ColumnMetadata> to, List<String> found) {
        if (!types(from).equals(types(to)))
            found.add("the %s is %s, not %s".formatted(what, types(from), types(to)));
    }

    private static long millis(DroppedColumn column) {
        return TimeUnit.MICROSECONDS.toMillis(column.droppedTime);
    }

    private static List<String> types(List<ColumnMetadata> columns) {
        List<String> types = new ArrayList<>();
        columns.forEach(
                column ->
                        types.add(
                                type(column)
                                        + (column.clusteringOrder()
                                                        == ColumnMetadata.ClusteringOrder.DESC
                                                ? " DESC"
                                                : "")));
        return types;
    }

    /**
     * The type as CQL. User-defined types are expanded to their fields, because the two tables may
     * be in different keyspaces.
     */
    private static String type(ColumnMetadata column) {
        AbstractType<?> type = column.type.unwrap();
        String expanded = type.expandUserTypes().asCQL3Type().toString();
        // Expanding freezes a type whose fields are stored as a cell each.
        return type instanceof UserType && type.isMultiCell()
                ? expanded.substring(FROZEN.length(), expanded.length() - 1)
                : expanded;
    }
}
