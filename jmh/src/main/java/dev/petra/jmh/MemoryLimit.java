// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A control group of Linux that bounds the memory of the processes in it, the pages of files
 * included that they read and write: data larger than that comes from disk. It is there for a whole
 * comparison, so that no process finds pages that another one was not charged for.
 *
 * <p>Needs root, and control groups of either version that this process may change.
 */
record MemoryLimit(Path group) implements Closeable {
    private static final Path MOUNTED = Path.of("/sys/fs/cgroup");

    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

    /** How often the system is asked at most to forget what there is. */
    private static final int RECLAIMS = 5;

    /** Where a process enters. */
    private static final String PROCESSES = "cgroup.procs";

    /** This machine has no such groups, or this process may not make one. */
    static final class NoLimitException extends IOException {
        private static final long serialVersionUID = 1;

        NoLimitException(String message, @Nullable IOException cause) {
            super(message, cause);
        }
    }

    /**
     * Makes one.
     *
     * @throws NoLimitException if there can be none; the message says what else can be done
     */
    static MemoryLimit create(long bytes) throws IOException {
        return create("node", bytes);
    }

    /** The same, one of several of this process. */
    static MemoryLimit create(String of, long bytes) throws IOException {
        return create(MOUNTED, Owner.mine().prefix() + of, bytes);
    }

    /** The same, with control groups mounted elsewhere. */
    static MemoryLimit create(Path mounted, String name, long bytes) throws IOException {
        // Version 1 has a tree for memory alone.
        Path first = mounted.resolve("memory");
        boolean isFirst = Files.exists(first.resolve("memory.limit_in_bytes"));
        if (!isFirst && !controlsMemory(mounted))
            throw new NoLimitException(
                    mounted
                            + " has no control group of memory whose children can be limited. Leave"
                            + " '--total-memory' out, or limit the memory of containers:"
                            + " '--docker'.",
                    null);
        MemoryLimit limit = new MemoryLimit((isFirst ? first : mounted).resolve(name));
        try {
            Files.createDirectory(limit.group);
            limit.set(isFirst ? "memory.limit_in_bytes" : "memory.max", Long.toString(bytes));
            // What does not fit is to be read again, not swapped.
            limit.set(isFirst ? "memory.swappiness" : "memory.swap.max", "0");
        } catch (IOException e) {
            throw new NoLimitException(
                    "Memory cannot be limited in "
                            + limit.group
                            + ", which needs root. Leave '--total-memory' out, or run this as"
                            + " root.",
                    e);
        }
        return limit;
    }

    private static boolean controlsMemory(Path mounted) throws IOException {
        Path controllers = mounted.resolve("cgroup.subtree_control");
        return Files.exists(controllers)
                && (" " + Files.readString(controllers).strip() + " ").contains(" memory ");
    }

    private void set(String name, String value) throws IOException {
        Path file = group.resolve(name);
        // A kernel without swap has no such setting.
        if (name.contains("swap") && !Files.exists(file)) return;
        Files.writeString(file, value);
    }

    /**
     * A program that does what {@code java} does, in the group from its beginning.
     *
     * @param directory where it goes
     */
    Path java(Path directory) throws IOException {
        Path program = directory.resolve("java-in-group").toAbsolutePath();
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        Files.writeString(
                program,
                "#!/bin/sh\necho $$ > '%s' || exit 1\nexec '%s' \"$@\"\n"
                        .formatted(group.resolve(PROCESSES), java));
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwxr-xr-x"));
        return program;
    }

    /**
     * A command that enters the group, and there executes its further arguments in its own process.
     */
    List<String> entering() {
        return List.of(
                "sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", group.resolve(PROCESSES).toString());
    }

    /** Writes to a file of the system's. */
    interface Request {
        void write(Path file, String value) throws IOException;
    }

    /** Has the system forget what processes that have ended left in memory, as far as it can. */
    void forget() throws IOException {
        forget(Files::writeString);
    }

    void forget(Request request) throws IOException {
        Path first = group.resolve("memory.force_empty");
        Path second = group.resolve("memory.reclaim");
        boolean goesOn = !Files.exists(first) || asks(request, first, "0");
        for (int tries = 0; tries < RECLAIMS && goesOn && Files.exists(second); tries++) {
            String all = Files.readString(group.resolve("memory.current")).strip();
            goesOn = !all.equals("0") && asks(request, second, all);
        }
    }

    /** Whether all was forgotten that was asked for. */
    private static boolean asks(Request request, Path file, String value) {
        try {
            request.write(file, value);
            return true;
        } catch (IOException | RuntimeException e) {
            // There was less: EBUSY; or EAGAIN, of which Java makes a RuntimeException.
            return false;
        }
    }

    /** The bytes of files that the group has in memory. */
    long pageCache() throws IOException {
        return statistic("cache ", "file ");
    }

    /** The bytes that the group has in memory besides: heap, and what is allocated beside it. */
    long anonymous() throws IOException {
        return statistic("rss ", "anon ");
    }

    private long statistic(String first, String second) throws IOException {
        for (String line : Files.readAllLines(group.resolve("memory.stat")))
            // Its name in the first version, and in the second.
            if (line.startsWith(first) || line.startsWith(second))
                return Long.parseLong(line.substring(line.indexOf(' ') + 1).strip());
        throw new IOException(group.resolve("memory.stat") + " has no '" + first.strip() + "'");
    }

    /** The groups that there are of benchmarks. */
    static List<MemoryLimit> all() throws IOException {
        return all(MOUNTED);
    }

    /** The same, with control groups mounted elsewhere. */
    static List<MemoryLimit> all(Path mounted) throws IOException {
        Path first = mounted.resolve("memory");
        try (Stream<Path> groups = Files.list(Files.isDirectory(first) ? first : mounted)) {
            return groups.filter(group -> Owner.of(group.getFileName().toString()).isPresent())
                    .map(MemoryLimit::new)
                    .toList();
        }
    }

    /** The processes in it. */
    List<Long> processes() throws IOException {
        return Files.readAllLines(group.resolve(PROCESSES)).stream().map(Long::valueOf).toList();
    }

    /** Removes the group, whose processes have ended; the system takes a moment to notice. */
    @Override
    public void close() throws IOException {
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (true)
            try {
                Files.deleteIfExists(group);
                return;
            } catch (FileSystemException e) {
                if (System.nanoTime() - end >= 0) throw e;
                LockSupport.parkNanos(LOOK_NANOS);
            }
    }
}
