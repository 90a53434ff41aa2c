// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;

/** What two tables must have in common for one to take the stored data of the other. */
final class SchemaCompatibility {
    private SchemaCompatibility() {}

    /**
     * In what a table's data does not fit into another; names of keyspace, table and primary-key
     * columns do not matter.
     *
     * @return a sentence for each difference
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
                    // Schema tables have it in milliseconds.
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

    /** Types of the user as what they are made of: their keyspace is another, perhaps. */
    private static String type(ColumnMetadata column) {
        return column.type.unwrap().expandUserTypes().asCQL3Type().toString();
    }
}
