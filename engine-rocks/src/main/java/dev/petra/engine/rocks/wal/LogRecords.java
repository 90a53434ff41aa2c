// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.zip.CRC32C;

/**
 * Reads the records of a file in RocksDB's log format, as its write-ahead logs and its MANIFEST
 * are, up to the first byte that is not what was written there.
 *
 * <pre>
 *   block of 32 KiB:  fragment ... fragment, zeros where no header fits
 *   fragment:         crc32c (4, masked), length (2), type (1) [number of the log (4)], bytes
 * </pre>
 */
final class LogRecords implements AutoCloseable {
    private static final int BLOCK = 32 << 10;
    private static final int HEADER = 7;

    /** With the log's number, which tells new records from those that are overwritten. */
    private static final int NUMBERED_HEADER = 11;

    private static final int TYPE_AT = 6;
    private static final int FULL = 1;
    private static final int FIRST = 2;
    private static final int LAST = 4;
    private static final int NUMBERED = 4;
    private static final int MASK_DELTA = 0xa282ead8;

    /** Not a channel: an interrupt would close it, and pass for an error of the disk. */
    private final InputStream in;

    private final long number;
    private final int kept;
    private final CRC32C crc = new CRC32C();
    private final ByteBuffer block = ByteBuffer.allocate(BLOCK).order(ByteOrder.LITTLE_ENDIAN);

    /** Where the block lies in the file. */
    private long blockAt;

    private byte[] record = new byte[64];
    private int recordLength;
    private long recordAt;
    private boolean blank;

    /**
     * @param number of the log; any for a file that is never written over
     * @param kept so many bytes of each record are wanted
     */
    LogRecords(Path file, long number, int kept) throws IOException {
        this(file, number, kept, 0);
    }

    /**
     * @param from where a record begins, or would
     */
    LogRecords(Path file, long number, int kept, long from) throws IOException {
        this.in = Files.newInputStream(file);
        this.number = number;
        this.kept = kept;
        this.blockAt = from - from % BLOCK - BLOCK;
        // Nothing is left of the block before the first.
        block.position(BLOCK);
        boolean complete = false;
        try {
            // Less only if the file has become shorter: there is nothing, then.
            var unused = in.skip(from - from % BLOCK);
            if (from % BLOCK > 0) {
                nextBlock();
                block.position(Math.min((int) (from % BLOCK), block.limit()));
            }
            complete = true;
        } finally {
            if (!complete) in.close();
        }
    }

    /** Goes to the next record. False at the end, or where it is not a whole one. */
    boolean next() throws IOException {
        recordLength = 0;
        boolean begun = false;
        while (true) {
            boolean more = toHeader();
            int at = block.position();
            if (!begun) recordAt = blockAt + at;
            if (!more) {
                blank = !begun && isZero(block);
                return false;
            }
            int type = block.get(at + TYPE_AT);
            blank = !begun && type == 0 && block.getShort(at + 4) == 0;
            boolean numbered = type > NUMBERED;
            if (numbered) type -= NUMBERED;
            if (type < FULL || type > LAST || begun == (type == FULL || type == FIRST))
                return false;
            int header = numbered ? NUMBERED_HEADER : HEADER;
            int length = Short.toUnsignedInt(block.getShort(at + 4));
            if (at + header + length > block.limit()) return false;
            if (numbered && block.getInt(at + HEADER) != (int) number) return false;
            crc.reset();
            crc.update(block.array(), at + TYPE_AT, header - TYPE_AT + length);
            int sum = (int) crc.getValue();
            if (block.getInt(at) != Integer.rotateRight(sum, 15) + MASK_DELTA) return false;
            keep(at + header, length);
            block.position(at + header + length);
            if (type == FULL || type == LAST) return true;
            begun = true;
        }
    }

    /** Goes to the next block where no header fits into the rest of this. */
    private boolean toHeader() throws IOException {
        int at = block.position();
        int rest = BLOCK - at;
        boolean filled =
                rest < HEADER
                        || (rest < NUMBERED_HEADER
                                && block.remaining() >= HEADER
                                && block.get(at + TYPE_AT) == 0
                                && block.getShort(at + 4) == 0);
        if (filled) nextBlock();
        return block.remaining() >= HEADER;
    }

    private void nextBlock() throws IOException {
        blockAt += BLOCK;
        // Behind a block that was cut short there was none. If the file has grown since, the stream
        // goes on within that block.
        boolean ended = block.limit() < BLOCK;
        block.clear().limit(ended ? 0 : in.readNBytes(block.array(), 0, BLOCK));
    }

    private void keep(int from, int length) {
        int wanted = Math.min(length, kept - recordLength);
        if (recordLength + wanted > record.length)
            record = Arrays.copyOf(record, Math.max(2 * record.length, recordLength + wanted));
        block.get(from, record, recordLength, wanted);
        recordLength += wanted;
    }

    private static boolean isZero(ByteBuffer rest) {
        for (int i = rest.position(); i < rest.limit(); i++) if (rest.get(i) != 0) return false;
        return true;
    }

    /**
     * After {@link #next} was false: whether nothing is where the next record would begin, the end
     * of the file or zeros. RocksDB does not take that for damage, and goes on in the next block.
     */
    boolean isBlank() {
        return blank;
    }

    /** Whether a block behind the one that was read last has anything but zeros. */
    boolean hasMore() throws IOException {
        do nextBlock();
        while (block.hasRemaining() && isZero(block));
        return block.hasRemaining();
    }

    /** Where the record begins, or what was taken for one. */
    long offset() {
        return recordAt;
    }

    /** The record's bytes, until the next. */
    ByteBuffer record() {
        return ByteBuffer.wrap(record, 0, recordLength).order(ByteOrder.LITTLE_ENDIAN);
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
