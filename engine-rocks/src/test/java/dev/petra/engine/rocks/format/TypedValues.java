// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import dev.petra.engine.conformance.HostFixture;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import org.apache.cassandra.cql3.FieldIdentifier;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.AsciiType;
import org.apache.cassandra.db.marshal.BooleanType;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.ByteType;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.FloatType;
import org.apache.cassandra.db.marshal.InetAddressType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.IntegerType;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.MapType;
import org.apache.cassandra.db.marshal.SetType;
import org.apache.cassandra.db.marshal.ShortType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.marshal.TimeType;
import org.apache.cassandra.db.marshal.TimeUUIDType;
import org.apache.cassandra.db.marshal.TimestampType;
import org.apache.cassandra.db.marshal.TupleType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.marshal.UUIDType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.marshal.VectorType;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.TimeUUID;

/** Random values of every type that a clustering column can have, with many edge cases. */
final class TypedValues {
    private static final Map<AbstractType<?>, Function<Random, ByteBuffer>> TYPES =
            new LinkedHashMap<>();

    static {
        TYPES.put(Int32Type.instance, r -> orEmpty(r, () -> ByteBufferUtil.bytes((int) number(r))));
        TYPES.put(LongType.instance, r -> orEmpty(r, () -> ByteBufferUtil.bytes(number(r))));
        TYPES.put(TimestampType.instance, r -> orEmpty(r, () -> ByteBufferUtil.bytes(number(r))));
        TYPES.put(ShortType.instance, r -> ByteBufferUtil.bytes((short) number(r)));
        TYPES.put(ByteType.instance, r -> ByteBuffer.wrap(new byte[] {(byte) number(r)}));
        TYPES.put(BooleanType.instance, r -> orEmpty(r, () -> bytes(1, r)));
        TYPES.put(FloatType.instance, r -> orEmpty(r, () -> ByteBufferUtil.bytes((int) number(r))));
        TYPES.put(DoubleType.instance, r -> orEmpty(r, () -> ByteBufferUtil.bytes(number(r))));
        TYPES.put(IntegerType.instance, TypedValues::varint);
        TYPES.put(DecimalType.instance, TypedValues::decimal);
        TYPES.put(UTF8Type.instance, TypedValues::text);
        TYPES.put(AsciiType.instance, r -> bytesOf(r, 0x7F));
        TYPES.put(BytesType.instance, r -> bytesOf(r, 0xFF));
        TYPES.put(UUIDType.instance, r -> orEmpty(r, () -> uuid(r)));
        TYPES.put(TimeUUIDType.instance, r -> orEmpty(r, () -> timeUuid(r)));
        TYPES.put(InetAddressType.instance, TypedValues::inet);
        TYPES.put(SimpleDateType.instance, r -> ByteBufferUtil.bytes((int) number(r)));
        TYPES.put(
                TimeType.instance,
                r -> ByteBufferUtil.bytes(Math.floorMod(number(r), 86_400_000_000_000L)));
        TYPES.put(
                ListType.getInstance(IntegerType.instance, false),
                r -> list(several(r, TypedValues::shortVarint)));
        TYPES.put(
                SetType.getInstance(UTF8Type.instance, false),
                r ->
                        SetType.getInstance(UTF8Type.instance, false)
                                .decompose(new HashSet<>(texts(r))));
        TYPES.put(
                MapType.getInstance(Int32Type.instance, BytesType.instance, false),
                r -> {
                    Map<Integer, ByteBuffer> map = new LinkedHashMap<>();
                    for (int i = r.nextInt(3); i > 0; i--) map.put(r.nextInt(4), bytesOf(r, 0xFF));
                    return MapType.getInstance(Int32Type.instance, BytesType.instance, false)
                            .decompose(map);
                });
        TupleType tuple = new TupleType(List.of(Int32Type.instance, UTF8Type.instance));
        TYPES.put(tuple, TypedValues::tuple);
        TYPES.put(
                new UserType(
                        "ks",
                        ByteBufferUtil.bytes("udt"),
                        List.of(FieldIdentifier.forUnquoted("a"), FieldIdentifier.forUnquoted("b")),
                        List.of(Int32Type.instance, UTF8Type.instance),
                        false),
                TypedValues::tuple);
        TYPES.put(
                new TupleType(List.of(FloatType.instance, tuple, IntegerType.instance)),
                TypedValues::nested);
        VectorType<Float> vector = VectorType.getInstance(FloatType.instance, 3);
        TYPES.put(vector, r -> vector.decompose(List.of(r.nextFloat(), -r.nextFloat(), 0f)));
    }

