// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.NodeProcess;
import dev.petra.launcher.NodeTool;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** One node in a process of its own. */
record ProcessTarget(NodeProcess node, Path directory) implements ClientAccess.Target {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /** Starts it; one that does not take CQL in time is ended. */
    static ProcessTarget start(NodeProcess node, Path directory) {
        node.start();
        boolean started = false;
        try {
            node.awaitCql(PATIENCE);
            started = true;
        } finally {
            if (!started && node.isAlive()) node.kill();
        }
        return new ProcessTarget(node, directory);
    }

    @Override
    public List<InetSocketAddress> nodes() {
        return List.of(new InetSocketAddress(node.address(), node.nativePort()));
    }

    @Override
    public void nodetool(String... command) {
        NodeTool.Result result = node.nodetool(command);
        if (result.exitCode() != 0) throw new IllegalStateException(result.output());
    }

    @Override
    public Probe probe() {
        return new Probe(node.pid(), directory);
    }

    @Override
    public void close() {
        node.stop();
    }
}
