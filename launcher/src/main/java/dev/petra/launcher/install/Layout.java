// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where an installed Cassandra has its files. Known are the tarball and the packages of Debian and
 * Red Hat, which differ in where {@code cassandra.in.sh} is and in the folder of the configuration
 * that it names.
 *
 * @param home {@code CASSANDRA_HOME}
 * @param conf the folder of {@code cassandra.yaml}
 * @param jars on the class path, each once however many links name it
 */
record Layout(Path home, Path conf, Optional<Path> script, List<Jar> jars) {
    /** The plugin in {@code lib}: without a version, so that an upgrade is one rename. */
    static final String PLUGIN = "petra-cassandra-5.0.jar";

    private static final String YAML = "cassandra.yaml";
    private static final String OPTIONS = "jvm-server.options";

    /**
     * Looks for it.
     *
     * @param cassandra its folder: of the tarball, or {@code /usr/share/cassandra}
     * @param conf of its configuration, if the start script does not say
     * @param ignored a jar that is not looked into
     * @throws InstallException if it is none of the known layouts
     */
    static Layout find(Path cassandra, Optional<Path> conf, Optional<Path> ignored) {
        Path home = cassandra.toAbsolutePath().normalize();
        if (!Files.isDirectory(home.resolve("lib")))
            throw new InstallException(
                    home
                            + " has no folder lib: name Cassandra's folder, which is"
                            + " /usr/share/cassandra where it was installed by a package");
        Optional<Path> script =
                List.of("bin/cassandra.in.sh", "cassandra.in.sh").stream()
                        .map(home::resolve)
                        .filter(Files::isRegularFile)
                        .findFirst();
        Path found =
                conf.map(Path::toAbsolutePath)
                        .map(Path::normalize)
                        .orElseGet(
                                () ->
                                        script.flatMap(
                                                        file ->
                                                                variable(
                                                                        home,
                                                                        file,
                                                                        "CASSANDRA_CONF",
                                                                        "name the folder of"
                                                                                + " Cassandra's"
                                                                                + " configuration"
                                                                                + " with --conf"))
                                                .orElse(home.resolve("conf")));
        for (String file : List.of(YAML, OPTIONS))
            if (!Files.isRegularFile(found.resolve(file)))
                throw new InstallException(
                        found
                                + " has no "
                                + file
                                + ": name the folder of Cassandra's configuration with --conf");
        return new Layout(home, found, script, jars(home, ignored));
    }

    /** Where the plugin jar is, or is to be. */
    Path plugin() {
        return home.resolve("lib").resolve(PLUGIN);
    }

    Path yaml() {
        return conf.resolve(YAML);
    }

    Path options() {
        return conf.resolve(OPTIONS);
    }

    /** All that may give the node's JVM options. */
    List<Path> optionFiles() {
        List<Path> files = new ArrayList<>();
        for (String name :
                List.of(
                        OPTIONS,
                        "jvm11-server.options",
                        "jvm17-server.options",
                        "cassandra-env.sh"))
            if (Files.isRegularFile(conf.resolve(name))) files.add(conf.resolve(name));
        script.ifPresent(files::add);
        return files;
    }

    /** All plugin jars that are there, whatever they are called. */
    List<Jar> plugins() {
        return jars.stream().filter(jar -> jar.kind() == Jar.Kind.PLUGIN).toList();
    }

    /**
     * Cassandra's jar.
     *
     * @throws InstallException if there is none, or more than one
     */
    Jar cassandra() {
        List<Jar> found = jars.stream().filter(jar -> jar.kind() == Jar.Kind.CASSANDRA).toList();
        if (found.isEmpty())
            throw new InstallException(
                    home + " and its lib have no jar of Cassandra: name Cassandra's own folder");
        if (found.size() > 1)
            throw new InstallException(
                    "there are several Cassandras on the class path: "
                            + String.join(
                                    ", ", found.stream().map(jar -> jar.path().toString()).toList())
                            + ". Leave the one that the node is to run");
        return found.get(0);
    }

    /** Where a node keeps data that {@code cassandra.yaml} names no folder for. */
    Optional<Path> storage() {
        return script.flatMap(
                file -> variable(home, file, "cassandra_storagedir", StoreSearch.MEND));
    }

    /** Whether it is a package's, which starts the node by a service. */
    boolean isPackage() {
        return script.filter(file -> home.equals(file.getParent())).isPresent();
    }

    /**
     * Where {@code JAVA_HOME} may be set, the file that is read last first: by hand in the script,
     * or for the service of a package, which reads {@code /etc/default/cassandra} on Debian and Red
     * Hat.
     */
    List<Path> javaHomeFiles() {
        List<Path> files = new ArrayList<>();
        script.ifPresent(files::add);
        for (Path folder = conf; folder != null; folder = folder.getParent()) {
            Path ofService = folder.resolve("default").resolve("cassandra");
            if (folder.endsWith("etc") && Files.isRegularFile(ofService)) files.add(ofService);
        }
        return files;
    }

    /** What one of them sets it to; empty if it does not, or only a shell could tell. */
    Optional<Path> javaHome(Path file) {
        try {
            return variable(home, file, "JAVA_HOME", "");
        } catch (InstallException e) {
            return Optional.empty();
        }
    }

    /** Text of a start script with the folder instead of its variable. */
    String withHome(String text) {
        return withHome(home, text);
    }

    private static String withHome(Path home, String text) {
        return text.replace("${CASSANDRA_HOME}", home.toString())
                .replace("$CASSANDRA_HOME", home.toString());
    }

    /**
     * What the start script sets a variable to.
     *
     * @throws InstallException if only a shell could tell
     */
    private static Optional<Path> variable(Path home, Path script, String name, String mend) {
        Pattern assignment =
                Pattern.compile(
                        "(?m)^\\s*(?:export\\s+)?" + name + "=(\"[^\"]*\"|'[^']*'|[^\\s;#]*)");
        Matcher matcher = assignment.matcher(TextFile.read(script).text());
        Set<String> values = new TreeSet<>();
        while (matcher.find()) {
            String value = matcher.group(1).replaceAll("^[\"']|[\"']$", "");
            if (!value.isEmpty()) values.add(withHome(home, TextFile.decoded(value)));
        }
        if (values.isEmpty()) return Optional.empty();
        String value = values.iterator().next();
        if (values.size() > 1 || value.contains("$") || value.contains("`"))
            throw new InstallException(
                    script
                            + " sets "
                            + name
                            + " to "
                            + String.join(" or ", values)
                            + ", and only a shell could tell which folder that is: "
                            + mend);
        return Optional.of(home.resolve(value).normalize());
    }

    private static List<Jar> jars(Path home, Optional<Path> ignored) {
        List<Jar> found = new ArrayList<>();
        Set<Path> seen = new HashSet<>();
        for (Path folder : List.of(home.resolve("lib"), home)) {
            try (DirectoryStream<Path> jars = Files.newDirectoryStream(folder, "*.jar")) {
                List<Path> sorted = new ArrayList<>();
                jars.forEach(sorted::add);
                sorted.sort(null);
                for (Path jar : sorted)
                    if (!ignored.equals(Optional.of(jar)) && seen.add(jar.toRealPath()))
                        found.add(Jar.read(jar));
            } catch (IOException e) {
                throw new InstallException("cannot read " + folder + ": " + e, e);
            }
        }
        return found;
    }
}
