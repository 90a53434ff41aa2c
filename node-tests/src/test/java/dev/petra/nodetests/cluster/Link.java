// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * The only way of other nodes to one: a relay that listens on the address which that node says it
 * has ({@code broadcast_address}), passes everything on to where it really listens, and does so
 * badly when told to. Both directions of a connection suffer.
 */
final class Link implements AutoCloseable {
    /** What can be wrong with it. */
    enum Fault {
        /** Nothing. */
        NONE,
        /** Connections end, and no new one comes about. */
        CUT,
        /** {@value #SLOW} bytes a second for each connection. */
        SLOW,
        /** One bit in about {@value #CORRUPT} bytes is the other one. */
        CORRUPT
    }

    private static final int SLOW = 50_000;
    private static final int CORRUPT = 200_000;

    private final ServerSocket door;
    private final InetSocketAddress target;
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();
    private volatile Fault fault = Fault.NONE;

    /**
     * Listens from now on.
     *
     * @param address of the relay
     * @param target the address of the node
     * @param port of both
     */
    Link(String address, String target, int port) throws IOException {
        this.door = new ServerSocket(port, 100, InetAddress.getByName(address));
        this.target = new InetSocketAddress(target, port);
        daemon(this::accept);
    }

    /** From now on; connections that were corrupted end when that is over. */
    void set(Fault next) {
        Fault last = fault;
        fault = next;
        if (next == Fault.CUT || last == Fault.CORRUPT) open.forEach(Link::closeQuietly);
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "link");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!door.isClosed()) {
            try {
                Socket from = door.accept();
                daemon(() -> connect(from));
            } catch (IOException e) {
                // Closed, or a peer that is gone already.
            }
        }
    }

    private void connect(Socket from) {
        try {
            Socket to = new Socket();
            open.add(from);
            open.add(to);
            if (fault == Fault.CUT) throw new IOException("cut");
            to.connect(target);
            daemon(() -> relay(to, from));
            relay(from, to);
        } catch (IOException e) {
            // The node is down: its peers see a connection that ends.
            closeQuietly(from);
        }
    }

    private void relay(Socket from, Socket to) {
        byte[] buffer = new byte[16 << 10];
        Random random = new Random();
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int n; (n = in.read(buffer)) >= 0; ) {
                switch (fault) {
                    case SLOW -> TimeUnit.MILLISECONDS.sleep(1000L * n / SLOW);
                    case CORRUPT -> {
                        int victim = random.nextInt(CORRUPT);
                        if (victim < n) buffer[victim] ^= (byte) (1 << random.nextInt(8));
                    }
                    default -> {}
                }
                out.write(buffer, 0, n);
            }
        } catch (IOException | InterruptedException e) {
            // Ended by either side, or cut.
        } finally {
            open.remove(from);
            open.remove(to);
        }
    }

    private static void closeQuietly(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // It is of no use any more.
        }
    }

    @Override
    public void close() throws IOException {
        door.close();
        open.forEach(Link::closeQuietly);
    }
}
