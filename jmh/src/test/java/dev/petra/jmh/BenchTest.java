// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class BenchTest {
    @TempDir Path directory;

    /** What a command line that must be refused is told. */
    private static String refusal(String... arguments) {
        StringWriter told = new StringWriter();
        CommandLine command = Bench.command();
        command.setErr(new PrintWriter(told));
        assertThat(command.execute(arguments)).isEqualTo(2);
        return told.toString();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "--workload=nothing | 'nothing' is none of",
                "--engine=quick | 'quick' is none of rocks",
                "--gc=serial | 'serial' is none of",
                "--yaml=concurrent_writes | --yaml must be name=value, not 'concurrent_writes'",
                "--docker --yaml=concurrent_writes=4 | --yaml is not for the nodes of --docker",
                "--quick --full | mutually exclusive",
                "--operation=openLoop --level=spi | needs 'mixed'",
                "--level=cluster | belong together",
                "--engine=rocks,rocks-woven --level=spi | is for the levels local and client",
                "--engine=rocks-woven --docker | is for the levels local and client",
                "--engine=legacy-latest-shadow --level=client | is for --live",
                "--engine=legacy-latest-fallback --level=client | is for --live",
                "--total-memory=1024 --heap=1024 | too little for a heap of 1024 MiB",
                "--total-memory=4096 --level=client --workload=stream | --total-memory is of one"
                        + " node",
                "--total-memory=4096 --level=client --workload=tables | --total-memory is of one"
                        + " node",
                "--level=client --operation=openLoop,mixed | needs 'mixed' before it",
                "--level=client --unequal-memory | belongs to --live",
                "--level=client --warmups=-1 | must be 0 at least",
                "--live --level=client --unequal-memory --total-memory=4096 | same for all",
                "--rates=10 --level=client | belongs to --live",
                "--live --level=client --unequal-memory --rates=0 | --rates must be 1 at least",
                "--live --level=client --unequal-memory --rates=30,30 | --rates has one twice",
                "--live --level=client --unequal-memory --rates=x | Invalid value for option"
                        + " '--rates'",
                "--clients=-1 --level=local | --clients must be 1 at least",
                "--clients=4 --level=client | --clients is for the levels spi and local",
                "--operation=restart --level=client | restart is for --live",
                "--live --level=client --unequal-memory --operation=restart,read | restart must be"
                        + " the last",
                "--live --level=local | --live is of the level client",
                "--live --level=client --workload=load --unequal-memory | no workload 'load'",
                "--live --level=client --workload=kv | have unequal memory",
                "--level=local --workload=stream | none of workloads [stream] is run at levels"
            })
    void whatIsWrongIsRefusedByName(String arguments, String told) {
        Path out = directory.resolve("out");
        assertThat(refusal((arguments + " --out=" + out).split(" "))).contains(told);
        assertThat(out).doesNotExist();
    }

    /** By chance, and the same again with the same seed. */
    @Test
    void enginesComeInAnotherOrderInEachRound() {
        List<Run> plan = new ArrayList<>();
        for (String operation : List.of("mixed", "openLoop"))
            for (Engine engine : Engine.values())
                plan.add(new Run("emp", Access.Level.SPI, "G1", operation, engine));
        Set<List<Run>> orders = new HashSet<>();
        for (int round = 1; round <= 20; round++) {
            List<Run> order = BenchPlan.shuffled(plan, 7, round);
            assertThat(order)
                    .containsExactlyInAnyOrderElementsOf(plan)
                    .isEqualTo(BenchPlan.shuffled(plan, 7, round));
            // What an open loop needs comes before it.
            assertThat(order.subList(0, plan.size() / 2))
                    .allSatisfy(run -> assertThat(run.operation()).isEqualTo("mixed"));
            orders.add(order);
        }
        assertThat(orders).hasSizeGreaterThan(10);
        assertThat(BenchPlan.shuffled(plan, 8, 1)).isNotEqualTo(BenchPlan.shuffled(plan, 7, 1));
    }

    /** Open loops of several rounds had the rate of the first round of mixed alone. */
    @Test
    void theRateOfOpenLoopsIsThatOfAllRoundsOfMixed() {
        List<Run> plan = new ArrayList<>();
        for (String workload : List.of("emp", "kv"))
            for (String operation : List.of("mixed", "openLoop"))
                for (Engine engine : List.of(Engine.ROCKS, Engine.LEGACY))
                    plan.add(new Run(workload, Access.Level.SPI, "G1", operation, engine));
        Figures figures = new Figures();
        List<BenchPlan.Turn> turns = BenchPlan.turns(plan, 7, 3);
        assertThat(turns).hasSize(24).doesNotHaveDuplicates();
        for (BenchPlan.Turn turn : turns) {
            Run run = turn.run();
            // The first round is an exception.
            double throughput =
                    (turn.round() == 1 ? 1000 : 300) + (run.engine() == Engine.ROCKS ? 0 : 1);
            if (run.operation().equals("mixed"))
                figures.add(run, "throughput", "ops/s", throughput);
            else assertThat(figures.rate(run)).isEqualTo(0.7 * 300);
        }
    }

    @Test
    void theChunkCacheIsAsLargeAsTheEnginesMemory() {
        assertThat(Engine.LEGACY_LATEST_CACHE.yaml(300))
                .containsAllEntriesOf(Engine.LEGACY_LATEST.yaml(300))
                .containsEntry("file_cache_enabled", true)
                .containsEntry("file_cache_size", "332MiB");
        assertThat(Engine.LEGACY_LATEST.yaml(300)).doesNotContainKey("file_cache_size");
    }

    @Test
    void asManyAskAtOnceAsIsSaidWhereTheEngineIsInTheirProcess() {
        for (Access.Level level : Access.Level.values()) {
            assertThat(level.clients(7)).isEqualTo(level.isRemote() ? 16 : 7);
            assertThat(level.clients(0))
                    .isEqualTo(level.isRemote() ? 16 : Runtime.getRuntime().availableProcessors());
        }
    }

    /** Without a word, rocks had --memory and the others had none. */
    @Test
    void ofUnequalMemoryTheSumsAreTold() {
        BenchOptions options = new BenchOptions();
        options.levels = List.of("local");
        options.engines = List.of("rocks", "legacy-latest", "legacy-latest-cache");
        BenchPlan plan = new BenchPlan(options);
        assertThat(plan.unequalMemory(plan.runs()))
                .isEqualTo(
                        "heap and beside it, rocks 1536 MiB, legacy-latest 1280 MiB,"
                                + " legacy-latest-cache 1792 MiB");
        options.totalMemory = 4096;
        assertThat(plan.unequalMemory(plan.runs())).isEmpty();
        options.totalMemory = 0;
        options.engines = List.of("rocks", "rocks-woven");
        assertThat(plan.unequalMemory(plan.runs())).isEmpty();
        options.memory = options.heap / 4;
        options.engines = List.of("rocks", "legacy-latest");
        assertThat(plan.unequalMemory(plan.runs())).isEmpty();
    }

    @Test
    void aLogThatKeepsWhatWasAcknowledgedIsAllThatDiffers() {
        Map<String, Object> expected = Engine.LEGACY_LATEST.yaml(300);
        expected.put("commitlog_disk_access_mode", "mmap");
        assertThat(Engine.LEGACY_LATEST_MMAP.yaml(300)).isEqualTo(expected);
    }

    @Test
    void ofWhatIsComparedOneHasAsMuchCacheAsTheEngine() {
        for (String level : List.of("spi", "local", "client")) {
            BenchOptions options = new BenchOptions();
            options.levels = List.of(level);
            options.operations = List.of("read");
            assertThat(new BenchPlan(options).runs())
                    .extracting(Run::engine)
                    .contains(Engine.LEGACY_LATEST, Engine.LEGACY_LATEST_CACHE)
                    .doesNotContain(Engine.LEGACY_LATEST_MMAP);
        }
    }

    @Test
    void earlierResultsAreNotWrittenOver() throws IOException {
        Path results = Files.writeString(directory.resolve("results.json"), "mine");
        assertThat(refusal("--out=" + directory)).contains("has results already");
        assertThat(results).hasContent("mine");
    }
}
