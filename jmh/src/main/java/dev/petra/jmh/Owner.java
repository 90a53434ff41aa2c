// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The process of a comparison, by which everything that it starts and makes is named: it can be
 * found when that process is dead.
 *
 * @param namespace of the process id, as Linux numbers them; elsewhere the id means another process
 * @param pid its id, which the system gives to others later
 * @param started when, in the system's ticks since its start
 */
record Owner(long namespace, long pid, long started) {
    /** Short, since containers have names of 63 letters at most. */
    private static final int RADIX = Character.MAX_RADIX;

    /** Of the JVMs that a comparison starts. */
    private static final String PROPERTY = "petra.bench.owner";

    private static final Pattern TEXT = Pattern.compile("([0-9a-z]+)-([0-9a-z]+)-([0-9a-z]+)");
    private static final String NAMES = "petra-bench-";
    private static final Pattern NAMED =
            Pattern.compile(NAMES + "([0-9a-z]+-[0-9a-z]+-[0-9a-z]+)-.+");

    /** That of this process, which is another's if that has started it. */
    static Owner mine() {
        String given = System.getProperty(PROPERTY);
        return given != null
                ? parse(given).orElseThrow(() -> new IllegalStateException(given))
                : current();
    }

    private static Owner current() {
        long pid = ProcessHandle.current().pid();
        return new Owner(here(), pid, started(pid).orElseThrow());
    }

    private static long here() {
        try {
            Path link = Files.readSymbolicLink(Path.of("/proc/self/ns/pid"));
            return Long.parseLong(link.toString().replaceAll("\\D", ""));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** When a process was started; empty if there is none. */
    private static Optional<Long> started(long pid) {
        try {
            String stat = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
            // One that nobody waited for is dead, too.
            return fields[0].equals("Z") ? Optional.empty() : Optional.of(Long.valueOf(fields[19]));
        } catch (NoSuchFileException e) {
            return Optional.empty();
        } catch (IOException e) {
            // It ended while its file was read.
            if (Files.notExists(Path.of("/proc", Long.toString(pid)))) return Optional.empty();
            throw new UncheckedIOException(e);
        }
    }

    private static Optional<Owner> parse(String text) {
        Matcher matcher = TEXT.matcher(text);
        return matcher.matches()
                ? Optional.of(
                        new Owner(
                                Long.parseLong(matcher.group(1), RADIX),
                                Long.parseLong(matcher.group(2), RADIX),
                                Long.parseLong(matcher.group(3), RADIX)))
                : Optional.empty();
    }

    /** Whose something of this name is; empty if that is no comparison's. */
    static Optional<Owner> of(String name) {
        Matcher matcher = NAMED.matcher(name);
        return matcher.matches() ? parse(matcher.group(1)) : Optional.empty();
    }

    /** Whose a process is, by its arguments. */
    static Optional<Owner> of(Iterable<String> arguments) {
        for (String argument : arguments)
            if (argument.startsWith("-D" + PROPERTY + "="))
                return parse(argument.substring(argument.indexOf('=') + 1));
        return Optional.empty();
    }

    /** The option of a JVM that it starts. */
    String option() {
        return "-D" + PROPERTY + "=" + this;
    }

    /** The names of what it makes begin with it. */
    String prefix() {
        return NAMES + this + "-";
    }

    /** Whether it is certainly dead, and did not start elsewhere, where it may live. */
    boolean isDead() {
        return namespace == here() && !Optional.of(started).equals(started(pid));
    }

    @Override
    public String toString() {
        return Stream.of(namespace, pid, started)
                .map(number -> Long.toString(number, RADIX))
                .collect(Collectors.joining("-"));
    }
}
