// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.cql.CqlException;
import dev.petra.launcher.install.InstallException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.logging.LogManager;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The {@code petra} command. */
@Command(
        name = "petra",
        description = "Runs a Cassandra node with Petra in it, and talks to it.",
        subcommands = {
            RunCommand.class,
            StopCommand.class,
            CqlCommand.class,
            ClusterCommand.class,
            ContainerCommand.class,
            ShadowCommand.class,
            CompareCommand.class,
            WeaveCommand.class,
            InstallCommand.class,
            UninstallCommand.class
        })
public final class Main implements Runnable {
    /** The exit code of a failed command. */
    static final int FAILED = 1;

    /** The exit code where nothing speaks against a shadow, and nothing for it. */
    static final int NOTHING_COMPARED = 3;

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    private Main() {}

    /** Runs a command line and ends this JVM with its exit code. */
    public static void main(String[] args) {
        LogManager.getLogManager().reset(); // Else Netty writes warnings to the error output.
        System.exit(run(writer(FileDescriptor.out), writer(FileDescriptor.err), args));
    }

    /**
     * Runs a command line in this JVM, of which it changes nothing.
     *
     * @return the exit code
     */
    public static int run(PrintWriter out, PrintWriter err, String... args) {
        return commandLine(out, err).execute(args);
    }

    /** Makes the command line parser of the whole command. */
    static CommandLine commandLine(PrintWriter out, PrintWriter err) {
        CommandLine line = new CommandLine(new Main());
        // The tools that these commands run have options of their own: pass them on.
        for (Object runs : List.of(new NodetoolCommand(), new LoadCommand()))
            line.addSubcommand(
                    new CommandLine(runs)
                            .setStopAtPositional(true)
                            .setUnmatchedOptionsArePositionalParams(true));
        mixin(line);
        line.getSubcommands().values().forEach(Main::mixin);
        line.setOut(out);
        line.setErr(err);
        line.setExpandAtFiles(false); // An argument that begins with @ is no file of arguments.
        line.setExecutionExceptionHandler((e, failed, parsed) -> report(e, err));
        return line;
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Missing command");
    }

    private static void mixin(CommandLine line) {
        line.getCommandSpec().addMixin("standard", CommandSpec.forAnnotatedObject(new Standard()));
    }

    private static int report(Exception e, PrintWriter err) {
        if (e instanceof NodeException
                || e instanceof CqlException
                || e instanceof InstallException) {
            err.println("petra: " + e.getMessage());
        } else {
            err.println("petra: this is a defect of petra, please report it");
            e.printStackTrace(err);
        }
        err.flush();
        return FAILED;
    }

    // With the charset of the locale, Java would lose text under LANG=C.
    private static PrintWriter writer(FileDescriptor descriptor) {
        return new PrintWriter(
                new OutputStreamWriter(new FileOutputStream(descriptor), StandardCharsets.UTF_8));
    }

    /** The options that every command has. */
    @Command(versionProvider = Version.class)
    @SuppressWarnings("UnusedVariable") // picocli acts on them itself.
    private static final class Standard {
        @CommandLine.Option(
                names = "--help",
                usageHelp = true,
                description = "Shows this help and ends.")
        private boolean help;

        @CommandLine.Option(
                names = "--version",
                versionHelp = true,
                description = "Shows the versions of Petra and Cassandra and ends.")
        private boolean version;
    }
}
