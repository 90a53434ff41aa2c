// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;

/** Checks addresses and ports before a node starts: its log would have a stack trace only. */
final class Ports {
    private Ports() {}

    /** Throws a {@link NodeException} if the node could not use its addresses or ports. */
    static void check(NodeSettings settings) {
        InetAddress listen = resolve(settings.listenAddress());
        if (listen.isAnyLocalAddress())
            throw new NodeException(
                    settings.listenAddress()
                            + " is every address: a node tells others where it is, so give one"
                            + " (--address)");
        checkLocal(listen);
        checkFree(listen, settings.storagePort(), "--storage-port");
        checkFree(resolve(settings.rpcAddress()), settings.nativePort(), "--port");
        checkFree(InetAddress.getLoopbackAddress(), settings.jmxPort(), "--jmx-port");
    }

    /** Whether a connection to a port succeeds within a second. */
    static boolean isOpen(String address, int port) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(resolve(address), port), 1000);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    private static void checkFree(InetAddress address, int port, String flag) {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(new InetSocketAddress(address, port), 1);
        } catch (IOException | IllegalArgumentException e) {
            throw new NodeException(
                    "port %d on %s is not free (%s): end what uses it, or give another with %s"
                            .formatted(port, address.getHostAddress(), e.getMessage(), flag),
                    e);
        }
    }

    private static void checkLocal(InetAddress address) {
        try {
            // All of 127.0.0.0/8 is local, but the interface has only one of its addresses.
            if (!address.isLoopbackAddress() && NetworkInterface.getByInetAddress(address) == null)
                throw new NodeException(
                        address.getHostAddress() + " is no address of this machine (--address)");
        } catch (IOException e) {
            throw new NodeException("cannot list the network interfaces: " + e.getMessage(), e);
        }
    }

    private static InetAddress resolve(String address) {
        try {
            return InetAddress.getByName(address);
        } catch (UnknownHostException e) {
            throw new NodeException("unknown address " + address + " (--address)", e);
        }
    }
}
