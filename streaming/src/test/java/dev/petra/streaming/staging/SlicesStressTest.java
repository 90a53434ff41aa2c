// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.streaming.ChildJvm;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Runs jcstress: in one kind of JVM, or for long in all that it knows. */
class OutgoingSliceStressTest {
    private static final boolean LONG = Boolean.getBoolean("petra.stream.stress.long");

    @TempDir Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void theLastSliceThatIsFinishedReleasesTheStoreOnce() throws Exception {
        List<String> program =
                new ArrayList<>(
                        List.of(
                                "org.openjdk.jcstress.Main",
                                "-t",
                                OutgoingSliceStress.class.getName(),
                                "-r",
                                directory.resolve("results").toString()));
        program.addAll(
                LONG
                        ? List.of("-m", "default")
                        : List.of("-m quick -sc false -af NONE -jvmArgs -Xmx256m -f 1".split(" ")));
        String said =
                ChildJvm.run(directory, Duration.ofHours(LONG ? 2 : 0).plusMinutes(4), program);
        assertThat(said)
                .contains("Failed tests: No matches", "Error tests: No matches")
                .contains("All remaining tests: 1 matching");
    }
}
