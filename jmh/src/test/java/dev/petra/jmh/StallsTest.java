// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StallsTest {
    private static final Probe.Moment FROM =
            new Probe.Moment(
                    1000,
                    List.of(
                            new Probe.Counters(0, 10, 0, 0, 0, 5_000_000),
                            new Probe.Counters(5_000, 0, 0, 0, 0, 0)));
    private static final Probe.Moment TO =
            new Probe.Moment(
                    2000,
                    List.of(
                            new Probe.Counters(100_000, 30, 50, 40, 1 << 20, 35_000_000),
                            new Probe.Counters(305_000, 100, 0, 0, 2 << 20, 0)));

    @TempDir Path directory;

    private Map<String, Double> figures(int processes) throws IOException {
        Files.writeString(
                directory.resolve("safepoints.log"),
                """
                [1500ms] Safepoint "G1CollectForAllocation", Reaching safepoint: 20000000 ns, Total: 50000000 ns
                [1600ms] Allocation Stall (MutationStage-2) 7.500ms
                [1600ms] Allocation Stall (ReadStage-1) 12.500ms
                [2600ms] Allocation Stall (ReadStage-1) 1000.000ms
                """);
        Probe probe = new Probe(List.of(new Probe.Watched(1, directory)));
        if (processes == 2) {
            Path still = Files.createDirectory(directory.resolve("still"));
            Files.createFile(still.resolve("safepoints.log"));
            probe =
                    new Probe(
                            List.of(new Probe.Watched(1, directory), new Probe.Watched(2, still)));
        }
        return Stalls.figures(probe, FROM, TO, 10).stream()
                .collect(Collectors.toMap(Stalls.Value::metric, Stalls.Value::value));
    }

    @Test
    void nodesAreTakenTogetherAndApart() throws IOException {
        assertThat(figures(2))
                .containsEntry("allocation stalls, all threads", 20.0)
                .containsEntry("longest allocation stall", 12.5)
                // 50 ms of safepoints, 12.5 of two threads at once, 30 without writes.
                .containsEntry("stall", 4.625)
                .containsEntry("safepoints", 2.5)
                .containsEntry("longest pause", 50.0)
                .containsEntry("longest time to a safepoint", 20.0)
                .containsEntry("write stalls", 1.5)
                .containsEntry("stall for a request", 9_250.0)
                .containsEntry("stall of node 1", 9.25)
                .containsEntry("stall of node 2", 0.0)
                .containsEntry("cpu", 40.0)
                .containsEntry("cpu of node 1", 10.0)
                .containsEntry("cpu of node 2", 30.0)
                .containsEntry("disk read", 12.0)
                .containsEntry("disk read of node 1", 2.0)
                .containsEntry("disk written of node 1", 4.0)
                .containsEntry("disk written of node 2", 0.0)
                .containsEntry("resident", 3.0)
                .containsEntry("resident of node 2", 2.0);
    }

    @Test
    void ofOneThereIsNothingToTakeApart() throws IOException {
        assertThat(figures(1)).doesNotContainKeys("stall of node 1", "cpu of node 1");
    }
}
