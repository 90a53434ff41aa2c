// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.CRC32C;

/**
 * Checks RocksDB's blob files, which its own {@code verifyChecksum} passes over, and names the one
 * that is damaged, which an iterator would not.
 *
 * <pre>
 *   file   = header (30 bytes) record* footer (32 bytes)
 *   record = key length (8), value length (8), expiration (8), masked CRC-32C of these (4),
 *            masked CRC-32C of key and value (4), key, value; numbers lowest byte first
 *   footer = what ends with the masked CRC-32C (4) of all that is before it
 * </pre>
 */
public final class BlobFiles {
    private static final int HEADER = 30;
    private static final int RECORD_HEADER = 32;
    private static final int FOOTER = 32;
    private static final int CHECKED_OF_HEADER = 24;
    private static final int CHUNK = 64 << 10;

    private BlobFiles() {}

    /**
     * Reads a whole file.
     *
     * @return what is wrong with it; empty if nothing
     */
    public static String damage(Path file) throws IOException {
        long left = Files.size(file) - HEADER - FOOTER;
        if (left < 0) return "it is cut short";
        try (DataInputStream in =
                new DataInputStream(new BufferedInputStream(Files.newInputStream(file), CHUNK))) {
            in.skipNBytes(HEADER);
            byte[] header = new byte[RECORD_HEADER];
            byte[] chunk = new byte[CHUNK];
            while (left > 0) {
                in.readFully(header);
                ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
                CRC32C checksum = new CRC32C();
                checksum.update(header, 0, CHECKED_OF_HEADER);
                if (masked(checksum) != fields.getInt(CHECKED_OF_HEADER))
                    return "a record's header does not match its checksum";
                long length = fields.getLong(0) + fields.getLong(Long.BYTES);
                left -= RECORD_HEADER + length;
                if (left < 0) return "a record is longer than the file";
                if (masked(checksum(in, length, chunk)) != fields.getInt(CHECKED_OF_HEADER + 4))
                    return "a value does not match its checksum";
            }
            return "";
        } catch (EOFException e) {
            return "it is cut short";
        }
    }

    /** Whether the footer is there and whole, which RocksDB writes last. */
    static boolean isFinished(Path file) throws IOException {
        ByteBuffer footer = ByteBuffer.allocate(FOOTER).order(ByteOrder.LITTLE_ENDIAN);
        // Not by a channel: an interrupt would close it.
        try (InputStream in = Files.newInputStream(file)) {
            long at = Files.size(file) - FOOTER;
            if (at < HEADER) return false;
            in.skipNBytes(at);
            if (in.readNBytes(footer.array(), 0, FOOTER) < FOOTER) return false;
        }
        CRC32C checksum = new CRC32C();
        checksum.update(footer.limit(FOOTER - Integer.BYTES));
        return masked(checksum) == footer.limit(FOOTER).getInt();
    }

    private static CRC32C checksum(InputStream in, long length, byte[] chunk) throws IOException {
        CRC32C checksum = new CRC32C();
        for (long left = length; left > 0; ) {
            int read = in.read(chunk, 0, (int) Math.min(left, chunk.length));
            if (read < 0) throw new EOFException();
            checksum.update(chunk, 0, read);
            left -= read;
        }
        return checksum;
    }

    /** As RocksDB stores checksums. */
    private static int masked(CRC32C checksum) {
        return Integer.rotateRight((int) checksum.getValue(), 15) + 0xa282ead8;
    }
}
