// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.nio.file.Path;
import java.time.Duration;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code petra stop}: stops the node of a directory, whichever process started it. */
@Command(name = "stop", description = "Stops the node of a directory and waits for its end.")
final class StopCommand implements Runnable {
    @Option(
            names = "--dir",
            paramLabel = "DIR",
            defaultValue = "petra-data",
            description = "The node's directory; default: ${DEFAULT-VALUE}.")
    private Path dir = Path.of("petra-data");

    @Option(
            names = "--timeout",
            paramLabel = "TIME",
            defaultValue = "90s",
            converter = DurationConverter.class,
            description = "How long to wait for its end; default: ${DEFAULT-VALUE}.")
    private Duration timeout = Duration.ofSeconds(90);

    @Option(
            names = "--force",
            description =
                    "End it at once (SIGKILL), as a crash would: the next start replays its commit"
                            + " log.")
    private boolean force;

    @Override
    public void run() {
        NodeDirectory directory = new NodeDirectory(dir);
        PidFile pidFile = new PidFile(directory);
        ProcessHandle node =
                pidFile.live()
                        .orElseThrow(
                                () -> new NodeException("no node runs in " + directory.root()));
        boolean ended = force ? Processes.kill(node, timeout) : Processes.terminate(node, timeout);
        if (!ended) {
            throw new NodeException(
                    "the node (pid %d) has not ended in %d s, log %s%s"
                            .formatted(
                                    node.pid(),
                                    timeout.toSeconds(),
                                    directory.systemLog(),
                                    force ? "" : "; 'petra stop --force' kills it"));
        }
        pidFile.remove(node.pid());
    }
}
