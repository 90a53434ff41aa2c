// SPDX-License-Identifier: Apache-2.0
package org.apache.cassandra.service;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.CountDownLatch;

/** A fake Cassandra for the tests of processes: it opens a port, or ends at once. */
public final class CassandraDaemon {
    private CassandraDaemon() {}

    /** The fake plugin's agent. */
    public static void premain(String arguments) {
        // It is loaded, and that is all.
    }

    /**
     * Opens the port {@code fake.port}, once the file {@code fake.awaited} exists if there is such
     * a property, and logs that it takes requests, once the file {@code fake.answers} exists if
     * there is such a property; without a port, prints a message and ends.
     */
    public static void main(String[] args) throws Exception {
        Path log = Path.of(System.getProperty("cassandra.logdir"), "system.log");
        log(log, "up\n");
        Integer port = Integer.getInteger("fake.port");
        if (port == null) {
            System.err.println("this fake ends at once");
            System.exit(3);
        }
        await("fake.awaited");
        try (ServerSocket socket = new ServerSocket()) {
            // Printed before the port opens, so that a test that connects can read it.
            System.out.println("listening on " + port);
            socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            await("fake.answers");
            log(log, "Startup complete\n");
            new CountDownLatch(1).await();
        }
    }

    private static void log(Path log, String line) throws IOException {
        Files.writeString(log, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    private static void await(String property) throws InterruptedException {
        String file = System.getProperty(property);
        while (file != null && !Files.exists(Path.of(file))) Thread.sleep(20);
    }
}
