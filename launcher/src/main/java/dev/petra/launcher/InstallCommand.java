// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.install.Installer;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code petra install}: the engine in a Cassandra that is there. */
@Command(
        name = "install",
        description = {
            "Puts Petra into an installed Cassandra, or a newer Petra in the place of an older"
                    + " one.",
            "",
            "It adds the plugin jar to lib, the configuration 'rocks' to cassandra.yaml, and the"
                    + " agent's line to jvm-server.options. It shows all changes and asks before it"
                    + " makes them. The node has Petra from its next start on."
        })
final class InstallCommand implements Callable<Integer> {
    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Mixin private InstallationOptions installation = new InstallationOptions();

    @Option(
            names = "--memory",
            paramLabel = "SIZE",
            description =
                    "Native memory of all tables in the engine together, such as 4GiB. Default:"
                            + " half of what the Java heap and 512 MiB leave of the machine's or"
                            + " container's memory.")
    private @Nullable String memory;

    @Option(
            names = "--replace",
            description = "Puts the plugin jar in the place of another version of it.")
    private boolean replace;

    @Override
    public Integer call() {
        Distribution distribution = Distribution.fromSystemProperty();
        distribution.checkPlugin();
        return installation.run(
                spec,
                () ->
                        new Installer(installation.cassandra(), installation.conf())
                                .install(
                                        distribution.plugin(),
                                        Optional.ofNullable(memory),
                                        replace),
                "Petra is installed there: nothing to do.",
                "Petra is installed. Restart the node, then CREATE TABLE … WITH memtable ="
                        + " 'rocks'.");
    }
}
