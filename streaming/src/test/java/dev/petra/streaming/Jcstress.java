// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Collectors;

/** Runs jcstress in a process of its own. */
public final class Jcstress {
    private static final boolean LONG = Boolean.getBoolean("petra.stress.long");
    private static final String SHORT = "-m quick -sc false -af NONE -jvmArgs -Xmx256m -f 1";

    private Jcstress() {}

    /**
     * Runs tests to their end, in one kind of JVM, or for long in all that jcstress knows; fails if
     * one of them saw what is forbidden. A run that draws its variants has each second of several.
     *
     * @param directory for what it writes
     */
    public static void run(Path directory, Class<?>... all)
            throws IOException, InterruptedException {
        List<Class<?>> tests = drawn(all);
        List<String> program = new ArrayList<>(List.of("org.openjdk.jcstress.Main"));
        program.add("-t");
        program.add(tests.stream().map(Class::getName).collect(Collectors.joining("|")));
        program.add("-r");
        program.add(directory.resolve("results").toString());
        program.addAll(List.of((LONG ? "-m default" : SHORT).split(" ", 0)));
        Duration most = (LONG ? Duration.ofHours(2) : Duration.ofMinutes(4));
        String said = ChildJvm.run(directory, most.multipliedBy(tests.size()), program);
        assertThat(said)
                .contains("Failed tests: No matches", "Error tests: No matches")
                .contains("All remaining tests: " + tests.size() + " matching");
    }

    /** All, where nobody says that they are drawn: {@code mvn} does. */
    private static List<Class<?>> drawn(Class<?>... all) {
        if (LONG || all.length == 1 || !System.getProperty("petra.variants", "all").equals("drawn"))
            return List.of(all);
        long seed = Long.getLong("petra.seed", System.getProperty("petra.run", "").hashCode());
        int first = new SplittableRandom(seed).nextInt(2);
        List<Class<?>> drawn = new ArrayList<>();
        for (int i = first; i < all.length; i += 2) drawn.add(all[i]);
        System.out.println("jcstress: " + drawn + ", drawn by -Dpetra.seed=" + seed);
        return drawn;
    }
}
