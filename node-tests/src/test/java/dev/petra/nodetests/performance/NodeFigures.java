// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the system says of a node's process. */
final class NodeFigures {
    private NodeFigures() {}

    static double cpuSeconds(TestNode node) {
        return ProcessHandle.of(node.process().pid())
                        .flatMap(process -> process.info().totalCpuDuration())
                        .orElseThrow()
                        .toMillis()
                / 1e3;
    }

    /** A figure of {@code /proc/<pid>/status}, as {@code VmRSS}, in MiB. */
    static long mebibytes(TestNode node, String name) {
        try {
            return Files.readAllLines(Path.of("/proc/" + node.process().pid() + "/status")).stream()
                    .filter(line -> line.startsWith(name + ":"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) >> 10)
                    .findFirst()
                    .orElseThrow();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
