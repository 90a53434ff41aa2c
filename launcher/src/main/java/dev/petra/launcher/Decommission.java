// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Has a node leave its cluster. */
final class Decommission {
    private static final String MODE = "Mode: ";

    private Decommission() {}

    /**
     * Has a node give its data to the others, and deletes it when it has left: also if an earlier
     * command began that and was ended, of which {@code nodetool decommission} says nothing and
     * reports success at once.
     *
     * @throws NodeException if it has not left, or, before anything is done, if it cannot be
     *     deleted
     */
    static void run(ClusterNodes nodes, int number) {
        // Else it would have left, and each command would try in vain to delete it.
        nodes.checkDeletable(number);
        ClusterCommand.nodetool(nodes, number, "decommission", "-f");
        String mode = mode(nodes, number);
        while (mode.equals("LEAVING")) {
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
            if (Thread.currentThread().isInterrupted())
                throw new NodeException("node %d is still leaving".formatted(number));
            mode = mode(nodes, number);
        }
        if (!mode.equals("DECOMMISSIONED"))
            throw new NodeException(
                    "node %d has not left, its mode is %s; nothing was deleted, see %s"
                            .formatted(number, mode, nodes.log(number)));
        nodes.noteLeft(number);
        end(nodes, number);
    }

    /**
     * Ends and deletes the nodes that have left, of which an earlier command was ended before it
     * did.
     *
     * @return which
     */
    static List<Integer> finish(ClusterNodes nodes) {
        List<Integer> left = nodes.left();
        for (int number : left) end(nodes, number);
        return left;
    }

    private static void end(ClusterNodes nodes, int number) {
        if (nodes.present().contains(number) && nodes.isRunning(number)) nodes.stop(number);
        nodes.delete(number);
    }

    private static String mode(ClusterNodes nodes, int number) {
        NodeTool.Result netstats = nodes.nodetool(number, "netstats");
        return netstats.output()
                .lines()
                .filter(line -> line.startsWith(MODE))
                .map(line -> line.substring(MODE.length()).strip())
                .findFirst()
                .orElseThrow(
                        () ->
                                new NodeException(
                                        "nodetool netstats of node %d failed: %s"
                                                .formatted(number, netstats.output())));
    }
}
