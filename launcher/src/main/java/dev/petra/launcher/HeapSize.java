// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A node's Java heap, as its settings and its JVM write it. */
public record HeapSize(int mebibytes) {
    private static final Pattern FORM =
            Pattern.compile("(\\d{1,6})\\s*(GiB|MiB|G|M)", Pattern.CASE_INSENSITIVE);
    private static final int LEAST = 128;

    /** Refuses what no Cassandra starts with. */
    public HeapSize {
        if (mebibytes < LEAST)
            throw new IllegalArgumentException(
                    "a heap of " + mebibytes + "MiB is too small: at least " + LEAST + "MiB");
    }

    /** Reads {@code 1GiB}, {@code 512MiB}, or as the JVM has it, {@code 1g}, {@code 512m}. */
    public static HeapSize parse(String text) {
        Matcher matcher = FORM.matcher(text.strip());
        if (!matcher.matches())
            throw new IllegalArgumentException(
                    "'" + text + "' is no heap size: write it like 1GiB, 512MiB, 1g or 512m");
        int number = Integer.parseInt(matcher.group(1));
        boolean gibibytes = matcher.group(2).toLowerCase(Locale.ROOT).startsWith("g");
        return new HeapSize(gibibytes ? Math.multiplyExact(number, 1024) : number);
    }

    /** The size after {@code -Xmx}. */
    String jvm() {
        return mebibytes + "m";
    }
}
