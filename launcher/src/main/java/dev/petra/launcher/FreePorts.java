// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/**
 * Chooses ports for the nodes of tests and benchmarks. A node binds its ports seconds after they
 * were chosen, and again after a restart. In between, a port is not taken
 *
 * <ul>
 *   <li>by an outgoing connection: the ports are below the range that the system uses for these;
 *   <li>by another process of this user that uses this class: each port is a byte of a file that
 *       this process keeps locked until it ends;
 *   <li>by another caller in this process: each port is returned once.
 * </ul>
 *
 * Thread-safe.
 */
public final class FreePorts {
    private static final int LOWEST = 10_000;

    /** The default of Linux for the first port of outgoing connections. */
    private static final int USUAL_EPHEMERAL = 32_768;

    private static final Path EPHEMERAL = Path.of("/proc/sys/net/ipv4/ip_local_port_range");

    /** Of {@link UserTemp}. */
    static final String FILE = "ports";

    /** Held until the process ends. */
    private static final List<FileLock> LOCKS = new ArrayList<>();

    /** Never closed: the system would release all locks that this process has on the file. */
    private static @Nullable FileChannel channel;

    private static final int LIMIT = firstEphemeral();
    private static int candidate = ThreadLocalRandom.current().nextInt(LOWEST, LIMIT);

    private FreePorts() {}

    /**
     * Returns a port that is free on the loopback interface, and that no other call on this machine
     * returns as long as this process lives.
     *
     * @throws IllegalStateException if there is none
     * @throws NodeException if the file of locks cannot be opened
     * @throws UncheckedIOException if it cannot be locked
     */
    public static synchronized int next() {
        for (int tries = LIMIT - LOWEST; tries > 0; tries--) {
            int port = candidate;
            candidate = port + 1 < LIMIT ? port + 1 : LOWEST;
            try {
                if (reserve(port) && isFree(port)) return port;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        throw new IllegalStateException(
                "no port between " + LOWEST + " and " + LIMIT + " is free on loopback");
    }

    /** For tests: sets the first port to try. */
    static synchronized void startAt(int port) {
        candidate = port;
    }

    private static boolean reserve(int port) throws IOException {
        FileChannel opened = channel == null ? UserTemp.open(FILE) : channel;
        channel = opened;
        try {
            FileLock lock = opened.tryLock(port, 1, false);
            return lock != null && LOCKS.add(lock);
        } catch (OverlappingFileLockException mine) {
            return false;
        }
    }

    private static boolean isFree(int port) throws IOException {
        try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
            return socket.isBound();
        } catch (BindException taken) {
            return false;
        }
    }

    private static int firstEphemeral() {
        try {
            String first = Files.readString(EPHEMERAL).strip().split("\\s+", -1)[0];
            // Some systems use nearly all ports for outgoing connections: a collision is possible
            // there.
            return Math.max(LOWEST + 10_000, Integer.parseInt(first));
        } catch (NoSuchFileException notLinux) {
            return USUAL_EPHEMERAL;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
