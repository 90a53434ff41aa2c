// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.internal.core.type.UserDefinedTypeBuilder;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

final class RowsTest {
    static Stream<Arguments> values() throws IOException {
        UUID uuid = UUID.fromString("123e4567-e89b-12d3-a456-426614174000");
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put("k'1", 1);
        map.put("k2", List.of(true));
        return Stream.of(
                value(null, "null", "null"),
                value("it's \"so\"", "it's \"so\"", "\"it's \\\"so\\\"\""),
                value("a\nb\tc\\d\u0001", "a\\nb\\tc\\\\d\\x01", "\"a\\nb\\tc\\\\d\\u0001\""),
                value("ü😀", "ü😀", "\"ü😀\""),
                value("", "", "\"\""),
                value(7, "7", "7"),
                value(Long.MIN_VALUE, "-9223372036854775808", "-9223372036854775808"),
                value((byte) -1, "-1", "-1"),
                value(new BigInteger("9".repeat(30)), "9".repeat(30), "9".repeat(30)),
                value(new BigDecimal("1.50"), "1.50", "1.50"),
                value(1.5, "1.5", "1.5"),
                value(Double.NaN, "NaN", "\"NaN\""),
                value(Float.NEGATIVE_INFINITY, "-Infinity", "\"-Infinity\""),
                value(true, "True", "true"),
                value(bytes(0xca, 0xfe), "0xcafe", "\"0xcafe\""),
                value(bytes(), "0x", "\"0x\""),
                value(
                        Instant.parse("2024-01-01T10:00:00.120Z"),
                        "2024-01-01 10:00:00.120000+0000",
                        "\"2024-01-01T10:00:00.120Z\""),
                value(LocalDate.of(2024, 2, 29), "2024-02-29", "\"2024-02-29\""),
                value(LocalTime.of(1, 2), "01:02:00.000000000", "\"01:02:00.000000000\""),
                value(CqlDuration.newInstance(1, 2, 3), "1mo2d3ns", "\"1mo2d3ns\""),
                value(uuid, uuid.toString(), "\"" + uuid + "\""),
                value(InetAddress.getByName("10.0.0.1"), "10.0.0.1", "\"10.0.0.1\""),
                value(List.of("a'b", "c"), "['a''b', 'c']", "[\"a'b\",\"c\"]"),
                value(new LinkedHashSet<>(List.of(2, 1)), "{2, 1}", "[2,1]"),
                value(map, "{'k''1': 1, 'k2': [True]}", "{\"k'1\":1,\"k2\":[true]}"),
                value(Map.of(1, bytes(1)), "{1: 0x01}", "{\"1\":\"0x01\"}"),
                value(CqlVector.newInstance(1.5f, 2f), "[1.5, 2.0]", "[1.5,2.0]"),
                value(tuple(), "(1, null, 'x')", "[1,null,\"x\"]"),
                value(udt(), "{name: 'x', Nr: null}", "{\"name\":\"x\",\"Nr\":null}"),
                value(List.of(udt()), "[{name: 'x', Nr: null}]", "[{\"name\":\"x\",\"Nr\":null}]"));
    }

    @ParameterizedTest
    @MethodSource("values")
    void aValueIsShownAsCqlshWouldAndAsJson(@Nullable Object value, String text, String json)
            throws IOException {
        StringWriter written = new StringWriter();
        try (JsonGenerator generator = new JsonFactory().createGenerator(written)) {
            JsonRows.write(generator, value);
        }

        assertThat(CqlText.of(value)).isEqualTo(text);
        assertThat(written).hasToString(json);
    }

    @Test
    void columnsAreAsWideAsTheirWidestValue() {
        StringWriter out = new StringWriter();
        AlignedRows rows = new AlignedRows(new PrintWriter(out));

        rows.begin(List.of("id", "a long name"));
        rows.cells(List.of(List.of("1", "x"), List.of("1000", "ü😀")));
        rows.end();

        assertThat(out.toString().lines())
                .containsExactly(
                        "",
                        " id   | a long name",
                        "------+-------------",
                        "    1 |           x",
                        " 1000 |          ü😀",
                        "",
                        "(2 rows)");
    }

    @Test
    void laterPagesWidenColumnsAndRepeatNoHead() {
        StringWriter out = new StringWriter();
        AlignedRows rows = new AlignedRows(new PrintWriter(out));

        rows.begin(List.of("a"));
        rows.cells(List.of(List.of("1")));
        rows.cells(List.of(List.of("333")));
        rows.cells(List.of(List.of("1")));
        rows.end();

        assertThat(out.toString().lines())
                .containsExactly("", " a", "---", " 1", " 333", "   1", "", "(3 rows)");
    }

    @Test
    void aResultWithoutRowsShowsItsColumns() {
        StringWriter out = new StringWriter();
        AlignedRows rows = new AlignedRows(new PrintWriter(out));

        rows.begin(List.of("a", "b"));
        rows.end();

        assertThat(out.toString().lines()).containsExactly("", " a | b", "---+---", "", "(0 rows)");
    }

    @Test
    void outputThatCannotBeWrittenIsAnError() {
        PrintWriter full =
                new PrintWriter(
                        new Writer() {
                            @Override
                            public void write(char[] text, int from, int length)
                                    throws IOException {
                                throw new IOException("No space left on device");
                            }

                            @Override
                            public void flush() {}

                            @Override
                            public void close() {}
                        });
        AlignedRows rows = new AlignedRows(full);
        rows.begin(List.of("a"));

        assertThatThrownBy(() -> rows.cells(List.of(List.of("1"))))
                .isInstanceOf(CqlException.class)
                .hasMessageContaining("cannot write");
    }

    private static Arguments value(@Nullable Object value, String text, String json) {
        return Arguments.of(value, text, json);
    }

    private static ByteBuffer bytes(int... values) {
        ByteBuffer bytes = ByteBuffer.allocate(values.length);
        for (int value : values) bytes.put((byte) value);
        return bytes.flip();
    }

    private static TupleValue tuple() {
        return DataTypes.tupleOf(DataTypes.INT, DataTypes.listOf(DataTypes.INT), DataTypes.TEXT)
                .newValue(1, null, "x");
    }

    private static UdtValue udt() {
        return new UserDefinedTypeBuilder("ks", "t")
                .withField("name", DataTypes.TEXT)
                .withField("\"Nr\"", DataTypes.setOf(DataTypes.INT))
                .build()
                .newValue("x", null);
    }
}
