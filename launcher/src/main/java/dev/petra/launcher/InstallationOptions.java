// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.install.Plan;
import java.io.Console;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Which installation a command changes, and whether it asks before. */
final class InstallationOptions {
    @Option(
            names = "--cassandra",
            paramLabel = "DIR",
            required = true,
            description =
                    "Cassandra's folder: of the unpacked tarball, or /usr/share/cassandra where it"
                            + " was installed by a package.")
    private Path cassandra = Path.of("");

    @Option(
            names = "--conf",
            paramLabel = "DIR",
            description =
                    "The folder of cassandra.yaml. Default: the one that Cassandra's start script"
                            + " names.")
    private @Nullable Path conf;

    @ArgGroup private @Nullable Consent consent;

    /** One of two. */
    private static final class Consent {
        @Option(
                names = "--dry-run",
                description = "Shows what would be changed, and changes nothing.")
        private boolean dryRun;

        @Option(names = "--yes", description = "Does not ask.")
        private boolean yes;
    }

    Path cassandra() {
        return cassandra;
    }

    Optional<Path> conf() {
        return Optional.ofNullable(conf);
    }

    /**
     * Shows a plan, and if it may, does it.
     *
     * @param plans looks at the installation and plans: once more behind the question, since a node
     *     may have been started meanwhile
     */
    int run(CommandSpec spec, Supplier<Plan> plans, String nothing, String done) {
        PrintWriter out = spec.commandLine().getOut();
        Plan plan = plans.get();
        if (plan.isEmpty()) {
            out.println(nothing);
            out.flush();
            return 0;
        }
        out.print(plan.text());
        plan.notes().forEach(out::println);
        out.flush();
        if (consent != null && consent.dryRun) return 0;
        if (consent == null || !consent.yes) {
            ask();
            Plan now = plans.get();
            if (!now.text().equals(plan.text()))
                throw new NodeException(
                        "the installation was changed by someone else meanwhile: run the command"
                                + " again");
            plan = now;
        }
        plan.apply();
        out.println(done);
        out.flush();
        return 0;
    }

    @SuppressWarnings("SystemConsoleNull") // Cassandra 5.0, and so this, runs on Java 17.
    private static void ask() {
        Console console = System.console();
        if (console == null)
            throw new NodeException(
                    "there is no terminal to ask on: add --yes to make these changes");
        String answer = console.readLine("Make these changes? [y/N] ");
        if (answer == null || !answer.strip().toLowerCase(Locale.ROOT).matches("y|yes"))
            throw new NodeException("nothing was changed");
    }
}
