// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.Map;

/** Where a node can be reached, as its files have it. */
record NodeSettings(
        String listenAddress, int storagePort, String rpcAddress, int nativePort, int jmxPort) {

    /** Picks them out of what the node's own process is going to read. */
    static NodeSettings of(NodeDirectory directory, Map<String, Object> yaml, JvmOptions options) {
        return new NodeSettings(
                text(yaml, CassandraYaml.LISTEN_ADDRESS),
                port(directory, yaml, CassandraYaml.STORAGE_PORT, 7000),
                text(yaml, CassandraYaml.RPC_ADDRESS),
                port(directory, yaml, CassandraYaml.NATIVE_PORT, 9042),
                options.jmxPort());
    }

    private static String text(Map<String, Object> yaml, String key) {
        Object value = yaml.get(key);
        return value == null ? "localhost" : value.toString();
    }

    private static int port(
            NodeDirectory directory, Map<String, Object> yaml, String key, int byDefault) {
        Object value = yaml.get(key);
        if (value == null) return byDefault;
        if (value instanceof Integer port) return port;
        throw new NodeException(directory.yaml() + " has a " + key + " that is no port: " + value);
    }
}
