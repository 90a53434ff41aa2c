// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The Java that an installed Cassandra starts its node with: that of {@code JAVA_HOME}, which its
 * start script or a package's settings set, or the environment; else the first on {@code PATH}. The
 * service of a package does not have the environment of this process, whose {@code JAVA_HOME} may
 * be set for this command only.
 */
final class NodeJava {
    /** For which Petra's classes are compiled; Cassandra 5.0 runs on 11, too. */
    private static final String NEEDED = "17";

    private static final Pattern VERSION = Pattern.compile("version \"(\\d+)");

    private NodeJava() {}

    /**
     * Fails if it is another than Petra needs.
     *
     * @param environment of this process, which is not always the node's
     */
    static void check(Layout layout, Map<String, String> environment) {
        String from = "JAVA_HOME";
        Optional<Path> home = Optional.empty();
        for (Path file : layout.javaHomeFiles()) {
            home = layout.javaHome(file);
            from = file.toString();
            if (home.isPresent()) break;
        }
        if (home.isEmpty() && !layout.isPackage()) {
            from = "JAVA_HOME of the environment";
            home =
                    Optional.ofNullable(environment.get("JAVA_HOME"))
                            .filter(value -> !value.isBlank())
                            .map(Path::of);
        }
        String java;
        if (home.isEmpty()) {
            from = "PATH";
            java = onPath(environment.getOrDefault("PATH", ""));
        } else java = home.get().resolve("bin").resolve("java").toString();
        String version = version(java);
        if (!version.equals(NEEDED))
            throw new InstallException(
                    "the node would run on Java "
                            + version
                            + " ("
                            + java
                            + ", by "
                            + from
                            + "), and with Petra it needs Java "
                            + NEEDED
                            + ": install a JDK "
                            + NEEDED
                            + ", and set JAVA_HOME to it in "
                            + where(layout.javaHomeFiles(), home.isPresent() ? from : null));
    }

    /** The file that sets it, if one does: it is read behind the others. */
    private static String where(List<Path> files, @Nullable String set) {
        if (files.isEmpty()) return "the node's environment";
        if (set != null && files.contains(Path.of(set))) return set;
        return files.get(files.size() - 1)
                + ", as a path that no shell has to find out; what a unit of systemd sets is not"
                + " seen";
    }

    private static String onPath(String path) {
        for (String folder : path.split(":", -1)) {
            if (folder.isEmpty()) continue; // The shell's folder, which is not the service's.
            Path java = Path.of(folder).resolve("java");
            if (Files.isRegularFile(java) && Files.isExecutable(java)) return java.toString();
        }
        return "java";
    }

    /** Its number, or why there is none. */
    private static String version(String java) {
        if (java.contains("/") && !Files.isExecutable(Path.of(java))) return "which is none";
        try {
            Process process =
                    new ProcessBuilder(java, "-version").redirectErrorStream(true).start();
            process.getOutputStream().close();
            String output = new String(process.getInputStream().readAllBytes(), UTF_8);
            Matcher version = VERSION.matcher(output);
            return version.find() ? version.group(1) : "which is none";
        } catch (IOException e) {
            return "which is none";
        }
    }
}
