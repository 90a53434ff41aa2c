// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The files in a node's {@code conf}. Each is written if it does not exist and otherwise only read,
 * unless {@link NodeConfig.Builder#overwriteConf} says that all are written anew.
 */
final class ConfFiles {
    private static final Map<String, String> FLAGS =
            Map.of(
                    CassandraYaml.LISTEN_ADDRESS,
                    " (--address)",
                    CassandraYaml.RPC_ADDRESS,
                    " (--address)",
                    CassandraYaml.NATIVE_PORT,
                    " (--port)",
                    CassandraYaml.STORAGE_PORT,
                    " (--storage-port)",
                    "-Xmx",
                    " (--heap)",
                    "-Dcassandra.jmx.local.port=",
                    " (--jmx-port)");

    private final NodeConfig config;
    private final NodeDirectory directory;

    ConfFiles(NodeConfig config) {
        this.config = config;
        this.directory = config.directory();
    }

    /**
     * Returns the addresses and ports that the files have or will have. Writes nothing, so that a
     * start that is refused because of its ports can be repeated with others.
     *
     * @throws NodeException if an existing file contradicts the configuration
     */
    NodeSettings check() {
        Map<String, Object> yaml = CassandraYaml.settings(config.yaml());
        if (!isAbsent(directory.yaml())) {
            yaml = Yaml.read(directory.yaml());
            refuse(directory.yaml(), Yaml.differences(yaml, config.yaml()));
        }
        JvmOptions options = JvmOptions.of(directory, jvmText());
        if (!isAbsent(directory.jvmOptions())) {
            options = JvmOptions.read(directory);
            refuse(directory.jvmOptions(), options.differences(config.heap(), config.jmxPort()));
        }
        return NodeSettings.of(directory, yaml, options);
    }

    /** Writes the files that do not exist, or all. */
    void write() {
        String yaml = CassandraYaml.text(config.yaml(), config.overwriteConf());
        // A container's has the passwords of the operator's own file.
        if (config.overwriteConf()) WholeFile.writePrivate(directory.yaml(), yaml);
        else if (isAbsent(directory.yaml())) WholeFile.write(directory.yaml(), yaml);
        if (isAbsent(directory.jvmOptions())) WholeFile.write(directory.jvmOptions(), jvmText());
        copyIfAbsent(
                config.consoleLog() ? "logback-console.xml" : "logback.xml", directory.logback());
        copyIfAbsent("logback-tools.xml", directory.logbackTools());
    }

    private String jvmText() {
        return JvmOptions.text(
                config.heap().orElse(NodeConfig.DEFAULT_HEAP),
                config.jmxPort().orElse(NodeConfig.DEFAULT_JMX_PORT),
                config.overwriteConf());
    }

    private boolean isAbsent(Path file) {
        return config.overwriteConf() || !Files.exists(file);
    }

    private void copyIfAbsent(String name, Path file) {
        if (!isAbsent(file)) return;
        try (InputStream resource = getClass().getResourceAsStream(name)) {
            WholeFile.write(file, Objects.requireNonNull(resource, name).readAllBytes());
        } catch (IOException e) {
            throw new NodeException("cannot read " + name + ": " + e, e);
        }
    }

    private static void refuse(Path file, List<Yaml.Difference> differences) {
        if (differences.isEmpty()) return;
        StringBuilder message = new StringBuilder();
        for (Yaml.Difference each : differences)
            message.append(
                    "%s has %s for %s, where %s is asked for%s%n"
                            .formatted(
                                    file,
                                    each.found(),
                                    each.path(),
                                    each.asked(),
                                    FLAGS.getOrDefault(each.path(), "")));
        throw new NodeException(
                message
                        + "The file is yours and is kept: edit it, or do not ask for anything"
                        + " else.");
    }
}
