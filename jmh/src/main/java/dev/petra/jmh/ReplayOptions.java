// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.nio.file.Path;
import java.util.List;
import picocli.CommandLine.Option;

/** The options of the command line: which log is asked again, of what, and how fast. */
final class ReplayOptions extends NodeOptions {
    private static final int IN_FLIGHT = 32;
    static final int MOST_IN_FLIGHT = 256;

    /** Percent: a JVM is slow until it has compiled what it runs, and a log may be short. */
    private static final int WARMUP = 20;

    @Option(
            names = "--log",
            required = true,
            paramLabel = "DIR",
            description =
                    "A node's full query log or audit log; of an audit log that is a text, also a"
                            + " file. Once for each node.")
    List<Path> logs = List.of();

    @Option(
            names = "--snapshot",
            paramLabel = "DIR",
            description =
                    "A table as it was when the log began: data/KEYSPACE/TABLE-ID/snapshots/TAG of"
                            + " one node. Once for each table.")
    List<Path> snapshots = List.of();

    @Option(
            names = "--schema",
            paramLabel = "FILE",
            description = "Tables that were empty then, as DESCRIBE prints them.")
    List<Path> schemas = List.of();

    @Option(
            names = "--engine",
            split = ",",
            description =
                    "rocks, legacy, legacy-latest, legacy-latest-cache, legacy-latest-mmap"
                            + " (default: ${DEFAULT-VALUE}). The answers of the first two are"
                            + " compared.")
    List<String> engines = List.of("rocks", "legacy-latest");

    @Option(
            names = "--speed",
            description =
                    "1 for the log's own, 2 for twice as fast (default: ${DEFAULT-VALUE}); 0 for"
                            + " as fast as the engine answers "
                            + IN_FLIGHT
                            + " at once.")
    double speed = 1;

    @Option(
            names = "--timed",
            description = "How many requests are timed, from the first (default: all). 0 for none.")
    long timed = Long.MAX_VALUE;

    @Option(
            names = "--compared",
            description =
                    "How many requests are compared, from the first (default: all). 0 for none.")
    long compared = Long.MAX_VALUE;

    @Option(
            names = "--warmup",
            paramLabel = "PERCENT",
            description =
                    "The first of the requests that are timed, which only warm up (default:"
                            + " ${DEFAULT-VALUE}).")
    int warmup = WARMUP;

    @Option(names = "--rounds", description = "How often engines are timed in turns (default: 1).")
    int rounds = 1;

    @Option(names = "--gc", description = "G1 or ZGC (default: ${DEFAULT-VALUE}).")
    String gc = "G1";

    @Option(names = "--out", description = "Where the results go (default: ${DEFAULT-VALUE}).")
    Path out = Path.of("replay-results");

    /** How many requests are under way at most. */
    int inFlight() {
        return speed > 0 ? MOST_IN_FLIGHT : IN_FLIGHT;
    }

    /** Refuses numbers that are too small, or too large. */
    void checkNumbers() {
        if (speed < 0 || rounds < 1 || timed < 0 || compared < 0)
            throw wrong("--speed, --timed and --compared are 0 or more, --rounds 1 or more");
        if (timed == 0 && compared == 0)
            throw wrong("nothing to do: --timed and --compared are both 0");
        if (warmup < 0 || warmup > 99) throw wrong("--warmup is of 0 to 99 percent");
        checkMemory();
    }
}
