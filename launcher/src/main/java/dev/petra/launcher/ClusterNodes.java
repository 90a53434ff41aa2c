// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The nodes of a cluster on this machine, numbered from 1. What fails is a NodeException. */
public interface ClusterNodes {
    /** How long a start may take. */
    Duration BOOT = Duration.ofMinutes(10);

    /** How long a stop may take. */
    Duration STOP = Duration.ofSeconds(90);

    /** Where they are, as in "there is no cluster in …". */
    String place();

    /** The numbers of those that have been made, running or not, in order. */
    List<Integer> present();

    /** Whether one that has been made runs. */
    boolean isRunning(int number);

    /**
     * Starts one that does not run, made if it is missing, and waits until it takes CQL.
     *
     * @param heap of a node that is made
     * @return where its CQL is open and its log is
     */
    String start(int number, @Nullable HeapSize heap);

    /** Runs nodetool against one that runs. */
    NodeTool.Result nodetool(int number, String... arguments);

    /** The same, on this process's own input and outputs; returns the exit code. */
    int nodetoolInherited(int number, String... arguments);

    /** Drains and ends one that runs. */
    void stop(int number);

    /** Deletes one that does not run, with its data. */
    void delete(int number);

    /** Deletes what is left when no node is. */
    void deleteRest();

    /** Where its log is, as in "see …". */
    String log(int number);

    /** Stops those that run, and deletes all; none is no error. */
    default void deleteAll() {
        List<Integer> present = present();
        if (present.isEmpty()) return;
        for (int number : present) {
            if (isRunning(number)) stop(number);
            delete(number);
        }
        deleteRest();
    }
}
