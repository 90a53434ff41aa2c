// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;

/** A log file to which several runs append; tells what was written since a mark. */
final class LogFile {
    private final Path path;
    private volatile long start;

    LogFile(Path path) {
        this.path = path;
    }

    /** Marks the present end of the file: what follows is new. */
    void mark() {
        start = bytes().length;
    }

    /** The whole text; empty if there is no file. */
    String text() {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    /** The text since the mark; the whole text if the file is shorter, as after it was rolled. */
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
