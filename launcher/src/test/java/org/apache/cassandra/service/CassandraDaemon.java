// SPDX-License-Identifier: Apache-2.0
package org.apache.cassandra.service;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/** Stands in for Cassandra in the process tests: a JVM that takes connections, or ends. */
public final class CassandraDaemon {
    private CassandraDaemon() {}

    /** Opens the port of {@code fake.port}, or ends at once with a word without one. */
    public static void main(String[] args) throws Exception {
        Files.writeString(Path.of(System.getProperty("cassandra.logdir"), "system.log"), "up\n");
        Integer port = Integer.getInteger("fake.port");
        if (port == null) {
            System.err.println("this fake ends at once");
            System.exit(3);
        }
        try (ServerSocket socket = new ServerSocket()) {
            // Before the port opens: then whoever connects can read it.
            System.out.println("listening on " + port);
            socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            new CountDownLatch(1).await();
        }
    }
}
