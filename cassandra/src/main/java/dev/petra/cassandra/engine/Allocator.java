// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds out which memory allocator the process has. An engine's memory is native, and glibc's
 * allocator keeps much more than is used, in an arena per thread.
 */
public final class Allocator {
    private static final Logger logger = LoggerFactory.getLogger(Allocator.class);
    private static final Path LIBRARIES = Path.of("/proc/self/maps");
    private static final List<String> GOOD = List.of("jemalloc", "tcmalloc", "mimalloc");

    private Allocator() {}

    /** Warns if native memory will grow beyond its budget. */
    public static void check() {
        try (Stream<String> libraries = Files.lines(LIBRARIES)) {
            String warning = warning(libraries, System.getenv("MALLOC_ARENA_MAX"));
            if (warning != null) logger.warn(warning);
        } catch (IOException e) {
            logger.info("Which memory allocator is in use cannot be told from {}", LIBRARIES, e);
        }
    }

    /**
     * What is to be said; null for nothing.
     *
     * @param libraries of the process, as in {@code /proc/self/maps}
     * @param arenas the environment's {@code MALLOC_ARENA_MAX}
     */
    static @Nullable String warning(Stream<String> libraries, @Nullable String arenas) {
        if (arenas != null || libraries.anyMatch(line -> GOOD.stream().anyMatch(line::contains)))
            return null;
        return "Native memory is allocated by the C library, which keeps much more of it than is"
                + " used. Install jemalloc, which Cassandra's start script preloads, or set"
                + " MALLOC_ARENA_MAX=2 in the node's environment.";
    }
}
