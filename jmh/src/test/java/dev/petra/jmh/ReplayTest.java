// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

/** What is wrong is told before a node is started. */
class ReplayTest {
    @TempDir Path directory;
    private Path schema;

    @BeforeEach
    void schema() throws IOException {
        schema =
                Files.writeString(
                        directory.resolve("s.cql"), "CREATE TABLE ks.t (k int PRIMARY KEY)");
    }

    private String refusal(int code, String arguments) {
        Path out = directory.resolve("out");
        StringWriter told = new StringWriter();
        CommandLine command = Replay.command();
        command.setErr(new PrintWriter(told));
        String line =
                arguments.replace("DIR", directory.toString()).replace("SCHEMA", schema.toString());
        assertThat(command.execute((line + " --out=" + out).split(" "))).isEqualTo(code);
        assertThat(out).doesNotExist();
        return told.toString();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "--schema=SCHEMA | Missing required option: '--log=DIR'",
                "--log=DIR | no tables: --snapshot or --schema",
                "--log=DIR --snapshot=DIR | is no snapshot of a table",
                "--log=DIR --schema=DIR/none.cql | cannot read",
                "--log=DIR --schema=SCHEMA --engine=quick | no engine 'quick'",
                "--log=DIR --schema=SCHEMA --engine=bare,rocks | 'bare' is no node",
                "--log=DIR --schema=SCHEMA --engine=rocks,rocks-woven | is for 'petra bench'",
                "--log=DIR --schema=SCHEMA --engine=legacy-latest-shadow | is for 'petra bench'",
                "--log=DIR --schema=SCHEMA --engine=legacy-latest-fallback | is for 'petra bench'",
                "--log=DIR --schema=SCHEMA --engine=rocks | answers of two engines",
                "--log=DIR --schema=SCHEMA --gc=serial | no collector 'serial'",
                "--log=DIR --schema=SCHEMA --speed=-1 | 0 or more",
                "--log=DIR --schema=SCHEMA --warmup=100 | 0 to 99 percent",
                "--log=DIR --schema=SCHEMA --total-memory=900 | too little for a heap of 1024"
            })
    void aWrongCommandLineIsRefused(String arguments, String told) {
        assertThat(refusal(2, arguments)).contains(told);
    }

    @Test
    void nothingToDoIsRefused() {
        assertThat(refusal(2, "--log=DIR --schema=SCHEMA --timed=0 --compared=0"))
                .contains("--timed and --compared are both 0");
    }

    @Test
    void aDirectoryWithoutALogIsRefused() {
        assertThat(refusal(1, "--log=DIR --schema=SCHEMA"))
                .contains("has no full query log", "nodetool enablefullquerylog");
        assertThat(refusal(1, "--log=DIR/none --schema=SCHEMA")).contains("cannot read");
    }

    @Test
    void aLogWithoutTheValuesOfItsRequestsIsRefused() throws IOException {
        String head = "user:u|host:/1.1.1.1:7000|source:/1.1.1.1|timestamp:5|";
        Files.writeString(
                directory.resolve("audit.log"),
                head
                        + "type:SELECT|category:QUERY|ks:ks|operation:SELECT * FROM t WHERE k = ?\n"
                        + head
                        + "type:SELECT|category:QUERY|ks:ks|operation:SELECT * FROM u\n");
        assertThat(refusal(1, "--log=DIR --schema=SCHEMA"))
                .contains(
                        "no request of the log can be asked",
                        "1 of tables that are not given; 1 with values that are not in the log",
                        "nodetool enablefullquerylog");
    }

    @Test
    void earlierResultsAreNotWrittenOver() throws IOException {
        Path answers = Files.writeString(directory.resolve("answers.md"), "mine");
        StringWriter told = new StringWriter();
        CommandLine command = Replay.command();
        command.setErr(new PrintWriter(told));
        assertThat(
                        command.execute(
                                "--log=" + directory, "--schema=" + schema, "--out=" + directory))
                .isEqualTo(2);
        assertThat(told.toString()).contains("has results already");
        assertThat(answers).hasContent("mine");
    }
}
