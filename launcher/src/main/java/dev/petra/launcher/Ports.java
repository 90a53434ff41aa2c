// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;

/** Looks at ports before a node does, for a clearer word than a stack trace in its log. */
final class Ports {
    private Ports() {}

    /** Refuses to start a node whose address or ports it could not have. */
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

    /** Whether something takes connections there. */
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
            // A whole loopback network is local, of which the interface names one address.
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
