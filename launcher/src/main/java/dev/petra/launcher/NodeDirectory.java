// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Where a node keeps everything. The yaml names none of the data folders: they lie where Cassandra
 * looks by itself below its storage directory, so a node's directory can be moved and copied.
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

    /** Takes the directory by its real path, so that it is the same by way of any link. */
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

    /** Makes the directory itself. */
    void createRoot() {
        try {
            Files.createDirectories(root);
        } catch (IOException e) {
            throw new NodeException("cannot make the node's directory: " + e, e);
        }
    }

    /** Makes the folders in it that are missing. */
    void create() {
        try {
            for (String folder : FOLDERS) Files.createDirectories(root.resolve(folder));
        } catch (IOException e) {
            throw new NodeException("cannot make the node's directory: " + e, e);
        }
    }

    /** The folder of settings, last on the node's class path. */
    public Path conf() {
        return root.resolve("conf");
    }

    /** Cassandra's settings. */
    public Path yaml() {
        return conf().resolve("cassandra.yaml");
    }

    /** The settings of the node's JVM. */
    public Path jvmOptions() {
        return conf().resolve("jvm.options");
    }

    /** What the node logs, and where. */
    public Path logback() {
        return conf().resolve("logback.xml");
    }

    /** The same for nodetool. */
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

    /** What the process itself printed, such as an agent's refusal. */
    public Path output() {
        return logs().resolve("output.log");
    }

    /** The folder of triggers: empty, but Cassandra wants one. */
    Path triggers() {
        return root.resolve("triggers");
    }

    /** The number of the process that runs here. */
    public Path pidFile() {
        return root.resolve("petra.pid");
    }

    /** Held while a node is being started. */
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
