// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The directory of a node, with all its files. {@code cassandra.yaml} does not name the data
 * folders: they are at Cassandra's default places below its storage directory, so that a node's
 * directory can be moved and copied.
 */
public record NodeDirectory(Path root) {
    private static final List<String> FOLDERS =
            List.of(
                    "conf",
                    "data",
                    "commitlog",
                    "hints",
                    "saved_caches",
                    "cdc_raw",
                    "logs",
                    "triggers");

    /** Resolves symbolic links, so that each directory has one path. */
    public NodeDirectory {
        root = real(root.toAbsolutePath().normalize());
        if (root.toString().contains(File.pathSeparator))
            throw new NodeException(
                    "the directory "
                            + root
                            + " cannot be on a class path: its name contains '"
                            + File.pathSeparator
                            + "'");
    }

    /** Creates the directory. */
    void createRoot() {
        try {
            Files.createDirectories(root);
        } catch (IOException e) {
            throw new NodeException("cannot make the node's directory: " + e, e);
        }
    }

    /** Creates the folders in it that do not exist. */
    void create() {
        try {
            for (String folder : FOLDERS) Files.createDirectories(root.resolve(folder));
        } catch (IOException e) {
            throw new NodeException("cannot make the node's directory: " + e, e);
        }
    }

    /** The folder of settings; it is on the node's class path. */
    public Path conf() {
        return root.resolve("conf");
    }

    /** Cassandra's settings. */
    public Path yaml() {
        return conf().resolve("cassandra.yaml");
    }

    /** The options of the node's JVM. */
    public Path jvmOptions() {
        return conf().resolve("jvm.options");
    }

    /** The logging configuration of the node. */
    public Path logback() {
        return conf().resolve("logback.xml");
    }

    /** The logging configuration of nodetool and other tools. */
    public Path logbackTools() {
        return conf().resolve("logback-tools.xml");
    }

    /** The folder of logs, heap dumps and the JVM's crash reports. */
    public Path logs() {
        return root.resolve("logs");
    }

    /** Cassandra's log. */
    public Path systemLog() {
        return logs().resolve("system.log");
    }

    /** The standard and error outputs of the process, such as an error of the agent. */
    public Path output() {
        return logs().resolve("output.log");
    }

    /** The folder of triggers; it is empty, but Cassandra requires it. */
    Path triggers() {
        return root.resolve("triggers");
    }

    /** The file with the process id of the running node. */
    public Path pidFile() {
        return root.resolve("petra.pid");
    }

    /** The file that is locked while a node is being started. */
    Path lockFile() {
        return root.resolve("petra.lock");
    }

    private static Path real(Path path) {
        try {
            if (Files.exists(path)) return path.toRealPath();
        } catch (IOException e) {
            throw new NodeException("cannot resolve " + path + ": " + e, e);
        }
        Path parent = path.getParent();
        return parent == null ? path : real(parent).resolve(path.getFileName());
    }
}
