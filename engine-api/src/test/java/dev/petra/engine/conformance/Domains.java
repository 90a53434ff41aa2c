// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.cassandra.cql3.Duration;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.AsciiType;
import org.apache.cassandra.db.marshal.BooleanType;
import org.apache.cassandra.db.marshal.ByteType;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.DurationType;
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

/**
 * A few telling values of every CQL type, as bytes: the ends of its range, both signs, the empty
 * value where it is legal, values that are prefixes of others, and forms that no driver writes. No
 * two values of a type compare as equal.
 */
final class Domains {
    /** A frozen user type of an int and a text. */
    static final UserType FROZEN_UDT =
            TestTable.userType("pair", false, "a", Int32Type.instance, "b", UTF8Type.instance);

    private static final Map<AbstractType<?>, List<ByteBuffer>> DOMAINS = domains();

    private Domains() {}

    /** Types that values may have, frozen ones included, but no multi-cell ones. */
    static List<AbstractType<?>> types() {
        return List.copyOf(DOMAINS.keySet());
    }

    /** Types that may be in a primary key. */
    static List<AbstractType<?>> comparableTypes() {
        return DOMAINS.keySet().stream().filter(type -> !type.referencesDuration()).toList();
    }

    /** The values of one of these types. */
    static List<ByteBuffer> of(AbstractType<?> type) {
        List<ByteBuffer> values = DOMAINS.get(type.unwrap());
        if (values == null) throw new IllegalArgumentException("no values of " + type);
        return values;
    }

    private static Map<AbstractType<?>, List<ByteBuffer>> domains() {
        Map<AbstractType<?>, List<ByteBuffer>> all = new LinkedHashMap<>();
        put(all, UTF8Type.instance, "", "a", "aa", "b", "\u0000", "\uffff");
        put(all, AsciiType.instance, "", "a", "ab", "b");
        put(all, BytesType.instance, hex(""), hex("00"), hex("0000"), hex("00ff"), hex("ff"));
        put(all, Int32Type.instance, hex(""), Integer.MIN_VALUE, -1, 0, 1, Integer.MAX_VALUE);
        put(all, LongType.instance, Long.MIN_VALUE, -1L, 0L, 1L, Long.MAX_VALUE);
        put(all, ShortType.instance, Short.MIN_VALUE, (short) -1, (short) 0, Short.MAX_VALUE);
        put(all, ByteType.instance, Byte.MIN_VALUE, (byte) -1, (byte) 0, Byte.MAX_VALUE);
        put(all, BooleanType.instance, false, true);
        put(
                all,
                DoubleType.instance,
                Double.NEGATIVE_INFINITY,
                -1.5,
                -0.0,
                0.0,
                Double.MIN_VALUE,
                Double.NaN);
        put(
                all,
                FloatType.instance,
                Float.NEGATIVE_INFINITY,
                -1.5f,
                -0.0f,
                0.0f,
                Float.MIN_VALUE,
                Float.NaN);
        put(
                all,
                TimestampType.instance,
                ByteBufferUtil.bytes(Long.MIN_VALUE),
                ByteBufferUtil.bytes(-1L),
                ByteBufferUtil.bytes(0L),
                ByteBufferUtil.bytes(1L));
        put(all, SimpleDateType.instance, 0, Integer.MIN_VALUE - 1, Integer.MIN_VALUE, -1);
        put(all, TimeType.instance, 0L, 1L, 86_399_999_999_999L);
        put(
                all,
                UUIDType.instance,
                new UUID(0, 0),
                new UUID(0x4000L, 1),
                UUID.fromString("ffffffff-ffff-4fff-bfff-ffffffffffff"),
                UUID.fromString("00000000-0000-1000-8000-000000000000"),
                UUID.fromString("ffffffff-ffff-1fff-bfff-ffffffffffff"));
        put(
                all,
                TimeUUIDType.instance,
                timeUuid("00000000-0000-1000-8000-000000000000"),
                timeUuid("00000001-0000-1000-8000-000000000000"),
                timeUuid("00000000-0001-1000-8000-000000000000"),
                timeUuid("00000000-0001-1000-bfff-ffffffffffff"));
        put(
                all,
                IntegerType.instance,
                hex("00000000000000000001"),
                hex("ffff80"),
                BigInteger.ZERO,
                BigInteger.valueOf(-1),
                BigInteger.ONE.shiftLeft(200),
                BigInteger.ONE.shiftLeft(200).negate());
        put(
                all,
                DecimalType.instance,
                new BigDecimal("1.000"),
                new BigDecimal("-1E+10"),
                new BigDecimal("0E-5"),
                hex("00000000000005"),
                new BigDecimal("1E-300"));
        put(
                all,
                InetAddressType.instance,
                address(0, 0, 0, 0),
                address(127, 0, 0, 1),
                address(255, 255, 255, 255),
                address(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
        put(
                all,
                DurationType.instance,
                Duration.newInstance(0, 0, 0),
                Duration.newInstance(-1, -2, -3),
                Duration.newInstance(1, 2, 3));
        ListType<Integer> list = ListType.getInstance(Int32Type.instance, false);
        put(all, list, List.of(), List.of(1), List.of(1, 0), List.of(-1));
        SetType<String> set = SetType.getInstance(UTF8Type.instance, false);
        put(all, set, Set.of(), Set.of("a"), Set.of("b"));
        MapType<String, Integer> map =
                MapType.getInstance(UTF8Type.instance, Int32Type.instance, false);
        put(all, map, Map.of(), Map.of("a", 1), Map.of("a", 2));
        TupleType tuple = new TupleType(List.of(Int32Type.instance, UTF8Type.instance));
        put(
                all,
                tuple,
                HostFixture.tuple(ByteBufferUtil.bytes(1), ByteBufferUtil.bytes("a")),
                HostFixture.tuple(ByteBufferUtil.bytes(1), null),
                HostFixture.tuple((ByteBuffer) null, ByteBufferUtil.bytes("a")),
                HostFixture.tuple(ByteBufferUtil.bytes(-1), ByteBufferUtil.bytes("")));
        put(
                all,
                FROZEN_UDT,
                HostFixture.tuple(ByteBufferUtil.bytes(1), ByteBufferUtil.bytes("a")),
                HostFixture.tuple(ByteBufferUtil.bytes(2), null));
        VectorType<Float> vector = VectorType.getInstance(FloatType.instance, 2);
        put(all, vector, vector.decompose(1f, 2f), vector.decompose(-1f, 0f));
        return all;
    }

    private static void put(
            Map<AbstractType<?>, List<ByteBuffer>> all, AbstractType<?> type, Object... values) {
        List<ByteBuffer> bytes = new ArrayList<>();
        for (Object value : values) bytes.add(TestTable.bytes(type, value));
        all.put(type, List.copyOf(bytes));
    }

    static ByteBuffer hex(String hex) {
        return ByteBufferUtil.hexToBytes(hex);
    }

    private static TimeUUID timeUuid(String text) {
        return TimeUUID.fromString(text);
    }

    private static InetAddress address(int... bytes) {
        byte[] address = new byte[bytes.length];
        for (int i = 0; i < bytes.length; i++) address[i] = (byte) bytes[i];
        try {
            return InetAddress.getByAddress(address);
        } catch (UnknownHostException e) {
            throw new IllegalArgumentException(e);
        }
    }
}
