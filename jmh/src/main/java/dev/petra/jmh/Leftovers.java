// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import dev.petra.launcher.ContainerNodes;
import dev.petra.launcher.Processes;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;

/**
 * What a comparison leaves that was killed: nodes and other JVMs, control groups, and containers
 * with their volumes and networks.
 */
final class Leftovers {
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(20);
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final Predicate<Owner> whose;

    /** What was ended and removed, for messages. */
    private final List<String> ended = new ArrayList<>();

    private Leftovers(Predicate<Owner> whose) {
        this.whose = whose;
    }

    /**
     * Ends and removes everything of certain comparisons.
     *
     * @param docker also what Docker has, which it needs root or a group for
     * @return what, for messages
     */
    static List<String> remove(Predicate<Owner> whose, boolean docker) throws IOException {
        Leftovers leftovers = new Leftovers(whose);
        leftovers.endProcesses();
        leftovers.removeGroups();
        if (docker) leftovers.removeContainers();
        return leftovers.ended;
    }

    /**
     * Nothing of this comparison outlives it, if it is ended (Ctrl-C, SIGTERM) or fails. What a
     * SIGKILL leaves, the next one ends, as this one does first.
     *
     * @param docker as in {@link #remove}
     * @return to be removed when nothing is left
     */
    static Thread endWithThisJvm(boolean docker, PrintWriter console, PrintWriter errors)
            throws IOException {
        remove(Owner::isDead, docker)
                .forEach(what -> console.println("left by a run that was killed, ended: " + what));
        Owner mine = Owner.mine();
        Thread hook =
                new Thread(
                        () -> {
                            try {
                                List<String> unused = remove(mine::equals, docker);
                            } catch (IOException | RuntimeException e) {
                                errors.println("petra: not all was ended: " + e);
                            }
                        },
                        "end-bench");
        Runtime.getRuntime().addShutdownHook(hook);
        return hook;
    }

    private void endProcesses() throws IOException {
        try (DirectoryStream<Path> processes =
                Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path process : processes) {
                Optional<Owner> owner = Owner.of(arguments(process));
                if (owner.filter(whose).isPresent() && isOurs(process))
                    end(Long.parseLong(process.getFileName().toString()));
            }
        }
    }

    /** Another user's is for that user's next run. */
    private static boolean isOurs(Path what) {
        try {
            return Files.getOwner(what).equals(Files.getOwner(Path.of("/proc/self")));
        } catch (IOException e) {
            return false; // it has ended
        }
    }

    /** None of a process that has ended, or of no Java. */
    private static List<String> arguments(Path process) {
        try {
            List<String> arguments =
                    List.of(
                            Files.readString(process.resolve("cmdline"), ISO_8859_1)
                                    .split("\0", -1));
            return arguments.get(0).endsWith("java") ? arguments : List.of();
        } catch (IOException e) {
            return List.of();
        }
    }

    private void end(long pid) throws IOException {
        Optional<ProcessHandle> process = ProcessHandle.of(pid);
        if (process.isEmpty()) return;
        if (process.get().destroyForcibly()) ended.add("process " + pid);
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (process.get().isAlive() && !isZombie(pid)) {
            if (System.nanoTime() - end >= 0) throw new IOException("process " + pid + " lives on");
            LockSupport.parkNanos(LOOK_NANOS);
        }
    }

    private static boolean isZombie(long pid) {
        try {
            String stat = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
            return stat.substring(stat.lastIndexOf(')')).startsWith(") Z");
        } catch (IOException e) {
            return true; // it has ended
        }
    }

    private void removeGroups() throws IOException {
        for (MemoryLimit group : MemoryLimit.all()) {
            String name = group.group().getFileName().toString();
            if (Owner.of(name).filter(whose).isEmpty() || !isOurs(group.group())) continue;
            for (long pid : group.processes()) end(pid);
            group.close();
            ended.add("control group " + name);
        }
    }

    private void removeContainers() {
        Set<String> clusters = new LinkedHashSet<>();
        for (List<String> list :
                List.of(
                        List.of("docker", "ps", "--all", "--format", "{{.Names}}"),
                        List.of("docker", "volume", "ls", "--format", "{{.Name}}"),
                        List.of("docker", "network", "ls", "--format", "{{.Name}}")))
            Processes.run("docker, which must be on PATH", list)
                    .output()
                    .lines()
                    .filter(name -> Owner.of(name).filter(whose).isPresent())
                    // A node's, and the cluster's.
                    .map(name -> name.replaceFirst("-node\\d+$", ""))
                    .forEach(clusters::add);
        for (String cluster : clusters) {
            new ContainerNodes(cluster, "", number -> List.of()).deleteAll();
            ended.add("containers " + cluster);
        }
    }
}
