// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Nodes that are processes on 127.0.0.1, 127.0.0.2 and so on.
 *
 * @param dir the directory that has a directory for each node
 */
record ProcessNodes(Path dir) implements ClusterNodes {
    private static final int FIRST_JMX_PORT = 7199;

    @Override
    public String place() {
        return dir.toString();
    }

    @Override
    public List<Integer> present() {
        return numbers("node(\\d{1,3})");
    }

    /** Those in the names of files and directories of a pattern. */
    private List<Integer> numbers(String pattern) {
        if (!Files.isDirectory(dir)) return List.of();
        Pattern names = Pattern.compile(pattern);
        try (Stream<Path> children = Files.list(dir)) {
            return children.map(child -> names.matcher(child.getFileName().toString()))
                    .filter(Matcher::matches)
                    .map(name -> Integer.valueOf(name.group(1)))
                    .sorted()
                    .toList();
        } catch (IOException e) {
            throw new NodeException("cannot list " + dir + ": " + e.getMessage(), e);
        }
    }

    private NodeDirectory directory(int number) {
        return new NodeDirectory(dir.resolve("node" + number));
    }

    private static String address(int number) {
        return "127.0.0." + number;
    }

    @Override
    public boolean isRunning(int number) {
        NodeDirectory directory = directory(number);
        return Files.isDirectory(directory.root()) && new PidFile(directory).live().isPresent();
    }

    @Override
    public String start(int number, @Nullable HeapSize heap) {
        NodeDirectory directory = directory(number);
        NodeConfig.Builder config =
                NodeConfig.builder(directory.root()).fastRing().endWithThisJvm(false);
        // Written after cassandra.yaml: if it is missing, a first start was interrupted, and with
        // the defaults of a single node this would be another node 1.
        if (!Files.exists(directory.jvmOptions()))
            config.address(address(number))
                    .jmxPort(FIRST_JMX_PORT + number - 1)
                    .seeds(List.of(address(1) + ":7000"))
                    .numTokens(4)
                    .heap(heap == null ? new HeapSize(512) : heap);
        NodeProcess node = new NodeProcess(config.build());
        node.start();
        node.awaitCql(BOOT);
        return "%s:%d (pid %d, log %s)"
                .formatted(node.address(), node.nativePort(), node.pid(), node.logFile());
    }

    private NodeTool tool(int number) {
        return new NodeTool(Distribution.fromSystemProperty(), directory(number));
    }

    @Override
    public NodeTool.Result nodetool(int number, String... arguments) {
        return tool(number).run(arguments);
    }

    @Override
    public int nodetoolInherited(int number, String... arguments) {
        return tool(number).runInherited(List.of(arguments));
    }

    @Override
    public void stop(int number) {
        PidFile pidFile = new PidFile(directory(number));
        ProcessHandle process = pidFile.live().orElse(null);
        if (process == null) return;
        if (!Processes.terminate(process, STOP))
            throw new NodeException(
                    "node %d (pid %d) has not ended in %d s"
                            .formatted(number, process.pid(), STOP.toSeconds()));
        pidFile.remove(process.pid());
    }

    @Override
    public void noteLeft(int number) {
        WholeFile.write(note(number), "");
    }

    @Override
    public List<Integer> left() {
        return numbers("left-node(\\d{1,3})");
    }

    /** Beside the node's directory, and so there until that is gone. */
    private Path note(int number) {
        return dir.resolve("left-node" + number);
    }

    /** The lock file is the first that a start makes; others have directories of that name, too. */
    @Override
    public void checkDeletable(int number) {
        Path root = dir.resolve("node" + number);
        if (!Files.exists(root, LinkOption.NOFOLLOW_LINKS)) return;
        if (Files.isDirectory(root, LinkOption.NOFOLLOW_LINKS)
                && (Files.exists(directory(number).lockFile()) || children(root).isEmpty())) return;
        throw new NodeException(
                root
                        + " is no directory of a node that petra has started, as it has no file "
                        + directory(number).lockFile().getFileName()
                        + " or is a link: nothing is deleted. Move it away, or delete it yourself");
    }

    private static List<Path> children(Path directory) {
        try (Stream<Path> children = Files.list(directory)) {
            return children.toList();
        } catch (IOException e) {
            throw new NodeException("cannot list " + directory + ": " + e, e);
        }
    }

    @Override
    public void delete(int number) {
        checkDeletable(number);
        NodeDirectory directory = directory(number);
        try {
            if (Files.exists(directory.root())) {
                // The lock file last: what an interrupted deletion leaves is known by it.
                for (Path child : children(directory.root()))
                    if (!child.equals(directory.lockFile())) FileTree.delete(child);
                FileTree.delete(directory.root());
            }
            Files.deleteIfExists(note(number));
        } catch (IOException e) {
            throw new NodeException("cannot delete " + note(number) + ": " + e, e);
        }
    }

    @Override
    public void deleteRest() {
        left().forEach(this::delete);
        try {
            Files.deleteIfExists(dir);
        } catch (IOException e) {
            throw new NodeException("cannot delete " + dir + ": " + e, e);
        }
    }

    @Override
    public String log(int number) {
        return directory(number).systemLog().toString();
    }
}
