// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Set;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.AsciiType;
import org.apache.cassandra.db.marshal.ByteArrayAccessor;
import org.apache.cassandra.db.marshal.ByteType;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.FloatType;
import org.apache.cassandra.db.marshal.InetAddressType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.IntegerType;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.ShortType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.marshal.TimeType;
import org.apache.cassandra.db.marshal.TimeUUIDType;
import org.apache.cassandra.db.marshal.TimestampType;
import org.apache.cassandra.db.marshal.TupleType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.marshal.UUIDType;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.utils.ByteArrayUtil;
import org.apache.cassandra.utils.bytecomparable.ByteSource;
import org.jspecify.annotations.Nullable;

/**
 * Encodes and decodes one component of a key: a clustering column, or the token of a {@link
 * org.apache.cassandra.dht.LocalPartitioner}, which is a value of a type. A component begins with a
 * separator byte.
 *
 * <p>The common types have fast paths, which property tests compare with Cassandra's
 * byte-comparable form.
 */
public abstract class KeyComponent {
    /** The length of a field that is null, as Cassandra writes it. */
    private static final int NULL = -1;

    final AbstractType<?> type;

    KeyComponent(AbstractType<?> type) {
        this.type = type;
    }

    /** Whether {@link #get} returns the very bytes of a value that was put. */
    <V> boolean isExact(V value, ValueAccessor<V> accessor) {
        return true;
    }

    abstract <V> void put(ByteSink out, V value, ValueAccessor<V> accessor);

    abstract byte[] get(ByteBuffer in);

    /** Moves the buffer to where {@link #get} would. For most types, it allocates nothing. */
    void skip(ByteBuffer in) {
        get(in);
    }

    /** Reads the component after its separator, which is not that of null. */
    final byte[] get(ByteBuffer in, int separator) {
        return switch (separator) {
            case ByteSource.NEXT_COMPONENT -> get(in);
            case ByteSource.NEXT_COMPONENT_EMPTY, ByteSource.NEXT_COMPONENT_EMPTY_REVERSED ->
                    getEmpty();
            default ->
                    throw new IllegalArgumentException(
                            "a stored key has separator byte " + separator);
        };
    }

    private byte[] getEmpty() {
        byte[] empty = ComparableSource.decode(this::decoded, null);
        // Of types whose empty values are encoded as others are.
        if (empty == null) throw new IllegalArgumentException("a stored key has no " + type);
        return empty;
    }

    final byte[] decoded(ByteSource.@Nullable Peekable source) {
        return type.fromComparableBytes(
                ByteArrayAccessor.instance, source, ComparableSource.VERSION);
    }

    final void putEmpty(ByteSink out) {
        out.put(
                type.isReversed()
                        ? ByteSource.NEXT_COMPONENT_EMPTY_REVERSED
                        : ByteSource.NEXT_COMPONENT_EMPTY);
    }

    final void skip(ByteBuffer in, int separator) {
        if (separator == ByteSource.NEXT_COMPONENT) skip(in);
        else get(in, separator);
    }

    private static AbstractType<?> base(AbstractType<?> type) {
        return type instanceof ReversedType<?> reversed ? reversed.baseType : type;
    }

    /** Whether former versions wrote some values of a type otherwise. */
    static boolean hasFormerForm(AbstractType<?> type) {
        return base(type) instanceof TupleType;
    }

    /** As former versions wrote it: by Cassandra's form of tuples, which {@link Tuple} reads. */
    static KeyComponent former(AbstractType<?> type) {
        return hasFormerForm(type) ? new General(type, false) : of(type);
    }

    static KeyComponent of(AbstractType<?> type) {
        AbstractType<?> base = base(type);
        int mask = type.isReversed() ? 0xFF : 0;
        if (base == UTF8Type.instance || base == AsciiType.instance || base == BytesType.instance)
            return new Escaped(type, mask);
        if (base == Int32Type.instance) return new FixedSigned(type, mask, false);
        if (base == TimestampType.instance) return new FixedSigned(type, mask, true);
        if (base == LongType.instance) return new VariableLong(type, mask);
        if (base == IntegerType.instance) return new Varint(type);
        if (base == FloatType.instance)
            return new Floating(type, ByteArrayUtil.bytes(Float.floatToIntBits(Float.NaN)));
        if (base == DoubleType.instance)
            return new Floating(type, ByteArrayUtil.bytes(Double.doubleToLongBits(Double.NaN)));
        if (base instanceof TupleType tuple) return new Tuple(type, tuple);
        return new General(type, hasOneForm(base));
    }

