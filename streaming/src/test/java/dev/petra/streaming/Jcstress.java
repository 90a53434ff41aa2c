// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Runs jcstress in a process of its own. */
public final class Jcstress {
    private static final boolean LONG = Boolean.getBoolean("petra.stress.long");
    private static final String SHORT = "-m quick -sc false -af NONE -jvmArgs -Xmx256m -f 1";

    private Jcstress() {}

    /**
     * Runs tests to their end, in one kind of JVM, or for long in all that jcstress knows; fails if
     * one of them saw what is forbidden.
     *
     * @param directory for what it writes
     */
    public static void run(Path directory, Class<?>... tests)
            throws IOException, InterruptedException {
        List<String> program = new ArrayList<>(List.of("org.openjdk.jcstress.Main"));
        program.add("-t");
        program.add(Arrays.stream(tests).map(Class::getName).collect(Collectors.joining("|")));
        program.add("-r");
        program.add(directory.resolve("results").toString());
        program.addAll(List.of((LONG ? "-m default" : SHORT).split(" ", 0)));
        Duration most = (LONG ? Duration.ofHours(2) : Duration.ofMinutes(4));
        String said = ChildJvm.run(directory, most.multipliedBy(tests.length), program);
        assertThat(said)
                .contains("Failed tests: No matches", "Error tests: No matches")
                .contains("All remaining tests: " + tests.length + " matching");
    }
}
