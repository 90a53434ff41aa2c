// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * The command {@code java -cp "petra.jar:lib/*" dev.petra.cassandra.agent.WeaveCommand --in JAR
 * --out JAR}, for the build of a fork. {@code lib} has Cassandra's libraries: weaving may need
 * their class files.
 */
public final class WeaveCommand {
    private static final int FAILED = 1;
    private static final int WRONG_USAGE = 2;

    private static final String USAGE =
            "usage: weave --in CASSANDRA_JAR --out NEW_JAR [--allow-changed]";

    private final PrintStream out;
    private final PrintStream err;
    private @Nullable Path in;
    private @Nullable Path to;
    private boolean allowChanged;

    private WeaveCommand(PrintStream out, PrintStream err) {
        this.out = out;
        this.err = err;
    }

    /** Weaves a jar and ends the process: 0 if the jar was written, 1 if not, 2 for wrong usage. */
    public static void main(String[] arguments) {
        System.exit(run(System.out, System.err, arguments));
    }

    /** Does the same as {@link #main}, and returns the exit code. */
    static int run(PrintStream out, PrintStream err, String... arguments) {
        return new WeaveCommand(out, err).run(arguments);
    }

    private int run(String... arguments) {
        String wrong = read(arguments);
        if (wrong != null) {
            err.println("petra: " + wrong);
            err.println(USAGE);
            return WRONG_USAGE;
        }
        if (in == null || to == null) {
            err.println(USAGE);
            return WRONG_USAGE;
        }
        try {
            report(to, Weaver.weave(in, to, allowChanged));
            return 0;
        } catch (Weaver.RefusedException e) {
            err.println("petra: " + e.getMessage());
        } catch (IOException | UncheckedIOException e) {
            err.println("petra: " + in + " could not be woven into " + to + ": " + e);
        }
        return FAILED;
    }

    private @Nullable String read(String... arguments) {
        for (int i = 0; i < arguments.length; i++) {
            String option = arguments[i];
            if (option.equals("--allow-changed")) {
                allowChanged = true;
                continue;
            }
            if (!option.equals("--in") && !option.equals("--out")) return "no option " + option;
            if (++i == arguments.length) return option + " needs a file";
            if (option.equals("--in")) in = Path.of(arguments[i]);
            else to = Path.of(arguments[i]);
        }
        return null;
    }

    private void report(Path jar, WovenJar woven) {
        for (JoinPoint point : JoinPoints.ALL)
            out.println(
                    (woven.classes().containsKey(point.type()) ? "woven   " : "no class ")
                            + point
                            + (woven.original().changed().contains(point.toString())
                                    ? " (not as in " + woven.original().closest() + ")"
                                    : ""));
        out.println(
                jar
                        + ": Cassandra "
                        + woven.release()
                        + ", join points "
                        + woven.joinPoints()
                        + " of Petra "
                        + woven.petra()
                        + ". A node from it needs the plugin jar of that version in lib, and no"
                        + " -javaagent.");
    }
}