    /**
     * Whether values that compare as equal always have the same bytes. False also for types for
     * which this is not known.
     */
    public static boolean hasOneForm(AbstractType<?> base) {
        return base == UTF8Type.instance
                || base == AsciiType.instance
                || base == BytesType.instance
                || base == Int32Type.instance
                || base == TimestampType.instance
                || base == LongType.instance
                || base == UUIDType.instance
                || base == TimeUUIDType.instance
                || base == SimpleDateType.instance
                || base == TimeType.instance
                || base == ShortType.instance
                || base == ByteType.instance
                || base == InetAddressType.instance;
    }

    /** Types whose values take as many bytes in a key as by themselves, always the same number. */
    private static final Set<AbstractType<?>> HAVE_THEIR_LENGTH =
            Set.of(
                    UUIDType.instance,
                    TimeUUIDType.instance,
                    FloatType.instance,
                    DoubleType.instance);

    /** Any type, encoded by Cassandra's {@link ByteSource}. */
    private static class General extends KeyComponent {
        private final boolean oneForm;

        /** The number of bytes of a value in a key; -1 if it varies. */
        private final int length;

        /**
         * @param oneForm as {@link #hasOneForm} says
         */
        General(AbstractType<?> type, boolean oneForm) {
            super(type);
            this.oneForm = oneForm;
            AbstractType<?> base = base(type);
            this.length = HAVE_THEIR_LENGTH.contains(base) ? base.valueLengthIfFixed() : -1;
        }

        @Override
        <V> boolean isExact(V value, ValueAccessor<V> accessor) {
            if (oneForm) return true;
            ByteSource source = type.asComparableBytes(accessor, value, ComparableSource.VERSION);
            byte[] back = decoded(source == null ? null : ByteSource.peekable(source));
            return Arrays.equals(back, accessor.toArray(value));
        }

        @Override
        <V> void put(ByteSink out, V value, ValueAccessor<V> accessor) {
            ByteSource source = type.asComparableBytes(accessor, value, ComparableSource.VERSION);
            if (source == null) {
                putEmpty(out);
                return;
            }
            out.put(ByteSource.NEXT_COMPONENT);
            ComparableSource.put(out, source);
        }

        @Override
        final byte[] get(ByteBuffer in) {
            return ComparableSource.decode(in, this::decoded);
        }

        @Override
        final void skip(ByteBuffer in) {
            if (length < 0) get(in);
            else in.position(in.position() + length);
        }
    }

    /**
     * varint. Leading bytes that only repeat the sign are removed first: Cassandra's encoding fails
     * an assertion for more than 8 bytes of which fewer are significant.
     */
    private static final class Varint extends General {
        Varint(AbstractType<?> type) {
            super(type, false);
        }

        @Override
        <V> boolean isExact(V value, ValueAccessor<V> accessor) {
            return significant(value, accessor) == 0;
        }

        @Override
        <V> void put(ByteSink out, V value, ValueAccessor<V> accessor) {
            int from = significant(value, accessor);
            int length = accessor.size(value) - from;
            super.put(out, from == 0 ? value : accessor.slice(value, from, length), accessor);
        }

        private static <V> int significant(V value, ValueAccessor<V> accessor) {
            int at = 0;
            int last = accessor.size(value) - 1;
            while (at < last && accessor.getByte(value, at) == accessor.getByte(value, at + 1) >> 7)
                at++;
            return at;
        }
    }

    /**
     * float and double. To Cassandra's comparator all NaNs are equal and above every number, but
     * its byte-comparable form distinguishes NaNs and sorts negative ones below every number. The
     * key follows the comparator: it has the canonical NaN.
     */
    private static final class Floating extends General {
        private final byte[] nan;

        Floating(AbstractType<?> type, byte[] nan) {
            super(type, true);
            this.nan = nan;
        }

        @Override
        <V> boolean isExact(V value, ValueAccessor<V> accessor) {
            return !isNan(value, accessor) || Arrays.equals(accessor.toArray(value), nan);
        }

        @Override
        <V> void put(ByteSink out, V value, ValueAccessor<V> accessor) {
            if (isNan(value, accessor)) super.put(out, nan, ByteArrayAccessor.instance);
            else super.put(out, value, accessor);
        }

