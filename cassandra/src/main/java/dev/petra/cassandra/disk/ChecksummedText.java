// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.TextChecksum;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;

/**
 * A small file of text lines that decides which data is garbage. Its last line is a {@link
 * TextChecksum}. {@link #read} takes a file without that line as it is: earlier versions wrote it,
 * or an operator.
 */
public final class ChecksummedText {
    private ChecksummedText() {}

    /**
     * The text without the checksum, or null if there is no such file.
     *
     * @param mend what an operator is to do about a damaged file, as a sentence
     * @throws CorruptStoreException if the checksum is wrong, or the file is a link to nothing
     * @throws FSReadError if it cannot be read
     */
    static @Nullable String read(Path file, String mend) {
        byte[] content;
        try {
            content = Files.readAllBytes(file);
        } catch (NoSuchFileException e) {
            // Nor is a link to a disk that is not mounted.
            var unused = StoreLocation.isThere(file);
            return null;
        } catch (IOException e) {
            throw new FSReadError(e, file.toString());
        }
        String text;
        try {
            text = UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString();
        } catch (CharacterCodingException e) {
            throw new CorruptStoreException(file + " is damaged: it is no text. " + mend);
        }
        int end = text.endsWith("\n") ? text.length() - 1 : text.length();
        int last = text.lastIndexOf('\n', end - 1) + 1;
        if (!text.startsWith(TextChecksum.BEGIN, last)) return text;
        String lines = text.substring(0, last);
        if (!text.substring(last, end).equals(TextChecksum.BEGIN + TextChecksum.of(lines)))
            throw new CorruptStoreException(
                    file
                            + " is damaged: '"
                            + text.strip().replace("\n", "', '")
                            + "' does not have the checksum "
                            + TextChecksum.of(lines)
                            + ". "
                            + mend);
        return lines;
    }

    /**
     * The text without the checksum; null if that is wrong or not there. For a text that can be
     * done without.
     *
     * @throws NoSuchFileException if there is no such file
     * @throws IOException if it cannot be read
     */
    public static @Nullable String readUnchanged(Path file) throws IOException {
        byte[] content = Files.readAllBytes(file);
        try {
            return TextChecksum.strip(
                    UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString());
        } catch (CharacterCodingException e) {
            return null;
        }
    }

    /**
     * Makes a text durable: after a crash at any point the file is the old one or this, and this
     * once the method has returned. Creates the folder.
     *
     * @param text lines that end in a line feed
     * @throws FSWriteError if that failed; the file is then the old one or this
     */
    public static void write(Disk disk, Path file, String text) {
        try {
            Disk.replace(disk, file, TextChecksum.append(text).getBytes(UTF_8));
        } catch (IOException e) {
            throw new FSWriteError(e, file.toString());
        }
    }
}
