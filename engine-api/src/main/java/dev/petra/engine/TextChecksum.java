// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.HexFormat;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * The last line of a small text file that must not be misread: a checksum of all bytes before that
 * line, in hex.
 *
 * <pre>
 *   3
 *   crc32c=ee2ae5f0
 * </pre>
 */
public final class TextChecksum {
    /** How the line begins. */
    public static final String BEGIN = "crc32c=";

    private TextChecksum() {}

    /**
     * A text with the line behind it.
     *
     * @param text lines that end in a line feed
     */
    public static String append(String text) {
        return text + BEGIN + of(text) + "\n";
    }

    /** A text without the line; null if there is none, or a wrong one. */
    public static @Nullable String strip(String text) {
        String lines = text.substring(0, text.lastIndexOf('\n', text.length() - 2) + 1);
        return text.equals(append(lines)) ? lines : null;
    }

    /** What the line says of a text that lacks it. */
    public static String of(String text) {
        CRC32C checksum = new CRC32C();
        checksum.update(text.getBytes(UTF_8));
        return HexFormat.of().toHexDigits((int) checksum.getValue());
    }
}
