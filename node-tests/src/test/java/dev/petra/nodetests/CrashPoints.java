// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.crash.CrashAgent;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import net.bytebuddy.ByteBuddy;

/** Methods of a node at which it can be ended as by kill -9, or a thread of it held. */
final class CrashPoints {
    static final String OURS = "dev.petra.cassandra.";
    static final String CFS = "org.apache.cassandra.db.ColumnFamilyStore";

    /** How many are tried in a run, of each list; all with a large number. */
    private static final int TRIED = Integer.getInteger("petra.crash.points", 6);

    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    private final List<String> points;
    private final Path jar;
    private final Path armed;
    private final Path held;

    /**
     * @param directory for the agent and what it is told
     * @param points {@code <class>#<method>}
     */
    CrashPoints(Path directory, List<String> points) throws IOException, URISyntaxException {
        this.points = points;
        this.jar = directory.resolve("crash.jar");
        this.armed = directory.resolve("crash.at");
        this.held = directory.resolve("crash.at.held");
        AgentJar.pack(
                jar,
                CrashAgent.class,
                Map.of(CrashAgent.class, "dev/petra/nodetests/crash/", ByteBuddy.class, "net/"),
                Map.of());
    }

    /** Some of them, others in each run, with the seed printed. */
    static List<String> sample(List<String> all) {
        System.out.println("Crashes: -Dpetra.seed=" + SEED + " -Dpetra.crash.points=" + TRIED);
        List<String> mixed = new ArrayList<>(all);
        Collections.shuffle(mixed, new Random(SEED));
        List<String> tried = mixed.subList(0, Math.min(TRIED, mixed.size()));
        System.out.println("Crashes: " + tried);
        return tried;
    }

    /** A node that can be ended at them. */
    NodeConfig.Builder in(NodeConfig.Builder options, String... jvm) {
        String[] all = new String[jvm.length + 2];
        System.arraycopy(jvm, 0, all, 2, jvm.length);
        all[0] = "-javaagent:" + jar + "=" + String.join(" ", points);
        all[1] = "-Dcrash.at=" + armed;
        return options.jvmOptions(all);
    }

    /**
     * From now on the node ends where it enters or leaves a method, once.
     *
     * @param when {@code enter} or {@code leave}
     * @param method the end of one of the points
     */
    void arm(String when, String method) throws IOException {
        choose(when + " " + point(method));
    }

    private String point(String method) {
        List<String> found = points.stream().filter(point -> point.endsWith(method)).toList();
        assertThat(found).describedAs(method).hasSize(1);
        return found.get(0);
    }

    /** At once and not by half: the node looks at any time. */
    private void choose(String what) throws IOException {
        Path next = armed.resolveSibling("crash.next");
        Files.writeString(next, what);
        Files.move(next, armed, StandardCopyOption.ATOMIC_MOVE);
    }

    /**
     * From now on threads of the node stay where they enter or leave a method, until another is
     * chosen or {@link #release}. Those that are held elsewhere go on.
     */
    void hold(String when, String method) throws IOException {
        Files.deleteIfExists(held);
        choose("hold " + when + " " + point(method));
    }

    /** Waits until a thread is held there. */
    void awaitHeld() throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        while (!Files.exists(held) && System.nanoTime() < deadline) TimeUnit.MILLISECONDS.sleep(20);
        assertThat(held).describedAs("where the node should be held").exists();
    }

    /** Lets go whatever is held. */
    void release() throws IOException {
        Files.deleteIfExists(armed);
        Files.deleteIfExists(held);
    }

    /** Waits until the node has ended there. */
    void awaitCrash(TestNode node) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
        while (node.process().isAlive() && System.nanoTime() < deadline)
            TimeUnit.MILLISECONDS.sleep(20);
        assertThat(armed).describedAs("where the node should have ended").doesNotExist();
        assertThat(node.process().isAlive()).isFalse();
    }
}
