// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the system says of a node's process. */
final class NodeMetrics {
    private NodeMetrics() {}

    static double cpuSeconds(TestNode node) {
        return ProcessHandle.of(node.process().pid())
                        .flatMap(process -> process.info().totalCpuDuration())
                        .orElseThrow()
                        .toMillis()
                / 1e3;
    }

    /** Bytes that its process has had read from disk. */
    static long readFromDisk(TestNode node) {
        return number(node, "io", "read_bytes");
    }

    /** A number of {@code /proc/<pid>/status}, as {@code VmRSS}, in MiB. */
    static long mebibytes(TestNode node, String name) {
        return number(node, "status", name) >> 10;
    }

    private static long number(TestNode node, String file, String name) {
        try {
            return Files.readAllLines(Path.of("/proc/" + node.process().pid(), file)).stream()
                    .filter(line -> line.startsWith(name + ":"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                    .findFirst()
                    .orElseThrow();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
