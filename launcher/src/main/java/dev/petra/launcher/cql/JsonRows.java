// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.StreamWriteFeature;
import java.io.IOException;
import java.io.PrintWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Writes each row as a JSON object on a line. */
public final class JsonRows implements RowWriter {
    private static final JsonFactory JSON =
            JsonFactory.builder()
                    .disable(StreamWriteFeature.AUTO_CLOSE_TARGET)
                    .disable(StreamWriteFeature.FLUSH_PASSED_TO_STREAM)
                    .build();

    private final PrintWriter out;
    private List<String> columns = List.of();

    /** Makes a writer that does not flush by itself. */
    public JsonRows(PrintWriter out) {
        this.out = out;
    }

    @Override
    public void begin(List<String> columns) {
        this.columns = columns;
    }

    @Override
    public void page(List<Row> rows) {
        for (Row row : rows) {
            try (JsonGenerator json = JSON.createGenerator(out)) {
                json.writeStartObject();
                List<@Nullable Object> values = CqlText.values(row);
                for (int i = 0; i < values.size(); i++) {
                    json.writeFieldName(columns.get(i));
                    write(json, values.get(i));
                }
                json.writeEndObject();
            } catch (IOException e) {
                throw new CqlException("cannot write JSON: " + e.getMessage(), e);
            }
            out.println();
        }
        RowWriter.flush(out);
    }

    @Override
    public void end() {
        // Nothing follows the rows.
    }

    /** Writes a value; as a string if JSON has no type for it. */
    static void write(JsonGenerator json, @Nullable Object value) throws IOException {
        if (value == null) {
            json.writeNull();
        } else if (value instanceof Boolean bool) {
            json.writeBoolean(bool);
        } else if (value instanceof Double number) {
            json.writeNumber(number); // NaN and infinities become strings.
        } else if (value instanceof Float number) {
            json.writeNumber(number);
        } else if (value instanceof BigDecimal number) {
            json.writeNumber(number);
        } else if (value instanceof BigInteger number) {
            json.writeNumber(number);
        } else if (value instanceof Number number) {
            json.writeNumber(number.longValue());
        } else if (value instanceof String text) {
            json.writeString(text);
        } else if (value instanceof ByteBuffer bytes) {
            json.writeString(CqlText.blob(bytes));
        } else if (value instanceof Instant instant) {
            json.writeString(instant.toString());
        } else if (value instanceof Collection<?> collection) {
            array(json, collection);
        } else if (value instanceof CqlVector<?> vector) {
            array(json, vector.stream().toList());
        } else if (value instanceof TupleValue tuple) {
            array(json, CqlText.values(tuple));
        } else if (value instanceof UdtValue udt) {
            json.writeStartObject();
            List<@Nullable Object> values = CqlText.values(udt);
            for (int i = 0; i < values.size(); i++) {
                json.writeFieldName(udt.getType().getFieldNames().get(i).asInternal());
                write(json, values.get(i));
            }
            json.writeEndObject();
        } else if (value instanceof Map<?, ?> map) {
            json.writeStartObject();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                json.writeFieldName(key(entry.getKey()));
                write(json, entry.getValue());
            }
            json.writeEndObject();
        } else {
            json.writeString(CqlText.of(value));
        }
    }

    private static void array(JsonGenerator json, Collection<?> values) throws IOException {
        json.writeStartArray();
        for (Object value : values) write(json, value);
        json.writeEndArray();
    }

    /** The key of a map as text, because keys are always strings in JSON. */
    private static String key(Object key) {
        if (key instanceof String text) return text;
        return key instanceof Instant instant ? instant.toString() : CqlText.of(key);
    }
}
