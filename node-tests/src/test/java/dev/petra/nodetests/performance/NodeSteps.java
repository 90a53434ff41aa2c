// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.nodetests.fixture.TestNode;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** Steps of a test that print how long they took, and how much memory nodes had at most. */
final class NodeSteps {
    private final String test;
    private final int mostMib;
    private final Map<String, TestNode> nodes = new ConcurrentHashMap<>();

    /**
     * @param mostMib that a node may have resident
     */
    NodeSteps(String test, int mostMib) {
        this.test = test;
        this.mostMib = mostMib;
    }

    interface Step {
        void run() throws Exception;
    }

    void watch(String name, TestNode node) {
        nodes.put(name, node);
    }

    void run(String name, Step step) throws Exception {
        Map<String, Long> most = new ConcurrentHashMap<>();
        ScheduledExecutorService sampler = Executors.newSingleThreadScheduledExecutor();
        ScheduledFuture<?> samples =
                sampler.scheduleWithFixedDelay(
                        () ->
                                nodes.forEach(
                                        (node, process) ->
                                                most.merge(node, residentMib(process), Math::max)),
                        0,
                        100,
                        TimeUnit.MILLISECONDS);
        long begun = System.nanoTime();
        try {
            step.run();
        } finally {
            assertThat(samples.isDone()).isFalse(); // else a sample failed
            sampler.shutdown();
        }
        System.out.printf(
                Locale.ROOT,
                "%s: %s: %.1f s, at most resident in MiB: %s%n",
                test,
                name,
                (System.nanoTime() - begun) / 1e9,
                new TreeMap<>(most));
        assertThat(most.values())
                .as(name)
                .isNotEmpty()
                .allSatisfy(mib -> assertThat(mib).isLessThan(mostMib));
    }

    /** Without pages of files that are mapped, as Cassandra's own storage has them. */
    private static long residentMib(TestNode node) {
        return NodeMetrics.mebibytes(node, "RssAnon");
    }
}
