// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A file of others, read once.
 *
 * @param path the file itself, where it was named by a link
 * @param text a character for each byte, so that no byte is lost whatever the encoding is
 */
record TextFile(Path path, String text) {
    static TextFile read(Path path) {
        try {
            Path file = path.toRealPath();
            return new TextFile(file, new String(Files.readAllBytes(file), ISO_8859_1));
        } catch (IOException e) {
            throw new InstallException("cannot read " + path + ": " + e, e);
        }
    }

    /** Text as it is in the file's. */
    static String encoded(String text) {
        return new String(text.getBytes(UTF_8), ISO_8859_1);
    }

    /** The reverse: text as people read it. */
    static String decoded(String text) {
        return new String(text.getBytes(ISO_8859_1), UTF_8);
    }
}
