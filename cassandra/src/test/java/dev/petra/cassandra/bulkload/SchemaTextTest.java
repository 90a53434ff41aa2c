// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.reflect.Proxy;
import java.util.List;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.functions.FunctionName;
import org.apache.cassandra.cql3.functions.ScalarFunction;
import org.apache.cassandra.cql3.functions.masking.ColumnMask;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.repair.autorepair.AutoRepairConfig;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class SchemaTextTest {
    private static final List<String> NAMES =
            List.of("v", "my col", "Upper", "a\"b", " \"\" ", "drop", "x DROP y USING TIMESTAMP 5");

    @BeforeAll
    static void initialize() {
        DatabaseDescriptor.clientInitialization(false);
    }

    private static String quoted(String name) {
        return "\"" + name.replace("\"", "\"\"") + "\"";
    }

    private static TableMetadata table(String text) {
        SchemaText schema = SchemaText.parse(text);
        return schema.table(Murmur3Partitioner.instance, schema.types(List.of()));
    }

    /** A table without dropped columns, and after it other statements. */
    private static TableMetadata table(String column, String statements) {
        return table(
                "CREATE TABLE ks.t (p int PRIMARY KEY, w int, %s frozen<map<int, text>>);\n%s"
                        .formatted(column, statements));
    }

    /** Otherwise the values that were dropped come back with the load. */
    @Test
    void droppedColumnsAreFoundInWhatCassandraWritesOfThem() {
        for (String name : NAMES)
            for (boolean isAdded : List.of(true, false)) {
                TableMetadata plain = table(quoted(name), "");
                TableMetadata.Builder dropped = plain.unbuild();
                var column = plain.getColumn(ByteBufferUtil.bytes(name));
                dropped.recordColumnDrop(column, 77);
                if (!isAdded) dropped.removeRegularOrStaticColumn(column.name);
                String text = dropped.build().toCqlString(true, true, true);
                TableMetadata read = table(text);
                assertThat(read.getDroppedColumn(column.name.bytes)).as(text).isNotNull();
                assertThat(read.droppedColumns.get(column.name.bytes).droppedTime).isEqualTo(77);
                assertThat(read.getColumn(column.name) != null).as(text).isEqualTo(isAdded);
            }
    }

    /** What a node with auto-repair writes of a table. */
    private static String withAutoRepair(TableMetadata table) {
        AutoRepairConfig config = DatabaseDescriptor.getAutoRepairConfig();
        CassandraRelevantProperties.AUTOREPAIR_ENABLE.setBoolean(true);
        config.setAutoRepairSchedulingEnabled(true);
        try {
            return table.toCqlString(true, true, true);
        } finally {
            config.setAutoRepairSchedulingEnabled(false);
            CassandraRelevantProperties.AUTOREPAIR_ENABLE.clearValue();
        }
    }

    /** In this process auto-repair is not enabled, and there is no such memtable. */
    @Test
    void optionsThatOnlyNodesCanHaveAreIgnored() {
        TableMetadata plain =
                table(
                        "CREATE TABLE ks.t (p int PRIMARY KEY, v text) WITH memtable = 'of a node'"
                            + " AND comment = 'memtable = ''x''' AND default_time_to_live = 77;");
        String text = withAutoRepair(plain);
        assertThat(text).contains("AND auto_repair = {");
        TableMetadata read = table(text);
        assertThat(read.columns()).containsExactlyInAnyOrderElementsOf(plain.columns());
        assertThat(read.params.comment).isEqualTo("memtable = 'x'");
        // A StoreWriter writes by it.
        assertThat(read.params.defaultTimeToLive).isEqualTo(77);
    }

    /** As much of a function as a mask needs to be written. */
    private static ScalarFunction function(FunctionName name, AbstractType<?>... types) {
        return (ScalarFunction)
                Proxy.newProxyInstance(
                        ScalarFunction.class.getClassLoader(),
                        new Class<?>[] {ScalarFunction.class},
                        (proxy, method, arguments) ->
                                switch (method.getName()) {
                                    case "name" -> name;
                                    case "argTypes" -> List.of(types);
                                    default ->
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                });
    }

    /** Masking is not enabled in this process, and no function of a user's is known. */
    @Test
    void masksAreIgnoredInWhatCassandraWritesOfThem() {
        UTF8Type text = UTF8Type.instance;
        Int32Type integer = Int32Type.instance;
        List<ColumnMask> masks =
                List.of(
                        new ColumnMask(function(FunctionName.nativeFunction("mask_default"), text)),
                        new ColumnMask(
                                function(
                                        FunctionName.nativeFunction("mask_inner"),
                                        text,
                                        integer,
                                        integer,
                                        text),
                                integer.decompose(1),
                                null,
                                text.decompose("*")),
                        new ColumnMask(
                                function(new FunctionName("ks", "Of a user"), text, text),
                                text.decompose("it's (not, \"a MASKED WITH DEFAULT;\n -- $$")));
        for (String columns :
                List.of("p text PRIMARY KEY", "p text, c text, s text static, PRIMARY KEY (p, c)"))
            for (ColumnMask mask : masks) {
                TableMetadata plain =
                        table("CREATE TABLE ks.t (v text, w text, %s);".formatted(columns));
                TableMetadata.Builder masked = plain.unbuild();
                // One that was dropped and added again, for which there is an ALTER TABLE.
                masked.recordColumnDrop(plain.getColumn(ByteBufferUtil.bytes("v")), 77);
                plain.columns().forEach(column -> masked.alterColumnMask(column.name, mask));
                String written = masked.build().toCqlString(true, true, true);
                assertThat(written).contains(" MASKED WITH " + mask);
                TableMetadata read = table(written);
                assertThat(read.columns())
                        .as(written)
                        .containsExactlyInAnyOrderElementsOf(plain.columns());
                assertThat(read.getDroppedColumn(ByteBufferUtil.bytes("v"))).isNotNull();
            }
    }

    @Test
    void masksByHandAreIgnoredAndWhatLooksLikeOneIsNot() {
        TableMetadata read =
                table(
                        """
                        CREATE TABLE ks.masked ( -- it's MASKED WITH f(
                            p int masked with default PRIMARY KEY,
                            "v MASKED WITH f(" text MASKED WITH "Ks" . "F" ((1, ')'), $$'($$), // :)
                            masked text MASKED
                                WITH mask_inner(1, -- )
                                    null)
                        ) WITH comment = 'v MASKED WITH f(1)';
                        """);
        assertThat(read.columns())
                .extracting(column -> column.name.toString())
                .containsExactlyInAnyOrder("p", "v MASKED WITH f(", "masked");
        assertThat(read.params.comment).isEqualTo("v MASKED WITH f(1)");
    }

    @Test
    void namesAreReadAsInCql() {
        TableMetadata read =
                table(
                        "V",
                        """
                        -- By hand.
                        // DROP
                        alter columnfamily ks.t drop V using timestamp -5;
                        ALTER TABLE ks.t ADD "v" frozen<map<int, text>>;
                        ALTER TABLE ks.t DROP v USING TIMESTAMP 9;
                        """);
        assertThat(read.droppedColumns.values())
                .singleElement()
                .satisfies(
                        dropped -> {
                            assertThat(dropped.column.name.toString()).isEqualTo("v");
                            assertThat(dropped.droppedTime).isEqualTo(9);
                        });
        assertThat(read.columns()).hasSize(2);
    }

    @Test
    void anotherAlterTableIsRefusedByItsText() {
        for (String statement :
                List.of(
                        "ALTER TABLE ks.t DROP v",
                        "ALTER TABLE ks.t DROP (v, w) USING TIMESTAMP 5",
                        "ALTER TABLE ks.t DROP v, w USING TIMESTAMP 5",
                        "ALTER TABLE ks.t DROP \"v USING TIMESTAMP 5",
                        "ALTER TABLE ks.t DROP IF EXISTS v USING TIMESTAMP 5",
                        "-- By hand.\nALTER TABLE ks.t DROP v",
                        "ALTER TABLE ks.t ADD x int",
                        "ALTER TABLE ks.t DROP v USING TIMESTAMP 5; ALTER TABLE ks.t ADD v int",
                        "ALTER TABLE ks.t WITH comment = 'x'"))
            assertThatThrownBy(() -> table("v", statement + ";\n"))
                    .as(statement)
                    .isInstanceOf(InvalidRequestException.class)
                    .hasMessageContaining("Nothing else is understood: ALTER TABLE ks.t ");
        assertThatThrownBy(() -> table("v", "ALTER TABLE ks.t DROP x USING TIMESTAMP 5;"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("Column x is dropped, but the CREATE TABLE does not have it");
    }
}
