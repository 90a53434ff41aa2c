// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The addresses and ports of a node, from its {@code cassandra.yaml} and {@code jvm.options}.
 *
 * @param clientTls whether the port of CQL takes TLS only
 */
record NodeSettings(
        String listenAddress,
        int storagePort,
        String rpcAddress,
        int nativePort,
        int jmxPort,
        boolean clientTls) {

    /** Takes them from the settings and options that the node is started with. */
    static NodeSettings of(NodeDirectory directory, Map<String, Object> yaml, JvmOptions options) {
        String listen =
                address(directory, yaml, "listen").orElseGet(NodeSettings::addressOfThisMachine);
        int nativePort = port(directory, yaml, CassandraYaml.NATIVE_PORT, 9042);
        return new NodeSettings(
                listen,
                port(directory, yaml, CassandraYaml.STORAGE_PORT, 7000),
                address(directory, yaml, "rpc").orElse(listen),
                nativePort,
                options.jmxPort(),
                // If TLS has a port of its own, the usual one has none.
                port(directory, yaml, "native_transport_port_ssl", nativePort) == nativePort
                        && yaml.get("client_encryption_options") instanceof Map<?, ?> tls
                        && isTrue(tls.get("enabled"))
                        && !isTrue(tls.get("optional")));
    }

    /** As Cassandra's parser, which reads YAML 1.1, takes it. */
    private static boolean isTrue(@Nullable Object value) {
        return String.valueOf(value).matches("(?i)true|yes|on");
    }

    /** The value of {@code <prefix>_address}, or the address of {@code <prefix>_interface}. */
    private static Optional<String> address(
            NodeDirectory directory, Map<String, Object> yaml, String prefix) {
        Object address = yaml.get(prefix + "_address");
        if (address != null) return Optional.of(address.toString());
        Object name = yaml.get(prefix + "_interface");
        if (name == null) return Optional.empty();
        boolean ipv6 = isTrue(yaml.get(prefix + "_interface_prefer_ipv6"));
        List<InetAddress> all = addresses(name.toString());
        if (all.isEmpty())
            throw new NodeException(
                    "%s has %s_interface: %s, and this machine has no such interface with an address"
                            .formatted(directory.yaml(), prefix, name));
        return Optional.of(
                all.stream()
                        .filter(each -> each instanceof Inet6Address == ipv6)
                        .findFirst()
                        .orElse(all.get(0))
                        .getHostAddress());
    }

    private static List<InetAddress> addresses(String networkInterface) {
        try {
            NetworkInterface found = NetworkInterface.getByName(networkInterface);
            return found == null ? List.of() : Collections.list(found.getInetAddresses());
        } catch (SocketException e) {
            throw new NodeException("cannot list the network interfaces: " + e.getMessage(), e);
        }
    }

    private static String addressOfThisMachine() {
        try {
            return InetAddress.getLocalHost().getHostAddress();
        } catch (UnknownHostException e) {
            return InetAddress.getLoopbackAddress().getHostAddress(); // As Cassandra does.
        }
    }

    private static int port(
            NodeDirectory directory, Map<String, Object> yaml, String key, int byDefault) {
        Object value = yaml.get(key);
        if (value == null) return byDefault;
        if (value instanceof Integer port) return port;
        throw new NodeException(directory.yaml() + " has a " + key + " that is no port: " + value);
    }
}
