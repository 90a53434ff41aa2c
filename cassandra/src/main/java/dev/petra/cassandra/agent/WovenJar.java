// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The marker file that {@link Weaver} adds to a jar. It says what was woven, so that a node can
 * check it against its plugin jar and the classes that it would load.
 *
 * @param joinPoints {@link JoinPoints#version} of the Petra that wove the jar
 * @param petra the version of that Petra
 * @param release the {@link Release} of the jar's Cassandra
 * @param original how the jar's methods compared with the known releases before they were woven
 * @param classes the fingerprint of each woven class file, by class name
 */
record WovenJar(
        String joinPoints,
        String petra,
        String release,
        Fingerprints.Comparison original,
        Map<String, String> classes) {
    /** The path of the marker file in the jar. */
    static final String FILE = "META-INF/petra/woven";

    private static final String MEND =
            " Weave the original jar once more, with the plugin jar that the node has: bin/petra"
                    + " weave.";

    WovenJar {
        classes = new TreeMap<>(classes);
    }

    /** Reads the marker file, or returns null if this Cassandra was not woven. */
    static @Nullable WovenJar find(ClassFiles cassandra) {
        byte[] file = cassandra.file(FILE);
        return file == null ? null : parse(new String(file, StandardCharsets.UTF_8));
    }

    /** The version of the running Petra, from its jar's manifest. */
    static String ownVersion() {
        String version = WovenJar.class.getPackage().getImplementationVersion();
        return version == null ? "unknown" : version;
    }

    /** The text of the marker file, in a fixed order so that jars can be reproduced. */
    String text() {
        StringBuilder text =
                new StringBuilder(
                        "# Written by petra weave; a node compares its classes with it.\n");
        line(text, "join-points", joinPoints);
        line(text, "petra", petra);
        line(text, "cassandra", release);
        line(text, "like", original.closest());
        for (String method : original.changed()) line(text, "changed", method);
        new TreeMap<>(classes)
                .forEach((type, fingerprint) -> line(text, "class", fingerprint + " " + type));
        return text.toString();
    }

    private static void line(StringBuilder text, String key, String value) {
        text.append(key).append(' ').append(value).append('\n');
    }

    /** Reads {@link #text}. */
    static WovenJar parse(String text) {
        Map<String, String> single = new TreeMap<>();
        List<String> changed = new ArrayList<>();
        Map<String, String> classes = new TreeMap<>();
        for (String line : text.lines().filter(l -> !l.startsWith("#")).toList()) {
            String[] fields = line.split(" ", 2);
            String value = fields.length == 2 ? fields[1] : "";
            if (fields[0].equals("changed")) changed.add(value);
            else if (fields[0].equals("class"))
                classes.put(value.substring(value.indexOf(' ') + 1), value.split(" ", 2)[0]);
            else single.put(fields[0], value);
        }
        return new WovenJar(
                single.getOrDefault("join-points", ""),
                single.getOrDefault("petra", ""),
                single.getOrDefault("cassandra", ""),
                new Fingerprints.Comparison(single.getOrDefault("like", ""), changed),
                classes);
    }

    /**
     * Checks that the jar was woven by this version of the join points, and that the node would
     * load the woven classes.
     *
     * @param cassandra the class files on the node's class path
     * @return null if both hold, otherwise a message with the defect and the remedy
     */
    @Nullable String defect(ClassFiles cassandra) {
        if (!joinPoints.equals(JoinPoints.version()))
            return "Cassandra's jar was woven by Petra "
                    + petra
                    + " (join points "
                    + joinPoints
                    + "), but the plugin jar is Petra "
                    + ownVersion()
                    + " (join points "
                    + JoinPoints.version()
                    + ")."
                    + MEND;
        List<String> others = new ArrayList<>();
        for (String type : JoinPoints.types(JoinPoints.in(cassandra))) {
            byte[] file = cassandra.find(type);
            if (file == null || !Fingerprint.of(file).equals(classes.get(type))) others.add(type);
        }
        return others.isEmpty()
                ? null
                : "Cassandra's jar was woven, but the node would not run the woven classes "
                        + others
                        + ": they were changed later, or another jar or folder with them comes"
                        + " first on the class path. Leave one Cassandra there."
                        + MEND;
    }
}
