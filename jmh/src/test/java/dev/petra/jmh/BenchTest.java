// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
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
                "--quick --full | mutually exclusive",
                "--operation=openLoop --level=spi | needs 'mixed'",
                "--level=cluster | belong together",
                "--total-memory=1024 --heap=1024 | too little for a heap of 1024 MiB",
                "--total-memory=4096 --level=client --workload=stream | --total-memory is of one"
                        + " node",
                "--total-memory=4096 --level=client --workload=tables | --total-memory is of one"
                        + " node",
                "--level=client --operation=openLoop,mixed | needs 'mixed' before it",
                "--level=client --warmups=1 | belong to --live",
                "--live --level=client --unequal-memory --seed=5 | --seed is not of --live",
                "--live --level=client --unequal-memory --warmups=-1 | must be 0 at least",
                "--live --level=client --unequal-memory --total-memory=4096 | same for all",
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

    @Test
    void earlierResultsAreNotWrittenOver() throws IOException {
        Path results = Files.writeString(directory.resolve("results.json"), "mine");
        assertThat(refusal("--out=" + directory)).contains("has results already");
        assertThat(results).hasContent("mine");
    }
}
