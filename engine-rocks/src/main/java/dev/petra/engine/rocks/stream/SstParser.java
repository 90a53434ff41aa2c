// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdException;
import dev.petra.engine.rocks.format.MalformedFragment;
import java.io.EOFException;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32C;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import net.jpountz.lz4.LZ4Exception;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4SafeDecompressor;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.xerial.snappy.Snappy;
import org.xerial.snappy.SnappyError;

/**
 * Reads the entries of an sst file that another node has made. RocksDB trusts its files; this does
 * not: it knows the one shape that {@link StreamSst} writes (block-based table, format version 6,
 * one index, no range deletions, no dictionary), looks at every length before it uses it, and
 * refuses the rest. Neither properties nor filter are looked at: nothing depends on what they say.
 *
 * <p>{@code docs/FORMAT.md} has the shape.
 */
final class SstParser {
    /** How an entry is to be taken. The numbers are RocksDB's. */
    static final int PUT = 1;

    static final int MERGE = 2;

    /** As large may a block be, compressed or not: one entry, or some small ones. */
    static final int MOST_BYTES = 1 << 28;

    /** Longer than any: a partition key and each clustering column have 64 KiB at most. */
    private static final int MOST_KEY_BYTES = 1 << 24;

    private static final long MAGIC = 0x88e241b785f4cff7L;
    private static final int EXTENDED_MAGIC = 0x007a003e;
    private static final int FORMAT_VERSION = 6;
    private static final int FOOTER = 53;
    private static final int FOOTER_PADDING = 24;
    private static final int CRC32C_CHECKSUM = 1;
    private static final int XXH3_CHECKSUM = 4;

    /** Behind every block: how it is compressed, and its checksum. */
    private static final int TRAILER = 5;

    private static final String INDEX = "rocksdb.index";
    private static final String PROPERTIES = "rocksdb.properties";
    private static final String FILTER = "fullfilter.";

    /** In the number of restart points: the keys of the block are evenly spread. */
    private static final int UNIFORM = 1 << 29;

    private static final int MOST_RESTARTS = (1 << 28) - 1;

    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private static final LZ4SafeDecompressor LZ4 = LZ4Factory.safeInstance().safeDecompressor();

    /** Takes the entries in the order in which they lie. */
    interface Entries {
        /**
         * Takes one. The arrays are written over afterwards.
         *
         * @param key without what RocksDB adds to it, as many bytes of it as are said
         * @param in where the value lies
         */
        void add(byte[] key, int keyLength, byte[] in, int valueAt, int valueLength)
                throws RocksDBException;
    }

    private final FileChannel file;
    private final long size;
    private final int entryType;
    private final CRC32C crc = new CRC32C();
    private int checksumType;
    private int baseChecksum;
    private byte[] raw = {};

    /**
     * @param entryType which every entry must have
     */
    private SstParser(FileChannel file, int entryType) throws IOException {
        this.file = file;
        this.size = file.size();
        this.entryType = entryType;
    }

    /**
     * Reads a file from its first entry to its last.
     *
     * @throws MalformedFragment if it is not of the shape that this knows
     */
    static void read(FileChannel file, int entryType, Entries entries)
            throws IOException, RocksDBException {
        new SstParser(file, entryType).read(entries);
    }

    private record Handle(long offset, long size) {
        long end() {
            return offset + size + TRAILER;
        }
    }

    private void read(Entries entries) throws IOException, RocksDBException {
        long metaAt = size - FOOTER - TRAILER - footer();
        Map<Long, Handle> metaBlocks = new TreeMap<>();
        Handle index = metaIndex(metaAt, metaBlocks);
        Data data = new Data(block(index));
        Handle block;
        long end = 0;
        @Nullable Entry last = null;
        while ((block = data.nextHandle(end)) != null) {
            last = new Data(block(block)).entries(last, entries);
            end = block.end();
        }
        // All the rest is accounted for: nothing hides in the file.
        for (Handle meta : metaBlocks.values()) {
            if (meta.offset != end) throw malformed("a gap at byte " + end);
            end = meta.end();
        }
        if (end != metaAt) throw malformed("a gap at byte " + end);
    }

    private static MalformedFragment malformed(String what) {
        return new MalformedFragment("malformed sst file: " + what);
    }

