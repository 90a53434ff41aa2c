// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.net.URISyntaxException;
import java.nio.file.Path;
import java.security.CodeSource;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * How the join points came into this process's Cassandra: by the agent, by a jar that was woven, or
 * not at all. Loads nothing of Cassandra. Thread-safe.
 */
public final class Weaving {
    /** What the agent has woven so far. */
    private static final Set<String> woven = ConcurrentHashMap.newKeySet();

    private static volatile @Nullable List<String> installed;
    private static volatile @Nullable String failure;
    private static volatile Fingerprints.@Nullable Comparison comparison;
    private static volatile boolean idle;

    private Weaving() {}

    /** Known when first asked for: the class path does not change. */
    private static final class Jar {
        static final @Nullable WovenJar FOUND = WovenJar.find(cassandra());
        static final @Nullable String DEFECT = FOUND == null ? null : FOUND.defect(cassandra());
    }

    private static ClassFiles cassandra() {
        return ClassFiles.of(ClassLoader.getSystemClassLoader());
    }

    /**
     * The agent is in place.
     *
     * @param types the classes that have join points
     * @param compared how they compare with those of the known releases
     */
    static void installed(List<String> types, Fingerprints.Comparison compared) {
        comparison = compared;
        installed = List.copyOf(types);
    }

    /** The agent has woven a class. */
    static void woven(String type) {
        woven.add(type);
    }

    /** A class could not be woven. */
    static void failed(String type, Throwable reason) {
        failure = "The agent could not be built into " + type + ": " + reason;
    }

    /** There is an agent, and nothing for it to do. */
    static void agentIsIdle() {
        idle = true;
    }

    /** Whether Cassandra's jar was woven. */
    static boolean isWovenJar() {
        return Jar.FOUND != null;
    }

    /**
     * Tells whether the process has the agent, which may still be unfit, or runs woven classes.
     *
     * @return null if it does, otherwise what is wrong and the mend
     */
    public static @Nullable String absence() {
        if (isWovenJar()) return Jar.DEFECT;
        return installed == null
                ? "It has neither the agent nor a Cassandra that was woven. Add this line to"
                        + " jvm-server.options and restart the node: -javaagent:"
                        + plugin()
                : null;
    }

    private static String plugin() {
        CodeSource source = Weaving.class.getProtectionDomain().getCodeSource();
        if (source == null || source.getLocation() == null) return "<petra.jar>";
        try {
            return Path.of(source.getLocation().toURI()).toString();
        } catch (URISyntaxException | IllegalArgumentException e) {
            return source.getLocation().toString();
        }
    }

    /**
     * Tells whether all join points are in place. Loads the classes that have some, where that has
     * not happened yet.
     *
     * @return null if they are, otherwise what is wrong
     */
    public static @Nullable String defect() {
        String absence = absence();
        List<String> types = installed;
        // Where there is no agent, a jar was woven, or nothing was.
        if (absence != null || types == null) return absence;
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

    /** The releases whose methods Petra knows. */
    public static Set<String> knownReleases() {
        return Fingerprints.known().releases().keySet();
    }

    /** The known release that this Cassandra is most like. Only where {@link #absence} is null. */
    public static String closestRelease() {
        return comparison().closest();
    }

    /** The methods with join points that are not as in {@link #closestRelease}. */
    public static List<String> changedMethods() {
        return comparison().changed();
    }

    /** Whether who wove the jar was told of {@link #changedMethods}, and insisted. */
    public static boolean isInsisted() {
        return isWovenJar();
    }

    /** How the join points came here, for the log. */
    public static String form() {
        if (!isWovenJar()) return "by the agent";
        return idle
                ? "into its jar; the agent does nothing, and its -javaagent line can be removed"
                : "into its jar";
    }

    private static Fingerprints.Comparison comparison() {
        WovenJar jar = Jar.FOUND;
        Fingerprints.Comparison found = jar == null ? comparison : jar.original();
        if (found == null) throw new IllegalStateException("there are no join points");
        return found;
    }
}
