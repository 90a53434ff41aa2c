// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Petra's lines in a file of others, with the markers around them. To put them in and to take them
 * out again gives the file back byte for byte.
 *
 * @param start where it starts in the text
 * @param end behind the line end of its last line, if that has one
 * @param lines what is between the markers
 */
record MarkedBlock(int start, int end, List<String> lines) {
    private static final String BEGIN = "# BEGIN petra";
    private static final String END = "# END petra";

    /**
     * The one of a text.
     *
     * @throws InstallException if the markers are damaged
     */
    static Optional<MarkedBlock> find(Path file, String text) {
        Optional<MarkedBlock> found = Optional.empty();
        int begin = -1;
        List<String> lines = new ArrayList<>();
        for (int at = 0; at < text.length(); ) {
            int end = endOfLine(text, at);
            String line = text.substring(at, end).strip();
            if (line.equals(BEGIN)) {
                if (begin >= 0 || found.isPresent()) throw damaged(file, "two times " + BEGIN);
                begin = at;
            } else if (line.equals(END)) {
                if (begin < 0) throw damaged(file, END + " without " + BEGIN);
                found = Optional.of(new MarkedBlock(begin, end, List.copyOf(lines)));
                begin = -1;
            } else if (begin >= 0) {
                lines.add(line);
            }
            at = end;
        }
        if (begin >= 0) throw damaged(file, BEGIN + " without " + END);
        return found;
    }

    private static InstallException damaged(Path file, String how) {
        return new InstallException(
                file
                        + " has "
                        + how
                        + ": remove these marker lines, and the lines of Petra with them, by hand");
    }

    /** Puts one at the end. */
    static String append(String text, List<String> lines) {
        String newline = newline(text);
        String block = String.join(newline, marked("", lines));
        // The end of the file stays as it is, with or without a line end.
        return text.isEmpty() || text.endsWith("\n")
                ? text + block + newline
                : text + newline + block;
    }

    /** Puts one before a line, counted from 0. */
    static String insert(String text, int line, String indent, List<String> lines) {
        int at = startOfLine(text, line);
        String newline = newline(text);
        StringBuilder block = new StringBuilder();
        for (String each : marked(indent, lines)) block.append(each).append(newline);
        return text.substring(0, at) + block + text.substring(at);
    }

    /** The text without it. */
    String removedFrom(String text) {
        int from = start;
        if (from > 0 && text.charAt(end - 1) != '\n') {
            from--;
            if (from > 0 && text.charAt(from - 1) == '\r') from--;
        }
        return text.substring(0, from) + text.substring(end);
    }

    /** The text with another line in it instead of one that it has. */
    String replacedIn(String text, String line, String by) {
        String block = text.substring(start, end);
        return text.substring(0, start) + block.replace(line, by) + text.substring(end);
    }

    /** Where a line starts, counted from 0. */
    static int startOfLine(String text, int line) {
        int at = 0;
        for (int i = 0; i < line; i++) at = endOfLine(text, at);
        return at;
    }

    private static List<String> marked(String indent, List<String> lines) {
        List<String> all = new ArrayList<>();
        all.add(indent + BEGIN);
        for (String line : lines) all.add(indent + line);
        all.add(indent + END);
        return all;
    }

    private static int endOfLine(String text, int at) {
        int newline = text.indexOf('\n', at);
        return newline < 0 ? text.length() : newline + 1;
    }

    private static String newline(String text) {
        int first = text.indexOf('\n');
        return first > 0 && text.charAt(first - 1) == '\r' ? "\r\n" : "\n";
    }
}
