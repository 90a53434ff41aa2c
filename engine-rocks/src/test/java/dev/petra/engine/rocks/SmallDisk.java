// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Path;

/** A tmpfs of its own, which can be filled. Without the right to mount one the test is skipped. */
public final class SmallDisk implements AutoCloseable {
    private final Path directory;

    private SmallDisk(Path directory) {
        this.directory = directory;
    }

    /**
     * Mounts one over a directory.
     *
     * @param size as {@code mount} takes it
     */
    public static SmallDisk mount(Path directory, String size) throws IOException {
        boolean mounted =
                run("mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", directory + "") == 0;
        if (!mounted) System.err.println("SKIPPED: no right to mount a tmpfs at " + directory);
        assumeTrue(mounted, "no right to mount a tmpfs");
        return new SmallDisk(directory);
    }

    public Path directory() {
        return directory;
    }

    private static int run(String... command) throws IOException {
        return new ProcessBuilder(command).inheritIO().start().onExit().join().exitValue();
    }

    /** Also while a process has files open there. */
    @Override
    public void close() throws IOException {
        if (run("umount", "-l", directory.toString()) != 0)
            throw new IOException(directory + " is still mounted");
    }
}