        private <V> boolean isNan(V value, ValueAccessor<V> accessor) {
            return switch (accessor.size(value)) {
                case Float.BYTES -> Float.isNaN(accessor.toFloat(value));
                case Double.BYTES -> Double.isNaN(accessor.toDouble(value));
                default -> false;
            };
        }
    }

    /**
     * A tuple or a user type. Cassandra's byte-comparable form has one byte both for a field that
     * is null and for one that is empty, as {@code blob_as_int(0x)}; its comparator keeps them
     * apart, and so does the key: they are two rows. All other bytes are those of Cassandra's form.
     */
    private static final class Tuple extends KeyComponent {
        private final int mask;

        /** Of a descending column, the fields are, too. Their separators are not: see the mask. */
        private final KeyComponent[] fields;

        Tuple(AbstractType<?> type, TupleType tuple) {
            super(type);
            this.mask = type.isReversed() ? 0xFF : 0;
            this.fields = new KeyComponent[tuple.size()];
            for (int i = 0; i < fields.length; i++) {
                AbstractType<?> field = tuple.type(i);
                fields[i] = of(type.isReversed() ? ReversedType.getInstance(field) : field);
            }
        }

        @Override
        <V> boolean isExact(V value, ValueAccessor<V> accessor) {
            int count = 0;
            for (int at = 0, end = accessor.size(value); at < end; count++) {
                int size = accessor.getInt(value, at);
                at += Integer.BYTES;
                if (size == NULL) continue;
                // Of an empty field, former versions read null in the key.
                if (size <= 0 || !fields[count].isExact(accessor.slice(value, at, size), accessor))
                    return false;
                at += size;
            }
            // Those that are left out at the end come back as nulls.
            return count == 0 || count == fields.length;
        }

        @Override
        <V> void put(ByteSink out, V value, ValueAccessor<V> accessor) {
            if (accessor.isEmpty(value)) {
                putEmpty(out);
                return;
            }
            out.put(ByteSource.NEXT_COMPONENT);
            int end = endOfLast(value, accessor);
            for (int at = 0, i = 0; at < end; i++) {
                int size = accessor.getInt(value, at);
                at += Integer.BYTES;
                if (size < 0) {
                    out.put(ByteSource.NEXT_COMPONENT_NULL ^ mask);
                    continue;
                }
                int separator = out.position();
                fields[i].put(out, accessor.slice(value, at, size), accessor);
                at += size;
                if (mask != 0) out.set(separator, ascending(out.get(separator)) ^ mask);
            }
            out.put(ByteSource.TERMINATOR ^ mask);
        }

        /** Where the last field ends that is not null. */
        private static <V> int endOfLast(V value, ValueAccessor<V> accessor) {
            int last = 0;
            for (int at = 0, end = accessor.size(value); at < end; ) {
                int size = accessor.getInt(value, at);
                at += Integer.BYTES + Math.max(size, 0);
                if (size >= 0) last = at;
            }
            return last;
        }

        private static int ascending(byte separator) {
            return separator == ByteSource.NEXT_COMPONENT_EMPTY_REVERSED
                    ? ByteSource.NEXT_COMPONENT_EMPTY
                    : separator;
        }

        @Override
        byte[] get(ByteBuffer in) {
            byte[][] values = new byte[fields.length][];
            int length = fields.length * Integer.BYTES;
            for (int i = 0; ; i++) {
                int separator = (in.get() & 0xFF) ^ mask;
                if (separator == ByteSource.TERMINATOR) {
                    // Nulls at the end are left out. Former versions have an empty field there.
                    if (i > 0 && values[i - 1] == null) values[i - 1] = new byte[0];
                    break;
                }
                if (i == values.length)
                    throw new IllegalArgumentException("a stored tuple has too many fields");
                if (separator == ByteSource.NEXT_COMPONENT_NULL) continue;
                values[i] = fields[i].get(in, separator);
                length += values[i].length;
            }
            ByteBuffer value = ByteBuffer.allocate(length);
            for (byte[] field : values)
                if (field == null) value.putInt(NULL);
                else value.putInt(field.length).put(field);
            return value.array();
        }
    }

    /** text, ascii and blob. */
    private static final class Escaped extends KeyComponent {
        private final int mask;

        Escaped(AbstractType<?> type, int mask) {
            super(type);
            this.mask = mask;
        }

