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
 * Tells how the join points came into this process's Cassandra: by the agent, by a woven jar, or
 * not at all. Only {@link #defect} loads classes of Cassandra. Thread-safe.
 */
public final class Weaving {
    /** The classes that the agent has woven so far. */
    private static final Set<String> woven = ConcurrentHashMap.newKeySet();

    private static volatile @Nullable List<String> installed;
    private static volatile @Nullable String failure;
    private static volatile Fingerprints.@Nullable Comparison comparison;
    private static volatile boolean idle;

    private Weaving() {}

    /** Read once, at the first use: the class path of a process does not change. */
    private static final class Jar {
        static final @Nullable WovenJar FOUND = WovenJar.find(cassandra());
        static final @Nullable String DEFECT = FOUND == null ? null : FOUND.defect(cassandra());
    }

    /** Read only where nothing was woven: there the agent might be refused, too. */
    private static final class Refused {
        static final @Nullable String REASON = JoinPoints.refusal(cassandra());
    }

    private static ClassFiles cassandra() {
        return ClassFiles.of(ClassLoader.getSystemClassLoader());
    }

    /**
     * Called by the agent when it is in place.
     *
     * @param types the classes that have join points
     * @param compared how their methods compare with those of the known releases
     */
    static void installed(List<String> types, Fingerprints.Comparison compared) {
        comparison = compared;
        installed = List.copyOf(types);
    }

    /** Whether the agent is in place. */
    static boolean isInstalled() {
        return installed != null;
    }

    /** Called by the agent when it has woven a class. */
    static void woven(String type) {
        woven.add(type);
    }

    /** Called when a class could not be woven. */
    static void failed(String type, Throwable reason) {
        failure = "The agent could not be built into " + type + ": " + reason;
    }

    /** Called by the agent when it does nothing because Cassandra's jar was woven. */
    static void agentIsIdle() {
        idle = true;
    }

    /** Whether Cassandra's jar was woven. */
    static boolean isWovenJar() {
        return Jar.FOUND != null;
    }

    /**
     * Checks that the process has the agent, or a woven jar that fits. It does not check what the
     * agent has woven: {@link #defect} does.
     *
     * @return null if so, otherwise a message with the defect and the remedy
     */
    public static @Nullable String absence() {
        if (isWovenJar()) return Jar.DEFECT;
        if (installed != null) return null;
        return Refused.REASON == null
                ? "It has neither the agent nor a Cassandra that was woven. Add this line to"
                        + " jvm-server.options and restart the node: -javaagent:"
                        + plugin()
                : Refused.REASON;
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
     * Checks that all join points are in place. With the agent, this loads the classes that have
     * join points, without initializing them.
     *
     * @return null if all are in place, otherwise a message with the defect
     */
    public static @Nullable String defect() {
        String absence = absence();
        List<String> types = installed;
        // Without the agent, absence() has checked all: a woven jar, or nothing.
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

    /**
     * Says how a Cassandra differs from what Petra knows. Without a full stop.
     *
     * @param release what it says that it is
     * @param closest the known release that is most like it
     * @param changed the methods that are not as in that
     */
    public static String difference(String release, String closest, List<String> changed) {
        Set<String> known = knownReleases();
        return "Cassandra "
                + release
                + (known.contains(release)
                        ? " is not the " + release + " that Petra knows"
                        : " is none of the releases that Petra knows, " + known)
                + " (docs/compatibility.md). Of the methods that Petra changes, these are not as in"
                + " "
                + (closest.equals(release) ? "that" : closest + ", which is most like it")
                + ": "
                + String.join("; ", changed);
    }

    /**
     * The known release whose methods are most like those of this Cassandra.
     *
     * @throws IllegalStateException if there is neither an agent nor a woven jar
     */
    public static String closestRelease() {
        return comparison().closest();
    }

    /**
     * The methods with join points whose code differs from {@link #closestRelease}.
     *
     * @throws IllegalStateException if there is neither an agent nor a woven jar
     */
    public static List<String> changedMethods() {
        return comparison().changed();
    }

    /**
     * Whether {@link #changedMethods}, if there are any, were accepted by the person who wove the
     * jar: it is refused without {@code --allow-changed}.
     */
    public static boolean isInsisted() {
        return isWovenJar();
    }

    /** How the join points were woven, for the log. */
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
