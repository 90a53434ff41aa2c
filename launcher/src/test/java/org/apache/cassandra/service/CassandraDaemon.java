// SPDX-License-Identifier: Apache-2.0
package org.apache.cassandra.service;

import java.net.InetAddress;
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
        try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
            System.out.println("listening on " + socket);
            new CountDownLatch(1).await();
        }
    }
}
