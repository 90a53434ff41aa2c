// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import dev.petra.launcher.NodeTool;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Programs that tests run to their end, as a user does. */
final class Commands {
    /** The command of this repository. */
    static final Path PETRA = Path.of("..", "bin", "petra").toAbsolutePath().normalize();

    private Commands() {}

    /** Runs one, and returns how it ended and what it printed to both outputs. */
    static NodeTool.Result run(String... command) throws IOException, InterruptedException {
        return run(new ProcessBuilder(command));
    }

    /** The same in another environment. */
    static NodeTool.Result run(ProcessBuilder builder) throws IOException, InterruptedException {
        Process running = builder.redirectErrorStream(true).start();
        String output = new String(running.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return new NodeTool.Result(running.waitFor(), output);
    }
}