    /** Returns the size of the block before it. */
    private int footer() throws IOException {
        if (size < FOOTER + TRAILER) throw malformed(size + " bytes");
        ByteBuffer in = ByteBuffer.wrap(bytes(size - FOOTER, FOOTER), 0, FOOTER);
        in.order(ByteOrder.LITTLE_ENDIAN);
        checksumType = in.get();
        int extended = in.getInt();
        int checksum = in.getInt();
        baseChecksum = in.getInt();
        int metaSize = in.getInt();
        boolean padded = true;
        for (int i = 0; i < FOOTER_PADDING; i++) padded &= in.get() == 0;
        int version = in.getInt();
        if (in.getLong() != MAGIC || extended != EXTENDED_MAGIC || version != FORMAT_VERSION)
            throw malformed("its footer is not of format version " + FORMAT_VERSION);
        if (!padded || baseChecksum == 0) throw malformed("its footer");
        // Old senders' checksum is not computed here: that of the whole part was compared.
        if (checksumType != CRC32C_CHECKSUM && checksumType != XXH3_CHECKSUM)
            throw malformed("checksum type " + checksumType);
        in.putInt(1 + Integer.BYTES, 0);
        if (checksumType == CRC32C_CHECKSUM && checksum != checksum(FOOTER, size - FOOTER))
            throw malformed("the checksum of its footer");
        if (metaSize < 0 || metaSize > size - FOOTER - TRAILER)
            throw malformed("a metaindex of " + metaSize + " bytes");
        return metaSize;
    }

    /** Of the first bytes of {@link #raw}, which lie at this place of the file. */
    private int checksum(int length, long offset) {
        crc.reset();
        crc.update(raw, 0, length);
        int masked = Integer.rotateRight((int) crc.getValue(), 15) + 0xa282ead8;
        return masked + (baseChecksum ^ ((int) offset + (int) (offset >>> 32)));
    }

    private byte[] bytes(long offset, int length) throws IOException {
        if (raw.length < length) raw = new byte[Math.max(length, 1 << 16)];
        ByteBuffer to = ByteBuffer.wrap(raw, 0, length);
        while (to.hasRemaining())
            if (file.read(to, offset + to.position()) < 0)
                throw new EOFException("a part of a part");
        return raw;
    }

    /** Where the index is; all that is named goes to {@code blocks} as well. */
    private Handle metaIndex(long at, Map<Long, Handle> blocks) throws IOException {
        Data names = new Data(block(new Handle(at, size - FOOTER - TRAILER - at)));
        Handle index = null;
        @Nullable Entry entry = null;
        while ((entry = names.next(entry)) != null) {
            String name = new String(entry.key, 0, entry.keyLength, StandardCharsets.UTF_8);
            ByteBuffer value = names.in.duplicate();
            value.limit(entry.valueAt + entry.valueLength).position(entry.valueAt);
            Handle handle = handle(value, at);
            if (value.hasRemaining() || blocks.put(handle.offset, handle) != null)
                throw malformed("block " + name);
            if (name.equals(INDEX)) index = handle;
            else if (!name.equals(PROPERTIES) && !name.startsWith(FILTER))
                throw malformed("a block that no part has: " + printable(name));
        }
        if (index == null) throw malformed("no index");
        return index;
    }

    private static String printable(String name) {
        return name.length() > 40 ? name.length() + " characters" : name.replaceAll("[^ -~]", "?");
    }

    private static Handle handle(ByteBuffer in, long before) {
        try {
            long offset = varint(in);
            long length = varint(in);
            if (offset < 0 || length < 0 || offset > before || length > before - TRAILER - offset)
                throw malformed("a block of " + length + " bytes at byte " + offset);
            return new Handle(offset, length);
        } catch (java.nio.BufferUnderflowException e) {
            throw new MalformedFragment(e);
        }
    }

