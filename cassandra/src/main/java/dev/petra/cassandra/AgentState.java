// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** What became of the agent in this process. Names nothing of Byte Buddy. Thread-safe. */
public final class AgentState {
    private static final Set<String> woven = ConcurrentHashMap.newKeySet();
    private static volatile @Nullable List<String> installed;
    private static volatile @Nullable String failure;

    private AgentState() {}

    /**
     * The agent is in place.
     *
     * @param types the classes that have join points
     */
    public static void installed(List<String> types) {
        installed = List.copyOf(types);
    }

    /** A class was woven. */
    public static void woven(String type) {
        woven.add(type);
    }

    /** A class could not be woven. */
    public static void failed(String type, Throwable reason) {
        failure = "The agent could not be built into " + type + ": " + reason;
    }

    /** Whether the process was started with the agent. */
    static boolean isInstalled() {
        return installed != null;
    }

    /**
     * Loads the classes that have join points, where that has not happened yet, and tells whether
     * all of them were woven.
     *
     * @return null if they were, otherwise what is wrong
     */
    static @Nullable String missing() {
        List<String> types = installed;
        if (types == null) return "The agent is not installed.";
        Set<String> missing = new TreeSet<>();
        for (String type : types) {
            try {
                Class.forName(type, false, ClassLoader.getSystemClassLoader());
            } catch (ClassNotFoundException | LinkageError e) {
                failed(type, e);
            }
            if (!woven.contains(type)) missing.add(type);
        }
        if (failure != null) return failure;
        return missing.isEmpty()
                ? null
                : "The agent could not be built into "
                        + missing
                        + ", which another agent may have loaded before: name Petra's -javaagent"
                        + " first.";
    }
}
