// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.Map;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The options of each command line that starts nodes: their memory. They come last in the help. */
abstract class NodeOptions {
    /** What a node needs beside heap and engine, in MiB: the JVM, and Cassandra's own caches. */
    static final int JVM = 512;

    @Spec(Spec.Target.MIXEE)
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Option(
            names = "--heap",
            order = 1,
            description = "Of each node, in MiB (default: ${DEFAULT-VALUE}).")
    int heap = 1024;

    @Option(
            names = "--memory",
            order = 2,
            description = "Beside the heap, in MiB (default: ${DEFAULT-VALUE}).")
    int memory = 512;

    @Option(
            names = "--total-memory",
            order = 3,
            description =
                    "Of each node, in MiB, and the same for all engines: heap, beside the heap, "
                            + JVM
                            + " for the JVM and Cassandra's caches, and what is left for the page"
                            + " cache; rows beyond that come from disk. Needs root (default: no"
                            + " limit).")
    int totalMemory;

    /** Refuses a limit that is too small. */
    void checkMemory() {
        if (totalMemory != 0 && totalMemory < heap + memory + JVM)
            throw wrong(
                    "--total-memory=%d is too little for a heap of %d MiB, %d beside it and %d for the JVM"
                            .formatted(totalMemory, heap, memory, JVM));
    }

    /** For the results. */
    void addMemory(Map<String, String> settings) {
        settings.put("heap", heap + " MiB");
        settings.put("memory beside the heap", memory + " MiB");
        if (totalMemory > 0)
            settings.put("memory of a node", totalMemory + " MiB, page cache included");
    }

    /** What is wrong with the command line. */
    ParameterException wrong(String message) {
        return new ParameterException(spec.commandLine(), message);
    }
}
