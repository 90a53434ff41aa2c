// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.petra.launcher.Processes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProcessTargetTest {
    @TempDir Path directory;

    @Test
    void ofFilesThatAreForgottenNothingIsInMemory() throws IOException {
        Path file = Files.createDirectory(directory.resolve("a b")).resolve("it's");
        Files.write(file, new byte[1 << 20]);
        Quiet.sync();
        long before = inMemory(file);
        ProcessTarget.forget(directory);
        long after = inMemory(file);
        assertThat(file).hasBinaryContent(new byte[1 << 20]);
        assumeTrue(before > 0, "no fincore here, which tells");
        assumeTrue(!Files.getFileStore(file).type().equals("tmpfs"), "files are in memory only");
        assertThat(after).isZero();
    }

    /** Bytes; 0 if the program is missing that tells. */
    private static long inMemory(Path file) {
        if (!Files.isExecutable(Path.of("/usr/bin/fincore"))) return 0;
        List<String> command = List.of("fincore", "-b", "-n", "-o", "RES", file.toString());
        return Long.parseLong(Processes.run("fincore", command).output().strip());
    }

    @Test
    void whatCannotBeForgottenIsNamed() {
        Path none = directory.resolve("none");
        assertThatThrownBy(() -> ProcessTarget.forget(none))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining(none.toString())
                .hasMessageContaining("coreutils");
    }
}