    private TypedValues() {}

    static List<AbstractType<?>> types() {
        return new ArrayList<>(TYPES.keySet());
    }

    static ByteBuffer value(AbstractType<?> type, Random random) {
        return TYPES.get(type).apply(random);
    }

    private interface Source {
        ByteBuffer get();
    }

    private static ByteBuffer orEmpty(Random r, Source source) {
        return orEmpty(r, 20, source);
    }

    /** An empty value once in so many times. */
    private static ByteBuffer orEmpty(Random r, int times, Source source) {
        return r.nextInt(times) == 0 ? ByteBufferUtil.EMPTY_BYTE_BUFFER : source.get();
    }

    /** A number of any magnitude, often near a power of two. */
    private static long number(Random r) {
        return switch (r.nextInt(4)) {
            case 0 -> r.nextLong();
            case 1 -> r.nextInt(5) - 2;
            default -> {
                long power = 1L << r.nextInt(64);
                yield (r.nextBoolean() ? power : -power) + r.nextInt(3) - 1;
            }
        };
    }

    private static ByteBuffer bytes(int length, Random r) {
        byte[] bytes = new byte[length];
        r.nextBytes(bytes);
        return ByteBuffer.wrap(bytes);
    }

    /** Bytes with runs of 00 and FF, where escaping would go wrong. */
    private static ByteBuffer bytesOf(Random r, int max) {
        byte[] bytes = new byte[r.nextInt(6)];
        for (int i = 0; i < bytes.length; i++)
            bytes[i] =
                    switch (r.nextInt(4)) {
                        case 0, 1 -> 0;
                        case 2 -> (byte) max;
                        default -> (byte) r.nextInt(max + 1);
                    };
        return ByteBuffer.wrap(bytes);
    }

    private static ByteBuffer text(Random r) {
        return ByteBufferUtil.bytes(string(r));
    }

    private static String string(Random r) {
        StringBuilder s = new StringBuilder();
        for (int i = r.nextInt(5); i > 0; i--)
            s.append(List.of("\0", "a", "b", "é", "\u007f", "€", "𐍈").get(r.nextInt(7)));
        return s.toString();
    }

    private static Set<String> texts(Random r) {
        Set<String> texts = new HashSet<>();
        for (int i = r.nextInt(4); i > 0; i--) texts.add(string(r));
        return texts;
    }

    private static List<ByteBuffer> several(Random r, Function<Random, ByteBuffer> one) {
        List<ByteBuffer> list = new ArrayList<>();
        for (int i = r.nextInt(4); i > 0; i--) list.add(one.apply(r));
        return list;
    }

    private static ByteBuffer varint(Random r) {
        return orEmpty(r, () -> varintNotEmpty(r));
    }

    /** A varint, often with needless leading bytes: the same number in another form. */
    private static ByteBuffer varintNotEmpty(Random r) {
        BigInteger number =
                r.nextBoolean()
                        ? BigInteger.valueOf(number(r))
                        : new BigInteger(r.nextInt(700), r)
                                .multiply(BigInteger.valueOf(r.nextBoolean() ? 1 : -1));
        byte[] bytes = number.toByteArray();
        if (r.nextInt(3) > 0) return ByteBuffer.wrap(bytes);
        byte[] padded = new byte[bytes.length + 1 + r.nextInt(2)];
        java.util.Arrays.fill(padded, (byte) (number.signum() < 0 ? 0xFF : 0));
        System.arraycopy(bytes, 0, padded, padded.length - bytes.length, bytes.length);
        return ByteBuffer.wrap(padded);
    }