    private static long varint(ByteBuffer in) {
        long v = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            byte b = in.get();
            v |= (long) (b & 0x7F) << shift;
            if (b >= 0) return v;
        }
        throw malformed("a number");
    }

    private static int length(ByteBuffer in) {
        long v = varint(in);
        if (v < 0 || v > MOST_BYTES) throw malformed("a length of " + v);
        return (int) v;
    }

    /** The content of a block, its checksum compared. */
    private byte[] block(Handle handle) throws IOException {
        if (handle.size > MOST_BYTES) throw malformed("a block of " + handle.size + " bytes");
        int length = (int) handle.size;
        ByteBuffer in = ByteBuffer.wrap(bytes(handle.offset, length + TRAILER), 0, length);
        int checksum = ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN).getInt(length + 1);
        if (checksumType == CRC32C_CHECKSUM && checksum != checksum(length + 1, handle.offset))
            throw malformed("the checksum of the block at byte " + handle.offset);
        try {
            return decompressed(raw[length], raw, in);
        } catch (LZ4Exception
                | ZstdException
                | SnappyError
                | DataFormatException
                | java.nio.BufferUnderflowException e) {
            throw new MalformedFragment(e);
        }
    }

    private static byte[] decompressed(int how, byte[] from, ByteBuffer in)
            throws DataFormatException, IOException {
        return switch (how) {
            case 0 -> Arrays.copyOf(from, in.limit());
            case 1 -> {
                byte[] to = room(Snappy.uncompressedLength(from, 0, in.limit()));
                yield whole(to, Snappy.uncompress(from, 0, in.limit(), to, 0));
            }
            case 2 -> {
                byte[] to = room(length(in));
                Inflater inflater = new Inflater(true);
                try {
                    inflater.setInput(in);
                    int done = 0;
                    for (int n = 1; n > 0 && done < to.length; done += n)
                        n = inflater.inflate(to, done, to.length - done);
                    yield whole(to, done);
                } finally {
                    inflater.end();
                }
            }
            case 4, 5 -> {
                byte[] to = room(length(in));
                yield whole(to, LZ4.decompress(from, in.position(), in.remaining(), to, 0));
            }
            case 7 -> {
                byte[] to = room(length(in));
                long done =
                        Zstd.decompressByteArray(
                                to, 0, to.length, from, in.position(), in.remaining());
                yield whole(to, Zstd.isError(done) ? -1 : done);
            }
            default -> throw malformed("compression type " + how);
        };
    }

    private static byte[] room(int length) {
        if (length < 0 || length > MOST_BYTES) throw malformed("a block of " + length + " bytes");
        return new byte[length];
    }

    private static byte[] whole(byte[] block, long length) {
        if (length != block.length) throw malformed("a compressed block");
        return block;
    }

    /** A key, and where its value lies in the block. */
    private static final class Entry {
        byte[] key = new byte[128];
        int keyLength;
        int valueAt;
        int valueLength;
    }

    /** A block of entries, each of whose keys leaves out what it shares with the one before. */
    private final class Data {
        private final byte[] content;
        final ByteBuffer in;

        Data(byte[] content) {
            this.content = content;
            this.in = ByteBuffer.wrap(content);
            int end = in.limit() - Integer.BYTES;
            if (end < 0) throw malformed("a block of " + in.limit() + " bytes");
            int restarts = in.order(ByteOrder.LITTLE_ENDIAN).getInt(end) & ~UNIFORM;
            if (restarts < 1 || restarts > MOST_RESTARTS || restarts > end / Integer.BYTES)
                throw malformed("a block of " + restarts + " restart points");
            in.limit(end - restarts * Integer.BYTES);
        }

        /**
         * @param last read before in this block; written over
         */
        @Nullable Entry next(@Nullable Entry last) {
            if (!in.hasRemaining()) return null;
            Entry entry = last == null ? new Entry() : last;
            try {
                int shared = length(in);
                int own = length(in);
                entry.valueLength = length(in);
                if (shared > entry.keyLength
                        || own > in.remaining()
                        || shared + own > MOST_KEY_BYTES) throw malformed("an entry's key");
                if (entry.key.length < shared + own)
                    entry.key = Arrays.copyOf(entry.key, 2 * (shared + own));
                in.get(entry.key, shared, own);
                entry.keyLength = shared + own;
            } catch (java.nio.BufferUnderflowException e) {
                throw new MalformedFragment(e);
            }
            entry.valueAt = in.position();
            if (entry.valueLength > in.remaining()) throw malformed("an entry's value");
            in.position(entry.valueAt + entry.valueLength);
            return entry;
        }

        /**
         * @param reused null for none
         */
        Entry entries(@Nullable Entry reused, Entries to) throws RocksDBException {
            Entry entry = reused == null ? new Entry() : reused;
            entry.keyLength = 0;
            if (!in.hasRemaining()) throw malformed("an empty block");
            while (next(entry) != null) {
                int length = entry.keyLength - Long.BYTES;
                if (length < 0) throw malformed("an entry's key");
                // Number and kind of entry; in files that are to be ingested the number is 0.
                long kind = (long) LONG.get(entry.key, length);
                if (kind != entryType)
                    throw malformed(
                            "it has entries of another kind than a stream has: "
                                    + Long.toHexString(kind));
                to.add(entry.key, length, content, entry.valueAt, entry.valueLength);
            }
            return entry;
        }

        /** In the index: the next block, which must begin where the one before ends. */
        @Nullable Handle nextHandle(long expected) {
            if (!in.hasRemaining()) return null;
            try {
                int shared = length(in);
                int own = length(in);
                if (shared != 0 || own > in.remaining()) throw malformed("its index");
                in.position(in.position() + own);
            } catch (java.nio.BufferUnderflowException e) {
                throw new MalformedFragment(e);
            }
            Handle handle = handle(in, size);
            if (handle.offset != expected) throw malformed("a gap at byte " + expected);
            return handle;
        }
    }
}
