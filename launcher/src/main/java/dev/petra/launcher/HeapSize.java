// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The size of a node's Java heap. */
public record HeapSize(int mebibytes) {
    private static final Pattern FORM =
            Pattern.compile("(\\d{1,6})\\s*(GiB|MiB|G|M)", Pattern.CASE_INSENSITIVE);
    private static final int LEAST = 128;

    /** Refuses a size with which Cassandra does not start. */
    public HeapSize {
        if (mebibytes < LEAST)
            throw new IllegalArgumentException(
                    "a heap of " + mebibytes + "MiB is too small: at least " + LEAST + "MiB");
    }

    /** Parses {@code 1GiB} and {@code 512MiB}, or as for the JVM {@code 1g} and {@code 512m}. */
    public static HeapSize parse(String text) {
        Matcher matcher = FORM.matcher(text.strip());
        if (!matcher.matches())
            throw new IllegalArgumentException(
                    "'" + text + "' is no heap size: write it like 1GiB, 512MiB, 1g or 512m");
        int number = Integer.parseInt(matcher.group(1));
        boolean gibibytes = matcher.group(2).toLowerCase(Locale.ROOT).startsWith("g");
        return new HeapSize(gibibytes ? Math.multiplyExact(number, 1024) : number);
    }

    /** The size as it is written after {@code -Xmx}. */
    String jvm() {
        return mebibytes + "m";
    }
}