    /**
     * A varint of at most 8 bytes: inside of another type, Cassandra's encoding fails for a longer
     * one with needless leading bytes.
     */
    private static ByteBuffer shortVarint(Random r) {
        ByteBuffer value = varintNotEmpty(r);
        while (value.remaining() > 8) value = varintNotEmpty(r);
        return value;
    }

    /** A decimal, in different forms: 1, 1.0 and 1.00 are one value. */
    private static ByteBuffer decimal(Random r) {
        BigDecimal value = new BigDecimal(BigInteger.valueOf(number(r)), r.nextInt(9) - 4);
        if (r.nextInt(3) == 0) value = value.setScale(value.scale() + r.nextInt(3));
        return DecimalType.instance.decompose(value);
    }

    private static ByteBuffer uuid(Random r) {
        if (r.nextInt(3) == 0) return timeUuid(r);
        return UUIDType.instance.decompose(new UUID(number(r), number(r)));
    }

    private static ByteBuffer timeUuid(Random r) {
        long msb = (number(r) & ~0xF000L) | 0x1000L;
        return TimeUUIDType.instance.decompose(
                new TimeUUID(TimeUUID.msbToRawTimestamp(msb), number(r)));
    }

    private static ByteBuffer inet(Random r) {
        try {
            byte[] address = new byte[r.nextBoolean() ? 4 : 16];
            for (int i = 0; i < address.length; i++)
                address[i] = (byte) (r.nextBoolean() ? 0 : r.nextInt(256));
            return ByteBuffer.wrap(InetAddress.getByAddress(address).getAddress());
        } catch (UnknownHostException e) {
            throw new AssertionError(e);
        }
    }

    /** A tuple, whose fields may be null, or left out at the end. */
    private static ByteBuffer list(List<ByteBuffer> elements) {
        ByteBuffer content = HostFixture.tuple(elements.toArray(ByteBuffer[]::new));
        return ByteBuffer.allocate(Integer.BYTES + content.remaining())
                .putInt(elements.size())
                .put(content)
                .flip();
    }

    private static ByteBuffer tuple(Random r) {
        ByteBuffer first =
                r.nextInt(4) == 0
                        ? null
                        : orEmpty(r, 4, () -> ByteBufferUtil.bytes((int) number(r)));
        ByteBuffer second = r.nextInt(3) == 0 ? null : text(r);
        return r.nextInt(4) == 0 ? HostFixture.tuple(first) : HostFixture.tuple(first, second);
    }

    private static ByteBuffer nested(Random r) {
        ByteBuffer first =
                r.nextInt(4) == 0
                        ? null
                        : orEmpty(r, 4, () -> ByteBufferUtil.bytes((int) number(r)));
        ByteBuffer second = r.nextInt(4) == 0 ? null : orEmpty(r, 4, () -> tuple(r));
        ByteBuffer third = r.nextInt(3) == 0 ? null : varint(r);
        return r.nextInt(4) == 0
                ? HostFixture.tuple(first, second)
                : HostFixture.tuple(first, second, third);
    }

    /** Whether a value is, or has in it, a tuple with a field that is empty and not null. */
    static boolean hasEmptyField(AbstractType<?> type, ByteBuffer value) {
        if (!(type instanceof TupleType tuple)) return false;
        ByteBuffer[] fields = tuple.split(ByteBufferAccessor.instance, value);
        for (int i = 0; i < fields.length; i++)
            if (fields[i] != null
                    && (!fields[i].hasRemaining() || hasEmptyField(tuple.type(i), fields[i])))
                return true;
        return false;
    }

    static ByteBuffer ofText(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }
}
