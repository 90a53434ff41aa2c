// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Bounds what the blocks of streams that are larger than {@link SliceWriter#BLOCK} take of direct
 * memory. Those that come and those that go share nothing: two nodes that send to each other would
 * wait for each other. Thread-safe.
 */
public final class BlockMemory {
    private static final int UNIT = 1 << 20;
    private static final long LOOK_MILLIS = 100;

    /** For what a process receives. */
    public static final BlockMemory INCOMING = ofProcess();

    /** For what a process sends. */
    public static final BlockMemory OUTGOING = ofProcess();

    private final Semaphore free;
    private final Duration patience;

    /**
     * @param mebibytes how much there is
     * @param patience how long somebody waits for it
     */
    public BlockMemory(int mebibytes, Duration patience) {
        this.free = new Semaphore(mebibytes, true);
        this.patience = patience;
    }

    private static BlockMemory ofProcess() {
        long bytes = Math.max(SliceWriter.MAX_BLOCK, limit() / 4);
        return new BlockMemory((int) (bytes / UNIT), Duration.ofMinutes(5));
    }

    /** Asked while somebody waits. */
    @FunctionalInterface
    public interface Wanted {
        /** Throws if the wait is of no use any more. */
        void check() throws IOException;
    }

    /**
     * Waits until there is room for a block. {@link #release} gives it back.
     *
     * @param wanted asked several times a second while this waits
     * @throws IOException if others hold the memory for longer than the patience
     */
    public void acquire(int bytes, Wanted wanted) throws IOException {
        long end = System.nanoTime() + patience.toNanos();
        try {
            // The first time at once, but not before those who wait.
            for (long wait = 0;
                    !free.tryAcquire(units(bytes), wait, TimeUnit.MILLISECONDS);
                    wait = LOOK_MILLIS) {
                wanted.check();
                if (System.nanoTime() - end > 0)
                    throw new IOException(
                            ("Other streams held the memory that a block of %d MiB needs for %s."
                                            + " Repeat the operation that streams when there are"
                                            + " fewer streams.")
                                    .formatted(units(bytes), patience));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while waiting for memory");
        }
    }

    /** Gives back what {@link #acquire} took for as many bytes. */
    public void release(int bytes) {
        free.release(units(bytes));
    }

    /** How many MiB nobody holds. */
    public int freeMebibytes() {
        return free.availablePermits();
    }

    private static int units(int bytes) {
        return (int) (((long) bytes + UNIT - 1) / UNIT);
    }

    /** The limit of direct memory: without {@code -XX:MaxDirectMemorySize}, as much as of heap. */
    private static long limit() {
        long told =
                Long.parseLong(
                        ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class)
                                .getVMOption("MaxDirectMemorySize")
                                .getValue());
        return told > 0 ? told : Runtime.getRuntime().maxMemory();
    }

    /** Makes a buffer. */
    @FunctionalInterface
    public interface Allocator {
        ByteBuffer allocate(int bytes) throws IOException;
    }

    /**
     * Allocates direct memory for a block. Leaves the JVM's error out if there is none: Cassandra
     * ends the process where it finds that among the causes.
     *
     * @throws IOException if there is none, or of the allocator
     */
    @SuppressWarnings("UnusedException")
    public static ByteBuffer allocate(int bytes, Allocator by) throws IOException {
        try {
            return by.allocate(bytes);
        } catch (OutOfMemoryError e) {
            throw new IOException(
                    ("There is no direct memory for a block of %d bytes of a stream (%s). Raise"
                                    + " -XX:MaxDirectMemorySize, which is %d.")
                            .formatted(bytes, e.getMessage(), limit()));
        }
    }
}