        @Override
        <V> void put(ByteSink out, V value, ValueAccessor<V> accessor) {
            out.put(ByteSource.NEXT_COMPONENT);
            Escapes.put(out, value, accessor, mask);
        }

        @Override
        byte[] get(ByteBuffer in) {
            return Escapes.get(in, mask);
        }

        @Override
        void skip(ByteBuffer in) {
            Escapes.skip(in, mask);
        }
    }

    /** int and timestamp: four or eight bytes with the sign bit inverted. */
    private static final class FixedSigned extends KeyComponent {
        private final boolean isLong;
        private final long flip;

        FixedSigned(AbstractType<?> type, int mask, boolean isLong) {
            super(type);
            this.isLong = isLong;
            long sign = isLong ? Long.MIN_VALUE : Integer.MIN_VALUE;
            this.flip = mask == 0 ? sign : ~sign;
        }

        @Override
        <V> void put(ByteSink out, V value, ValueAccessor<V> accessor) {
            if (accessor.isEmpty(value)) {
                putEmpty(out);
                return;
            }
            out.put(ByteSource.NEXT_COMPONENT);
            if (isLong) out.putFixed64(accessor.getLong(value, 0) ^ flip);
            else out.putFixed32(accessor.getInt(value, 0) ^ (int) flip);
        }

        @Override
        byte[] get(ByteBuffer in) {
            byte[] value = new byte[isLong ? Long.BYTES : Integer.BYTES];
            if (isLong) ByteArrayAccessor.instance.putLong(value, 0, in.getLong() ^ flip);
            else ByteArrayAccessor.instance.putInt(value, 0, in.getInt() ^ (int) flip);
            return value;
        }

        @Override
        void skip(ByteBuffer in) {
            in.position(in.position() + (isLong ? Long.BYTES : Integer.BYTES));
        }
    }

    /**
     * bigint: the inverted sign bit, then one bit equal to it for each byte that follows the first,
     * then the number in two's complement ({@code ByteSource.VariableLengthInteger}).
     */
    private static final class VariableLong extends KeyComponent {
        private final int mask;

        VariableLong(AbstractType<?> type, int mask) {
            super(type);
            this.mask = mask;
        }

        @Override
        <V> void put(ByteSink out, V value, ValueAccessor<V> accessor) {
            if (accessor.isEmpty(value)) {
                putEmpty(out);
                return;
            }
            out.put(ByteSource.NEXT_COMPONENT);
            long number = accessor.getLong(value, 0);
            long negative = number >> 63;
            long magnitude = number ^ negative;
            int bytes = (64 - Long.numberOfLeadingZeros(magnitude | 1)) / 7 + 1;
            if (bytes >= 9) {
                out.put((negative < 0 ? 0x00 : 0xFF) ^ mask);
                magnitude |= Long.MIN_VALUE;
                bytes = 8;
            } else {
                magnitude |= ((-0x100L >> bytes) & 0xFF) << (bytes * 8 - 8);
            }
            long encoded = magnitude ^ negative;
            for (int shift = bytes * 8 - 8; shift >= 0; shift -= 8)
                out.put((int) (encoded >>> shift) ^ mask);
        }

        @Override
        byte[] get(ByteBuffer in) {
            long number = read(in, mask);
            byte[] value = new byte[Long.BYTES];
            ByteArrayAccessor.instance.putLong(value, 0, number);
            return value;
        }

        @Override
        void skip(ByteBuffer in) {
            long unused = read(in, mask);
        }

        private static long read(ByteBuffer in, int mask) {
            int first = (in.get() & 0xFF) ^ mask;
            // The bits after the sign that equal it count the bytes that follow.
            int same = (first & 0x80) != 0 ? (~first & 0x7F) : (first & 0x7F);
            int more = same == 0 ? 7 : Integer.numberOfLeadingZeros(same) - 25;
            long sum = 0;
            for (int i = 0; i < more; i++) sum = (sum << 8) | ((in.get() & 0xFF) ^ mask);
            if (more == 7) {
                boolean nineBytes = (((sum >>> 48) & 0x80) != 0) == ((first & 0x80) != 0);
                if (nineBytes) return ((sum << 8) | ((in.get() & 0xFF) ^ mask)) ^ Long.MIN_VALUE;
            }
            sum |= (long) first << (more * 8);
            long signMask = -0x40L << (more * 7);
            long sign = (byte) (first ^ 0x80) >> 7;
            return (sum & ~signMask) | (sign & signMask);
        }
    }
}
