// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * What changes in a text, in the form of {@code diff -u}. All changes are taken as one hunk, and no
 * password is shown.
 */
final class Diff {
    private static final int CONTEXT = 3;
    private static final String NO_NEWLINE = "\n\\ No newline at end of file\n";

    /**
     * What a line sets a password to, and all behind it, up to the line's end: it is for people.
     */
    private static final Pattern PASSWORD =
            Pattern.compile("(password[\\w.-]*[\"']?\\s*[=:]\\s*)\\S.*", Pattern.CASE_INSENSITIVE);

    private Diff() {}

    /** The hunk of two texts that differ. */
    static String of(String name, String before, String after) {
        List<String> old = lines(before);
        List<String> now = lines(after);
        int same = 0;
        while (same < Math.min(old.size(), now.size()) && old.get(same).equals(now.get(same)))
            same++;
        int tail = 0;
        while (tail < Math.min(old.size(), now.size()) - same
                && old.get(old.size() - 1 - tail).equals(now.get(now.size() - 1 - tail))) tail++;
        int from = Math.max(0, same - CONTEXT);
        int shown = Math.min(tail, CONTEXT);
        int oldEnd = old.size() - tail;
        int nowEnd = now.size() - tail;
        StringBuilder text = new StringBuilder();
        text.append("--- ").append(name).append("\n+++ ").append(name).append('\n');
        text.append("@@ -").append(range(from, oldEnd + shown));
        text.append(" +").append(range(from, nowEnd + shown)).append(" @@\n");
        for (String line : old.subList(from, same)) append(text, ' ', line);
        for (String line : old.subList(same, oldEnd)) append(text, '-', line);
        for (String line : now.subList(same, nowEnd)) append(text, '+', line);
        for (String line : old.subList(oldEnd, oldEnd + shown)) append(text, ' ', line);
        return text.toString();
    }

    private static String range(int from, int end) {
        return (from == end ? from : from + 1) + "," + (end - from);
    }

    private static void append(StringBuilder text, char sign, String line) {
        text.append(sign).append(PASSWORD.matcher(line).replaceFirst("$1*******"));
        if (!line.endsWith("\n")) text.append(NO_NEWLINE);
    }

    /** With their line ends. */
    private static List<String> lines(String text) {
        List<String> lines = new ArrayList<>();
        for (int at = 0; at < text.length(); ) {
            int newline = text.indexOf('\n', at);
            int end = newline < 0 ? text.length() : newline + 1;
            lines.add(text.substring(at, end));
            at = end;
        }
        return lines;
    }
}
