// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The nodes of a cluster on this machine, numbered from 1. All methods throw a {@link
 * NodeException} if they fail.
 */
public interface ClusterNodes {
    /** The longest time that a start may take. */
    Duration BOOT = Duration.ofMinutes(10);

    /** The longest time that a stop may take. */
    Duration STOP = Duration.ofSeconds(90);

    /** The place of the cluster, for messages: "there is no cluster in …". */
    String place();

    /** The numbers of the nodes that exist, running or not, in ascending order. */
    List<Integer> present();

    /** Whether a node that exists is running. */
    boolean isRunning(int number);

    /**
     * Starts a node that is not running, creates it if it does not exist, and waits until its port
     * of CQL is open.
     *
     * @param heap the heap of a new node; null for the default
     * @return the address of CQL, and the process or container, for messages
     */
    String start(int number, @Nullable HeapSize heap);

    /** Runs nodetool against a running node. */
    NodeTool.Result nodetool(int number, String... arguments);

    /** Runs nodetool on the input and outputs of this process, and returns its exit code. */
    int nodetoolInherited(int number, String... arguments);

    /** Drains and stops a running node. */
    void stop(int number);

    /** Notes that a running node has left its cluster: it can never be started again. */
    void noteLeft(int number);

    /** Those that were noted and are not deleted, or not entirely, in ascending order. */
    List<Integer> left();

    /** Fails if what exists under a node's number may be somebody else's: it is not deleted. */
    default void checkDeletable(int number) {}

    /** Deletes a node that is not running, with its data, and the note that it left. Idempotent. */
    void delete(int number);

    /**
     * Deletes what the cluster has besides its nodes, and what is left of nodes whose deletion was
     * interrupted; only after the last node was deleted. Idempotent.
     */
    void deleteRest();

    /** The place of a node's log, for messages: "see …". */
    String log(int number);

    /**
     * Stops the running nodes and deletes the cluster, if it exists; nothing if a node is refused.
     */
    default void deleteAll() {
        List<Integer> present = present();
        present.forEach(this::checkDeletable);
        for (int number : present) {
            if (isRunning(number)) stop(number);
            delete(number);
        }
        deleteRest();
    }
}
