// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.GettableByIndex;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import java.math.BigDecimal;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** Formats values as cqlsh does. */
final class CqlText {
    private static final DateTimeFormatter TIMESTAMP =
            DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSSxx", Locale.ROOT)
                    .withZone(ZoneOffset.UTC);
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("HH:mm:ss.nnnnnnnnn", Locale.ROOT);

    private CqlText() {}

    /**
     * Formats the value of a column. Text is escaped, so that it has no line breaks; not quoted.
     */
    static String of(@Nullable Object value) {
        return value instanceof String text ? escape(text) : nested(value);
    }

    /** Formats bytes as a CQL literal. */
    static String blob(ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return "0x" + HexFormat.of().formatHex(copy);
    }

    /** The values of a row, a tuple or a user-defined type, in order. */
    static List<@Nullable Object> values(GettableByIndex of) {
        List<@Nullable Object> values = new ArrayList<>(of.size());
        for (int i = 0; i < of.size(); i++) {
            // The driver returns a null collection as an empty one.
            values.add(of.isNull(i) ? null : of.getObject(i));
        }
        return values;
    }

    /** Formats a value inside of another. Text is quoted. */
    private static String nested(@Nullable Object value) {
        if (value == null) {
            return "null";
        } else if (value instanceof String text) {
            return "'" + escape(text).replace("'", "''") + "'";
        } else if (value instanceof ByteBuffer bytes) {
            return blob(bytes);
        } else if (value instanceof Instant instant) {
            return TIMESTAMP.format(instant);
        } else if (value instanceof LocalTime time) {
            return TIME.format(time);
        } else if (value instanceof InetAddress address) {
            return address.getHostAddress();
        } else if (value instanceof Boolean bool) {
            return bool ? "True" : "False";
        } else if (value instanceof BigDecimal decimal) {
            return decimal.toString();
        } else if (value instanceof Set<?> set) {
            return join(set, "{", "}");
        } else if (value instanceof List<?> list) {
            return join(list, "[", "]");
        } else if (value instanceof CqlVector<?> vector) {
            return vector.stream().map(CqlText::nested).collect(Collectors.joining(", ", "[", "]"));
        } else if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(entry -> nested(entry.getKey()) + ": " + nested(entry.getValue()))
                    .collect(Collectors.joining(", ", "{", "}"));
        } else if (value instanceof UdtValue udt) {
            List<CqlIdentifier> names = udt.getType().getFieldNames();
            List<@Nullable Object> values = values(udt);
            return IntStream.range(0, values.size())
                    .mapToObj(i -> names.get(i).asInternal() + ": " + nested(values.get(i)))
                    .collect(Collectors.joining(", ", "{", "}"));
        } else if (value instanceof TupleValue tuple) {
            return join(values(tuple), "(", ")");
        } else {
            return value.toString();
        }
    }

    private static String join(Collection<?> values, String open, String close) {
        return values.stream().map(CqlText::nested).collect(Collectors.joining(", ", open, close));
    }

    /** Escapes line breaks and other control characters, as cqlsh does. */
    private static String escape(String text) {
        StringBuilder escaped = new StringBuilder(text.length());
        text.chars()
                .forEach(
                        c -> {
                            switch (c) {
                                case '\\' -> escaped.append("\\\\");
                                case '\n' -> escaped.append("\\n");
                                case '\r' -> escaped.append("\\r");
                                case '\t' -> escaped.append("\\t");
                                default -> {
                                    if (Character.isISOControl(c)) {
                                        escaped.append("\\x%02x".formatted(c));
                                    } else {
                                        escaped.append((char) c);
                                    }
                                }
                            }
                        });
        return escaped.toString();
    }
}
