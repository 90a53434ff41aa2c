// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;

/** A growing log, of which the part since a moment is told apart from earlier runs'. */
final class LogFile {
    private final Path path;
    private long start;

    LogFile(Path path) {
        this.path = path;
    }

    /** Takes the present end as the beginning of what is new. */
    void mark() {
        start = bytes().length;
    }

    /** The whole text, empty without a file. */
    String text() {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    /** The text since the mark; the whole one if the log was rolled over in between. */
    String newText() {
        byte[] bytes = bytes();
        int from = start <= bytes.length ? (int) start : 0;
        return new String(bytes, from, bytes.length - from, StandardCharsets.UTF_8);
    }

    /** The last lines since the mark. */
    String tail(int count) {
        List<String> lines = newText().lines().toList();
        return String.join("\n", lines.subList(Math.max(0, lines.size() - count), lines.size()));
    }

    private byte[] bytes() {
        try {
            return Files.readAllBytes(path);
        } catch (NoSuchFileException e) {
            return new byte[0];
        } catch (IOException e) {
            throw new NodeException("cannot read " + path + ": " + e, e);
        }
    }
}
