// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.install.Installer;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code petra uninstall}: the reverse of {@link InstallCommand}. */
@Command(
        name = "uninstall",
        description = {
            "Takes Petra out of a stopped Cassandra that 'petra install' put it into.",
            "",
            "Each file becomes what it was, byte for byte. Refused while the node runs, or while it"
                    + " has tables in the engine: nothing could read them."
        })
final class UninstallCommand implements Callable<Integer> {
    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Mixin private InstallationOptions installation = new InstallationOptions();

    @Option(
            names = "--stores-stay",
            description =
                    "Does not look for tables in the engine. Their data stays on disk, and the node"
                            + " does not start until Petra is installed again.")
    private boolean storesStay;

    @Override
    public Integer call() {
        return installation.run(
                spec,
                () ->
                        new Installer(installation.cassandra(), installation.conf())
                                .uninstall(storesStay),
                "Petra is not installed there: nothing to do.",
                "Petra is uninstalled.");
    }
}
